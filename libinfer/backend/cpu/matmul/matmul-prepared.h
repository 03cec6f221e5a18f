/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes the forms of prepared rows: rows of x in the form that the kernels multiply. */

#include <assert.h>
#include <math.h>

#include "backend/cpu/matmul/matmul.h"
#include "core/half.h"

/* Holds 32 elements of a prepared row: x ≈ d × q. */
struct matmul_q8 {
    int8_t q[32]; /* -127 … 127 */
    float d;
    float s;         /* d × sum of q */
    int32_t nsum[2]; /* minus the sums of q[0 … 15] and q[16 … 31] */
};
static_assert(sizeof(struct matmul_q8) == 48, "layout");

/* Holds 32 elements of a prepared row in F16: x ≈ 128 × d × h. The last block is padded with 0. */
struct matmul_f16 {
    uint16_t h[32]; /* the largest magnitude is in 2^-7 … 2^-6 */
    float d; /* a power of two; 0: the block counts as zero; NaN: the block has NaN or infinity */
};
static_assert(sizeof(struct matmul_f16) == 68, "layout");

/* Holds 32 elements of a prepared row, each as two bfloat16: x ≈ hi + lo. The last block is padded
 * with 0. */
struct matmul_two {
    uint16_t hi[32], lo[32];
};
static_assert(sizeof(struct matmul_two) == 128, "layout");

/* Struct matmul_i16 holds 128 elements of a prepared row: x ≈ d × q. The last block is padded with
 * 0. */
#define MATMUL_BLOCK     128u
#define MATMUL_BLOCK_MAX 4095 /* 128 × 4095² is below 2^31 */
struct matmul_i16 {
    int16_t q[MATMUL_BLOCK]; /* ±MATMUL_BLOCK_MAX */
    float d;
    float none[3];
};
static_assert(sizeof(struct matmul_i16) == 272, "layout");

/* With MATMUL_ACT_APART, elements i and 16 + i of 32 are a pair. Returns the place of element @k.
 */
static inline uint32_t matmul_apart_place(uint32_t k)
{
    return k / 32 * 32 + k % 16 * 2 + k / 16 % 2;
}

/* Returns d of a block whose largest magnitude has the bits @bits. Sets *ret_inverse to the factor
 * by which its elements are multiplied before rounding. If the block has NaN or infinity, returns
 * NaN, and the factor is 0. */
static inline float matmul_block_scale(uint32_t bits, float *ret_inverse)
{
    const float most = half_from_bits_f32(bits);

    *ret_inverse = 0;
    if (bits >= 0x7f800000)
        return NAN;
    /* If the largest magnitude is smaller, the inverse would overflow. */
    if (most < 0x1p-100f)
        return 0;
    *ret_inverse = MATMUL_BLOCK_MAX / most;
    return most / MATMUL_BLOCK_MAX;
}

/* Ends a prepared row of MATMUL_ACT_ROW8, which begins with matmul_row8_bytes() int8 numbers q of
 * -127 … 127: x ≈ d × q. As in transformers (integrations/bitnet.py), d is 1 / 127 of the largest
 * magnitude or of MATMUL_ROW8_MIN, whichever is larger. */
struct matmul_row8 {
    float d;      /* NaN: the row has NaN or infinity */
    int32_t nsum; /* minus the sum of q */
};
#define MATMUL_ROW8_MIN 1e-5f

/* Returns the bytes of the int8 numbers of a row, with the zeros that pad the row. */
static inline size_t matmul_row8_bytes(uint32_t K)
{
    return ALIGN_UP((size_t)K, 64u);
}

/* Returns the bytes of the first @K elements of a prepared row. If @K is less than the whole row,
 * @K must be even and, if rows of @kind consist of blocks, a multiple of the size of a block. */
size_t matmul_act_offset(enum matmul_act kind, uint32_t K);
/* Returns the first of @ops, its base, the base of its base and so on that can prepare @kind, or
 * NULL if none can. */
const struct matmul_ops *matmul_find_preparer(const struct matmul_ops *ops, enum matmul_act kind);
