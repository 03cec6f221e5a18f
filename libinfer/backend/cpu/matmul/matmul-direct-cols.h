/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Multiplies VEC_N rows of W by up to DIRECT_M prepared rows, with a row of W in each lane, for
 * matmul-vec.h.
 *
 * The functions do what the decoders of panels and the tiles do, but keep the codes in registers.
 * Rows are loaded 16 bytes at a time and transposed. For formats with few bits this takes less
 * time than sums across lanes (matmul-direct.h), because a transposed vector has the codes of many
 * products. The float arithmetic is that of the tiles, so the sums have the same bits.
 */

/* Describes the codes of a format, as struct tile_kind does (matmul-kernels.h). */
struct cols_kind {
    unsigned steps;  /* number of 4-element units that share a scale: 4 or 8 */
    int32_t zero;    /* weights are q - zero */
    bool is_s8;      /* q is signed */
    unsigned narrow; /* number of units whose pairs of products are added up in 16 bits */
};

/* Holds the sums of VEC_N rows, and the sums of offsets in the current chunk of k. */
struct cols_acc {
    v_flt v[DIRECT_M], offset[DIRECT_M];
};

INLINE void cols_begin(const struct matmul_direct *d, const unsigned m_n, struct cols_acc *acc)
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        acc->v[m] = v_loadf(d->init);
        acc->offset[m] = v_setf(0);
    }
}

/* Adds the sums of offsets to the other sums if a chunk or the row ends right before block @b. */
INLINE void cols_chunk(const struct matmul_direct *d, const unsigned m_n, struct cols_acc *acc,
                       uint32_t b)
{
    if (b * 32 % PANEL_K != 0 && b * 32 < d->K)
        return;
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        acc->v[m] = v_addf(acc->v[m], acc->offset[m]);
        acc->offset[m] = v_setf(0);
    }
}

INLINE void cols_end(const struct matmul_direct *d, const unsigned m_n, const struct cols_acc *acc)
{
    UNROLL for (unsigned m = 0; m < m_n; m++) v_storef(d->y + m * d->ldy, acc->v[m]);
}

INLINE const struct matmul_q8 *cols_x(const struct matmul_direct *d, unsigned m, uint32_t block)
{
    return (const struct matmul_q8 *)(d->act + m * d->act_stride) + block;
}

/* Repeats the 4 bytes at @p in all lanes. The assembly keeps gcc from loading the bytes into a
 * general register, from which each use would need two instructions. */
INLINE v_int cols_bcast(const int8_t *p)
{
    v_int v;

    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*(const int8_t(*)[4])p));
    return v;
}

/* Adds the products of kind.steps units of codes and the numbers at @q to @first. */
INLINE v_int cols_sum(const v_int *w, const int8_t *q, int32_t first, const struct cols_kind kind)
{
    v_int sum = v_set(first), pairs = v_zero();

    UNROLL for (unsigned s = 0; s < kind.steps; s++)
    {
        const v_int x = cols_bcast(q + 4 * s);

        if (kind.is_s8)
            sum = v_dot_s8(sum, w[s], x);
        else if (!VEC_PAIRS)
            sum = v_dot(sum, w[s], x);
        else if (s % kind.narrow == 0)
            pairs = v_pairs(w[s], x);
        else
            pairs = v_add16(pairs, v_pairs(w[s], x));
        if (VEC_PAIRS && !kind.is_s8 && s % kind.narrow == kind.narrow - 1)
            sum = v_widen(sum, pairs);
    }
    return sum;
}

/* Adds the products that share one scale to the sums. They are the products of the 32 numbers of
 * block @b or, if kind.steps is 4, of half @part of this block. x[m] has the numbers of x in the
 * order of the codes. */
INLINE void cols_add(const struct matmul_direct *d, const unsigned m_n, struct cols_acc *acc,
                     uint32_t b, const unsigned part, const int8_t *const x[DIRECT_M],
                     const v_int *w, v_flt scale, const struct cols_kind kind)
{
    UNROLL for (unsigned m = 0; m < m_n; m++)
    {
        const struct matmul_q8 *block = cols_x(d, m, b);
        const int32_t sum = kind.steps == 4 ? block->nsum[part] : block->nsum[0] + block->nsum[1];
        const v_int dot = cols_sum(w, x[m] + 16 * part, sum * kind.zero, kind);

        acc->v[m] = v_fma(v_mulf(v_to_float(dot), scale), v_bcastf(&block->d), acc->v[m]);
    }
}

/* Does the same as cols_add(), but takes the numbers of x in the order of the prepared row. */
INLINE void cols_add_block(const struct matmul_direct *d, const unsigned m_n, struct cols_acc *acc,
                           uint32_t b, const unsigned part, const v_int *w, v_flt scale,
                           const struct cols_kind kind)
{
    const int8_t *x[DIRECT_M];

    UNROLL for (unsigned m = 0; m < m_n; m++) x[m] = cols_x(d, m, b)->q;
    cols_add(d, m_n, acc, b, part, x, w, scale, kind);
}

#define COLS_BLOCKS 8u /* blocks whose scales are converted at once */

/* Converts the 2-byte fields at @p, of up to COLS_BLOCKS blocks of VEC_N rows, to floats. */
INLINE void cols_fields(const uint8_t *p, size_t row_bytes, uint32_t n_blocks,
                        const unsigned block_bytes, float dst[COLS_BLOCKS][VEC_N])
{
    uint16_t bits[COLS_BLOCKS][VEC_N] __attribute__((aligned(64)));

    n_blocks = MIN(n_blocks, COLS_BLOCKS);
    for (uint32_t b = 0; b < n_blocks; b++, p += block_bytes)
        UNROLL for (unsigned i = 0; i < VEC_N; i++) memcpy(&bits[b][i], p + i * row_bytes, 2);
    for (uint32_t b = 0; b < n_blocks; b++)
        v_storef(dst[b], v_from_f16(bits[b]));
}

#include "backend/cpu/matmul/matmul-direct-cols-bits.h"
#include "backend/cpu/matmul/matmul-direct-cols-k.h"
#include "backend/cpu/matmul/matmul-direct-cols-values.h"
