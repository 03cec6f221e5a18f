/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SIGBUS handler and its table of mappings
 *
 * The handler takes no lock. It walks a table that is never freed. Writers set `begin` of a slot (a
 * row of the table) last and clear `begin` first. Readers load `begin` before and after `size`.
 *
 * A guard is marked as lost before its pages become zeros, so a reader of such a zero always finds
 * the guard lost.
 */
#include "core/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "core/pages.h"

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
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER; /* held by writers of the table */
static atomic_uint n_lost;
static struct sigaction others; /* the handler that was installed before */

/* --- the handler --- */

static struct guard *find_guard(uintptr_t at)
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

/* Replaces the whole mapping by zeros, so that its other pages raise no more signals. */
static bool fill_with_zeros(const struct guard *g)
{
    void *begin = (void *)atomic_load(&g->begin);

    return mmap(begin, atomic_load(&g->size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) == begin;
}

/* Passes on signals with other causes, which then have their usual effect. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;

    if (others.sa_flags & SA_SIGINFO)
        others.sa_sigaction(sig, info, context);
    else if (others.sa_handler != SIG_DFL && others.sa_handler != SIG_IGN)
        others.sa_handler(sig);
    else if (info->si_code > 0)
        /* The instruction is executed again, and the kernel ends a process that blocks this
         * signal. */
        sigaddset(&uc->uc_sigmask, sig);
    else if (others.sa_handler == SIG_DFL)
        raise(SIGABRT); /* Another process sent the signal; it must end this process. */
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
    const int error = errno;
    /* Only signals from the kernel have an address. */
    struct guard *g = info->si_code > 0 ? find_guard((uintptr_t)info->si_addr) : NULL;

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

/* Returns a free slot; NULL if memory is short. The lock must be held. */
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
    const size_t page = pages_size();
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
