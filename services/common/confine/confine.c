/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the two steps of confinement (see confine.h).
 *
 * confine_start() compiles the system call filters of both steps, because the first filter forbids
 * calls that compiling needs. It applies Landlock before the first filter, which forbids Landlock's
 * calls too. No other thread may run during confine_start(), because Landlock does not cover
 * existing threads.
 */
#include "common/confine/confine.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/config/config.h"
#include "common/confine/landlock.h"
#include "common/confine/policy.h"
#include "common/models/links.h"
#include "common/service/log.h"
#include "core/err.h"
#include "core/text.h"

/* The headers of distributions may be too old to define these constants. */
#define CONFINE_SET_MDWE         65
#define CONFINE_MDWE_REFUSE_GAIN 1

static struct {
    bool started;
    struct sock_fprog serve; /* compiled; applied by confine_seal() */
    bool has_landlock;
    char **missing; /* [n_missing] model directories that confine_start() did not find */
    size_t n_missing;
} confine_state;

/* Struct confine_paths is the rule set being built, and the rights that it grants for one path. */
struct confine_paths {
    int ruleset, abi;
    uint64_t rights;
};

/* Allows the target of a link that leads out of a model directory. A file may be read. A directory
 * may only be listed; each of its files needs a call of its own. */
static int allow_outside(void *data, int fd, bool is_dir)
{
    const struct confine_paths *paths = data;
    const uint64_t rights = is_dir ? landlock_right("read_dir") : landlock_right("read_file");
    const int r = landlock_allow_fd(paths->ruleset, paths->abi, fd, paths->rights & rights);

    return r == -ENOMEM ? r : 0;
}

static int allow_models(struct confine_paths *paths, const struct config *config)
{
    confine_state.missing = NEW(char *, config->n_model_dirs);
    if (!confine_state.missing)
        return -ENOMEM;
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        const char *dir = config->model_dirs[i];
        const int r = landlock_allow(paths->ruleset, paths->abi, dir, paths->rights, NULL);
        char *copy = r == -ENOENT ? strdup(dir) : NULL;

        if (r == -ENOMEM || (r == -ENOENT && !copy))
            return -ENOMEM;
        if (copy)
            confine_state.missing[confine_state.n_missing++] = copy;
    }
    return model_links_visit(config, allow_outside, paths);
}

static int allow_one(const struct confine_paths *paths, const char *path)
{
    /* A rule belongs to an inode. The kernel drops and recreates inodes of /proc, and the rule
     * would be lost. Therefore the descriptor is never closed: it keeps the inode alive. */
    const bool keep = text_starts_with(path, "/proc/");
    int kept, r;

    r = landlock_allow(paths->ruleset, paths->abi, path, paths->rights, keep ? &kept : NULL);
    return r == -ENOMEM ? r : 0;
}

static int allow_pattern(const struct confine_paths *paths, const char *pattern)
{
    glob_t list = {0};
    int r = glob(pattern, 0, NULL, &list);

    r = r == GLOB_NOSPACE ? -ENOMEM : 0;
    for (size_t i = 0; r == 0 && i < list.gl_pathc; i++)
        r = allow_one(paths, list.gl_pathv[i]);
    globfree(&list);
    return r;
}

/* Allows @dir and frees it. @dir may be NULL. */
static int allow_found(const struct confine_paths *paths, char *dir)
{
    const int r = dir ? allow_one(paths, dir) : 0;

    free(dir);
    return r;
}

/* Allows the paths for which an entry of the policy stands. A path that cannot be opened now is
 * skipped and stays forbidden. */
static int allow_path(int ruleset, int abi, const struct policy_path *path,
                      const struct config *config)
{
    struct confine_paths paths = {ruleset, abi, path->rights};

    if (strcmp(path->path, "models") == 0)
        return config ? allow_models(&paths, config) : 0;
    if (strcmp(path->path, "cache") == 0)
        return allow_found(&paths, config_cache_dir());
    if (strcmp(path->path, "blocks") == 0)
        return config ? allow_found(&paths, config_block_dir(config)) : 0;
    if (strcmp(path->path, "kept") == 0)
        return config && config->keep.storage == CONFIG_STORAGE_DISK
                   ? allow_found(&paths, config_keep_dir())
                   : 0;
    if (strcmp(path->path, "history") == 0)
        return config && config->history.enabled ? allow_found(&paths, config_history_dir()) : 0;
    if (strcmp(path->path, "here") == 0)
        return allow_one(&paths, ".");
    if (strpbrk(path->path, "*?["))
        return allow_pattern(&paths, path->path);
    return allow_one(&paths, path->path);
}

