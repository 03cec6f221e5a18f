/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler walks a table that is never freed and takes no lock. A slot is found by its begin,
 * which is set last and cleared first; whoever reads a slot reads its begin twice.
 *
 * A guard is lost before its pages become zeros: whoever read such a zero finds it lost.
 */
#include "core/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <ucontext.h>

#define CHUNK_GUARDS 64

struct guard {
    _Atomic uintptr_t begin; /* 0: free */
    _Atomic size_t size;     /* whole pages */
    atomic_bool lost;
};

struct guard_chunk {
    struct guard guards[CHUNK_GUARDS];
    _Atomic(struct guard_chunk *) next;
};

static struct guard_chunk first_chunk;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER; /* of those who change it */
static atomic_uint n_lost;
static struct sigaction others; /* what was installed before */

/* --- the handler --- */

static struct guard *find(uintptr_t at)
{
    for (struct guard_chunk *c = &first_chunk; c; c = atomic_load(&c->next))
        for (size_t i = 0; i < CHUNK_GUARDS; i++) {
            struct guard *g = &c->guards[i];
            const uintptr_t begin = atomic_load(&g->begin);
            const size_t size = atomic_load(&g->size);

            if (begin != 0 && at >= begin && at - begin < size && atomic_load(&g->begin) == begin)
                return g;
        }
    return NULL;
}

/* The whole mapping, so that this happens once for it. */
static bool fill_with_zeros(const struct guard *g)
{
    void *begin = (void *)atomic_load(&g->begin);

    return mmap(begin, atomic_load(&g->size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) == begin;
}

/* What is not ours has the effect that it had without us. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;

    if (others.sa_flags & SA_SIGINFO)
        others.sa_sigaction(sig, info, context);
    else if (others.sa_handler != SIG_DFL && others.sa_handler != SIG_IGN)
        others.sa_handler(sig);
    else if (info->si_code > 0)
        /* The instruction is tried again, and the kernel ends a process that blocks this. */
        sigaddset(&uc->uc_sigmask, sig);
    else if (others.sa_handler == SIG_DFL)
        raise(SIGABRT); /* Another process sent it, and its effect is the end of this one. */
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    const int error = errno;
    /* Only what the kernel sends has an address. */
    struct guard *g = info->si_code > 0 ? find((uintptr_t)info->si_addr) : NULL;

    if (g) {
        guard_lose(g);
        if (!fill_with_zeros(g))
            g = NULL;
    }
    if (!g)
        pass_on(sig, info, context);
    errno = error;
}

int guard_install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction now;

    if (sigaction(SIGBUS, NULL, &now) < 0)
        return -errno;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus)
        return 0;
    others = now;
    return sigaction(SIGBUS, &action, NULL) < 0 ? -errno : 0;
}

/* --- guards --- */

/* A free slot; NULL when out of memory. With the lock. */
static struct guard *free_slot(void)
{
    struct guard_chunk *c = &first_chunk, *next;

    for (;;) {
        for (size_t i = 0; i < CHUNK_GUARDS; i++)
            if (atomic_load(&c->guards[i].begin) == 0)
                return &c->guards[i];
        next = atomic_load(&c->next);
        if (!next) {
            next = NEW(struct guard_chunk, 1);
            if (!next)
                return NULL;
            atomic_store(&c->next, next);
        }
        c = next;
    }
}

struct guard *guard_new(const void *begin, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct guard *g;

    assert(begin && (uintptr_t)begin % page == 0 && size > 0);
    pthread_mutex_lock(&table_lock);
    g = free_slot();
    if (g) {
        atomic_store(&g->lost, false);
        atomic_store(&g->size, ALIGN_UP(size, page));
        atomic_store(&g->begin, (uintptr_t)begin);
    }
    pthread_mutex_unlock(&table_lock);
    return g;
}

struct guard *guard_free(struct guard *g)
{
    if (!g)
        return NULL;
    pthread_mutex_lock(&table_lock);
    atomic_store(&g->begin, 0);
    pthread_mutex_unlock(&table_lock);
    return NULL;
}

bool guard_is_lost(const struct guard *g)
{
    return atomic_load(&g->lost);
}

void guard_lose(struct guard *g)
{
    if (!atomic_exchange(&g->lost, true))
        atomic_fetch_add(&n_lost, 1);
}

unsigned guard_n_lost(void)
{
    return atomic_load(&n_lost);
}
