/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the kernels of matrix products share
 *
 * One or two prepared rows are multiplied straight from the stored blocks of 8 or 16 rows of W
 * (direct).
 * Otherwise a product is computed in groups of 32 columns of y, that is rows of W. For a group,
 * chunks of K are decoded one after another into a panel that stays in the first-level cache; the
 * panel is then multiplied with all prepared rows, a few at a time, whose sums stay in registers.
 * So stored weights are read once, whatever M is, and nothing is repacked beforehand.
 *
 * The panel holds the weights of the group side by side, for each 4 consecutive k the 4 bytes of
 * column 0, of column 1, …: each lane of a vector belongs to one column, the int8 dot
 * instructions sum 4 k in it, and no sum ever crosses lanes.
 *
 * The float sum of an element is acc = bias; for each scale in the order of k:
 *     acc = fma(float(isum) × scale, d, acc),
 * isum being the exact integer sum of the scale's 16 or 32 products. Formats with offsets have a
 * second sum, off = fma(offset, s, off) from 0, which is added to acc after each chunk of k. For
 * float formats it is a chain of fma over the 128 k of a chunk, added to acc chunk by chunk; with
 * prepared rows of BF16 or F16 over the pairs or the blocks of the 256 k of a chunk.
 */

#include <math.h>

#include "backend/cpu/matmul/matmul.h"
#include "core/half.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define PANEL_N       32u  /* columns */
#define PANEL_K       512u /* elements of a chunk of the quantised formats */
#define PANEL_K_F32   128u /* and of the float formats */
#define PANEL_K_PAIRS 256u /* of BF16 and F16 with prepared rows of the same */

#define MATMUL_DIRECT_M 2u /* prepared rows that are multiplied without a panel */

/* 32 elements of a prepared row: x ≈ d × q. */
struct matmul_q8 {
    int8_t q[32]; /* -127 … 127 */
    float d;
    float s;         /* d × sum of q */
    int32_t nsum[2]; /* minus the sums of q[0 … 15] and q[16 … 31] */
};
static_assert(sizeof(struct matmul_q8) == 48, "layout");

/* 32 elements of a prepared row in F16: x ≈ 128 × d × h, the last block padded with 0. */
struct matmul_f16 {
    uint16_t h[32]; /* the largest is in 2^-7 … 2^-6 */
    float d;        /* a power of two; 0 of a block that counts as zero, NaN of one with NaN */
};
static_assert(sizeof(struct matmul_f16) == 68, "layout");

/* 32 elements of a prepared row in two bfloat16: x ≈ hi + lo, the last block padded with 0. */
struct matmul_two {
    uint16_t hi[32], lo[32];
};
static_assert(sizeof(struct matmul_two) == 128, "layout");

/* 128 elements of a prepared row: x ≈ d × q, the last block padded with 0. */
#define MATMUL_BLOCK     128u
#define MATMUL_BLOCK_MAX 4095 /* 128 × its square is below 2^31 */
struct matmul_i16 {
    int16_t q[MATMUL_BLOCK]; /* ±MATMUL_BLOCK_MAX */
    float d;
    float none[3];
};
static_assert(sizeof(struct matmul_i16) == 272, "layout");

/* The same of PANEL_N packed rows of W. */
struct matmul_blocks {
    int16_t q[MATMUL_BLOCK / 2][PANEL_N][2];
    float d[PANEL_N];
} __attribute__((aligned(64)));

/* d of a block whose largest magnitude has these bits, and what its elements are multiplied with
 * before they are rounded. NaN and 0 of a block with NaN or infinity. */
static inline float matmul_block_scale(uint32_t bits, float *ret_inverse)
{
    const float most = half_from_bits_f32(bits);

    *ret_inverse = 0;
    if (bits >= 0x7f800000)
        return NAN;
    /* Below, the inverse would be none. */
    if (most < 0x1p-100f)
        return 0;
    *ret_inverse = MATMUL_BLOCK_MAX / most;
    return most / MATMUL_BLOCK_MAX;
}

struct matmul_panel {
    union {
        uint8_t q[PANEL_K / 4][PANEL_N][4];
        float f[PANEL_K_F32][PANEL_N];
        uint32_t pairs[PANEL_K_PAIRS / 2][PANEL_N]; /* halves of k and, the higher, k + 1 */
    };
    float scale[PANEL_K / 16][PANEL_N];  /* of each 16 or 32 elements */
    float offset[PANEL_K / 32][PANEL_N]; /* of each 32, added after scaling */
} __attribute__((aligned(64)));