static int restrict_files(const struct policy *policy, const struct config *config,
                          struct inf_err *reterr)
{
    const int abi = landlock_abi();
    const struct policy_path *paths;
    _cleanup_close_ int ruleset = -1;
    size_t n;
    int r = 0;

    if (abi == 0) {
        if (config && config->confinement.landlock == CONFIG_LANDLOCK_OPTIONAL) {
            log_warn("this kernel has no Landlock; only permissions protect files");
            return 0;
        }
        return err_set(reterr, ENOTSUP,
                       "this kernel has no Landlock, or it is not among the \"lsm=\" of its "
                       "command line; to go without it, set confinement.landlock: optional");
    }
    ruleset = landlock_new(abi, policy_network(policy) != NULL);
    if (ruleset < 0)
        return err_set(reterr, -ruleset, "Landlock: %s", strerror(-ruleset));
    paths = policy_paths(policy, &n);
    for (size_t i = 0; r == 0 && i < n; i++)
        r = allow_path(ruleset, abi, &paths[i], config);
    if (r == 0)
        r = landlock_restrict(ruleset);
    if (r < 0)
        return err_set(reterr, -r, "Landlock: %s", strerror(-r));
    confine_state.has_landlock = true;
    return 0;
}

static int confine_install(const struct sock_fprog *program, struct inf_err *reterr)
{
    /* The filter applies to all threads. If another thread has a filter that the calling thread
     * lacks, the call fails without any effect. */
    const long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                           SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_TSYNC_ESRCH, program);

    if (r < 0)
        return err_set(reterr, errno, "the system call filter cannot be applied: %s",
                       strerror(errno));
    return 0;
}

static int give_up_privileges(const struct policy *policy, struct inf_err *reterr)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return err_set(reterr, errno, "prctl: %s", strerror(errno));
    /* Kernels before 6.3 do not have this prctl; the system call filters forbid executable memory
     * too. */
    if (!policy_executable(policy))
        prctl(CONFINE_SET_MDWE, CONFINE_MDWE_REFUSE_GAIN, 0, 0, 0);
    return 0;
}

int confine_start(const char *name, const struct config *config, struct inf_err *reterr)
{
    _cleanup_(policy_freep) struct policy *policy = NULL;
    struct sock_fprog start = {0}, serve = {0};
    enum policy_arch arch;
    int r;

    assert(!confine_state.started);
    /* Functions that print local time would otherwise read the time zone file later, when files are
     * restricted. */
    tzset();
    if (policy_arch_native(&arch) < 0)
        return err_set(reterr, ENOTSUP, "there are no policies for this machine's architecture");
    r = policy_load(policy_texts, n_policy_texts, name, &policy, reterr);
    if (r == 0)
        r = policy_compile(policy, POLICY_START, arch, &start, reterr);
    if (r == 0)
        r = policy_compile(policy, POLICY_SERVE, arch, &serve, reterr);
    if (r == 0)
        r = give_up_privileges(policy, reterr);
    if (r == 0)
        r = restrict_files(policy, config, reterr);
    if (r == 0)
        r = confine_install(&start, reterr);
    free(start.filter);
    if (r < 0) {
        free(serve.filter);
        return r;
    }
    confine_state.started = true;
    confine_state.serve = serve;
    return 0;
}

int confine_seal(struct inf_err *reterr)
{
    int r;

    assert(confine_state.started && confine_state.serve.filter);
    r = confine_install(&confine_state.serve, reterr);
    free(confine_state.serve.filter);
    confine_state.serve.filter = NULL;
    return r;
}

bool confine_is_outdated(void)
{
    for (size_t i = 0; i < confine_state.n_missing; i++)
        if (access(confine_state.missing[i], F_OK) == 0)
            return true;
    return false;
}

bool confine_explain_path(const char *path, char *text, size_t size)
{
    char real[PATH_MAX];

    /* access() checks permissions only, not Landlock rules. */
    if (!confine_state.has_landlock || access(path, R_OK) < 0)
        return false;
    snprintf(text, size,
             "it leads out of the model directories and is newer than the running service, which "
             "may not read it; the service now restarts as soon as no request runs, so try "
             "again: %s",
             realpath(path, real) ? real : path);
    return true;
}
