/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Multiplies weights packed as int16 blocks, with any vectors that multiply pairs of int16.
 *
 * AVX-512 and AVX-VNNI multiply pairs of int16 twice as fast as floats. A block is 128 numbers
 * that share a scale. These numbers are rounded to integers within ±4095, so that no sum of 128
 * products overflows an int32. For normally distributed numbers the rounding loses 4e-8 of their
 * energy, as much as F16 loses. For a block with one large number it loses at most 6e-7. bfloat16
 * would lose 2.8e-6.
 *
 * For an element of the result, acc starts at 0, and each block updates it: acc = fma(float(isum),
 * w.d × x.d, acc), where isum is the exact sum of the block's products. The element is bias + acc.
 * So an element does not depend on how many rows and columns are multiplied together, and all files
 * that include this file compute the same bits.
 *
 * The including file defines:
 *     TILE_M                      the number of rows that are multiplied at once
 *     v_n                         the number of lanes
 *     v_int, v_float              the types of vectors
 *     v_zero()                    returns a vector of zeros
 *     v_load(p), v_all(p)         load v_n aligned pairs; copy the pair at p to all lanes
 *     v_dot(acc, w, x)            adds the products of pairs to acc
 *     v_float_load(), v_float_all(), v_mul()
 *     v_scale(acc, d, sum)        returns fma(float(acc), d, sum)
 *     v_put(y, bias, sums, n)     writes the first n elements of bias + sums; bias may be NULL
 *     v_largest128(x)             returns the bits of the largest magnitude of 128 numbers
 *     v_round128(x, inverse, q)   rounds 128 numbers × inverse
 */

#include <string.h>

#include "backend/cpu/matmul/matmul-kernels.h"
#include "backend/cpu/matmul/matmul-prefetch.h"

#define PASS (2 * v_n) /* number of columns whose sums are in registers at the same time */
/* Number of rows of x that stay in the second-level cache while all groups of columns are
 * multiplied by them. */
#define ROWS_M 96u

/* Describes columns that are multiplied by rows: PASS columns, or fewer if the group has fewer. */
struct pass {
    const struct matmul_args *args;
    uint32_t n, n_cols; /* first column and number of columns of the group */
    unsigned first;     /* first column of the pass, counted from n */
    const uint8_t *ahead;
    size_t n_ahead;          /* bytes at `ahead` to prefetch in this pass */
    uint32_t n_rows, n_done; /* rows of the pass, and how many of them are done */
};

/* Describes the prefetches of a tile: one for each pair of k, `step` bytes apart. The hardware
 * fetches lines in pairs, so no line is left out while `step` is at most 128. */
struct pass_ahead {
    const uint8_t *at;
    size_t step;
};

/* Returns the share of the pass's prefetches for a tile of @m_n rows. */
INLINE struct pass_ahead pass_ahead(struct pass *p, const unsigned m_n)
{
    const size_t begin = p->n_ahead * p->n_done / p->n_rows;

    p->n_done = MIN(p->n_done + m_n, p->n_rows);
    return (struct pass_ahead){.at = p->ahead + begin,
                               .step = (p->n_ahead * p->n_done / p->n_rows - begin) /
                                       DIV_UP(p->args->K, 2u)};
}

INLINE void dot_rows(struct pass *p, uint32_t m0, const unsigned m_n)
{
    const struct matmul_args *args = p->args;
    const uint8_t *act = (const uint8_t *)args->act + m0 * args->act_stride;
    const uint32_t n = p->n + p->first, n_cols = p->n_cols - p->first;
    const struct matmul_blocks *w =
        (const void *)((const uint8_t *)args->w + p->n * args->row_bytes);
    struct pass_ahead ahead = pass_ahead(p, m_n);
    v_float sum[TILE_M][2];

    UNROLL for (unsigned m = 0; m < m_n; m++) sum[m][0] = sum[m][1] = v_float_all(0);
    for (uint32_t k = 0; k < args->K; k += MATMUL_BLOCK, w++, act += sizeof(struct matmul_i16)) {
        const uint32_t n_pairs = DIV_UP(MIN(args->K - k, MATMUL_BLOCK), 2u);
        v_float d[2];
        v_int acc[TILE_M][2];

        UNROLL for (unsigned m = 0; m < m_n; m++) acc[m][0] = acc[m][1] = v_zero();
        for (uint32_t i = 0; i < n_pairs; i++) {
            const v_int low = v_load(w->q[i][p->first]), high = v_load(w->q[i][p->first + v_n]);

            prefetch_line(ahead.at);
            ahead.at += ahead.step;
            if (k == 0 && i < m_n)
                tile_prefetch_y(args->y + (m0 + i) * args->ldy + n, PASS);
            UNROLL for (unsigned m = 0; m < m_n; m++)
            {
                const v_int x = v_all(act + m * args->act_stride + 4 * (size_t)i);

                acc[m][0] = v_dot(acc[m][0], low, x);
                acc[m][1] = v_dot(acc[m][1], high, x);
            }
        }
        d[0] = v_float_load(w->d + p->first);
        d[1] = v_float_load(w->d + p->first + v_n);
        UNROLL for (unsigned m = 0; m < m_n; m++)
        {
            const v_float x = v_float_all(
                ((const struct matmul_i16 *)(const void *)(act + m * args->act_stride))->d);

            sum[m][0] = v_scale(acc[m][0], v_mul(d[0], x), sum[m][0]);
            sum[m][1] = v_scale(acc[m][1], v_mul(d[1], x), sum[m][1]);
        }
    }
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        float *y = args->y + (m0 + m) * args->ldy + n;
        const float *bias = args->bias ? args->bias + n : NULL;

        v_put(y, bias, sum[m][0], MIN(n_cols, v_n));
        if (n_cols > v_n)
            v_put(y + v_n, bias ? bias + v_n : NULL, sum[m][1], MIN(n_cols - v_n, v_n));
    }
}

