/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines attention kernels with the vector operations of a simd-<isa>.h, which must be included
 * before this file.
 *
 * The same small matrix product computes both the scores (q · K) and the results (weights · V). The
 * sums of a tile of mr rows × nr vectors of columns stay in registers while a loop runs over units
 * of k, the dimension that is summed. A unit is one number or a pair of BF16. For each unit the
 * loop loads nr vectors of the block once and broadcasts mr units of the rows. In causal attention
 * a row sees more tokens than the rows before it, so only some rows of a tile see the last units;
 * these units are masked one by one. There is no include guard: each file of an instruction set
 * includes this file once and names the table.
 */

#include "backend/cpu/attn/attn-ahead.h"
#include "backend/cpu/attn/attn.h"

#include <math.h>
#include <string.h>

/* Describes a product of some rows: c[mr, N] = a[mr, K] × b[K, N] for scores, += for values. K
 * counts units. */
struct tile_args {
    float *c;
    size_t ldc;
    const uint32_t *a; /* each element has the bits of a float, or of two BF16 */
    size_t lda;
    const void *b;
    size_t ldb;
    struct attn_spread *ahead;
    const struct attn_range *range; /* for values, whose units are tokens: the tokens that each row
                                       sees; for scores: NULL */
    uint32_t N;
    uint32_t k0, k1, k2, k3; /* all rows see units k1 … k2 - 1, some rows see the other units */
};

/* Loads a vector of units of @b from unit @n on: BF16 as the bits of pairs, FP8 as numbers that are
 * 256 times too small. */
ALWAYS_INLINE vi b_load(const void *b, size_t n, enum codec format)
{
    switch (format) {
    case CODEC_F16:
        return vi_from_bits(vf_load_f16((const uint16_t *)b + n));
    case CODEC_FP8:
        return vi_from_bits(vf_load_fp8((const uint8_t *)b + n));
    default:
        return vi_load((const uint32_t *)b + n);
    }
}

ALWAYS_INLINE size_t unit_bytes(enum codec format)
{
    return format == CODEC_FP8 ? 1 : format == CODEC_F16 ? 2 : 4;
}

ALWAYS_INLINE vi b_load_n(const void *b, size_t n, uint32_t count, enum codec format)
{
    switch (format) {
    case CODEC_F16:
        return vi_from_bits(vf_load_f16_n((const uint16_t *)b + n, count));
    case CODEC_FP8:
        return vi_from_bits(vf_load_fp8_n((const uint8_t *)b + n, count));
    default:
        return vi_from_bits(vf_load_n((const float *)b + n, count));
    }
}

ALWAYS_INLINE vf step(vf acc, uint32_t a, vi b, enum codec format)
{
    if (format == CODEC_BF16)
        return vf_dot_bf16(acc, vi_set1((int32_t)a), b);
    return vf_fma(vf_from_bits(vi_set1((int32_t)a)), vf_from_bits(b), acc);
}

/* Returns a mask for the bits of those parts of unit @k that a row sees. */
ALWAYS_INLINE uint32_t unit_mask(const struct attn_range *range, uint32_t k, enum codec format)
{
    if (format != CODEC_BF16)
        return k >= range->lo && k < range->hi ? UINT32_MAX : 0;
    return (2 * k >= range->lo && 2 * k < range->hi ? 0xffffu : 0) |
           (2 * k + 1 >= range->lo && 2 * k + 1 < range->hi ? 0xffff0000u : 0);
}

/* Adds the products of units that only some rows of the tile see. */
ALWAYS_INLINE void partial_units(const struct tile_args *t, uint32_t n, uint32_t begin,
                                 uint32_t end, const uint32_t mr, const uint32_t nr, vf acc[8][8],
                                 enum codec format)
{
    for (uint32_t k = begin; k < end; k++) {
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++) {
            const uint32_t mask = unit_mask(&t->range[i], k, format);

            if (mask == 0)
                continue;
#pragma GCC unroll 8
            for (uint32_t j = 0; j < nr; j++) {
                const vi b = b_load(t->b, k * t->ldb + n + j * VF_N, format);

                acc[i][j] = step(acc[i][j], t->a[i * t->lda + k] & mask,
                                 vi_and(b, vi_set1((int32_t)mask)), format);
            }
        }
    }
}

