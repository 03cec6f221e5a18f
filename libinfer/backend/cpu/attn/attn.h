/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the attention kernels, each of which processes one block of the KV store.
 *
 * A row is one query head of one token. A call processes the rows of a tile together: scores()
 * computes q · K, softmax() turns the scores of a row into weights (the online softmax of Milakov
 * and Gimelshein 2018), values() adds weights · V. Each row sees a range of the block's tokens.
 * Tokens outside this range cost almost nothing, and their bits are never used.
 *
 * The table shows how a block stores the K or V of one head. With this layout the lanes of a vector
 * are neighboring tokens (keys) or neighboring elements (values). bt is block_tokens:
 *
 *   format   keys                                       values
 *   F32,F16  [head_dim][bt]                             [bt][head_dim]
 *   BF16     [head_dim / 2][bt][2]                      [bt / 2][head_dim][2]
 *   Q8_0     [head_dim / 4][bt][4], each plus 128;      [bt / 4][head_dim][4];
 *            then F16 scales [head_dim / 32][bt]        then F16 scales [head_dim / 32][bt]
 *   codes    [bytes / 4][bt][4];                        [bt / 4][bytes][4];
 *            then F16 scales [groups][bt],              then F16 scales [groups][bt],
 *            then offsets or factors in the same way    then offsets in the same way
 *   rows     [bt][bytes]                                [bt][bytes]
 *   FP8      [head_dim][bt]; then F16 scales [bt]       [bt][head_dim]; then F16 scales [bt]
 *
 * Codes and rows are those formats of quant/codec.h in which a head has `bytes` bytes besides its
 * scales (codec_code_bytes()). No byte belongs to two tokens.
 *
 * With BF16, queries and weights are rounded to BF16 too. With Q8_0 and codes, queries are blocks
 * of 32 int8 with a float scale. Each weight is multiplied by its token's scale, divided by the
 * largest scale that the row sees in the block, and rounded to 16 bits. The sums over a block are
 * exact integers; offsets are multiplied as floats. Queries for keys in codes are turned as the
 * keys are (attn_turn()). Values in codes are stored turned, so their weighted sums are turned,
 * too, until attn_turn_back() is applied to them. Rows are decoded and multiplied as F32.
 *
 * On CPUs with AMX, the queries and weights for F16 keys and values are sums of two BF16, which
 * have at least 16 significant bits together (attn-split.h).
 *
 * Invariance: the results of a row depend only on its query, its range and the block, not on the
 * other rows.
 */

#include "quant/code.h"

/* Number of partial sums of a row's weights: token t of the row's range is added to sum t %
 * ATTN_LANES. */
#define ATTN_LANES 16u
/* Elements of a Q8_0 block. */
#define ATTN_Q8_BLOCK 32u
/* A Q8_0 block with a smaller scale counts as zero. */
#define ATTN_Q8_TINY CODE_TINY
/* Limits of block_tokens and of head_dim. */
#define ATTN_TOKENS_MAX 256u
#define ATTN_HEAD_MAX   CODE_HEAD_MAX

/* The tokens lo … hi - 1 of a block. A range may be empty. */
struct attn_range {
    uint32_t lo, hi;
};

struct attn_args {
    enum codec codec; /* of the keys or values in `kv` */
    uint32_t n_rows, head_dim;
    uint32_t block_tokens;          /* a multiple of 16 */
    const struct attn_range *range; /* [n_rows]; lo and hi never decrease from row to row */
    const float *q;                 /* [n_rows, head_dim] floats of memory, written by query() */
    const void *kv;                 /* keys of one head for scores(), or its values for values() */
    const void *ahead;              /* memory that is read next and is prefetched; or NULL */
    size_t ahead_bytes;             /* at most as many as `kv` has; a multiple of 256 */
    float *s;                       /* [n_rows, block_tokens]: scores, then weights */
    float *o;                       /* [n_rows, head_dim] */
};

struct attn_fns {
    const char *name;
    unsigned cpu_flags;
    /* The number of rows that should share a call, if there are that many; 0: any number. */
    uint32_t task_rows;
    /* Writes x × scale to @q in the form that scores() for this format reads. @q has room for
     * head_dim floats. */
    void (*query[CODEC_N])(float *q, const float *x, float scale, uint32_t head_dim);
    /* s[row][t] = q[row] · K[t] for the tokens of the row's range. May write s for other tokens,
     * too. */
    void (*scores[CODEC_N])(const struct attn_args *args);
    /* o[row] += sum over the row's range of s[row][t] × V[t]. Afterwards the content of s is
     * undefined. */
    void (*values[CODEC_N])(const struct attn_args *args);
    /* Does one softmax step of a row. s[0 … n-1] (n ≥ 1) holds scores, which become exp(s - max'),
     * where max' is the new maximum. Updates *max and sum[ATTN_LANES]. Returns exp(max - max'), by
     * which earlier results must be multiplied. The caller starts with *max = -INFINITY, sum =
     * {0}. */
    float (*softmax)(float *s, uint32_t n, float *max, float *sum);
    /* o = o × a + p × b */
    void (*merge)(float *o, const float *p, float a, float b, uint32_t n);
    /* Quantizes n elements (a multiple of 32) to int8 with one scale per 32. With @half_scales,
     * scales are rounded to F16 before use. If a block contains NaN or its scale overflows, it gets
     * zeros and the scale NaN. */
    void (*quantise)(int8_t *q, float *scales, const float *x, bool half_scales, uint32_t n);
    /* Rotates and quantizes a head to Q4_0. Scales are rounded to F16 before use. If a block
     * contains NaN or its scale overflows, it gets the scale NaN. */
    void (*quantise_q4)(uint8_t *q, float *scales, const float *x, uint32_t n);
    /* Quantizes a head to FP8 with one scale, which is rounded to F16 before use. If the head
     * contains NaN or its scale overflows, it gets the scale NaN. */
    void (*quantise_fp8)(uint8_t *q, float *scale, const float *x, uint32_t n);
    /* Rotates a head of a multiple of 32 elements, as codec.h defines. The rotation is its own
     * inverse. */
    void (*rotate)(float *x, uint32_t n);
};

/* Sets functions for Q8_0, for codes of rotated heads, of signed heads, with residuals, and for
 * rows. */
#define ATTN_OF_CODES(bytes, rotated, turned, residual, rows)                                      \
    [CODEC_Q8_0] = (bytes), [CODEC_Q4_0] = (rotated),                                              \
    [CODEC_Q6_0... CODEC_AFFINE2_64] = (rotated), [CODEC_TURBO4... CODEC_TURBO2] = (turned),       \
    [CODEC_TURBO4_QJL... CODEC_TURBO2_QJL] = (residual), [CODEC_PLANAR4... CODEC_ROTOR3] = (rows)

extern const struct attn_fns attn_ref, attn_avx2, attn_avx512, attn_avx512bf16, attn_amx, attn_neon,
    attn_dotprod, attn_i8mm;

/* Turns a head of @n elements as heads of the format @codec are turned before they are stored. */
void attn_turn(const struct attn_fns *fns, enum codec codec, float *x, uint32_t n);
/* Does the opposite of attn_turn(). */
void attn_turn_back(const struct attn_fns *fns, enum codec codec, float *x, uint32_t n);
/* Turns and encodes a head as codes (quant/code.h). */
void attn_encode(const struct attn_fns *fns, enum codec codec, uint8_t *bytes, float *scalars,
                 const float *x, uint32_t n);

/* Returns the best table for these CPU flags (core/cpu.h). */
const struct attn_fns *attn_pick(unsigned cpu_flags);
