/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the matrix products of the CPU backend: y = x · Wᵀ + bias.
 *
 * x is M rows of K floats. W is N rows of K weights in one of the formats of model files, and is
 * used in place. A product has two steps. matmul_prepare() converts rows of x to the form that the
 * kernels for the format of W multiply. Matrices with the same input and the same matmul_act_kind()
 * share the prepared rows. matmul_rows() then computes the columns n0 … n1 - 1 of y for all M rows.
 * Both steps may be split among threads in any way: the first step by rows, the second step by
 * columns.
 *
 * Invariance: the bits of y[m][n] depend only on row m of x, row n of W, bias[n] and K, not on M,
 * n0, n1 or threads. Each format defines one order of its float sums, and kernels for one row and
 * for many rows keep it; sums of integers inside a block are exact in any order. All instruction
 * sets except the reference keep this order, and give the same bits if their prepared rows are of
 * the same kind. Only AMX adds products of bfloat16 in another order (matmul-amx.c). The kind can
 * differ: for weights in bfloat16 or binary16, CPUs that can multiply this format round x to it,
 * and other CPUs do not.
 *
 * The functions below do not allocate and cannot fail. Any thread may call them.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "quant/planes.h"

/* n0 and n1 should be multiples of this number. With other values the results are correct, too, but
 * some work is wasted. */
#define MATMUL_N_STEP 32u
/* With packed weights, ranges of rows of x should begin at multiples of this number. */
#define MATMUL_TILE_STEP 32u
/* Alignment of prepared rows. */
#define MATMUL_ALIGN 64u

/* The most columns that a matrix in MXFP4 with planes can have. */
#define MATMUL_PLANES_K 15360u

/* Forms of prepared rows of x. */
enum matmul_act {
    MATMUL_ACT_F32,   /* unchanged floats: for F32, F16, BF16, MXFP8 and FP8 */
    MATMUL_ACT_BF16,  /* rounded to bfloat16: for BF16 on CPUs that multiply it */
    MATMUL_ACT_TWO,   /* each element is a sum of two bfloat16: for F32 packed for tiles */
    MATMUL_ACT_I16,   /* blocks of 128 int16 with a scale: for F16 packed in such blocks */
    MATMUL_ACT_APART, /* the same, with elements in another order: for F16 on CPUs that multiply
                         pairs of int16 twice as fast as floats */
    MATMUL_ACT_F16,   /* blocks of 32 binary16 with a scale: for F16 on CPUs that multiply it */
    MATMUL_ACT_Q8,    /* blocks of 32 int8 with a scale and sums: for all other formats */
    MATMUL_ACT_ROW8,  /* int8 with one scale for the row: for packed ternary weights */
    MATMUL_ACT_N,
};

struct coded;
struct matmul_ops;

struct matmul_args {
    enum inf_dtype dtype; /* format of W */
    const void *w;        /* row 0 of W */
    size_t row_bytes;     /* bytes from one row of W to the next */
    enum matmul_act kind; /* form of the prepared rows, from matmul_act_kind(), or from
                             matmul_packed_kind() if W is packed */
    const void *act;      /* first prepared row */
    size_t act_stride;    /* bytes from one prepared row to the next */
    uint32_t M, K;        /* K: a whole number of blocks of dtype */
    float *y;             /* y[m × ldy + n] */
    size_t ldy;           /* floats */
    const float *bias;    /* per row of W, or NULL */
    bool packed; /* W is packed (matmul_packs()). n0 is then a multiple of MATMUL_N_STEP, and n1 is
                    such a multiple or the number of rows of W. */
    /* Planes of row 0 of W (quant/planes.h), and how scales are stored. Rows of W need not be
     * contiguous (struct weight.row_step). row_bytes is the distance between them. Counted in rows,
     * the distance in the planes is the same. */
    const void *planes[WEIGHT_PLANES];
    enum plane_type plane_type;
    uint32_t group; /* columns of W that share an element of the planes */
    /* The coded matrix (quant/coded.h) that W is a part of; NULL: W has another format. Row 0 of W
     * is row coded_first of this matrix. w and row_bytes are then not used. Prepared rows have the
     * columns of x in the order of this matrix. */
    const struct coded *coded;
    uint32_t coded_first;
    void *work; /* matmul_work_bytes(coded) bytes, aligned to MATMUL_ALIGN. May be NULL; few rows of
                   a matrix that needs such memory are then multiplied more slowly. */
    /* A quarter of the rows of the whole matrix. Only for packed ternary weights (quant/bitnet.h):
     * the rows of W are then numbered as packed rows. Column p is then written to y[m × ldy + p / 4
     * + p % 4 × quarter], and its bias is bias[p / 4 + p % 4 × quarter]. n0 and n1 are multiples
     * of 4. A range that begins at packed row p has w + p × row_bytes, y + p / 4 and bias + p / 4.
     */
    uint32_t quarter;
    const void *next; /* memory that the caller will read next, and that is prefetched; or
                         NULL */
};

