/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack: makes a running service try forbidden actions. Each action is tried with several sets of
 * walls, the mechanisms that confine the service.
 *
 *   attack [OPTION]... PID      tries each attack in a copy of the process, in six ways
 *   attack [OPTION]...          tries each attack in a process without walls; each must succeed
 *   attack --state PID          prints the walls as the kernel reports them to the process
 *   attack --kill-self PID      makes the process itself try a forbidden call, which kills it
 *
 * The program prints a line for each attack and each way: NAME, WAY and OUTCOME, separated by tabs.
 * The ways are `none` (no wall), `own` (only the last --own filters, which the service itself
 * installs), `unit` (only the service's other filters), `spaces` (only its namespaces and
 * credentials), `unfiltered` (all walls except seccomp) and `all`. The outcomes are `done`,
 * `absent`, the name of an errno, or the name of the signal that ended the process.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "filters.h"
#include "scene.h"
#include "standin.h"
#include "state.h"

#ifndef PR_GET_MDWE
#define PR_GET_MDWE 66
#endif

enum way {
    WAY_NONE,
    WAY_OWN,
    WAY_UNIT,
    WAY_SPACES,
    WAY_UNFILTERED,
    WAY_ALL,
    N_WAYS,
};

static const char *const way_names[N_WAYS] = {
    "none", "own", "unit", "spaces", "unfiltered", "all",
};

static const struct attack *const tables[] = {
    attacks_files,  attacks_store,  attacks_network, attacks_processes,
    attacks_memory, attacks_kernel, attacks_kept,
};

struct run {
    pid_t pid;
    size_t n_own;
    const char *only; /* names of the attacks to run, separated by commas; NULL: all */
    const char *out;  /* address of a listener on another machine, or NULL */
    struct scene scene;
    int our_listener;
    /* For each way, the process that the attacks copy; NULL if this run does not use the way. */
    struct victim *bases[N_WAYS];
    struct standin *none, *own, *unit, *spaces;
};

static bool is_wanted(const struct run *run, const char *name)
{
    const size_t n = strlen(name);

    if (!run->only)
        return true;
    for (const char *at = run->only; (at = strstr(at, name)); at += n) {
        if ((at == run->only || at[-1] == ',') && (at[n] == '\0' || at[n] == ','))
            return true;
    }
    return false;
}

static void print_outcome(const struct attack *a, enum way way, int r, const struct victim *copy)
{
    printf("%s\t%s\t", a->name, way_names[way]);
    if (copy && victim_killed_by(copy))
        printf("SIG%s\n", sigabbrev_np(victim_killed_by(copy)));
    else if (r < 0)
        printf("%s\n", strerrorname_np(-r));
    else
        printf("%s\n", r == ATTACK_ABSENT ? "absent" : "done");
    fflush(stdout);
}

/* Runs one attack in one way. Returns -EPIPE if the victim could not be copied, so that there is no
 * result. */
static int run_attack(struct run *run, const struct attack *a, enum way way)
{
    const bool filtered = way == WAY_OWN || way == WAY_UNIT || way == WAY_ALL;
    const bool is_ours = way == WAY_NONE || way == WAY_OWN || way == WAY_UNIT;
    _cleanup_(victim_freep) struct victim *copy = NULL;
    struct scene scene = run->scene;
    int r;

    if (!run->bases[way])
        return 0;
    if (is_ours && scene.listener >= 0)
        scene.listener = run->our_listener;
    r = victim_copy(run->bases[way], filtered, &copy);
    if (r < 0) {
        fprintf(stderr, "attack: %s: no copy for `%s`: %s\n", a->name, way_names[way],
                strerror(-r));
        return -EPIPE;
    }
    r = a->run(copy, &scene);
    print_outcome(a, way, r, copy);
    return 0;
}

static int run_attacks(struct run *run)
{
    int r = 0, failed = 0;

    for (size_t t = 0; t < ARRAY_SIZE(tables); t++) {
        for (const struct attack *a = tables[t]; a->name; a++) {
            for (int way = 0; is_wanted(run, a->name) && way < N_WAYS; way++) {
                r = run_attack(run, a, (enum way)way);
                failed = r < 0 ? r : failed;
            }
        }
    }
    return failed;
}

