/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the memory bandwidth, and how fast the CPU computes dot products of int8.
 *
 * The fastest way of reading differs from machine to machine, so several ways are tried. A thread
 * reads one stream or several, because hardware prefetchers follow each stream separately. Software
 * prefetch is on or off. Each thread reads one contiguous share of the memory, or all threads read
 * neighboring pieces in turn. The memory is mapped in huge pages if the kernel has them, and each
 * page is first touched by the thread that reads it.
 */
#include "backend/cpu/limits/limits.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/cgroup.h"
#include "core/clock.h"
#include "core/cpu.h"

#define READ_BYTES   (512u << 20)
#define READ_UNIT    4096u /* threads' shares are multiples of this: 16 streams of 256 bytes */
#define SHARED_PIECE (64u << 10)
#define DOT_ROUNDS   200000u

static const struct limits_ops *const rungs[] = {
#if defined(__x86_64__)
    &limits_avx512,
    &limits_avxvnni,
    &limits_avx2,
#elif defined(__aarch64__)
    &limits_i8mm,
    &limits_dotprod,
    &limits_neon,
#endif
    &limits_ref,
};

static const struct read_way {
    const char *name;
    unsigned n_streams;
    size_t ahead;
    bool shared; /* threads read neighboring pieces in turn, instead of one share each */
} read_ways[] = {
    {"1 stream per thread", 1, 0, false},
    {"1 stream per thread, prefetched 1 KiB ahead", 1, 1024, false},
    {"1 stream per thread, prefetched 4 KiB ahead", 1, 4096, false},
    {"2 streams per thread", 2, 0, false},
    {"4 streams per thread", 4, 0, false},
    {"4 streams per thread, prefetched 1 KiB ahead", 4, 1024, false},
    {"8 streams per thread", 8, 0, false},
    {"16 streams per thread, prefetched 1 KiB ahead", 16, 1024, false},
    {"neighboring pieces, prefetched 2 KiB ahead", 1, 2048, true},
};

struct limits {
    struct workers *workers;
    const struct limits_ops *ops;
    uint8_t *data; /* [size]; mapped by the first limits_read() */
    size_t size;
    const struct read_way *way; /* way of reading in the current run */
    uint64_t *sums;             /* [threads] results, stored so that the compiler keeps the reads */
};

const struct limits_ops *limits_ops_get(unsigned flags)
{
    size_t i = 0;

    while ((rungs[i]->flags & flags) != rungs[i]->flags)
        i++;
    return rungs[i];
}

int limits_new(unsigned n_threads, unsigned flags, struct limits **ret_limits)
{
    _cleanup_(limits_freep) struct limits *l = NEW(struct limits, 1);
    int r;

    if (!l)
        return -ENOMEM;
    l->ops = limits_ops_get(flags);
    l->sums = NEW(uint64_t, n_threads);
    if (!l->sums)
        return -ENOMEM;
    r = workers_new(n_threads, &l->workers);
    if (r < 0)
        return r;
    *ret_limits = STEAL(l);
    return 0;
}

struct limits *limits_free(struct limits *l)
{
    if (!l)
        return NULL;
    workers_free(l->workers);
    if (l->data)
        munmap(l->data, l->size);
    free(l->sums);
    free(l);
    return NULL;
}

double limits_time(struct workers *w, double min_seconds, workers_fn fn, void *arg)
{
    uint64_t best = UINT64_MAX, total = 0;

    for (unsigned i = 0; i < 3 || (double)total * 1e-9 < min_seconds; i++) {
        uint64_t t = clock_nsec();

        workers_run(w, fn, arg);
        t = MAX(clock_nsec() - t, 1u);
        total += t;
        best = MIN(best, t);
    }
    return (double)best * 1e-9;
}

/* Computes the part of the memory that thread @i reads: [*ret_begin, *ret_begin + *ret_size). */
static void share_get(const struct limits *l, unsigned i, unsigned n, size_t *ret_begin,
                      size_t *ret_size)
{
    const size_t units = l->size / READ_UNIT;

    *ret_begin = units * i / n * READ_UNIT;
    *ret_size = units * (i + 1) / n * READ_UNIT - *ret_begin;
}

static void touch_part(void *arg, unsigned i, unsigned n)
{
    const struct limits *l = arg;
    size_t begin, size;

    share_get(l, i, n, &begin, &size);
    memset(l->data + begin, 1, size);
}

static void read_part(void *arg, unsigned i, unsigned n)
{
    const struct limits *l = arg;
    const struct read_way *way = l->way;
    size_t begin, size;
    uint64_t sum = 0;

    if (way->shared) {
        for (size_t at = (size_t)i * SHARED_PIECE; at + SHARED_PIECE <= l->size;
             at += (size_t)n * SHARED_PIECE)
            sum ^= l->ops->read(l->data + at, SHARED_PIECE, way->n_streams, way->ahead);
    } else {
        share_get(l, i, n, &begin, &size);
        sum = l->ops->read(l->data + begin, size, way->n_streams, way->ahead);
    }
    l->sums[i] = sum;
}

static int map_memory(struct limits *l)
{
    const size_t size = MIN(READ_BYTES, memory_bytes() / 8) / SHARED_PIECE * SHARED_PIECE;
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return -ENOMEM;
    madvise(p, size, MADV_HUGEPAGE); /* only a hint */
    l->data = p;
    l->size = size;
    workers_run(l->workers, touch_part, l);
    return 0;
}

int limits_read(struct limits *l, double *ret_bytes_s, const char **ret_how)
{
    double best = 0;
    const char *how = NULL;
    int r;

    if (!l->data) {
        r = map_memory(l);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < ARRAY_SIZE(read_ways); i++) {
        double bytes_s;

        l->way = &read_ways[i];
        bytes_s = (double)l->size / limits_time(l->workers, 0, read_part, l);
        if (bytes_s > best) {
            best = bytes_s;
            how = read_ways[i].name;
        }
    }
    *ret_bytes_s = best;
    if (ret_how)
        *ret_how = how;
    return 0;
}

static void dot_part(void *arg, unsigned i UNUSED, unsigned n UNUSED)
{
    const struct limits *l = arg;

    l->ops->dot(DOT_ROUNDS);
}

double limits_dot(struct limits *l)
{
    if (!l->ops->dot)
        return 0;
    return (double)l->ops->dot_ops * DOT_ROUNDS * workers_count(l->workers) /
           limits_time(l->workers, 0.1, dot_part, l);
}

const char *limits_dot_name(const struct limits *l)
{
    return l->ops->dot_name;
}
