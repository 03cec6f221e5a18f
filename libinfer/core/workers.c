/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of threads that run one function at the same time
 *
 * Threads synchronize with a `gate`: a counter that only grows. A thread that waits for a gate
 * first spins and then sleeps on a futex. Each run increments the start gate; barriers and the end
 * of a run increment the barrier gate. If there are more threads than CPUs, no thread spins,
 * because a spinning thread would occupy a CPU that another thread needs. Futexes are used instead
 * of condition variables, because incrementing a gate costs no system call if no thread sleeps on
 * it.
 */
#include "core/workers.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "core/signals.h"

#define SPIN_NSEC  50000u
#define CACHE_LINE 64

struct gate {
    _Alignas(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t n_sleeping;
};

struct workers {
    struct gate start;   /* counts started runs */
    struct gate barrier; /* counts barriers that all threads have reached */
    _Alignas(CACHE_LINE) _Atomic uint32_t n_arrived;
    workers_fn fn; /* written before the start gate is incremented; NULL: exit */
    void *arg;
    unsigned n;
    uint64_t spin_nsec;
    unsigned n_started;
    struct worker *threads; /* [n - 1] */
};

struct worker {
    struct workers *pool;
    unsigned i;
    pthread_t thread;
};

static void cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void gate_bump(struct gate *g)
{
    /* These operations and those of gate_wait() are sequentially consistent: either this thread
     * sees the sleeper, or the sleeper sees the new value. */
    atomic_fetch_add(&g->value, 1);
    if (atomic_load(&g->n_sleeping) > 0)
        syscall(SYS_futex, &g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Returns when the value is no longer @old. */
static void gate_wait(struct gate *g, uint32_t old, uint64_t spin_nsec, bool (*idle)(void *arg),
                      void *arg)
{
    while (idle && atomic_load_explicit(&g->value, memory_order_acquire) == old && idle(arg))
        ;
    if (spin_nsec > 0) {
        const uint64_t end = clock_nsec() + spin_nsec;

        do {
            for (unsigned i = 0; i < 64; i++) {
                if (atomic_load_explicit(&g->value, memory_order_acquire) != old)
                    return;
                cpu_relax();
            }
        } while (clock_nsec() < end);
    }
    atomic_fetch_add(&g->n_sleeping, 1);
    while (atomic_load(&g->value) == old)
        syscall(SYS_futex, &g->value, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&g->n_sleeping, 1);
}

void workers_barrier_idle(struct workers *w, bool (*idle)(void *arg), void *arg)
{
    uint32_t old;

    if (w->n == 1)
        return;
    /* No thread can pass this barrier before the calling thread arrives, so the value cannot change
     * meanwhile. */
    old = atomic_load(&w->barrier.value);
    if (atomic_fetch_add(&w->n_arrived, 1) + 1 == w->n) {
        atomic_store(&w->n_arrived, 0);
        gate_bump(&w->barrier);
    } else {
        gate_wait(&w->barrier, old, w->spin_nsec, idle, arg);
    }
}

void workers_barrier(struct workers *w)
{
    workers_barrier_idle(w, NULL, NULL);
}

static void *worker_main(void *data)
{
    const struct worker *me = data;
    struct workers *w = me->pool;

    /* The thread names itself, because naming another thread opens a file in /proc. */
    pthread_setname_np(pthread_self(), "infer-worker");
    for (uint32_t n_runs = 0;; n_runs++) {
        gate_wait(&w->start, n_runs, w->spin_nsec, NULL, NULL);
        if (!w->fn)
            return NULL;
        w->fn(w->arg, me->i, w->n);
        workers_barrier(w);
    }
}

static int threads_start(struct workers *w)
{
    sigset_t old;
    int r = 0;

    signals_block(&old);
    while (r == 0 && w->n_started + 1 < w->n) {
        struct worker *t = &w->threads[w->n_started];

        *t = (struct worker){.pool = w, .i = w->n_started + 1};
        r = pthread_create(&t->thread, NULL, worker_main, t);
        if (r == 0)
            w->n_started++;
    }
    signals_restore(&old);
    return -r;
}

int workers_new(unsigned n_threads, struct workers **ret_workers)
{
    struct workers *w;
    int r;

    assert(n_threads >= 1);

    w = aligned_alloc(CACHE_LINE, ALIGN_UP(sizeof(*w), CACHE_LINE));
    if (!w)
        return -ENOMEM;
    *w = (struct workers){.n = n_threads};
    w->spin_nsec = n_threads <= cpu_whole_count() ? SPIN_NSEC : 0;
    w->threads = NEW(struct worker, n_threads - 1);
    r = w->threads ? threads_start(w) : -ENOMEM;
    if (r < 0) {
        workers_free(w);
        return r;
    }
    *ret_workers = w;
    return 0;
}

struct workers *workers_free(struct workers *w)
{
    if (!w)
        return NULL;
    w->fn = NULL;
    gate_bump(&w->start);
    for (unsigned i = 0; i < w->n_started; i++)
        pthread_join(w->threads[i].thread, NULL);
    free(w->threads);
    free(w);
    return NULL;
}

unsigned workers_count(const struct workers *w)
{
    return w->n;
}

void workers_run(struct workers *w, workers_fn fn, void *arg)
{
    assert(fn);

    w->fn = fn;
    w->arg = arg;
    if (w->n > 1)
        gate_bump(&w->start);
    fn(arg, 0, w->n);
    workers_barrier(w);
}
