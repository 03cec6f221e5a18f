/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernels of attention over one tile of the KV store
 *
 * With K stored as [head_dim, tokens] and V as [tokens, head_dim], scores (q · K) and results
 * (p · V) are the same small product; between them lies one step of the online softmax
 * (Milakov and Gimelshein 2018).
 *
 * Invariance: an element of a product is a chain of additions in the order of k that starts from
 * what C holds, rounded to float after each; it does not depend on M, N or where the chain was
 * cut into calls. The order inside a softmax step depends on n alone.
 */

#include <infer/types.h>

/* C[m][n] += sum over k of A[m][k] × B[k][n]; strides in elements. */
struct attn_mul_args {
    float *c; /* [M, N] */
    size_t ldc;
    const float *a; /* [M, K] */
    size_t lda;
    const void *b; /* [K, N], format as in attn_fns.mul[] */
    size_t ldb;
    uint32_t M, N, K;
};

enum attn_format {
    ATTN_F32,
    ATTN_F16,
    ATTN_BF16,
    ATTN_FORMAT_N,
};

struct attn_fns {
    const char *name;
    unsigned cpu_flags;
    void (*mul[ATTN_FORMAT_N])(const struct attn_mul_args *args);
    /* One step of a row: s[0 … n-1] (n ≥ 1) holds scores and then exp(s - max'), where max' is
     * the new maximum; *max and *sum are brought up to date. Returns exp(max - max'), by which
     * earlier results must be multiplied. Start with *max = -INFINITY, *sum = 0. */
    float (*softmax)(float *s, uint32_t n, float *max, float *sum);
};

extern const struct attn_fns attn_ref, attn_avx2, attn_avx512, attn_neon;

/* The best table for these flags of core/cpu.h. */
const struct attn_fns *attn_pick(unsigned cpu_flags);
