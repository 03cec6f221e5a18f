/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes children that take on the namespaces and credentials of a service.
 *
 * A child takes them on in the same order as systemd. Descriptors and namespaces come first, while
 * the child still has all rights. The user and the groups follow, by their IDs outside of the user
 * namespace; the child keeps its capabilities. Then the child enters the user namespace, and at
 * last it drops its capabilities.
 */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define GROUPS_MAX 64

struct standin {
    pid_t pid;
    struct victim *victim;
};

/* Struct identity holds the credentials of a process, from /proc/PID/status. */
struct identity {
    unsigned uid, gid;
    gid_t groups[GROUPS_MAX];
    size_t n_groups;
    uint64_t capabilities, bounding;
};

/* Memory for the arguments of calls (strings, structs, filters); its address is the same in
 * children. */
static unsigned char standin_yard[1 << 20];

static int identity_read(pid_t pid, struct identity *ret)
{
    struct identity id = {};
    char path[64], line[1024];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    f = fopen(path, "re");
    if (!f)
        return -errno;
    while (fgets(line, sizeof(line), f)) {
        sscanf(line, "Uid: %*u %u", &id.uid);
        sscanf(line, "Gid: %*u %u", &id.gid);
        sscanf(line, "CapEff: %lx", &id.capabilities);
        sscanf(line, "CapBnd: %lx", &id.bounding);
        if (strncmp(line, "Groups:", 7) == 0) {
            char *rest = NULL;

            for (char *word = strtok_r(line + 7, " \n", &rest); word && id.n_groups < GROUPS_MAX;
                 word = strtok_r(NULL, " \n", &rest))
                id.groups[id.n_groups++] = (gid_t)strtoul(word, NULL, 10);
        }
    }
    fclose(f);
    *ret = id;
    return 0;
}

static int namespace_open(pid_t pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Returns whether this process is already in the namespace of @pid. A process cannot enter its own
 * user namespace again. */
static bool same_namespace(pid_t pid, const char *name)
{
    char path[64], ours[64] = "", theirs[64] = "";

    snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
    if (readlink(path, ours, sizeof(ours) - 1) < 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, name);
    return readlink(path, theirs, sizeof(theirs) - 1) > 0 && strcmp(ours, theirs) == 0;
}

static int take_descriptor(pid_t pid, int fd)
{
    _cleanup_close_ int process = (int)syscall(SYS_pidfd_open, pid, 0);
    _cleanup_close_ int copy = -1;

    copy = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, fd, 0);
    return copy < 0 || dup2(copy, fd) < 0 ? -errno : 0;
}

static int put_on_capabilities(const struct identity *id)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {};

    for (int cap = 0; cap < 64; cap++) {
        if (!(id->bounding >> cap & 1) && prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EINVAL)
            return -errno;
    }
    for (int half = 0; half < 2; half++) {
        data[half].effective = (uint32_t)(id->capabilities >> (32 * half));
        data[half].permitted = data[half].effective;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* Enters the root directory of the service. A process that enters a mount namespace is in the root
 * directory of the namespace, but a service may run in a chroot. */
static int root_enter(int root)
{
    return fchdir(root) < 0 || chroot(".") < 0 || chdir("/") < 0 ? -errno : 0;
}

static int put_on_walls(pid_t pid, int fd)
{
    static const char *const names[] = {"mnt", "net", "ipc", "uts", "cgroup"};
    _cleanup_close_ int user = -1, root = -1;
    char path[64];
    struct identity id;
    int fds[ARRAY_SIZE(names)];
    int r;

    r = identity_read(pid, &id);
    if (r < 0)
        return r;
    if (fd >= 0 && (r = take_descriptor(pid, fd)) < 0)
        return r;
    snprintf(path, sizeof(path), "/proc/%d/root", pid);
    root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    user = same_namespace(pid, "user") ? -1 : namespace_open(pid, "user");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        fds[i] = namespace_open(pid, names[i]);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (setns(fds[i], 0) < 0)
            return -errno;
        close(fds[i]);
    }
    r = root_enter(root);
    if (r < 0)
        return r;
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 ||
        setgroups(id.n_groups, id.groups) < 0 || setresgid(id.gid, id.gid, id.gid) < 0 ||
        setresuid(id.uid, id.uid, id.uid) < 0)
        return -errno;
    if (user >= 0 && setns(user, CLONE_NEWUSER) < 0)
        return -errno;
    return put_on_capabilities(&id);
}

/* Starts a child, which reports its result through a pipe and waits until it is stopped. */
static int standin_start(pid_t pid, int fd, struct standin **ret_standin)
{
    _cleanup_(standin_freep) struct standin *s = NEW(struct standin, 1);
    int pipes[2], r = 0;

    if (!s)
        return -ENOMEM;
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return -errno;
    s->pid = fork();
    if (s->pid < 0)
        return -errno;
    if (s->pid == 0) {
        /* Moves the pipe away from the numbers of the service's descriptors. */
        pipes[1] = fcntl(pipes[1], F_DUPFD_CLOEXEC, 512);
        r = pid ? put_on_walls(pid, fd) : 0;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(pipes[1], &r, sizeof(r)) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    close(pipes[1]);
    if (read(pipes[0], &r, sizeof(r)) != sizeof(r))
        r = -EIO;
    close(pipes[0]);
    if (r < 0)
        return r;
    r = victim_open(s->pid, &s->victim);
    if (r < 0)
        return r;
    victim_set_scratch(s->victim, (uint64_t)standin_yard, sizeof(standin_yard));
    *ret_standin = STEAL(s);
    return 0;
}

int standin_new(struct standin **ret_standin)
{
    return standin_start(0, -1, ret_standin);
}

int standin_walled_new(pid_t pid, int fd, struct standin **ret_standin)
{
    return standin_start(pid, fd, ret_standin);
}

struct victim *standin_victim(struct standin *s)
{
    return s->victim;
}

struct standin *standin_free(struct standin *s)
{
    if (!s)
        return NULL;
    victim_free(s->victim);
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, __WALL);
    }
    free(s);
    return NULL;
}
