/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Measures two limits of this machine: memory bandwidth and the speed of int8 dot products. The
 * speed of kernels is compared with these limits.
 *
 * A kernel can approach the limits but not exceed them, because one loop of the measurement only
 * reads memory, and the other only runs the dot instruction on registers. Both loops run on as many
 * threads as kernels do, because one core cannot use the whole bandwidth of the machine.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/macros.h"
#include "core/workers.h"

struct limits;

/* Prepares measurements. @flags (core/cpu.h) select the instruction set whose loads and dot
 * instruction are measured. Returns 0, -ENOMEM, or -EAGAIN if threads cannot be started. */
int limits_new(unsigned n_threads, unsigned flags, struct limits **ret_limits);
struct limits *limits_free(struct limits *l);
DEFINE_CLEANUP(struct limits *, limits_free);

/*
 * Sets *ret_bytes_s to the bytes per second that all threads together read sequentially from
 * memory. Reads 512 MiB (less if memory is short) several times in each of several ways; the
 * fastest read counts. Takes about 0.3 s. *ret_how becomes a string constant that describes the
 * fastest way; @ret_how may be NULL. Returns 0 or -ENOMEM.
 */
int limits_read(struct limits *l, double *ret_bytes_s, const char **ret_how);
/* Returns the operations per second of the int8 dot instruction on all threads together, or 0 if
 * the instruction set has no such instruction. A multiply-add counts as two operations. Takes about
 * 0.1 s. */
double limits_dot(struct limits *l);
/* Returns the name of the dot instruction, a string constant, or NULL if there is none. */
const char *limits_dot_name(const struct limits *l);

/* Runs @fn at least three times, and for at least @min_seconds in all. Returns the seconds of the
 * fastest run. */
double limits_time(struct workers *w, double min_seconds, workers_fn fn, void *arg);

/* The declarations below are for the files of each instruction set, and for tests. */

struct limits_ops {
    const char *name;
    unsigned flags;
    /* Returns the XOR of the 64-bit words of the @size bytes at @p; @size is a multiple of
     * @n_streams × 256. Reads the bytes as @n_streams streams at the same time, each with
     * prefetches @ahead bytes ahead (0: no prefetches). */
    uint64_t (*read)(const uint8_t *p, size_t size, unsigned n_streams, size_t ahead);
    const char *dot_name; /* NULL: there is no dot instruction */
    unsigned dot_ops;     /* operations per round */
    void (*dot)(unsigned n_rounds);
};

extern const struct limits_ops limits_avx2, limits_avxvnni, limits_avx512, limits_neon,
    limits_dotprod, limits_i8mm, limits_ref;

/* Returns the loops of the best instruction set in @flags. */
const struct limits_ops *limits_ops_get(unsigned flags);
