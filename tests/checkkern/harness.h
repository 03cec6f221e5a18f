/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * checkkern: every rung of kernels and every device against the reference, and its speed
 *
 * A check is a function that is called once for each rung that this CPU has, lowest first; checks
 * of graphs once for each Vulkan device. It takes its numbers from the given generator, its memory
 * from guarded buffers, and tells what is wrong with check_fail(). To add one: a file, its name in
 * meson.build, a line in CHECKS (for
 * devices: devices/checks.h).
 */

#include <infer/types.h>

#include "backend/cpu/limits/limits.h"
#include "core/macros.h"
#include "core/rng.h"

struct check {
    struct rng rng;
    const char *test;        /* name of the running check */
    const char *rung;        /* "avx2", …; or a device, "vulkan:0" */
    unsigned flags;          /* of the rung, for the *_ops_get functions */
    struct backend *backend; /* the device, for checks of devices */
    unsigned n_failed;
    unsigned n_cases;   /* that were compared */
    unsigned n_same;    /* results that were compared bit for bit with others in other company */
    unsigned n_other;   /* of these, other bits */
    unsigned n_threads; /* of benches */
    unsigned share;     /* of the long checks, one case of so many is done; 0: all */
};

/* name: a function void check_<name>(struct check *), and its bench_<name>. */
#define CHECKS(X)                                                                                  \
    X(limits)                                                                                      \
    X(prepare)                                                                                     \
    X(matmul)                                                                                      \
    X(matmul_invariance)                                                                           \
    X(matmul_f16)                                                                                  \
    X(matmul_packed)                                                                               \
    X(norm)                                                                                        \
    X(rope)                                                                                        \
    X(silu)                                                                                        \
    X(layer_norm)                                                                                  \
    X(gelu)                                                                                        \
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
    uint64_t seed;
    unsigned share;
    bool bench;
};

/* devices/run.c: the checks of all devices; @current is what runs, for messages. Returns how many
 * ran and adds to *n_failed. */
unsigned devices_run(const struct selection *sel, struct check *current, unsigned *n_failed);
/* Prints their names, one per line. */
void devices_list(void);
/* The result of a check. */
void check_report(const struct check *c, double seconds);

/* Whether a case of a long check is part of the sample; the seed decides. */
bool check_draws(struct check *c);
/* Reports a difference; after ten per check it only counts. */
void check_fail(struct check *c, const char *format, ...) PRINTF(2, 3);

/*
 * Memory whose end (or, with @at_end false, whose start) touches an unmapped page: a kernel that
 * reads too far crashes. The rest of its pages holds a pattern that guarded_done() looks at.
 * @data is aligned only as far as @size is.
 */
struct guarded {
    void *data;
    size_t size, map_size;
    uint8_t *map;
};

struct guarded guarded_new(size_t size, bool at_end);
/* Frees the memory; false if bytes around it were overwritten. */
bool guarded_done(struct guarded *g);

/* Numbers that kernels encounter, including difficult ones. */
enum fill {
    FILL_NORMAL,
    FILL_ZERO,
    FILL_MAX,     /* ±largest */
    FILL_ALL_MIN, /* -largest */
    FILL_OUTLIER, /* normal and one 1000 times as large */
    FILL_DENORMAL,
    FILL_N,
};
const char *fill_name(enum fill fill);
float rng_normal(struct rng *rng);
void fill_floats(struct check *c, enum fill fill, float *x, size_t n);

/* tolerance.c */

/*
 * Largest error of a float sum of @n_terms products, each of @n_roundings roundings, whose
 * magnitudes sum to @magnitude: the usual bound (n_terms + n_roundings) × u × Σ|terms|.
 */
double tolerance_sum(uint64_t n_terms, unsigned n_roundings, double magnitude);
/* What the root mean square of (error / magnitude) may be: errors of random sign. */
double tolerance_rms(uint64_t n_terms, unsigned n_roundings);

/* Both for sums of F16 over blocks of 32 products: @magnitude is the sum, and what the error is
 * divided by for the second is the root of the sum of squares, of the blocks' magnitudes. */
double tolerance_half_sum(double magnitude);
double tolerance_half_rms(void);

/* Both for products of F32 in two bfloat16 each; the second as in tolerance_rms(). */
double tolerance_two_sum(double magnitude);
double tolerance_two_rms(void);

/* bench.c */

/* Seconds of the fastest of several runs on n threads at once. */
double bench_threads(unsigned n_threads, double min_seconds, workers_fn fn, void *arg);
/* GB/s of reading memory beyond the caches, and int8 operations per second in units of 1e12 of the
 * dot instruction of @flags (0: none). */
double bench_read_gbs(unsigned n_threads, unsigned flags);
double bench_int8_tops(unsigned n_threads, unsigned flags);