/* Computes a tile of mr rows and nr whole vectors of columns from @n on, where mr and nr are
 * constants. */
ALWAYS_INLINE void tile(const struct tile_args *t, uint32_t n, const uint32_t mr, const uint32_t nr,
                        enum codec format)
{
    struct attn_spread ahead = *t->ahead;
    vf acc[8][8];

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (uint32_t j = 0; j < nr; j++)
            acc[i][j] = t->range ? vf_load(t->c + i * t->ldc + n + j * VF_N) : vf_set1(0);

    if (t->range)
        partial_units(t, n, t->k0, t->k1, mr, nr, acc, format);
    for (uint32_t k = t->k1; k < t->k2; k++) {
        vi b[8];

#pragma GCC unroll 8
        for (uint32_t j = 0; j < nr; j++)
            b[j] = b_load(t->b, k * t->ldb + n + j * VF_N, format);
        spread_step(&ahead, nr);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < mr; i++) {
            const uint32_t a = t->a[i * t->lda + k];

#pragma GCC unroll 8
            for (uint32_t j = 0; j < nr; j++)
                acc[i][j] = step(acc[i][j], a, b[j], format);
        }
    }
    if (t->range)
        partial_units(t, n, t->k2, t->k3, mr, nr, acc, format);

#pragma GCC unroll 8
    for (uint32_t i = 0; i < mr; i++)
#pragma GCC unroll 8
        for (uint32_t j = 0; j < nr; j++)
            vf_store(t->c + i * t->ldc + n + j * VF_N, acc[i][j]);
    *t->ahead = ahead;
}

/* Computes the last @rest < VF_N columns of values for one row. */
ALWAYS_INLINE void columns_rest(const struct tile_args *t, uint32_t i, uint32_t n, uint32_t rest,
                                enum codec format)
{
    float *c = t->c + i * t->ldc + n;
    vf acc = vf_load_n(c, rest);

    for (uint32_t k = t->k0; k < t->k3; k++) {
        const uint32_t mask = unit_mask(&t->range[i], k, format);
        const vi b = b_load_n(t->b, k * t->ldb + n, rest, format);

        if (mask != 0)
            acc = step(acc, t->a[i * t->lda + k] & mask, vi_and(b, vi_set1((int32_t)mask)), format);
    }
    vf_store_n(c, acc, rest);
}

/* Computes all columns of mr rows, at most nr vectors at a time. */
ALWAYS_INLINE void columns(const struct tile_args *t, const uint32_t mr, const uint32_t nr,
                           enum codec format)
{
    uint32_t n = 0;

    for (; n + nr * VF_N <= t->N; n += nr * VF_N)
        tile(t, n, mr, nr, format);
    if (nr > 4 && n + 4 * VF_N <= t->N) {
        tile(t, n, mr, 4, format);
        n += 4 * VF_N;
    }
    if (nr > 2 && n + 2 * VF_N <= t->N) {
        tile(t, n, mr, 2, format);
        n += 2 * VF_N;
    }
    for (; n + VF_N <= t->N; n += VF_N)
        tile(t, n, mr, 1, format);
    if (n < t->N)
        for (uint32_t i = 0; i < mr; i++)
            columns_rest(t, i, n, t->N - n, format);
}

/* Computes the scores of mr rows from row @m on. */
ALWAYS_INLINE void score_rows(const struct attn_args *args, uint32_t m, const uint32_t mr,
                              const uint32_t nr, enum codec format)
{
    const uint32_t lo = args->range[m].lo & ~15u, hi = (args->range[m + mr - 1].hi + 15) & ~15u;
    const uint32_t n_units = format == CODEC_BF16 ? args->head_dim / 2 : args->head_dim;
    struct attn_spread ahead =
        spread_of(m == 0 ? args->ahead : NULL, args->ahead_bytes, (hi - lo) / VF_N * n_units);
    const struct tile_args t = {
        .c = args->s + (size_t)m * args->block_tokens + lo,
        .ldc = args->block_tokens,
        .a = (const uint32_t *)args->q + (size_t)m * args->head_dim,
        .lda = args->head_dim,
        .b = (const unsigned char *)args->kv + lo * unit_bytes(format),
        .ahead = &ahead,
        .ldb = args->block_tokens,
        .N = hi > lo ? hi - lo : 0,
        .k2 = n_units,
    };

    columns(&t, mr, nr, format);
}

