/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines the block layouts of the stored formats, little-endian, as GGUF files hold them.
 *
 * d, m: binary16. w: the weight. q: an unsigned integer of the format's width.
 *
 *   Q8_0  32 weights, w = d × q (q signed)      │ d │ q0 … q31                     │  34 bytes
 *   Q4_0  32 weights, w = d × (q - 8)           │ d │ 16 nibble pairs              │  18
 *   Q4_1  32 weights, w = d × q + m             │ d │ m │ 16 nibble pairs          │  20
 *   Q5_0  32 weights, w = d × (q - 16)          │ d │ 32 high bits │ 16 pairs      │  22
 *   Q5_1  32 weights, w = d × q + m             │ d │ m │ 32 high bits │ 16 pairs  │  24
 *     A nibble pair i holds q[i] (low) and q[i + 16] (high); high bit i belongs to q[i].
 *
 *   Q4_K  256 weights in 8 groups of 32, w = d × sc[g] × q - dmin × mn[g]            144
 *         │ d │ dmin │ 12 bytes: sc[8], mn[8] of 6 bits │ 128 nibble pairs │
 *   Q5_K  as Q4_K, but q has 5 bits                                                  176
 *         │ d │ dmin │ sc, mn │ 32 bytes of high bits │ 128 nibble pairs │
 *     Byte i of pairs 32c … 32c+31 holds q of group 2c (low) and 2c + 1 (high).
 *     Bit g of high byte i belongs to element i of group g.
 *     The low 6 bits of bytes 0–3 are sc[0–3], and those of bytes 4–7 are mn[0–3]. Bytes 8–11
 *     hold the low 4 bits of sc[4–7] (low) and of mn[4–7] (high). The top 2 bits of sc[4–7] are
 *     bits 6–7 of bytes 0–3, and the top 2 bits of mn[4–7] are bits 6–7 of bytes 4–7.
 *
 *   Q6_K  256 weights in 16 groups of 16, w = d × sc[g] × (q - 32), sc signed 8 bits  210
 *         │ 128 bytes: low 4 bits │ 64 bytes: high 2 bits │ sc[16] │ d │
 *     Each half h of 128 weights uses bytes 64h … of the first and 32h … of the second part:
 *       weight l      low nibble  of byte l       bits 0–1 of high byte l       l = 0 … 31
 *       weight l + 32 low nibble  of byte l + 32  bits 2–3
 *       weight l + 64 high nibble of byte l       bits 4–5
 *       weight l + 96 high nibble of byte l + 32  bits 6–7
 *
 *   MXFP4  32 weights, w = 2^(e - 127) × v / 2   │ e │ 16 nibble pairs             │  17
 *     e: 8 bits. v: the value in BLOCK_FP4_VALUES of the 4 bits q.
 *
 *   TQ2_0  256 weights, w = d × (q - 1), q = 0, 1 or 2   │ 64 bytes: q │ d │          66
 *     Bits 2g, 2g + 1 of byte 32h + i hold q of element i of group 4h + g, which has 32 weights.
 *
 *   TQ1_0  256 weights, w = d × (q - 1), q = 0, 1 or 2   │ 52 bytes: q │ d │          54
 *     A byte is ceil(256 × t / 243), where t has 5 digits q to the base 3. Digit n (0 is the
 *     highest) of byte i belongs to weight 32n + i for i < 32, to weight 160 + 16n + (i - 32) for
 *     i < 48, and for n < 4 to weight 240 + 4n + (i - 48) for the last 4 bytes.
 *
 *   Q2_K  256 weights in 16 groups of 16, w = d × sc[g] × q - dmin × mn[g]            84
 *         │ 16 bytes: sc[g] (low nibble), mn[g] (high) │ 64 bytes: q │ d │ dmin │
 *   Q3_K  256 weights in 16 groups of 16, w = d × (sc[g] - 32) × (q - 4)             110
 *         │ 32 bytes: high bits │ 64 bytes: low 2 bits │ 12 bytes: sc[16] │ d │
 *     The 2 bits of both formats lie as in TQ2_0. Bit r of high byte i belongs to element i of run
 *     r, which has 32 weights. The low 4 bits of sc[g] are the low nibble of byte g for g < 8,
 *     and the high nibble of byte g - 8 for the others. Bits 2(g / 4), 2(g / 4) + 1 of byte 8 +
 *     g % 4 are the top 2 bits of sc[g].
 *
 *   IQ4_NL  32 weights, w = d × v                 │ d │ 16 nibble pairs               18
 *   IQ4_XS  256 weights in 8 groups of 32, w = d × (sc[g] - 32) × v                  136
 *         │ d │ high 2 bits of sc[8] │ 4 bytes: low 4 bits │ 8 × 16 nibble pairs │
 *     v: the value in BLOCK_IQ4_VALUES of the 4 bits q. Field g of each part belongs to sc[g].
 *
 *   NVFP4  64 weights in 4 groups of 16, w = s × v / 2   │ e[4] │ 32 bytes: q │        36
 *     s: E4M3 of e[g] without its highest bit; s = 0 if e[g] = 127. v: the value in
 *     BLOCK_FP4_VALUES of q. Byte 8g + i holds q of elements i (low) and i + 8 (high) of group g.
 *
 *   Q1_0  128 weights, w = d or -d                │ d │ 128 bits: 1 for d │           18
 *   Q2_0  64 weights, w = d × (q - 1)             │ d │ 16 bytes: 4 q each │          18
 *     The first weight of a byte is in its lowest bits.
 */

