/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines the block layouts of the formats IQ1, IQ2 and IQ3, little-endian, as GGUF files hold
 * them.
 *
 * A block has 256 weights in 8 groups of 32. The magnitudes of 8 weights (IQ1 and IQ2) or of 4
 * weights (IQ3) are a point of a grid (quant/grid.h), and the block stores the index of the point.
 * d: binary16. w: the weight. v: the coordinate of the point with the sign of the weight. A word is
 * a number of 16 bits.
 *
 *   IQ2_XXS  w = d × (2 s + 1) / 8 × v                        │ d │ 8 groups of 8 bytes │  66 bytes
 *     A group: │ 4 indices of 8 bits │ 32 bits: 4 × 7 signs, s (4 bits) │
 *   IQ2_XS   w = d × (2 s + 1) / 8 × v      │ d │ 32 words │ 8 bytes: scales │            74
 *     A word: index (9 bits), 7 signs. The low 4 bits of byte g of the scales are s of the first 16
 *     weights of group g, and the high 4 bits are s of the other 16.
 *   IQ2_S    w = d × (2 s + 1) / 8 × v                                                    82
 *     │ d │ 32 bytes: low 8 bits of indices │ 32 bytes: signs │ 8 bytes: high bits │ scales │
 *     Bits 2l and 2l + 1 of high byte g belong to index l (0 … 3) of group g. Scales: as IQ2_XS.
 *   IQ3_XXS  w = d × (2 s + 1) / 4 × v                                                    98
 *     │ d │ 64 indices of 8 bits │ 8 × 32 bits: 4 × 7 signs, s (4 bits) │
 *   IQ3_S    w = d × (2 s + 1) × v                                                       110
 *     │ d │ 64 bytes: low 8 bits of indices │ 8 bytes: high bits │ 32 bytes: signs │ 4 bytes: s │
 *     Bit l of high byte g belongs to index l (0 … 7) of group g. The low 4 bits of byte i of the
 *     scales are s of group 2i, and the high 4 bits are s of group 2i + 1.
 *   IQ1_S    w = d × (2 s + 1) × (v ± 1/8), v = -1, 0, 1                                  50
 *     │ d │ 32 bytes: low 8 bits of indices │ 8 words, one for each group │
 *     A word: the high 3 bits of 4 indices, s (3 bits), 1 bit: 1/8 is subtracted instead of added.
 *   IQ1_M    w = d × (2 s + 1) × (v ± 1/8), v = -1, 0, 1                                  56
 *     │ 32 bytes: low 8 bits of indices │ 16 bytes: 32 × 4 bits │ 4 words │
 *     The low half of byte i belongs to index 2i, and the high half to index 2i + 1. The low 3 bits
 *     of a half are the high 3 bits of the index, and its top bit is the sign of 1/8 as in IQ1_S.
 *     Bits 3i … 3i + 2 of word j are s of the weights from 64j + 16i on, i = 0 … 3. The top 4 bits
 *     of the words together are d; the first word has the lowest bits of d.
 *
 *   Signs: bit i is set if weight i of 8 is negative. Where only 7 signs are stored, the sign of
 *   the last weight is chosen such that the number of negative weights is even.
 */

#include "quant/block.h"

struct block_iq2_xxs {
    uint16_t d;
    uint8_t groups[8][8];
};

struct block_iq2_xs {
    uint16_t d;
    uint16_t q[32];
    uint8_t scales[8];
};

struct block_iq2_s {
    uint16_t d;
    uint8_t q[32];
    uint8_t signs[32];
    uint8_t high[8];
    uint8_t scales[8];
};

struct block_iq3_xxs {
    uint16_t d;
    uint8_t q[64];
    uint8_t signs[8][4];
};

struct block_iq3_s {
    uint16_t d;
    uint8_t q[64];
    uint8_t high[8];
    uint8_t signs[32];
    uint8_t scales[4];
};

struct block_iq1_s {
    uint16_t d;
    uint8_t q[32];
    uint16_t high[8];
};

struct block_iq1_m {
    uint8_t q[32];
    uint8_t high[16];
    uint16_t scales[4];
};

static_assert(sizeof(struct block_iq2_xxs) == 66, "layout");
static_assert(sizeof(struct block_iq2_xs) == 74, "layout");
static_assert(sizeof(struct block_iq2_s) == 82, "layout");
static_assert(sizeof(struct block_iq3_xxs) == 98, "layout");
static_assert(sizeof(struct block_iq3_s) == 110, "layout");
static_assert(sizeof(struct block_iq1_s) == 50, "layout");
static_assert(sizeof(struct block_iq1_m) == 56, "layout");

/* Returns 8 signs: the 7 signs @seven, and an eighth that makes the number of negative weights
 * even. */
static inline uint8_t block_iq_signs(unsigned seven)
{
    return (uint8_t)(seven | (unsigned)__builtin_parity(seven) << 7);
}

/* Returns d of a block of IQ1_M as the bits of a binary16. */
static inline uint16_t block_iq1_m_d(const uint16_t scales[4])
{
    return (uint16_t)(scales[0] >> 12 | (scales[1] >> 12) << 4 | (scales[2] >> 12) << 8 |
                      (scales[3] >> 12) << 12);
}

/* block-iq-decode.c and block-iq-encode.c: functions for the table in dtype.c. */
BLOCK_DECLARE(iq2_xxs);
BLOCK_DECLARE(iq2_xs);
BLOCK_DECLARE(iq2_s);
BLOCK_DECLARE(iq3_xxs);
BLOCK_DECLARE(iq3_s);
BLOCK_DECLARE(iq1_s);
BLOCK_DECLARE(iq1_m);
BLOCK_DECLARE_BY(iq2_xxs);
BLOCK_DECLARE_BY(iq2_xs);
BLOCK_DECLARE_BY(iq2_s);
BLOCK_DECLARE_BY(iq3_xxs);
BLOCK_DECLARE_BY(iq3_s);
BLOCK_DECLARE_BY(iq1_s);
BLOCK_DECLARE_BY(iq1_m);
