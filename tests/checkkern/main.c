/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the command line of checkkern, and runs the checks.
 *
 * checkkern [--seed N] [--test NAME] [--rung NAME] [--only cpu|devices] [--share N] [--threads N]
 *           [--bench [--in-cache [--format TEXT]]] [--trace FORMAT] [--list]
 *
 * A rung is an instruction set level of the CPU, or the name of a device, such as "vulkan:0". The
 * name "cpu" runs the checks of devices on the CPU. With --share, the program runs only one in N
 * cases, chosen at random, of the checks of devices and of the long checks of the CPU. With
 * SCONCE_TEST_FULL it runs all cases. Under a slow tool such as ASan it runs fewer cases. The
 * program prints its seed; the same seed repeats a failure. When a kernel crashes, the program
 * prints the names of the check and of the rung. --format limits --in-cache to the formats whose
 * names contain a text. With --trace it prints the addresses of the instructions of a product of
 * one row (harness.h).
 */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "core/macros.h"
#include "harness.h"
#include "lib/test.h"

static const struct entry {
    const char *name;
    void (*check)(struct check *c);
    void (*bench)(struct check *c);
} entries[] = {
#define X(name) {#name, check_##name, bench_##name},
    CHECKS(X)
#undef X
};

static struct check current;

static void crashed(int sig)
{
    char line[160];
    const int n = snprintf(line, sizeof(line), "checkkern: signal %d in %s, %s\n", sig,
                           current.test, current.rung);

    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        _exit(3);
    _exit(2);
}

static void run_one(const struct selection *sel, size_t i, unsigned *n_failed)
{
    const uint64_t start = clock_usec();

    rng_seed(&current.rng, sel->seed + i);
    if (sel->bench) {
        entries[i].bench(&current);
        return;
    }
    entries[i].check(&current);
    *n_failed += current.n_failed;
    check_report(&current, (double)(clock_usec() - start) * 1e-6);
}

/* Runs every check on every ISA level; returns how many ran. */
static unsigned run_rungs(const struct selection *sel, unsigned *n_failed)
{
    unsigned n_run = 0;

    for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
        if (sel->test && strcmp(sel->test, entries[i].name) != 0)
            continue;
        for (size_t r = 0; cpu_rung_at(r); r++) {
            if (sel->rung && strcmp(sel->rung, cpu_rung_at(r)) != 0)
                continue;
            current = (struct check){.test = entries[i].name,
                                     .rung = cpu_rung_at(r),
                                     .n_threads = current.n_threads,
                                     .share = sel->share};
            if (cpu_rung_flags(current.rung, &current.flags) < 0)
                continue;
            run_one(sel, i, n_failed);
            n_run++;
        }
    }
    return n_run;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},    {"test", required_argument, NULL, 't'},
        {"rung", required_argument, NULL, 'r'},    {"only", required_argument, NULL, 'o'},
        {"threads", required_argument, NULL, 'j'}, {"bench", no_argument, NULL, 'b'},
        {"in-cache", no_argument, NULL, 'c'},      {"format", required_argument, NULL, 'f'},
        {"list", no_argument, NULL, 'l'},          {"share", required_argument, NULL, 'h'},
        {"trace", required_argument, NULL, 'e'},   {NULL, 0, NULL, 0},
    };
    struct selection sel = {.seed = clock_nsec()};
    unsigned n_run = 0, n_failed = 0;
    const char *only = "";
    int opt;

    current.n_threads = cpu_count();
    while ((opt = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        switch (opt) {
        case 's':
            sel.seed = strtoull(optarg, NULL, 0);
            break;
        case 't':
            sel.test = optarg;
            break;
        case 'r':
            sel.rung = optarg;
            break;
        case 'o':
            only = optarg;
            break;
        case 'j':
            current.n_threads = MAX((unsigned)strtoul(optarg, NULL, 0), 1u);
            break;
        case 'h':
            sel.share = (unsigned)strtoul(optarg, NULL, 0);
            break;
        case 'b':
            sel.bench = true;
            break;
        case 'c':
            sel.in_cache = true;
            break;
        case 'f':
            sel.format = optarg;
            break;
        case 'e':
            sel.trace = optarg;
            break;
        case 'l':
            for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
                puts(entries[i].name);
            devices_list();
            return 0;
        default:
            return 2;
        }
    }
    if (getenv("SCONCE_TEST_FULL"))
        sel.share = 1;
    else if (test_slowness() > 1)
        sel.share = MAX(sel.share, 1) * (unsigned)test_slowness();
    current.test = current.rung = "start";
    signal(SIGSEGV, crashed);
    signal(SIGBUS, crashed);
    signal(SIGILL, crashed);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %llu\n", (unsigned long long)sel.seed);
    if (sel.trace) {
        const int r = bench_trace(&current, &sel);

        if (r < 0)
            fprintf(stderr, "checkkern: --trace %s, %s: %s\n", sel.trace, sel.rung,
                    r == -EINVAL ? "no such format" : "the CPU has no such instructions");
        return r < 0 ? 2 : 0;
    }
    if (sel.bench && sel.in_cache) {
        rng_seed(&current.rng, sel.seed);
        bench_in_cache(&current, &sel);
        return 0;
    }
    if (strcmp(only, "devices") != 0)
        n_run += run_rungs(&sel, &n_failed);
    if (strcmp(only, "cpu") != 0)
        n_run += devices_run(&sel, &current, &n_failed);
    if (n_run == 0)
        fprintf(stderr, "checkkern: nothing to do\n");
    return n_failed > 0 || n_run == 0;
}
