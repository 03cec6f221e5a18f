/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the kernels of recurrent layers: convolutions along the rows of a sequence, and gated
 * delta rules (graph/params.h).
 *
 * The state of a delta rule is a matrix S [v_dim, k_dim] for each head. The rows of S do not depend
 * on each other, so the lanes of a vector are neighboring rows of S. The store therefore holds S in
 * blocks of DELTA_LANES rows, each as [k_dim, DELTA_LANES]; if v_dim is not a multiple of
 * DELTA_LANES, the last block has only the lanes that are left.
 *
 * Invariance: the bits of a row's result depend only on this row and the earlier rows of its
 * sequence, not on how these rows are split into calls. recur-ref.c defines what the kernels
 * compute.
 */

#include <stddef.h>
#include <stdint.h>

#define DELTA_LANES 32u
/* Numbers of a row that all lanes share: decay, beta, and q · k. */
#define DELTA_GATES 3u

/* Describes one block of lanes of one head, and the rows of one sequence. */
struct delta_args {
    uint32_t n_rows, k_dim;
    uint32_t n;         /* lanes, at most DELTA_LANES */
    float *state;       /* [k_dim, n] */
    const float *q, *k; /* row t is at t × ld_qk */
    size_t ld_qk;
    const float *gates; /* [n_rows, DELTA_GATES] */
    const float *v;     /* row t has n values at t × ld_v */
    size_t ld_v;
    float *y; /* row t has n results at t × ld_y */
    size_t ld_y;
};

struct recur_fns {
    const char *name;
    unsigned cpu_flags;
    /* y[c] = bias[c] + the sum over j of taps[j × ld + c] × x[j][c], for n columns; bias may be
     * NULL. @x: n_taps rows. */
    void (*conv)(float *y, const float *const *x, const float *taps, size_t ld, const float *bias,
                 uint32_t n_taps, uint32_t n);
    /* y = x × factor / sqrt(sum of squares + eps) */
    void (*unit)(float *y, const float *x, float eps, float factor, uint32_t n);
    float (*dot)(const float *a, const float *b, uint32_t n);
    /* For each row: S = decay × S; S = S + (beta × (v - S · k)) ⊗ k; y = S · q. */
    void (*delta)(const struct delta_args *args);
};

extern const struct recur_fns recur_ref, recur_avx2, recur_avx512, recur_neon;

/* Returns the best table for these CPU flags (core/cpu.h). */
const struct recur_fns *recur_pick(unsigned cpu_flags);