/* Returns the number of PID 1's filters, which belong to a container and not to a unit. */
static size_t outer_filters(void)
{
    char line[256];
    size_t n = 0;
    FILE *f = fopen("/proc/1/status", "re");

    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "Seccomp_filters: %zu", &n);
    if (f)
        fclose(f);
    return n;
}

/* Makes a stand-in (standin.h) with the filters @first to @first + @n - 1 of the service, and with
 * no other wall. */
static int filtered_new(const struct filters *filters, size_t first, size_t n,
                        struct standin **ret_standin, struct victim **ret_victim)
{
    int r;

    if (n == 0)
        return 0;
    r = standin_new(ret_standin);
    if (r < 0)
        return r;
    *ret_victim = standin_victim(*ret_standin);
    return filters_load(filters, first, n, *ret_victim);
}

/* Prints which mechanisms other than seccomp this kernel has. */
static void print_kernel(void)
{
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1);

    printf("#\tlandlock\t%ld\n#\tmdwe\t%d\n", MAX(abi, 0), prctl(PR_GET_MDWE, 0, 0, 0, 0) >= 0);
}

/* Stops the service itself last, after all reads of /proc and of its descriptors. */
static int run_open(struct run *run)
{
    _cleanup_(filters_freep) struct filters *filters = NULL;
    size_t n, n_own, n_outer, n_unit;
    int r;

    print_kernel();
    r = standin_new(&run->none);
    if (r < 0)
        return r;
    run->bases[WAY_NONE] = standin_victim(run->none);
    if (!run->pid)
        return 0;
    r = standin_walled_new(run->pid, run->scene.listener, &run->spaces);
    if (r < 0)
        return r;
    run->bases[WAY_SPACES] = standin_victim(run->spaces);
    r = victim_open(run->pid, &run->bases[WAY_ALL]);
    if (r < 0)
        return r;
    run->bases[WAY_UNFILTERED] = run->bases[WAY_ALL];
    r = filters_read(run->bases[WAY_ALL], &filters);
    if (r < 0)
        return r;
    n = filters_count(filters);
    n_own = MIN(run->n_own, n);
    n_outer = MIN(outer_filters(), n - n_own);
    n_unit = n - n_own - n_outer;
    printf("#\town-filters\t%zu\n#\tunit-filters\t%zu\n", n_own, n_unit);
    r = filtered_new(filters, n - n_own, n_own, &run->own, &run->bases[WAY_OWN]);
    if (r < 0)
        return r;
    return filtered_new(filters, n_outer, n_unit, &run->unit, &run->bases[WAY_UNIT]);
}

static void run_close(struct run *run)
{
    victim_free(run->bases[WAY_ALL]);
    standin_free(run->none);
    standin_free(run->own);
    standin_free(run->unit);
    standin_free(run->spaces);
}

static int show_state(pid_t pid)
{
    _cleanup_(victim_freep) struct victim *victim = NULL;
    _cleanup_(victim_freep) struct victim *copy = NULL;
    int r;

    r = victim_open(pid, &victim);
    if (r < 0)
        return r;
    r = victim_copy(victim, false, &copy);
    return r < 0 ? r : state_print(copy);
}

/* Makes the process itself, not a copy, make a forbidden call under its filters; reports how the
 * process ends. */
static int kill_self(pid_t pid)
{
    _cleanup_(victim_freep) struct victim *victim = NULL;
    int r;

    r = victim_open(pid, &victim);
    if (r < 0)
        return r;
    r = victim_set_filtered(victim);
    if (r < 0)
        return r;
    r = (int)CALL(victim, SYS_ptrace, 0, 0, 0, 0);
    if (!victim_killed_by(victim))
        return r < 0 ? r : -ECANCELED;
    printf("SIG%s\n", sigabbrev_np(victim_killed_by(victim)));
    return 0;
}

