/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the interface between matmul.c and the kernels of each instruction set.
 *
 * y, x, W, M, N and K have the same meaning as in matmul.h; k is an index of the dimension K.
 * Prepared rows are rows of x in the form that the kernels multiply. If there are at most
 * four prepared rows, the kernels of most formats multiply these rows directly with the stored
 * blocks of 8 or 16 rows of W (`direct`). Otherwise a product is computed in groups of 32 columns
 * of y, which are 32 rows of W. For each group, chunks of its weights along K are decoded one after
 * another into a panel that stays in the first-level cache. The panel is then multiplied by all
 * prepared rows, a few at a time, so that their sums stay in registers. So stored weights are read
 * once for any M, and nothing is repacked in advance.
 *
 * The panel interleaves the weights of the group: for each 4 consecutive k, the 4 bytes of column
 * 0, of column 1, and so on. Each lane of a vector belongs to one column. The int8 dot instructions
 * add 4 products, with 4 consecutive k, in each lane, and no sum ever crosses lanes.
 *
 * The float sum of an element of y is computed as follows. acc = bias; then, for each scale in the
 * order of k:
 *     acc = fma(float(isum) × scale, d, acc),
 * where isum is the exact integer sum of the scale's 16 or 32 products. Formats with offsets have a
 * second sum, off = fma(offset, s, off) from 0, which is added to acc after each chunk of k. If
 * offsets belong to 16 elements, s is float(nsum[…]) × d, and offset is positive. For float formats
 * the sum of a chunk is a chain of fma over its 128 k, and is then added to acc. With prepared rows
 * of BF16 or F16, a chunk has 256 k, and the chain runs over its pairs of BF16 or its blocks of 32
 * F16. In FP8 and MXFP8, the sum of a chunk becomes fma(psum × 256, scale, sum) for each scale,
 * where psum is a chain of fma over the scale's k, whose weights are divided by 256.
 */

#include "backend/cpu/matmul/matmul-prepared.h"
#include "backend/cpu/matmul/matmul.h"

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define PANEL_N       32u  /* columns of a panel */
#define PANEL_K       512u /* elements per chunk for quantized formats */
#define PANEL_K_F32   128u /* elements per chunk for float formats */
#define PANEL_K_TWO   256u /* for quantized formats whose panels have two digits for an element */
#define PANEL_K_PAIRS 256u /* for BF16 and F16 weights with prepared rows of the same format */

/* Holds 128 elements of each of PANEL_N packed rows of W, rounded as in struct matmul_i16. */
struct matmul_blocks {
    int16_t q[MATMUL_BLOCK / 2][PANEL_N][2];
    float d[PANEL_N];
} __attribute__((aligned(64)));

struct matmul_panel {
    union {
        uint8_t q[PANEL_K / 4][PANEL_N][4];
        float f[PANEL_K_F32][PANEL_N];
        uint32_t pairs[PANEL_K_PAIRS / 2][PANEL_N]; /* lower half: k; higher half: k + 1 */
    };
    float scale[PANEL_K / 16][PANEL_N];  /* per 16 or 32 elements */
    float offset[PANEL_K / 16][PANEL_N]; /* per 16 or 32 elements, added after scaling */
} __attribute__((aligned(64)));

/* Describes the planes (quant/planes.h) of some rows of W, from k = 0 on. */
struct matmul_planes {
    const uint8_t *scales, *offsets; /* of the first row; formats without offsets: NULL */
    size_t row_bytes;                /* from one row to the next, in both planes */
    enum plane_type type;            /* of the elements of both planes */
    uint32_t group;                  /* elements of k that share a scale */
    uint32_t n_rows;
};

/* Describes the multiplication of a panel by prepared rows. */
struct matmul_tile {
    const struct matmul_panel *panel;
    uint32_t kc;        /* elements of k in the panel */
    const uint8_t *act; /* row 0, at the panel's first k */
    size_t act_stride;  /* bytes */
    uint32_t M;
    const float *init; /* initial values of the sums: init[m × init_stride + n] */
    size_t init_stride;
    float *y; /* results: y[m × ldy + n], PANEL_N columns */
    size_t ldy;
    const uint8_t *ahead; /* memory to prefetch into the second level while multiplying */
    uint32_t ahead_lines; /* cache lines of that memory; may be 0 */
};

