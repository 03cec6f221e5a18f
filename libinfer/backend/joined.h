/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Joins weights with planes (graph/weight.h) to blocks, for devices that copy weights.
 *
 * A block has its codes and its scale side by side. These weights become blocks of GGUF files
 * (quant/block.h) with the same values: MXFP4 with planes becomes MXFP4, and the affine formats of
 * MLX with 2, 3 or 4 bits become Q4_1 and with 5 bits Q5_1, if F16 has the values of all scales and
 * offsets of the matrix. NVFP4 with planes and MXFP8 become BF16, which has their values, except
 * that magnitudes below 2^-126 are rounded. No block has the values of the other affine weights;
 * they become F32. Two formats, which have codes of 2 bits, have a layout of their own:
 *
 *   MLX2 if a multiple of 128 columns is a group, 128 weights, w = d × q + m
 *         │ d │ m │ 8 words: q │   36 bytes
 *   BITNET, 16 weights, w = q - 1   │ word: q │   4
 *
 * d and m are binary16. A word has 16 codes: code 4i + j is in bits 2i and 2i + 1 of byte j. So the
 * bits at one place of its 4 bytes are the codes of 4 neighboring weights. Rows of a ternary matrix
 * lie in their order, and codes behind the last column are 1. The factor of the matrix is not in
 * the blocks.
 */

#include "graph/weight.h"

struct joined {
    enum inf_dtype dtype; /* MLX2 and BITNET stand for the layouts above */
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
/* joined-coded.c: returns the format of the blocks of a coded matrix, and writes row @n of it as
 * such blocks. @dst is aligned to 4 bytes if they are F32. */
enum inf_dtype joined_coded_dtype(const struct coded *c);
void joined_coded_row(const struct coded *c, enum inf_dtype dtype, uint32_t n, uint8_t *dst);