/* Converts the weights of mr rows to pairs of BF16. The range of tokens is widened to whole pairs
 * first. */
ALWAYS_INLINE void pair_weights(const struct attn_args *args, uint32_t m, const uint32_t mr,
                                uint32_t begin, uint32_t end, uint32_t *pairs)
{
    for (uint32_t i = 0; i < mr; i++)
        vf_to_bf16((uint16_t *)(pairs + (size_t)i * ATTN_TOKENS_MAX / 2) + begin,
                   args->s + (size_t)(m + i) * args->block_tokens + begin, end - begin);
}

/* Adds weights × values for mr rows from row @m on. */
ALWAYS_INLINE void value_rows(const struct attn_args *args, uint32_t m, const uint32_t mr,
                              const uint32_t nr, enum codec format)
{
    const struct attn_range *r = args->range + m;
    const bool bf16 = format == CODEC_BF16;
    uint32_t pairs[ATTN_MR * ATTN_TOKENS_MAX / 2];
    struct attn_spread ahead;
    struct tile_args t = {
        .c = args->o + (size_t)m * args->head_dim,
        .ldc = args->head_dim,
        .a = bf16 ? pairs : (const uint32_t *)args->s + (size_t)m * args->block_tokens,
        .lda = bf16 ? ATTN_TOKENS_MAX / 2 : args->block_tokens,
        .b = args->kv,
        .ahead = &ahead,
        .ldb = args->head_dim,
        .range = r,
        .N = args->head_dim,
        .k0 = r[0].lo,
        .k1 = r[mr - 1].lo,
        .k2 = r[0].hi,
        .k3 = r[mr - 1].hi,
    };

    if (bf16) {
        t.k0 /= 2;
        t.k1 = (t.k1 + 1) / 2;
        t.k2 /= 2;
        t.k3 = (t.k3 + 1) / 2;
        if (t.k0 < t.k3)
            pair_weights(args, m, mr, 2 * t.k0, 2 * t.k3, pairs);
    }
    if (t.k1 > t.k2) /* no unit is seen by all rows */
        t.k1 = t.k2 = t.k3;
    ahead = spread_of(m == 0 ? args->ahead : NULL, args->ahead_bytes,
                      DIV_UP(args->head_dim, VF_N) * (t.k2 - t.k1));
    if (t.k0 < t.k3)
        columns(&t, mr, nr, format);
}

/* Splits the rows of a call into tiles. @rows is the function for a tile: score_rows or
 * value_rows. */
#define FOR_ROWS(rows, args, format)                                                               \
    do {                                                                                           \
        uint32_t m = 0;                                                                            \
                                                                                                   \
        for (; m + ATTN_MR <= (args)->n_rows; m += ATTN_MR)                                        \
            rows(args, m, ATTN_MR, ATTN_NR, format);                                               \
        if (m + 4 <= (args)->n_rows) {                                                             \
            rows(args, m, 4, ATTN_NR, format);                                                     \
            m += 4;                                                                                \
        }                                                                                          \
        if (m + 2 <= (args)->n_rows) {                                                             \
            rows(args, m, 2, ATTN_NR2, format);                                                    \
            m += 2;                                                                                \
        }                                                                                          \
        if (m < (args)->n_rows)                                                                    \
            rows(args, m, 1, 8, format);                                                           \
    } while (0)

#define PRODUCTS(format, suffix)                                                                   \
    static void scores_##suffix(const struct attn_args *args)                                      \
    {                                                                                              \
        FOR_ROWS(score_rows, args, format);                                                        \
    }                                                                                              \
    static void values_##suffix(const struct attn_args *args)                                      \
    {                                                                                              \
        FOR_ROWS(value_rows, args, format);                                                        \
    }

PRODUCTS(CODEC_F32, f32)
PRODUCTS(CODEC_BF16, bf16)
