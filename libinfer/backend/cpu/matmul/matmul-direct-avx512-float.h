/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Multiplies 16 rows of W by up to DIRECT_M prepared rows of floats, bfloat16 or binary16, with
 * AVX-512.
 *
 * A cache line of each row is loaded and transposed in registers. Then a lane has only numbers of
 * one row, and its sum is the same chain of additions as in the tiles that multiply a panel. A
 * *chunk* is a range of k that is summed separately. Each addition of a chain waits for the
 * addition before it, but chains of different chunks are independent, so several chunks are
 * computed side by side.
 *
 * A *block* is one cache line of each of the 16 rows. While the kernel adds one block, it loads the
 * lines of the next block, one after another, and prefetches the lines of a later block.
 */

#include "backend/cpu/matmul/matmul-direct-rows.h"
#include "backend/cpu/matmul/matmul-lines-avx512.h"

/* Holds the lines of 16 rows that were loaded last, and the place of the lines to load next. */
struct direct_lines {
    __m512i v[16];
    const uint8_t *next;
};

/* Loads line @i of the next block and prefetches line @i of a later block. The caller passes i = 0
 * … 15 in turn. The empty assembly prevents the compiler from computing 16 addresses in advance,
 * for which there are not enough registers. */
INLINE void direct_next(struct matmul_direct *d, struct direct_lines *lines, const unsigned i)
{
    prefetch_line(d->ahead.at + 64 * i);
    lines->v[i] = _mm512_loadu_si512(lines->next);
    lines->next += d->row_bytes;
    __asm__("" : "+r"(lines->next));
    if (i == 15)
        prefetch_move(&d->ahead, 16 * 64);
}

/* Returns the k at which the next block to load begins. Blocks have @step elements, and the current
 * block begins at k1 + j * chunk, in chunk @j of the @side chunks that begin at @k0. */
INLINE uint32_t direct_after(uint32_t K, uint32_t k0, uint32_t k1, const unsigned j,
                             const unsigned chunk, const unsigned side, const unsigned step)
{
    if (j + 1 < side && k1 + (j + 1) * chunk < K)
        return k1 + (j + 1) * chunk;
    return k1 + step < k0 + chunk ? k1 + step : k0 + side * chunk;
}

/*
 * Defines a function with the loop over k. The loop works on @side chunks at the same time. A chunk
 * has @chunk elements, and consists of blocks of @step elements, which are one cache line of a row.
 * block(d, lines, act, m_n, sums) adds one block; act_at(k) is the offset of the block at k in a
 * prepared row.
 */
#define DIRECT_FLOAT(name, block, elem_bytes, act_at, chunk, side, step)                           \
    INLINE void name##_m(struct matmul_direct *d, const unsigned m_n)                              \
    {                                                                                              \
        __m512 acc[DIRECT_M], sum[side][DIRECT_M];                                                 \
        struct direct_lines lines = {.next = d->w};                                                \
                                                                                                   \
        UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] = _mm512_loadu_ps(d->init);               \
        UNROLL for (unsigned i = 0; i < 16; i++) direct_next(d, &lines, i);                        \
        for (uint32_t k0 = 0; k0 < d->K; k0 += (side) * (chunk)) {                                 \
            UNROLL for (unsigned j = 0; j < (side); j++) UNROLL for (unsigned m = 0; m < m_n; m++) \
                sum[j][m] = _mm512_setzero_ps();                                                   \
            for (uint32_t k1 = k0; k1 < k0 + (chunk); k1 += (step))                                \
                UNROLL for (unsigned j = 0; j < (side); j++)                                       \
                {                                                                                  \
                    const uint32_t k = k1 + j * (chunk);                                           \
                    const uint32_t next = direct_after(d->K, k0, k1, j, chunk, side, step);        \
                                                                                                   \
                    if (k >= d->K)                                                                 \
                        continue;                                                                  \
                    lines.next = d->w + (next < d->K ? (size_t)next * (elem_bytes) : 0);           \
                    block(d, &lines, d->act + act_at(k), m_n, sum[j]);                             \
                }                                                                                  \
            UNROLL for (unsigned j = 0; j < (side); j++) if (k0 + j * (chunk) < d->K)              \
                UNROLL for (unsigned m = 0; m < m_n; m++) acc[m] =                                 \
                    _mm512_add_ps(acc[m], sum[j][m]);                                              \
        }                                                                                          \
        UNROLL for (unsigned m = 0; m < m_n; m++) _mm512_storeu_ps(d->y + m * d->ldy, acc[m]);     \
    }                                                                                              \
    DIRECT_FLOAT_FNS(name, name)