/* Describes the next place to prefetch in memory that is divided into parts. A little of each part
 * is prefetched in turn (prefetch_move()). */
struct matmul_ahead {
    const uint8_t *at;
    size_t part; /* bytes */
    unsigned n_parts, turn;
};

/* Describes the multiplication of 8 or 16 rows of W by prepared rows, without a panel. */
struct matmul_direct {
    const uint8_t *w; /* row 0, at k = 0 */
    size_t row_bytes;
    uint32_t K;
    const uint8_t *act;
    size_t act_stride;
    uint32_t M;        /* ≤ matmul_kernel.direct_m */
    const float *init; /* per row of W: the initial values of the sums */
    float *y;
    size_t ldy;
    struct matmul_ahead ahead;   /* memory to prefetch, as many bytes as these rows of W have */
    struct matmul_planes planes; /* for formats with planes */
    const struct coded *coded;   /* for coded matrices */
    uint32_t coded_row;          /* the row of the coded matrix that is row 0 */
};

/* Describes how the panels of different formats differ. If steps is 0, the panel has no int8. */
struct tile_kind {
    unsigned steps;    /* number of 4-element units that share a scale: 4 or 8 */
    unsigned zero;     /* weights are q - 2^zero; if zero is 0, they are q */
    unsigned offset;   /* number of units that share an offset: 4 or 8; 0: there are no offsets. The
                          offset is multiplied by the sum of the units' x */
    bool is_s8;        /* q is signed */
    unsigned narrow;   /* units whose pairs of products are added up in 16 bits: 8 if q ≤ 15 */
    unsigned low_bits; /* if not 0: the units that share a scale are followed by as many units with
                          low digits r, and weights are (q - 2^zero) × 2^low_bits + r */
};

struct matmul_kernel {
    /* Fills the columns 16 × half … 16 × half + 15 of the panel with @kc elements of 16 rows of W.
     * @kc is a whole number of blocks; for float formats a multiple of 32. Prefetches half as
     * many bytes at *@ahead as it reads from @w (PANEL_AHEAD()), and advances *@ahead by them. */
    void (*decode)(struct matmul_panel *panel, unsigned half, const uint8_t *w, size_t row_bytes,
                   uint32_t kc, const uint8_t **ahead);
    void (*multiply)(const struct matmul_tile *tile);
    /* Multiplies up to @direct_m prepared rows without a panel; NULL: not supported. */
    void (*direct)(struct matmul_direct *direct);
    unsigned direct_n, direct_m; /* rows of W per call, and the maximum of prepared rows */
    /* For formats with planes: fills the scales and offsets of the columns 16 × half … 16 × half +
     * 15 for the elements @k … @k + @kc - 1. Columns that do not exist get 0. */
    void (*planes)(struct matmul_panel *panel, unsigned half, const struct matmul_planes *planes,
                   uint32_t k, uint32_t kc);
    /* For coded matrices (quant/coded.h): fill() fills all PANEL_N columns of the panel with the
     * elements @k … @k + @kc - 1 of the rows of @c from row @n on. If the groups of the matrix are
     * neither multiples of @group columns nor whole rows, there is no direct(), and multiply_16()
     * is called instead of multiply(). */
    void (*fill)(struct matmul_panel *panel, const struct coded *c, uint32_t n, uint32_t k,
                 uint32_t kc);
    void (*multiply_16)(const struct matmul_tile *tile);
    unsigned group;
    /* Computes columns n0 … of y for up to @few_m prepared rows; returns the first column that it
     * did not compute. NULL: not supported. */
    uint32_t (*few)(const struct matmul_args *args, uint32_t n0, uint32_t n1);
    unsigned few_m;
    const struct tile_kind *kind; /* of the panel; NULL, or steps is 0: the panel has floats */
};

/* Multiplies a multiple of 16 rows by a panel of the kind @kind, with the same bits as multiply()
 * of a kernel with such panels. An offset must belong to as many elements as a scale. May change
 * the int8 of the panel, to which @tile points, too. */
typedef void multiply_many_fn(const struct matmul_tile *tile, struct matmul_panel *panel,
                              const struct tile_kind *kind);