/* Multiplies @size rows, a size that rest_size() or largest_size() returns. */
INLINE void dot_some(struct pass *p, uint32_t m, uint32_t size)
{
    if (size == TILE_M)
        dot_rows(p, m, TILE_M);
    else if (TILE_M > 8 && size == 8)
        dot_rows(p, m, 8);
    else if (TILE_M > 6 && size == 6)
        dot_rows(p, m, 6);
    else if (TILE_M > 4 && size == 4)
        dot_rows(p, m, 4);
    else if (size == 2)
        dot_rows(p, m, 2);
    else
        dot_rows(p, m, 1);
}

/* Returns the smallest size of a tile that has at least @n rows, where @n < TILE_M. */
INLINE uint32_t rest_size(uint32_t n)
{
    const uint32_t size = n > 8 ? TILE_M : n > 6 ? 8 : n > 4 ? 6 : n > 2 ? 4 : n;

    return MIN(size, TILE_M);
}

/* Returns the largest size of a tile that has at most @n rows, where @n < TILE_M. */
INLINE uint32_t largest_size(uint32_t n)
{
    return n >= 8 ? 8 : n >= 6 ? 6 : n >= 4 ? 4 : n >= 2 ? 2 : 1;
}

/* Multiplies the rows m0 … m1 - 1. A tile of few rows waits for its sums, so the last rows are
 * multiplied in a tile that may begin with rows of the tile before it. These rows get the same
 * results again. */
INLINE void pass_rows(struct pass *p, uint32_t m0, uint32_t m1)
{
    uint32_t m = m0;

    for (; m + TILE_M <= m1; m += TILE_M)
        dot_rows(p, m, TILE_M);
    while (m < m1) {
        const uint32_t size = rest_size(m1 - m);

        if (size <= m1) {
            dot_some(p, m1 - size, size);
            return;
        }
        dot_some(p, m, largest_size(m1 - m));
        m += largest_size(m1 - m);
    }
}

INLINE void multiply_blocks(const struct matmul_args *args, uint32_t n0, uint32_t n1)
{
    const uint8_t *begin = (const uint8_t *)args->w + n0 * args->row_bytes;

    for (uint32_t m0 = 0; m0 < args->M; m0 += ROWS_M) {
        const uint32_t m1 = MIN(m0 + ROWS_M, args->M);
        const uint8_t *after = m1 < args->M || !args->next ? begin : args->next;

        for (uint32_t n = n0; n < n1; n += PANEL_N) {
            const uint32_t n_cols = MIN(n1 - n, PANEL_N), n_passes = DIV_UP(n_cols, PASS);
            const uint8_t *ahead = n + PANEL_N < n1
                                       ? (const uint8_t *)args->w + (n + PANEL_N) * args->row_bytes
                                       : after;

            for (unsigned i = 0; i < n_passes; i++) {
                const size_t n_ahead = PANEL_N * args->row_bytes / n_passes;
                struct pass p = {
                    .args = args,
                    .n = n,
                    .n_cols = n_cols,
                    .first = i * PASS,
                    .ahead = ahead + i * n_ahead,
                    .n_ahead = n_ahead,
                    .n_rows = m1 - m0,
                };

                pass_rows(&p, m0, m1);
            }
        }
    }
}

INLINE void prepare_blocks(const float *x, uint32_t K, struct matmul_i16 *dst)
{
    float rest[MATMUL_BLOCK];

    for (uint32_t k = 0; k < K; k += MATMUL_BLOCK, dst++) {
        const float *from = x + k;
        float inverse;

        if (K - k < MATMUL_BLOCK) {
            memset(rest, 0, sizeof(rest));
            memcpy(rest, from, (K - k) * sizeof(float));
            from = rest;
        }
        dst->d = matmul_block_scale(v_largest128(from), &inverse);
        v_round128(from, inverse, dst->q);
    }
}