#include <assert.h>
#include <stdint.h>

#include "quant/block-values.h"

#define BLOCK_ELEMS 32u  /* elements of a block in most formats without groups */
#define SUPER_ELEMS 256u /* elements of a super-block: formats K, TQ, IQ1, IQ2, IQ3 and IQ4_XS */

struct block_q8_0 {
    uint16_t d;
    int8_t q[32];
};

struct block_q4_0 {
    uint16_t d;
    uint8_t q[16];
};

struct block_q4_1 {
    uint16_t d, m;
    uint8_t q[16];
};

struct block_q5_0 {
    uint16_t d;
    uint8_t high[4];
    uint8_t q[16];
};

struct block_q5_1 {
    uint16_t d, m;
    uint8_t high[4];
    uint8_t q[16];
};

struct block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t q[128];
};

struct block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t high[32];
    uint8_t q[128];
};

struct block_q6_k {
    uint8_t q[128];
    uint8_t high[64];
    int8_t scales[16];
    uint16_t d;
};

struct block_mxfp4 {
    uint8_t e;
    uint8_t q[16];
};

struct block_tq2_0 {
    uint8_t q[64];
    uint16_t d;
};

struct block_tq1_0 {
    uint8_t q[52];
    uint16_t d;
};

struct block_q2_k {
    uint8_t scales[16];
    uint8_t q[64];
    uint16_t d, dmin;
};

struct block_q3_k {
    uint8_t high[32];
    uint8_t q[64];
    uint8_t scales[12];
    uint16_t d;
};

struct block_iq4_nl {
    uint16_t d;
    uint8_t q[16];
};

struct block_iq4_xs {
    uint16_t d, high;
    uint8_t low[4];
    uint8_t q[128];
};

#define BLOCK_NVFP4_ELEMS 64u
struct block_nvfp4 {
    uint8_t e[4];
    uint8_t q[32];
};

#define BLOCK_Q1_0_ELEMS 128u
struct block_q1_0 {
    uint16_t d;
    uint8_t q[16];
};

#define BLOCK_Q2_0_ELEMS 64u
struct block_q2_0 {
    uint16_t d;
    uint8_t q[16];
};

static_assert(sizeof(struct block_q8_0) == 34, "layout");
static_assert(sizeof(struct block_q4_0) == 18, "layout");
static_assert(sizeof(struct block_q4_1) == 20, "layout");
static_assert(sizeof(struct block_q5_0) == 22, "layout");
static_assert(sizeof(struct block_q5_1) == 24, "layout");
static_assert(sizeof(struct block_q4_k) == 144, "layout");
static_assert(sizeof(struct block_q5_k) == 176, "layout");
static_assert(sizeof(struct block_q6_k) == 210, "layout");
static_assert(sizeof(struct block_mxfp4) == 17, "layout");
static_assert(sizeof(struct block_tq2_0) == 66, "layout");
static_assert(sizeof(struct block_tq1_0) == 54, "layout");
static_assert(sizeof(struct block_q2_k) == 84, "layout");
static_assert(sizeof(struct block_q3_k) == 110, "layout");
static_assert(sizeof(struct block_iq4_nl) == 18, "layout");
static_assert(sizeof(struct block_iq4_xs) == 136, "layout");
static_assert(sizeof(struct block_nvfp4) == 36, "layout");
static_assert(sizeof(struct block_q1_0) == 18, "layout");
static_assert(sizeof(struct block_q2_0) == 18, "layout");

