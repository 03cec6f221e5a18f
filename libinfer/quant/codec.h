/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the number formats of keys and values.
 *
 * A format defines how one head of one token is stored. The backend decides where the bytes and
 * scales of a block's tokens are placed.
 *
 *   F32, F16, BF16   unchanged
 *   Q8_0             int8 × F16 scale of 32 elements
 *   FP8              E4M3 (4 bits of exponent, 3 of fraction, up to 448) × F16 scale of the head
 *   codes            the head is rotated first; each element is a code of 1 to 6 bits, which stands
 *                    for a level; level × F16 scale of a group of elements (code.h)
 *     Q6_0, Q5_0       64 or 32 levels in equal distances, groups of 64
 *     Q4_0             16 levels, groups of 32
 *     Q3_0, Q2_0       8 or 4 levels, groups of 128
 *     AFFINEn_g        2^n levels in equal distances, groups of g, and an F16 offset for each group
 *     TURBOn           2^n levels, one group; the signs of random elements are changed before the
 *                      head is rotated
 *     TURBOn_QJL       keys only: TURBOn with 2^(n-1) levels, and a bit for each element of what
 *                      the codes left over
 *   rows             the elements of the head are turned in small groups; each element is a code
 *                    of 3 or 4 bits, and each group has an F16 scale (code-rows.h)
 *     PLANARn          pairs, each turned by the best of 16 angles
 *     ISOn             groups of four, multiplied by a fixed quaternion
 *     ROTORn           groups of three, each with a rotation of its own
 *
 * To rotate a head, each run of 2^n of its elements is multiplied by the Hadamard matrix of order
 * 2^n, divided by the square root of 2^n, where 2^n is the largest power of two that divides the
 * head's size. This spreads outliers over all elements. Queries are rotated too, which leaves the
 * products of queries and keys unchanged. Elements of rotated heads are nearly normally
 * distributed. The 16 levels of Q4_0 have the least mean squared error (Lloyd 1957) for 32 normally
 * distributed numbers, if the scale is 1/127 of the largest magnitude of the 32. The levels of
 * Q3_0, Q2_0 and TURBOn have the least error for a normal distribution (Max 1960).
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
    CODEC_Q6_0,
    CODEC_Q5_0,
    CODEC_Q3_0,
    CODEC_Q2_0,
    CODEC_AFFINE4_32,
    CODEC_AFFINE4_64,
    CODEC_AFFINE3_32,
    CODEC_AFFINE3_64,
    CODEC_AFFINE2_32,
    CODEC_AFFINE2_64,
    CODEC_TURBO4,
    CODEC_TURBO3,
    CODEC_TURBO2,
    CODEC_TURBO4_QJL,
    CODEC_TURBO3_QJL,
    CODEC_TURBO2_QJL,
    CODEC_PLANAR4,
    CODEC_PLANAR3,
    CODEC_ISO4,
    CODEC_ISO3,
    CODEC_ROTOR4,
    CODEC_ROTOR3,
    CODEC_N,
};

enum codec_kind {
    CODEC_FLOATS, /* F32, F16, BF16, FP8 */
    CODEC_BYTES,  /* Q8_0 */
    CODEC_CODES,
    CODEC_ROWS,
};

/* How a head is turned before it is stored. */
enum codec_turn {
    CODEC_PLAIN,
    CODEC_ROTATED, /* rotated as described above */
    CODEC_SIGNED,  /* first code_signs() (code.h), then rotated */
};

struct codec_info {
    const char *name; /* "q8_0", as users type it */
    enum codec_kind kind;
    enum codec_turn turn;
    uint32_t head_unit;      /* head sizes must be a multiple of this */
    uint32_t n_bits;         /* per element, without scales; 0: see code_rows_bytes() */
    uint32_t scale_elements; /* elements that share a scale; 0: there are no scales; UINT32_MAX:
                                the whole head */
    const int8_t *levels;    /* of codes: [16], or [2^code_bits()] if that is more; the first
                                2^code_bits() are levels, in ascending order */
    bool offset;             /* of codes: each scale has an offset as well */
    bool residual;           /* of codes: one of the n_bits is that of code_residual() */
};

/* Describes a format; the description is static. */
const struct codec_info *codec_info(enum codec codec);
/* Finds a format by name. Returns false if it is unknown. */
bool codec_find(const char *name, size_t len, enum codec *ret_codec);
/* Returns the number of elements of a head that share a scale; 0: there are no scales. */
uint32_t codec_scale_elements(enum codec codec, uint32_t head_dim);
/* Returns the number of F16 scales, offsets and factors of one head, which do not count as bytes of
 * codec_code_bytes(). */
uint32_t codec_scalars(enum codec codec, uint32_t head_dim);
/* Returns the bytes of one head without its codec_scalars(). For the kind CODEC_ROWS, these are all
 * bytes. */
uint32_t codec_code_bytes(enum codec codec, uint32_t head_dim);
/* Returns the bytes of one head of one token. @head_dim must be a multiple of head_unit. */
uint64_t codec_head_bytes(enum codec codec, uint32_t head_dim);
