/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the number formats of MLX (mlx 0.32, ops.quantize), whose scales are planes.
 *
 * MLX stores codes of 2, 3, 4, 5, 6 or 8 bits in words of 32 bits (tensor X.weight). The first code
 * is in the lowest bits, and there are no gaps. Because words are little-endian, a row is a stream
 * of bits: code i of b bits is in the bits b × i … b × i + b - 1, and bit n is bit n mod 8 of byte
 * n / 8.
 *
 *   bits of 4 bytes       7 … 0        15 … 8       23 … 16      31 … 24
 *     2 bits           │3│2│1│0│    │7│6│5│4│ …
 *     3                │2.│1│0│      │5.│4│3│.2│   │7│6│.5│                8 codes in 3 bytes
 *     4                │ 1 │ 0 │    │ 3 │ 2 │ …
 *     5                │1.│ 0 │      │3.│ 2 │.1│ …                         8 codes in 5 bytes
 *     6                │1.│ 0 │      │ 2. │.1 │    │ 3 │.2│                4 codes in 3 bytes
 *     8                │   0   │    │   1   │ …
 *
 * In the affine formats a weight is scale × q + offset with an unsigned code q. A group of 32, 64
 * or 128 columns of a row shares a scale and an offset (X.scales, X.biases: rows × cols / group
 * numbers in F16, BF16 or F32). The value is defined here as the product in float32 and then the
 * sum in float32, each rounded to nearest. With scales in F16 or BF16 the product is exact. mlx
 * computes both in the type of the scales; it gets the values of this definition if scales and
 * offsets are first converted to float32.
 *
 * MXFP8 has a byte in E4M3 for each weight, and a scale in E8M0 for 32 weights. NVFP4 has a code of
 * 4 bits in E2M1 (block.h) for each weight, and a scale in E4M3, with its sign, for 16 weights. A
 * weight is the value of its code times the scale. MXFP4 of MLX is the format of fp4-planes.h.
 */

#include <infer/types.h>

#include "quant/planes.h"

/* Returns code @i of a stream of codes of @bits. Reads only bytes that have bits of the code. */
static inline unsigned affine_code(const uint8_t *codes, unsigned bits, uint64_t i)
{
    const uint64_t at = i * bits / 8;
    const unsigned shift = (unsigned)(i * bits % 8);
    unsigned word = codes[at];

    if (shift + bits > 8)
        word |= (unsigned)codes[at + 1] << 8;
    return word >> shift & ((1u << bits) - 1);
}

/* Writes @n codes, a multiple of 8, of at most 8 bits each as a stream. */
void affine_pack(const uint8_t *q, unsigned n, unsigned bits, uint8_t *out);

/* Decode a row (struct planes_info): with codes of 2, 3, 4, 5, 6 and 8 bits. */
void affine_decode_2(const struct plane_row *row, float *dst, uint64_t n);
void affine_decode_3(const struct plane_row *row, float *dst, uint64_t n);
void affine_decode_4(const struct plane_row *row, float *dst, uint64_t n);
void affine_decode_5(const struct plane_row *row, float *dst, uint64_t n);
void affine_decode_6(const struct plane_row *row, float *dst, uint64_t n);
void affine_decode_8(const struct plane_row *row, float *dst, uint64_t n);

/* Decode rows of MXFP8 and NVFP4. */
void mxfp8_decode(const struct plane_row *row, float *dst, uint64_t n);
void nvfp4_planes_decode(const struct plane_row *row, float *dst, uint64_t n);

/* The places to which the parts of an encoded row are written. The scales of NVFP4 and MXFP8 are
 * bytes. */
struct plane_out {
    uint8_t *codes;        /* the bytes of a row of codes */
    uint8_t *scales;       /* one element for each group */
    uint8_t *offsets;      /* the same; NULL: the format is not affine */
    uint32_t group;        /* columns */
    enum plane_type type;  /* of scales and offsets in affine formats */
    enum plane_type given; /* PLANE_F32, F16 or BF16: the type from which the numbers come */
};

/* Encodes a row of @n numbers, whole groups, to the bytes that mlx.core.quantize() of mlx 0.32
 * writes for a matrix of the type @out->given. @dtype is a format of MLX: an affine format,
 * FP4_PLANES (MXFP4), MXFP8 or NVFP4_PLANES. Numbers must be finite. */
void mlx_encode_row(enum inf_dtype dtype, const float *x, uint64_t n, const struct plane_out *out);
