/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies seccomp filters from one process to another.
 *
 * PTRACE_SECCOMP_GET_FILTER returns the classic BPF of each filter as it was loaded, the oldest
 * first. In a process without other restrictions, these filters show what seccomp alone denies.
 */
#include "filters.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif

#define FILTERS_MAX 128

struct filters {
    size_t n;
    struct sock_fprog programs[FILTERS_MAX];
};

int filters_read(struct victim *victim, struct filters **ret_filters)
{
    _cleanup_(filters_freep) struct filters *f = NEW(struct filters, 1);
    const pid_t pid = victim_pid(victim);
    long n;

    if (!f)
        return -ENOMEM;
    for (; f->n < FILTERS_MAX; f->n++) {
        struct sock_fprog *program = &f->programs[f->n];

        n = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, f->n, NULL);
        if (n < 0)
            break;
        program->len = (unsigned short)n;
        program->filter = NEW(struct sock_filter, (size_t)n);
        if (!program->filter)
            return -ENOMEM;
        if (ptrace(PTRACE_SECCOMP_GET_FILTER, pid, f->n, program->filter) < 0)
            return -errno;
    }
    /* ENOENT marks the end of the list; EINVAL means that there is no filter. */
    if (f->n < FILTERS_MAX && errno != ENOENT && errno != EINVAL)
        return -errno;
    *ret_filters = STEAL(f);
    return 0;
}

size_t filters_count(const struct filters *f)
{
    return f->n;
}

int filters_load(const struct filters *f, size_t first, size_t n, struct victim *victim)
{
    long r;

    r = CALL(victim, SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
    for (size_t i = first; i < first + n && r >= 0; i++) {
        struct sock_fprog there = f->programs[i];

        there.filter = (void *)victim_put(victim, f->programs[i].filter,
                                          there.len * sizeof(struct sock_filter));
        if (!there.filter)
            return -ENOBUFS;
        r = CALL(victim, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0,
                 victim_put(victim, &there, sizeof(there)));
    }
    return (int)r;
}

struct filters *filters_free(struct filters *f)
{
    for (size_t i = 0; f && i < f->n; i++)
        free(f->programs[i].filter);
    free(f);
    return NULL;
}
