/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins coded matrices (quant/coded.h) to blocks of GGUF files.
 *
 * An integer code minus its zero is an integer of at most one bit more than the code. If the scales
 * of a matrix are exact in binary16 and its groups are whole blocks, blocks of GGUF files with a
 * scale in binary16 hold its values exactly: Q4_0 if the differences are -8 … 7, Q5_0 if they are
 * -16 … 15, and Q8_0 for codes of 8 bits with a zero of 128. Other matrices get blocks with larger
 * scales (joined.h).
 */
#include "backend/joined.h"

#include <string.h>

#include "core/half.h"
#include "quant/block.h"
#include "quant/dtype.h"

/* Returns the format of the blocks of a matrix of integers whose groups are whole blocks. */
static enum inf_dtype integer_dtype(const struct coded *c)
{
    const unsigned bits = coded_kind(c->dtype).bits;

    if (!coded_scales_are_f16(c))
        return bits > 4 ? INF_DTYPE_MLX8 : INF_DTYPE_MLX4;
    if (bits < 4)
        return INF_DTYPE_Q4_0;
    if (bits == 4)
        return coded_has_zeros(c, 8) ? INF_DTYPE_Q4_0 : INF_DTYPE_Q5_0;
    return coded_has_zeros(c, 128) ? INF_DTYPE_Q8_0 : INF_DTYPE_MLX8;
}

static enum inf_dtype matrix_dtype(const struct coded *c)
{
    const bool whole =
        c->cols % BLOCK_ELEMS == 0 && (c->group % BLOCK_ELEMS == 0 || c->group == c->cols);

    if (c->dtype == INF_DTYPE_NF4 || c->dtype == INF_DTYPE_CTFP4)
        return c->cols % BLOCK_ELEMS == 0 ? INF_DTYPE_NF4 : INF_DTYPE_F32;
    if (!whole)
        return INF_DTYPE_F32;
    return c->dtype == INF_DTYPE_FP8 ? INF_DTYPE_FP8 : integer_dtype(c);
}

enum inf_dtype joined_coded_dtype(const struct coded *c, uint32_t n_matrices)
{
    /* The matrices of a weight can differ in their formats. A format can hold the values of each
     * format of lower rank that can occur in the same weight. */
    static const uint8_t ranks[INF_DTYPE_N] = {
        [INF_DTYPE_Q5_0] = 1, [INF_DTYPE_MLX4] = 2, [INF_DTYPE_MLX8] = 2,
        [INF_DTYPE_FP8] = 2,  [INF_DTYPE_NF4] = 2,  [INF_DTYPE_F32] = 3};
    enum inf_dtype dtype = matrix_dtype(c);

    for (uint32_t i = 1; i < n_matrices; i++) {
        const enum inf_dtype other = matrix_dtype(&c[i]);

        if (other == INF_DTYPE_NF4 && c->table &&
            memcmp(c->table, c[i].table, JOINED_TABLE * sizeof(float)) != 0)
            return INF_DTYPE_F32;
        if (ranks[other] > ranks[dtype])
            dtype = other;
    }
    return dtype;
}

/* Writes the codes @q of a block. They are the codes of the matrix minus its zero, plus the zero of
 * @dtype. */
static void put_codes(enum inf_dtype dtype, const uint8_t q[BLOCK_ELEMS], uint8_t *dst)
{
    uint32_t high = 0;

    if (dtype == INF_DTYPE_Q8_0) {
        for (unsigned i = 0; i < BLOCK_ELEMS; i++)
            dst[i] = q[i] ^ 0x80;
        return;
    }
    if (dtype == INF_DTYPE_Q5_0) {
        for (unsigned i = 0; i < BLOCK_ELEMS; i++)
            high |= (uint32_t)(q[i] >> 4) << i;
        memcpy(dst, &high, sizeof(high));
        dst += sizeof(high);
    }
    for (unsigned i = 0; i < BLOCK_ELEMS / 2; i++)
        dst[i] = (uint8_t)((q[i] & 15) | (q[i + BLOCK_ELEMS / 2] & 15) << 4);
}

void joined_coded_row(const struct coded *c, enum inf_dtype dtype, uint32_t n, uint8_t *dst)
{
    const unsigned size = dtype_info(dtype)->block_bytes;
    const unsigned zero = dtype == INF_DTYPE_Q4_0 ? 8 : dtype == INF_DTYPE_Q5_0 ? 16 : 128;

    if (dtype == INF_DTYPE_F32) {
        coded_decode(c, n, 0, c->cols, (float *)(void *)dst);
        return;
    }
    for (uint32_t k = 0; k < c->cols; k += BLOCK_ELEMS, dst += size) {
        const uint32_t g = k / c->group;
        const uint16_t d = f16_from_f32(coded_scale(c, n, g));
        const unsigned add = zero - coded_zero(c, n, g);
        uint8_t q[BLOCK_ELEMS];

        for (uint32_t i = 0; i < BLOCK_ELEMS; i++)
            q[i] = (uint8_t)(coded_code(c, n, c->order ? c->order[k + i] : k + i) + add);
        memcpy(dst, &d, sizeof(d));
        put_codes(dtype, q, dst + sizeof(d));
    }
}