/* May be added to the flags for matmul_ops_get(): F16 weights are multiplied as floats where they
 * would be rounded to int16. */
#define MATMUL_FLOATS (1u << 31)

/* Returns the kernels for a CPU with these flags (core/cpu.h). Never returns NULL. */
const struct matmul_ops *matmul_ops_get(unsigned flags);
/* Returns the name of the instruction set, a string constant: "ref", "avx2", … */
const char *matmul_ops_name(const struct matmul_ops *ops);

enum matmul_act matmul_act_kind(const struct matmul_ops *ops, enum inf_dtype dtype);
/* Returns the most columns that a matrix in this format can have. */
uint32_t matmul_most_columns(enum inf_dtype dtype);
/* Returns the bytes of memory that products with few rows of @c, or of a part of it, use besides
 * their arguments: at most MATMUL_WORK_MAX. @c may be NULL. */
#define MATMUL_WORK_MAX (1u << 20)
size_t matmul_work_bytes(const struct coded *c);
/* Returns the bytes of one prepared row of K elements, a multiple of MATMUL_ALIGN. */
size_t matmul_act_bytes(enum matmul_act kind, uint32_t K);

/*
 * Prepares rows row0 … row1-1 of x: row m, at x + m × ldx floats, goes to dst + m ×
 * matmul_act_bytes(kind, K). @dst is aligned to MATMUL_ALIGN. K is a multiple of 32 for
 * MATMUL_ACT_Q8. A row with NaN or infinity gives results that are not finite. For MATMUL_ACT_F32
 * this function only copies, so a caller whose rows of x are floats at a fixed stride may pass
 * these rows as act and act_stride instead.
 */
void matmul_prepare(const struct matmul_ops *ops, enum matmul_act kind, const float *x, size_t ldx,
                    uint32_t K, uint32_t row0, uint32_t row1, void *dst);

/*
 * Returns whether @ops can multiply packed weights of @dtype. Packed weights are a copy in the
 * order in which the kernels for many rows load them. These kernels are several times as fast as
 * the kernels that decode weights. Weights are packed in three ways:
 *
 *     BF16  for tiles (matmul-tiles-amx.c)
 *     F32   for tiles, as two bfloat16, hi + lo
 *     F16   as blocks of int16 (matmul-blocks-simd.h), of nearly the same precision
 *
 * Groups of MATMUL_N_STEP rows are interleaved: the group of rows from n0 on begins at n0 ×
 * matmul_packed_bytes().
 */
bool matmul_packs(const struct matmul_ops *ops, enum inf_dtype dtype);
/* Returns the form of prepared rows for weights packed as @dtype. */
enum matmul_act matmul_packed_kind(enum inf_dtype dtype);
/* Returns the bytes of one packed row of K elements. The last rows of a matrix are padded to a
 * whole group. */
size_t matmul_packed_bytes(enum inf_dtype dtype, uint32_t K);
/* Writes @row, which is row @n of W, to its places in @dst. The caller zeroes @dst before the first
 * row. */
void matmul_pack(enum inf_dtype dtype, const float *row, uint32_t n, uint32_t K, void *dst);

/* Computes the columns n0 … n1-1 of y for all rows. Uses about 48 KiB of stack, and for MXFP4 with
 * planes about 112 KiB. K is at most MATMUL_PLANES_K for MXFP4 with planes. */
void matmul_rows(const struct matmul_ops *ops, const struct matmul_args *args, uint32_t n0,
                 uint32_t n1);