/* A panel times prepared rows. */
struct matmul_tile {
    const struct matmul_panel *panel;
    uint32_t kc;        /* elements of k in the panel */
    const uint8_t *act; /* of row 0, at the panel's first k */
    size_t act_stride;  /* bytes */
    uint32_t M;
    const float *init; /* what the sums start from: init[m × init_stride + n] */
    size_t init_stride;
    float *y; /* where they go: y[m × ldy + n], PANEL_N columns */
    size_t ldy;
    const uint8_t *ahead; /* prefetched meanwhile into the second level: */
    uint32_t ahead_lines; /* so many lines; may be 0 */
};

/* 8 or 16 rows of W times prepared rows. */
struct matmul_direct {
    const uint8_t *w; /* row 0, at k = 0 */
    size_t row_bytes;
    uint32_t K;
    const uint8_t *act;
    size_t act_stride;
    uint32_t M;        /* ≤ MATMUL_DIRECT_M */
    const float *init; /* of each row of W: what the sums start from */
    float *y;
    size_t ldy;
    const uint8_t *ahead; /* as many bytes are prefetched here */
    bool once;            /* past the second level, see prefetch_line() */
};

struct matmul_kernel {
    const char *name;
    /* Fills columns 16 × half … + 15 of the panel with @kc elements of 16 rows of W. @kc is a
     * whole number of blocks; for float formats a multiple of 32. As many lines as are read are
     * prefetched at *@ahead, which moves on. */
    void (*decode)(struct matmul_panel *panel, unsigned half, const uint8_t *w, size_t row_bytes,
                   uint32_t kc, const uint8_t **ahead);
    void (*multiply)(const struct matmul_tile *tile);
    /* Without a panel, for few prepared rows; NULL: there is none. */
    void (*direct)(struct matmul_direct *direct);
    unsigned direct_n; /* rows of W that it takes */
};

struct matmul_ops {
    const char *name;
    unsigned flags;                /* that the CPU must have */
    const struct matmul_ops *base; /* has what is absent here; or NULL */
    void (*prepare_q8)(const float *x, uint32_t K, struct matmul_q8 *dst);
    /* Pads with 0 to a whole number of 32. Not NULL: the BF16 kernel multiplies such rows. */
    void (*prepare_bf16)(const float *x, uint32_t K, uint16_t *dst);
    /* Pads with 0 to whole blocks. Not NULL: the F16 kernel multiplies such rows. */
    void (*prepare_f16)(const float *x, uint32_t K, struct matmul_f16 *dst);
    /* Columns n0 … n1-1 with weights packed for tiles; NULL: there are none. */
    void (*tiles)(const struct matmul_args *args, uint32_t n0, uint32_t n1);
    /* Pads with 0 to whole blocks; with tiles(). */
    void (*prepare_two)(const float *x, uint32_t K, struct matmul_two *dst);
    /* The same with weights in blocks of int16, and rows for them. */
    void (*blocks)(const struct matmul_args *args, uint32_t n0, uint32_t n1);
    void (*prepare_blocks)(const float *x, uint32_t K, struct matmul_i16 *dst);
    struct matmul_kernel kernels[INF_DTYPE_N]; /* decode NULL: the reference */
};

extern const struct matmul_ops matmul_amx;
extern const struct matmul_ops matmul_avx512fp16;
extern const struct matmul_ops matmul_avx512bf16;
extern const struct matmul_ops matmul_avx512;
extern const struct matmul_ops matmul_avxvnni;
extern const struct matmul_ops matmul_avx2;
extern const struct matmul_ops matmul_dotprod;
extern const struct matmul_ops matmul_neon;
extern const struct matmul_ops matmul_ref;

/* matmul-avx512bf16.c: a panel of BF16 is the same for tiles. */
void matmul_decode_bf16_avx512(struct matmul_panel *panel, unsigned half, const uint8_t *w,
                               size_t row_bytes, uint32_t kc, const uint8_t **ahead);

/* matmul-tiles-amx.c */
void matmul_tiles_amx(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_prepare_two_amx(const float *x, uint32_t K, struct matmul_two *dst);

/* matmul-blocks-*.c */
void matmul_blocks_avx512(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_prepare_blocks_avx512(const float *x, uint32_t K, struct matmul_i16 *dst);
void matmul_blocks_avxvnni(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_blocks_avx2(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_prepare_blocks_avx2(const float *x, uint32_t K, struct matmul_i16 *dst);

/* matmul-ref.c: the definition, in doubles. */
void matmul_rows_ref(const struct matmul_args *args, uint32_t n0, uint32_t n1);
