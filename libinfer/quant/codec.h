/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the number formats of keys and values.
 *
 * A format defines how one head of one token is stored. The backend decides where the numbers and
 * scales of a block's tokens are placed.
 *
 *   F32, F16, BF16   unchanged
 *   Q8_0             int8 × F16 scale of 32 elements
 *   Q4_0             one of 16 levels × F16 scale of 32 elements; the head is rotated first
 *   Q3_0             one of 8 levels × F16 scale of 128 elements; the head is rotated first
 *   FP8              E4M3 (4 bits of exponent, 3 of fraction, up to 448) × F16 scale of the head
 *
 * To rotate a head, each run of 2^n of its elements is multiplied by the Hadamard matrix of order
 * 2^n, divided by the square root of 2^n, where 2^n is the largest power of two that divides the
 * head's size. This spreads outliers over all elements. Queries are rotated too, which leaves the
 * products of queries and keys unchanged. Elements of rotated heads are nearly normally
 * distributed. The 16 levels have the least mean squared error (Lloyd 1957) for 32 normally
 * distributed numbers, if the scale is 1/127 of the largest magnitude of the 32. The 8 levels of
 * Q3_0 have the least error for a normal distribution (Max 1960), and the scale is fitted to the
 * 128 elements.
 *
 * The 128 codes of Q3_0 that share a scale take 48 bytes. Byte i has the codes of the elements i
 * and 48 + i, each in the lower three bits of one half of the byte. The top bits of the halves hold
 * the codes of the last 32 elements. For i < 16, bit j of the code of element 96 + i is the top bit
 * of the lower half of byte 16 j + i, and bit j of the code of element 112 + i is the top bit of
 * the upper half of this byte.
 */

#include "core/macros.h"

/* Level i is the value of the 4 bits i; numbers are rounded to the nearest level. */
#define CODEC_Q4_LEVELS                                                                            \
    {                                                                                              \
        -123, -97, -77, -60, -45, -32, -19, -6, 6, 19, 32, 45, 60, 77, 97, 123                     \
    }

/* Level i is the value of code i of Q3_0. */
#define CODEC_Q3_LEVELS                                                                            \
    {                                                                                              \
        -127, -79, -45, -14, 14, 45, 79, 127                                                       \
    }
/* Elements of Q3_0 that share a scale, and bytes of their codes. */
#define CODEC_Q3_RUN   128u
#define CODEC_Q3_BYTES 48u

enum codec {
    CODEC_F32,
    CODEC_F16,
    CODEC_BF16,
    CODEC_Q8_0,
    CODEC_Q4_0,
    CODEC_FP8,
    CODEC_Q3_0,
    CODEC_N,
};

struct codec_info {
    const char *name;        /* "q8_0", as users type it */
    uint32_t head_unit;      /* head sizes must be a multiple of this */
    uint32_t n_bits;         /* per element, without scales */
    uint32_t scale_elements; /* elements that share a scale; 0: there are no scales; UINT32_MAX:
                                the whole head */
    bool rotated;            /* heads are rotated before they are stored */
};

/* Describes a format; the description is static. */
const struct codec_info *codec_info(enum codec codec);
/* Finds a format by name. Returns false if it is unknown. */
bool codec_find(const char *name, size_t len, enum codec *ret_codec);
/* Returns the number of elements of a head that share a scale; 0: there are no scales. */
uint32_t codec_scale_elements(enum codec codec, uint32_t head_dim);
/* Returns the bytes of one head of one token. @head_dim must be a multiple of head_unit. */
uint64_t codec_head_bytes(enum codec codec, uint32_t head_dim);