static int prepare(struct run *run, bool with_listener)
{
    int r;

    r = scene_open_ports(&run->scene);
    if (r < 0)
        return r;
    if (run->out && (r = scene_set_out(&run->scene, run->out)) < 0)
        return r;
    if (run->scene.neighbor && (r = scene_find_memory(&run->scene)) < 0)
        return r;
    if (!with_listener)
        return 0;
    r = scene_make_listener(&run->our_listener);
    if (r < 0)
        return r;
    if (run->pid)
        return scene_find_listener(run->pid, &run->scene.listener);
    run->scene.listener = run->our_listener;
    return 0;
}

enum {
    OPT_FILES = 256,
    OPT_STATE = 300,
    OPT_KILL,
    OPT_LISTENER,
    OPT_OWN,
    OPT_ONLY,
    OPT_OUT,
    OPT_NEIGHBOR
};

static const struct option options[] = {
    {"other-file", 1, NULL, OPT_FILES},
    {"home-file", 1, NULL, OPT_FILES + 1},
    {"root-file", 1, NULL, OPT_FILES + 2},
    {"own-file", 1, NULL, OPT_FILES + 3},
    {"cache", 1, NULL, OPT_FILES + 4},
    {"user-cache", 1, NULL, OPT_FILES + 5},
    {"store", 1, NULL, OPT_FILES + 6},
    {"outside", 1, NULL, OPT_FILES + 7},
    {"neighbor-socket", 1, NULL, OPT_FILES + 8},
    {"homes", 1, NULL, OPT_FILES + 9},
    {"bus", 1, NULL, OPT_FILES + 10},
    {"state-dir", 1, NULL, OPT_FILES + 11},
    {"kept-socket", 1, NULL, OPT_FILES + 12},
    {"kept-lock", 1, NULL, OPT_FILES + 13},
    {"neighbor", 1, NULL, OPT_NEIGHBOR},
    {"out", 1, NULL, OPT_OUT},
    {"only", 1, NULL, OPT_ONLY},
    {"own", 1, NULL, OPT_OWN},
    {"break-listener", 0, NULL, OPT_LISTENER},
    {"state", 0, NULL, OPT_STATE},
    {"kill-self", 0, NULL, OPT_KILL},
    {},
};

int main(int argc, char **argv)
{
    static struct run run = {.n_own = 2, .scene.listener = -1, .our_listener = -1};
    struct scene *s = &run.scene;
    const char **const files[] = {
        &s->other_file, &s->home_file, &s->root_file,   &s->own_file,        &s->cache_dir,
        &s->user_cache, &s->store,     &s->outside_dir, &s->neighbor_socket, &s->homes,
        &s->bus,        &s->state_dir, &s->kept_socket, &s->kept_lock,
    };
    bool state = false, kills = false, with_listener = false;
    int c, r;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c >= OPT_FILES && c < OPT_FILES + (int)ARRAY_SIZE(files))
            *files[c - OPT_FILES] = optarg;
        else if (c == OPT_NEIGHBOR)
            s->neighbor = atoi(optarg);
        else if (c == OPT_ONLY)
            run.only = optarg;
        else if (c == OPT_OUT)
            run.out = optarg;
        else if (c == OPT_OWN)
            run.n_own = strtoul(optarg, NULL, 10);
        else if (c == OPT_LISTENER)
            with_listener = true;
        else if (c == OPT_STATE)
            state = true;
        else if (c == OPT_KILL)
            kills = true;
        else
            return 2;
    }
    run.pid = optind < argc ? atoi(argv[optind]) : 0;
    if (state || kills) {
        r = state ? show_state(run.pid) : kill_self(run.pid);
    } else {
        r = prepare(&run, with_listener);
        r = r < 0 ? r : run_open(&run);
        r = r < 0 ? r : run_attacks(&run);
        run_close(&run);
    }
    if (r < 0)
        fprintf(stderr, "attack: %s\n", strerror(-r));
    return r < 0;
}
