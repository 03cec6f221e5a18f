/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the framework of checkkern, which compares the kernels of every rung and device with the
 * reference, and measures their speed.
 *
 * A rung is an instruction set level of the CPU. A check is a function that is called once for each
 * rung that this CPU supports, lowest first; checks of graphs are called once for each Vulkan
 * device. A check takes its numbers from the given generator and its memory from guarded buffers,
 * and reports differences with check_fail(). A new check needs a file, its name in meson.build, and
 * a line in CHECKS (for devices: in devices/checks.h).
 */

#include <infer/types.h>

#include "backend/cpu/limits/limits.h"
#include "core/macros.h"
#include "core/rng.h"

struct check {
    struct rng rng;
    const char *test;        /* name of the running check */
    const char *rung;        /* "avx2", …; or a device, "vulkan:0" */
    unsigned flags;          /* CPU flags of the rung, for the *_ops_get functions */
    struct backend *backend; /* the device, for checks of devices */
    unsigned n_failed;
    unsigned n_cases;   /* cases that were compared */
    unsigned n_same;    /* results compared bit for bit with the same rows in other batches */
    unsigned n_other;   /* results among n_same whose bits differ */
    unsigned n_threads; /* threads of speed measurements */
    unsigned share;     /* long checks run one of this many cases; 0: all */
};

/* For each name there are two functions, check_<name>() and bench_<name>(), with a parameter struct
 * check *. */
#define CHECKS(X)                                                                                  \
    X(limits)                                                                                      \
    X(prepare)                                                                                     \
    X(matmul)                                                                                      \
    X(matmul_invariance)                                                                           \
    X(matmul_f16)                                                                                  \
    X(matmul_packed)                                                                               \
    X(bitnet)                                                                                      \
    X(fp4_planes)                                                                                  \
    X(coded)                                                                                       \
    X(norm)                                                                                        \
    X(rope)                                                                                        \
    X(silu)                                                                                        \
    X(layer_norm)                                                                                  \
    X(gelu)                                                                                        \
    X(gates)                                                                                       \
    X(cap)                                                                                         \
    X(level)                                                                                       \
    X(peaks)                                                                                       \
    X(turn)                                                                                        \
    X(conv)                                                                                        \
    X(route)                                                                                       \
    X(delta)                                                                                       \
    X(convert)                                                                                     \
    X(attention)                                                                                   \
    X(quantise)                                                                                    \
    X(pack)                                                                                        \
    X(softmax)

#define X(name)                                                                                    \
    void check_##name(struct check *c);                                                            \
    void bench_##name(struct check *c);
CHECKS(X)
#undef X

/* Options of a run. */
struct selection {
    const char *test, *rung; /* NULL: all */
    const char *trace;       /* the format whose product is traced; NULL: none */
    const char *format;      /* what the names of measured formats contain; NULL: all */
    uint64_t seed;
    unsigned share;
    bool bench, in_cache;
};

/* Runs the checks of all devices (devices/run.c). @current is set to the running check, for
 * messages. Returns how many checks ran, and adds the failed ones to *n_failed. */
unsigned devices_run(const struct selection *sel, struct check *current, unsigned *n_failed);
/* Prints the names of the checks of devices, one per line. */
void devices_list(void);
/* Prints the result of a check. */
void check_report(const struct check *c, double seconds);

/* Returns whether a case of a long check is part of the random sample, which depends on the
 * seed. */
bool check_draws(struct check *c);
/* Reports a difference; after ten per check it only counts them. */
void check_fail(struct check *c, const char *format, ...) PRINTF(2, 3);

/*
 * Struct guarded holds memory that ends at an unmapped page (or, if @at_end is false, begins after
 * one), so that a kernel that reads too far crashes. The other bytes of its pages have a pattern
 * that guarded_done() checks. If @at_end is true, the alignment of @data depends on the size: it is
 * 4 bytes for a size of 12.
 */
struct guarded {
    void *data;
    size_t size, map_size;
    uint8_t *map;
};

struct guarded guarded_new(size_t size, bool at_end);
/* Frees the memory; false if bytes around it were overwritten. */
bool guarded_done(struct guarded *g);

/* Kinds of numbers that kernels encounter, including difficult numbers. */
enum fill {
    FILL_NORMAL,
    FILL_ZERO,
    FILL_MAX,     /* the largest number, with either sign */
    FILL_ALL_MIN, /* the most negative number */
    FILL_OUTLIER, /* FILL_NORMAL, and one number that is 1000 times as large */
    FILL_DENORMAL,
    FILL_N,
};
const char *fill_name(enum fill fill);
float rng_normal(struct rng *rng);
void fill_floats(struct check *c, enum fill fill, float *x, size_t n);

/* tolerance.c */

/*
 * Returns the largest error of a float sum of @n_terms products with @n_roundings roundings each,
 * whose magnitudes add up to @magnitude. This is the usual bound (n_terms + n_roundings) × u ×
 * Σ|terms|.
 */
double tolerance_sum(uint64_t n_terms, unsigned n_roundings, double magnitude);
/* Returns the largest error due to the rounding of the values of NF4. @magnitude is the sum of the
 * magnitudes of the products if each code had the largest value. */
double tolerance_table(double magnitude);
/* Returns the limit of the root mean square of (error / magnitude). This limit is lower than the
 * limit of a single error, because errors have random signs. */
double tolerance_rms(uint64_t n_terms, unsigned n_roundings);

/* The bounds of tolerance_sum() and tolerance_rms() for F16 sums over blocks of 32 products. For
 * tolerance_half_sum(), @magnitude is the sum of the magnitudes of the blocks. For
 * tolerance_half_rms(), errors are divided by the root of the sum of the squares of these
 * magnitudes. */
double tolerance_half_sum(double magnitude);
double tolerance_half_rms(void);

/* The same for F16 weights that are rounded to int16 in blocks of 128. Each number of x counts
 * multiplied by the largest weight of its block. For tolerance_apart_rms(), errors are divided by
 * the root of the sum of the squares of these products. */
double tolerance_apart_sum(double magnitude);
double tolerance_apart_rms(void);

/* The bounds of tolerance_sum() and tolerance_rms() for products of F32 numbers that are split into
 * two bfloat16 each. Errors are divided as in tolerance_rms(). */
double tolerance_two_sum(double magnitude);
double tolerance_two_rms(void);

/* bench.c */

/* Returns the seconds of the fastest of several runs on @n_threads threads at once. */
double bench_threads(unsigned n_threads, double min_seconds, workers_fn fn, void *arg);
/* Returns the GB/s of reads from memory outside the caches, and the 1e12 int8 operations per second
 * of the dot product instruction of @flags (0: none). */
double bench_read_gbs(unsigned n_threads, unsigned flags);
double bench_int8_tops(unsigned n_threads, unsigned flags);

/* bench-cache.c: prints how many bytes of weights a product of one row multiplies per cycle if the
 * weights are in the second-level cache. */
void bench_in_cache(struct check *c, const struct selection *sel);
/* Prints the bytes of weights of a product of one row with weights of the format @sel->trace on the
 * rung @sel->rung, and its trace. -EINVAL: there is no such format; -EOPNOTSUPP: the CPU does not
 * support the rung. */
int bench_trace(struct check *c, const struct selection *sel);

/* trace.c: calls fn(arg) twice, and prints the address of each instruction that the second call
 * executes, in order, in hexadecimal. Prints the address of the function trace_begin() first, so
 * that readers can find the instructions in the program file. CPUs other than x86-64 print no
 * instructions. */
void trace_run(void (*fn)(void *arg), void *arg);
