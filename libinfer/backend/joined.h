/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Joins the planes of weights (graph/weight.h) into blocks, for devices that copy weights.
 *
 * A block has its codes and its scale side by side. Some weights become blocks of GGUF files
 * (quant/block.h) with the same values. MXFP4 with planes becomes MXFP4. If F16 can hold all scales
 * and offsets of the matrix exactly, the affine formats of MLX with 5 bits become Q5_1, and those
 * with fewer bits Q4_1, except for 2 bits in groups that are multiples of 128 columns (MLX2). All
 * other weights have layouts of their own:
 *
 *   MLX2, 128 weights, w = d × q + m
 *         │ d │ m │ 8 words: q │   36 bytes
 *   BITNET, 16 weights, w = q - 1   │ word: q │   4
 *
 * In these two, d and m are binary16. In the next layouts they are floats, and a block has 32
 * weights:
 *
 *   MLX8, w = d × q + m              │ d │ m │ 32 bytes: q │   40
 *   MLX4, w = d × q + m              │ d │ m │ 16 bytes: q │   24
 *   FP8, w = d × v                   │ d │ 32 bytes: v in E4M3 │   36
 *   NF4, w = d[i / 16] × table[q]    │ d[0] │ d[1] │ 16 bytes: q │   24
 *
 * Code i of 4 bits is the lower half of byte i, and code i + 16 the upper half. MLX8 holds codes of
 * 5, 6 and 8 bits with an offset, and MLX4 holds smaller codes. FP8 also holds MXFP8, and NF4 also
 * holds E2M1 in groups of 16. A matrix in NF4 has one table, which is not in the blocks. The offset
 * of a coded matrix (quant/coded.h) is -d × zero, rounded to a float, which changes nothing if d is
 * exact in binary16 or bfloat16. Blocks of a matrix with an order have the codes in the order of
 * places, so rows of x must be brought to this order (graph/params.h, struct turn_params). F32 is
 * used only if the number of columns of a group or of a row is not a multiple of 32, or if experts
 * have different tables.
 *
 * A word of MLX2 and BITNET has 16 codes: code 4i + j is in bits 2i and 2i + 1 of byte j. So the
 * bits at one place of its 4 bytes are the codes of 4 neighboring weights. The rows of a ternary
 * matrix are in their original order. Codes after the last column are 1, which means 0. The factor
 * of the matrix is not in the blocks.
 */

#include "graph/weight.h"

struct joined {
    enum inf_dtype dtype; /* MLX2, MLX4, MLX8, FP8, NF4, BITNET: the layouts above */
    uint64_t row_bytes;
};

/* Describes the blocks of @w. Returns false if @w has no planes. May read all its planes. */
bool joined_layout(const struct weight *w, struct joined *ret);
/* Writes @n rows of @w, which is one matrix, from row @first on to @dst, as blocks of @dtype, which
 * joined_layout() returned. @dst is aligned to 4 bytes. */
void joined_rows(const struct weight *w, enum inf_dtype dtype, uint32_t first, uint32_t n,
                 uint8_t *dst);
/* Returns the bytes that a device needs for @w with all experts: those of its blocks if it has
 * planes, else weight_bytes(). */
uint64_t joined_bytes(const struct weight *w);
/* Returns the number by which products with the blocks of @w must be multiplied. */
float joined_factor(const struct weight *w);
/* Floats of the table of NF4. */
#define JOINED_TABLE 16u
/* Returns the table of a weight that becomes NF4. */
const float *joined_table(const struct weight *w);
/* Returns whether one kernel can read both weights: they have the same table, or need none. */
bool joined_same_table(const struct weight *a, const struct weight *b);
/* joined-coded.c: joined_coded_dtype() returns the format of the blocks of one coded matrix, or of
 * the coded matrices of all experts. joined_coded_row() writes row @n of a matrix as such blocks,
 * if they are blocks of GGUF files or F32. @dst is aligned to 4 bytes for F32. */
enum inf_dtype joined_coded_dtype(const struct coded *c, uint32_t n_matrices);
void joined_coded_row(const struct coded *c, enum inf_dtype dtype, uint32_t n, uint8_t *dst);
/* joined-wide.c: joined_wide_bytes() returns the bytes of a block whose scales are floats, or 0 for
 * other formats. joined_wide_row() writes row @i of @w, which is one matrix, as such blocks. */
uint32_t joined_wide_bytes(enum inf_dtype dtype);
void joined_wide_row(const struct weight *w, enum inf_dtype dtype, uint32_t i, uint8_t *dst);
