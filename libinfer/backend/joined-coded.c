/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins coded matrices (quant/coded.h) to blocks of GGUF files.
 *
 * An integer code minus its zero is an integer of at most one bit more than the code. So blocks of
 * GGUF files with a scale in binary16 have the values of matrices whose scales are exact in
 * binary16 and whose groups are whole blocks: Q4_0 if the differences are -8 … 7, Q5_0 if they are
 * -16 … 15, and Q8_0 for codes of 8 bits with a zero of 128. No block has the values of other
 * matrices, which become F32.
 */
#include "backend/joined.h"

#include <string.h>

#include "core/half.h"
#include "quant/block.h"
#include "quant/dtype.h"

static enum inf_dtype integer_dtype(const struct coded *c)
{
    const unsigned bits = coded_kind(c->dtype).bits;

    if (bits < 4)
        return INF_DTYPE_Q4_0;
    if (bits == 4)
        return coded_has_zeros(c, 8) ? INF_DTYPE_Q4_0 : INF_DTYPE_Q5_0;
    return coded_has_zeros(c, 128) ? INF_DTYPE_Q8_0 : INF_DTYPE_F32;
}

enum inf_dtype joined_coded_dtype(const struct coded *c)
{
    const bool whole =
        c->cols % BLOCK_ELEMS == 0 && (c->group % BLOCK_ELEMS == 0 || c->group == c->cols);

    if (!coded_kind(c->dtype).has_zero || c->order || !whole || !coded_scales_are_f16(c))
        return INF_DTYPE_F32;
    return integer_dtype(c);
}

/* Writes the codes @q of a block, to which the zero of @dtype was added. */
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
        coded_decode_row(c, n, (float *)(void *)dst);
        return;
    }
    for (uint32_t k = 0; k < c->cols; k += BLOCK_ELEMS, dst += size) {
        const uint32_t g = k / c->group;
        const uint16_t d = f16_from_f32(coded_scale(c, n, g));
        const unsigned add = zero - coded_zero(c, n, g);
        uint8_t q[BLOCK_ELEMS];

        for (uint32_t i = 0; i < BLOCK_ELEMS; i++)
            q[i] = (uint8_t)(coded_code(c, n, k + i) + add);
        memcpy(dst, &d, sizeof(d));
        put_codes(dtype, q, dst + sizeof(d));
    }
}
