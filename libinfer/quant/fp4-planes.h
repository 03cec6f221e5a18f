/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares MXFP4 as Hugging Face (gpt-oss) and MLX hold it, with codes and scales in separate
 * arrays.
 *
 * 32 weights of a row are a block, as in MXFP4 of GGUF files (quant/block.h), and have the same
 * values. The codes of a block are 16 bytes: byte i has weight 2i in its lower half and weight
 * 2i + 1 in its upper half. The scales are one byte per block, in the plane WEIGHT_SCALES.
 */

#include <stdint.h>
#include <string.h>

#include "quant/block.h"
#include "quant/planes.h"

typedef uint8_t fp4_half __attribute__((vector_size(8)));
typedef uint8_t fp4_block __attribute__((vector_size(16)));

/* Reorders the codes of a block to those of GGUF files, where byte i has weight i in its lower half
 * and weight i + 16 in its upper half. */
static inline void fp4_planes_codes(const uint8_t codes[16], uint8_t dst[16])
{
    const uint64_t lower = 0x0f0f0f0f0f0f0f0f;
    uint64_t first, last, even, odd;
    fp4_half a, b;

    memcpy(&first, codes, sizeof(first));
    memcpy(&last, codes + 8, sizeof(last));
    even = (first & lower) | (last & lower) << 4;
    odd = (first >> 4 & lower) | (last & ~lower);
    memcpy(&a, &even, sizeof(a));
    memcpy(&b, &odd, sizeof(b));

    const fp4_block y =
        __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);

    memcpy(dst, &y, sizeof(y));
}

/* Joins codes and scales to @n blocks of MXFP4 as GGUF files hold them, at @dst. */
static inline void fp4_planes_join(const uint8_t *codes, const uint8_t *scales, uint64_t n,
                                   uint8_t *dst)
{
    for (uint64_t i = 0; i < n; i++, dst += sizeof(struct block_mxfp4)) {
        dst[0] = scales[i];
        fp4_planes_codes(codes + 16 * i, dst + 1);
    }
}

/* Decodes @n weights, a multiple of 32. */
void fp4_planes_decode(const void *codes, const void *scales, float *dst, uint64_t n);
/* Decodes a row (struct planes_info). */
void fp4_planes_decode_row(const struct plane_row *row, float *dst, uint64_t n);