struct matmul_ops {
    const char *name;
    unsigned flags;                /* CPU flags that the kernels need */
    const struct matmul_ops *base; /* has the kernels that are missing here; or NULL */
    void (*prepare_q8)(const float *x, uint32_t K, struct matmul_q8 *dst);
    /* Prepares a row of x for the BF16 kernel, padded with 0 to a multiple of 32. NULL: the base
     * prepares such rows, or no kernel needs them. */
    void (*prepare_bf16)(const float *x, uint32_t K, uint16_t *dst);
    /* Prepares a row of x for the F16 kernel, padded with 0 to whole blocks. NULL: as in
     * prepare_bf16. */
    void (*prepare_f16)(const float *x, uint32_t K, struct matmul_f16 *dst);
    multiply_many_fn *multiply_many; /* NULL: not supported */
    /* Computes the columns n0 … n1-1 with weights packed for tiles; NULL: not supported. */
    void (*tiles)(const struct matmul_args *args, uint32_t n0, uint32_t n1);
    /* Prepares rows for tiles(), padded with 0 to whole blocks; exists if tiles() exists. */
    void (*prepare_two)(const float *x, uint32_t K, struct matmul_two *dst);
    /* These do the same as tiles() and prepare_two(), for weights in int16 blocks. */
    void (*blocks)(const struct matmul_args *args, uint32_t n0, uint32_t n1);
    void (*prepare_blocks)(const float *x, uint32_t K, struct matmul_i16 *dst);
    /* Prepares a row of x for an F16 kernel with int16, which rounds weights. NULL: there is none.
     */
    void (*prepare_apart)(const float *x, uint32_t K, struct matmul_i16 *dst);
    /* Prepares a row of x for packed ternary weights: @q, then *@end. */
    void (*prepare_row8)(const float *x, uint32_t K, int8_t *q, struct matmul_row8 *end);
    /* Multiplies packed ternary weights. This function exists if prepare_row8() exists. */
    void (*bitnet)(const struct matmul_args *args, uint32_t n0, uint32_t n1);
    /* If decode() and fill() of a format are NULL, its kernel is that of the base. If no base has
     * these functions, the reference computes the product. */
    struct matmul_kernel kernels[INF_DTYPE_N];
};

extern const struct matmul_ops matmul_amx;
extern const struct matmul_ops matmul_amxint8;
extern const struct matmul_ops matmul_avx512fp16;
extern const struct matmul_ops matmul_avx512int16bf16, matmul_avx512int16;
extern const struct matmul_ops matmul_avx512bf16;
extern const struct matmul_ops matmul_avx512;
extern const struct matmul_ops matmul_avxvnni, matmul_avx2;
extern const struct matmul_ops matmul_i8mm, matmul_dotprod;
extern const struct matmul_ops matmul_neon;
extern const struct matmul_ops matmul_ref;

/* matmul-avx512bf16.c: decodes BF16 into a panel, also for the kernel with AMX tiles. */
void matmul_decode_bf16_avx512(struct matmul_panel *panel, unsigned half, const uint8_t *w,
                               size_t row_bytes, uint32_t kc, const uint8_t **ahead);

/* matmul-pack.c: returns the first of @ops, its base, the base of its base and so on that
 * multiplies weights packed as @dtype, or NULL if none does. */
const struct matmul_ops *matmul_packer(const struct matmul_ops *ops, enum inf_dtype dtype);

/* matmul-tiles-amx.c */
void matmul_tiles_amx(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_prepare_two_amx(const float *x, uint32_t K, struct matmul_two *dst);

/* matmul-blocks-*.c */
void matmul_blocks_avx512(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_prepare_blocks_avx512(const float *x, uint32_t K, struct matmul_i16 *dst);
void matmul_blocks_avxvnni(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_blocks_avx2(const struct matmul_args *args, uint32_t n0, uint32_t n1);
void matmul_prepare_blocks_avx2(const float *x, uint32_t K, struct matmul_i16 *dst);

/* matmul-coded.c: computes products with coded matrices. @kernel has fill(). */
void matmul_coded(const struct matmul_kernel *kernel, const struct matmul_args *args, uint32_t n0,
                  uint32_t n1);

/* matmul.c: computes the columns n0 … n1 - 1 with kernel->direct, except for a remainder at the
 * end. Returns the first column of the remainder. */
uint32_t matmul_direct(const struct matmul_kernel *kernel, const struct matmul_args *args,
                       uint32_t n0, uint32_t n1);

/* matmul-ref.c: computes products in double precision, as the reference. */
void matmul_rows_ref(const struct matmul_args *args, uint32_t n0, uint32_t n1);
