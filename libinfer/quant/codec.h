/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Number formats of keys and values
 *
 * What one head of one token is kept as. Where the numbers and scales of a block's tokens lie is
 * the backend's business.
 *
 *   F32, F16, BF16   as they are
 *   Q8_0             int8 × F16 scale of 32 elements
 *   Q4_0             one of 16 levels × F16 scale of 32 elements, of the rotated head
 *   FP8              E4M3 (4 bits of exponent, 3 of fraction, up to 448) × F16 scale of the head
 *
 * Rotated: the run of 2^n elements is multiplied by the Hadamard matrix of order 2^n over the root
 * of 2^n, where 2^n is the largest power of two that divides the head's size, run by run. What one
 * element has too much is then shared by all, and queries that are rotated too have the same
 * products. Elements of rotated heads are nearly normal, whatever they were: the levels are those
 * with the least mean squared error (Lloyd 1957) for 32 normal numbers over their largest
 * magnitude, which is 127 scales.
 */

#include "core/macros.h"

/* Level i is what 4 bits i stand for; a number is rounded to the nearest. */
#define CODEC_Q4_LEVELS                                                                            \
    {                                                                                              \
        -123, -97, -77, -60, -45, -32, -19, -6, 6, 19, 32, 45, 60, 77, 97, 123                     \
    }

enum codec {
    CODEC_F32,
    CODEC_F16,
    CODEC_BF16,
    CODEC_Q8_0,
    CODEC_Q4_0,
    CODEC_FP8,
    CODEC_N,
};

struct codec_info {
    const char *name;        /* "q8_0", as people type it */
    uint32_t head_unit;      /* head sizes must be a multiple of it */
    uint32_t n_bits;         /* of an element, without scales */
    uint32_t scale_elements; /* that share a scale; 0: there are none; UINT32_MAX: a head's */
};

/* Static. */
const struct codec_info *codec_info(enum codec codec);
/* Finds by name; false if unknown. */
bool codec_find(const char *name, size_t len, enum codec *ret_codec);
/* Elements in a head that share a scale; 0: none do. */
uint32_t codec_scale_elements(enum codec codec, uint32_t head_dim);
/* Bytes of one head of one token, which has a multiple of head_unit elements. */
uint64_t codec_head_bytes(enum codec codec, uint32_t head_dim);
