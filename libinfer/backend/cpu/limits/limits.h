/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The limits of this machine, against which kernels are measured
 *
 * Both are upper bounds that a program can approach but not exceed: loops that do nothing else read
 * memory, and the dot instruction runs on registers alone. As many threads measure as compute,
 * because one core cannot use the whole bandwidth of the machine.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/macros.h"
#include "core/workers.h"

struct limits;

/* @flags as in cpu.h: the instruction set whose loads and dot instruction are measured. -ENOMEM,
 * -EAGAIN. */
int limits_new(unsigned n_threads, unsigned flags, struct limits **ret_limits);
struct limits *limits_free(struct limits *l);
DEFINE_CLEANUP(struct limits *, limits_free);

/*
 * Bytes per second that all threads together read sequentially from memory: the fastest of several
 * reads of 512 MiB (less if memory is short) in each of several ways. Takes about 0.3 s. @ret_how
 * is the fastest way, static; it may be NULL. -ENOMEM.
 */
int limits_read(struct limits *l, double *ret_bytes_s, const char **ret_how);
/* Operations per second of the int8 dot instruction on all threads, where a multiply-add counts as
 * two; 0 if the instruction set has none. Takes about 0.1 s. */
double limits_dot(struct limits *l);
/* The name of the instruction, static; NULL: none. */
const char *limits_dot_name(const struct limits *l);

/* Seconds of the fastest of at least three runs of @fn, for at least @min_seconds in all. */
double limits_time(struct workers *w, double min_seconds, workers_fn fn, void *arg);

/* For the files of kernels, and for tests. */

struct limits_ops {
    const char *name;
    unsigned flags;
    /* The exclusive or of the 64-bit words of @size bytes, a multiple of @n_streams × 256. Reads
     * them as @n_streams streams at once, each with prefetches @ahead bytes ahead (0: none). */
    uint64_t (*read)(const uint8_t *p, size_t size, unsigned n_streams, size_t ahead);
    const char *dot_name; /* NULL: there is no dot instruction */
    unsigned dot_ops;     /* operations per round */
    void (*dot)(unsigned n_rounds);
};

extern const struct limits_ops limits_avx2, limits_avxvnni, limits_avx512, limits_neon,
    limits_dotprod, limits_ref;

/* The best row for @flags. */
const struct limits_ops *limits_ops_get(unsigned flags);