/* Returns the byte of TQ1_0 that holds weight @l (0 … 255), and its digit. */
static inline unsigned block_tq1_0_place(unsigned l, unsigned *ret_digit)
{
    const unsigned width = l < 160 ? 32 : l < 240 ? 16 : 4;
    const unsigned begin = l < 160 ? 0 : l < 240 ? 160 : 240;
    const unsigned at = l < 160 ? 0 : l < 240 ? 32 : 48;

    *ret_digit = (l - begin) / width;
    return at + (l - begin) % width;
}

/* Unpacks the 6-bit scale and minimum of group @g (0 … 7) of Q4_K and Q5_K. */
static inline void block_k_scale(const uint8_t scales[12], unsigned g, uint8_t *ret_sc,
                                 uint8_t *ret_mn)
{
    if (g < 4) {
        *ret_sc = scales[g] & 63;
        *ret_mn = scales[g + 4] & 63;
    } else {
        *ret_sc = (uint8_t)((scales[g + 4] & 15) | (scales[g - 4] >> 6) << 4);
        *ret_mn = (uint8_t)((scales[g + 4] >> 4) | (scales[g] >> 6) << 4);
    }
}

static inline void block_k_set_scale(uint8_t scales[12], unsigned g, uint8_t sc, uint8_t mn)
{
    if (g < 4) {
        scales[g] = (uint8_t)((scales[g] & 0xc0) | sc);
        scales[g + 4] = (uint8_t)((scales[g + 4] & 0xc0) | mn);
    } else {
        scales[g + 4] = (uint8_t)((sc & 15) | (mn & 15) << 4);
        scales[g - 4] = (uint8_t)((scales[g - 4] & 63) | (sc >> 4) << 6);
        scales[g] = (uint8_t)((scales[g] & 63) | (mn >> 4) << 6);
    }
}

/* block-*.c: functions for the table in dtype.c. */
#define BLOCK_DECLARE(stem)                                                                        \
    void decode_##stem(const void *src, float *dst, uint64_t n_elems);                             \
    void encode_##stem(const float *src, void *dst, uint64_t n_elems)

BLOCK_DECLARE(f32);
BLOCK_DECLARE(f16);
BLOCK_DECLARE(bf16);
BLOCK_DECLARE(q8_0);
BLOCK_DECLARE(q4_0);
BLOCK_DECLARE(q4_1);
BLOCK_DECLARE(q5_0);
BLOCK_DECLARE(q5_1);
BLOCK_DECLARE(q4_k);
BLOCK_DECLARE(q5_k);
BLOCK_DECLARE(q6_k);
BLOCK_DECLARE(mxfp4);
BLOCK_DECLARE(tq2_0);
BLOCK_DECLARE(tq1_0);
BLOCK_DECLARE(q2_k);
BLOCK_DECLARE(q3_k);
BLOCK_DECLARE(iq4_nl);
BLOCK_DECLARE(iq4_xs);
BLOCK_DECLARE(nvfp4);
BLOCK_DECLARE(q1_0);
BLOCK_DECLARE(q2_0);

/* The same for formats that use importance (encode_by of struct dtype_info); @importance may be
 * NULL. */
#define BLOCK_DECLARE_BY(stem)                                                                     \
    void encode_##stem##_by(const float *src, const float *importance, void *dst, uint64_t n_elems)

BLOCK_DECLARE_BY(q4_0);
BLOCK_DECLARE_BY(q4_1);
BLOCK_DECLARE_BY(q5_0);
BLOCK_DECLARE_BY(q5_1);
BLOCK_DECLARE_BY(q4_k);
BLOCK_DECLARE_BY(q5_k);
BLOCK_DECLARE_BY(q6_k);
BLOCK_DECLARE_BY(q2_k);
BLOCK_DECLARE_BY(q3_k);
BLOCK_DECLARE_BY(iq4_nl);
BLOCK_DECLARE_BY(iq4_xs);
