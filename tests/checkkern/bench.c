/* SPDX-License-Identifier: Apache-2.0 */

/* Timing on several threads, and what the machine gives at most. */

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "harness.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MAX_THREADS 64u

struct job {
    pthread_barrier_t *start;
    void (*fn)(void *arg, unsigned i, unsigned n);
    void *arg;
    unsigned i, n;
};

static void *job_main(void *data)
{
    struct job *job = data;

    pthread_barrier_wait(job->start);
    job->fn(job->arg, job->i, job->n);
    pthread_barrier_wait(job->start);
    return NULL;
}

static double run_once(unsigned n, void (*fn)(void *arg, unsigned i, unsigned n), void *arg)
{
    struct job jobs[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t start;
    uint64_t t;

    pthread_barrier_init(&start, NULL, n);
    for (unsigned i = 0; i < n; i++)
        jobs[i] = (struct job){&start, fn, arg, i, n};
    for (unsigned i = 1; i < n; i++)
        if (pthread_create(&threads[i], NULL, job_main, &jobs[i]) != 0)
            exit(2);
    pthread_barrier_wait(&start);
    t = clock_nsec();
    fn(arg, 0, n);
    pthread_barrier_wait(&start);
    t = clock_nsec() - t;
    for (unsigned i = 1; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    return (double)MAX(t, 1u) * 1e-9;
}

double bench_threads(unsigned n_threads, double min_seconds,
                     void (*fn)(void *arg, unsigned i, unsigned n), void *arg)
{
    const unsigned n = MIN(n_threads, MAX_THREADS);
    double best = run_once(n, fn, arg), total = best;

    for (unsigned i = 0; i < 2 || total < min_seconds; i++) {
        const double t = run_once(n, fn, arg);

        total += t;
        best = MIN(best, t);
    }
    return best;
}

#define READ_BYTES (256u << 20)

static volatile uint64_t sink;

static void read_part(void *arg, unsigned i, unsigned n)
{
    const uint64_t *p = arg;
    const size_t words = READ_BYTES / 8, begin = words / n * i, end = words / n * (i + 1);
    uint64_t sum[8] = {0};

    for (size_t at = begin; at + 8 <= end; at += 8)
        for (unsigned j = 0; j < 8; j++)
            sum[j] += p[at + j];
    for (unsigned j = 1; j < 8; j++)
        sum[0] += sum[j];
    sink = sum[0];
}

double bench_read_gbs(unsigned n_threads)
{
    static double gbs;
    _cleanup_free_ uint8_t *p = NULL;

    if (gbs > 0)
        return gbs;
    p = malloc(READ_BYTES);
    if (!p)
        return 0;
    memset(p, 1, READ_BYTES);
    gbs = READ_BYTES / bench_threads(n_threads, 0.3, read_part, p) * 1e-9;
    return gbs;
}

#if defined(__x86_64__)
#define DOT_ROUNDS 2000000u

#define DOT_TARGET __attribute__((target("avx512f,avx512vnni")))

/* Twelve sums that do not wait for each other; the asm keeps the compiler from counting ahead. */
DOT_TARGET static void dot_part(void *arg, unsigned i, unsigned n)
{
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0;
    __m512i s6 = s0, s7 = s0, s8 = s0, s9 = s0, s10 = s0, s11 = s0;
    const __m512i a = _mm512_set1_epi32((int)i), b = _mm512_set1_epi32((int)n);

    (void)arg;
#define DOT(s) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(a), "v"(b))
    for (unsigned r = 0; r < DOT_ROUNDS; r++) {
        DOT(s0);
        DOT(s1);
        DOT(s2);
        DOT(s3);
        DOT(s4);
        DOT(s5);
        DOT(s6);
        DOT(s7);
        DOT(s8);
        DOT(s9);
        DOT(s10);
        DOT(s11);
    }
#undef DOT
}

double bench_int8_tops(unsigned n_threads, unsigned flags)
{
    static double tops;

    if (!(flags & CPU_AVX512_VNNI))
        return 0;
    if (tops == 0)
        tops = 12.0 * 128 * DOT_ROUNDS * n_threads / bench_threads(n_threads, 0.2, dot_part, NULL) *
               1e-12;
    return tops;
}
#else
double bench_int8_tops(unsigned n_threads, unsigned flags)
{
    (void)n_threads;
    (void)flags;
    return 0;
}
#endif
