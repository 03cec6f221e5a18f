/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Gives the integers of a quantized matrix, so that another layout can hold the same numbers.
 *
 * A weight of GPTQ, AWQ, the integers of compressed-tensors, and the affine formats of MLX is
 * scale × code + offset, where a group of columns shares scale and offset. In all but the last of
 * these formats offset is -scale × zero, with an integer zero. A change of the layout without loss
 * keeps codes and scales. It is possible if the new layout has room for them and can hold the
 * offsets exactly.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "graph/weight.h"

struct repack {
    const struct weight *w; /* borrowed */
    unsigned bits;          /* of a code */
    uint32_t group;         /* columns */
};

struct repack_group {
    float scale;
    float offset;  /* in formats that have zeros -scale × zero, rounded to float */
    unsigned zero; /* valid only if `whole` is true */
    bool whole;    /* the offset is exactly -scale × zero, with 0 ≤ zero < 2^bits */
};

/* Prepares a matrix, or matrices of experts. -EOPNOTSUPP: its numbers are not integers with scales,
 * or its columns are in act-order (quant/coded.h); *reterr says which. */
int repack_init(struct repack *r, const struct weight *w, struct inf_err *reterr);
/* Returns scale and offset of group @g of row @row, counted over all experts. */
struct repack_group repack_group(const struct repack *r, uint64_t row, uint32_t g);
/* Writes the codes of a row at the columns @k … @k + @n - 1. */
void repack_codes(const struct repack *r, uint64_t row, uint32_t k, uint32_t n, uint8_t *q);
/* Finds a type for the scales and offsets of an affine format of MLX that holds all of them
 * exactly: the type of the scales if possible, else F32. -EOPNOTSUPP: there is no such type. */
int repack_plane_type(const struct repack *r, enum plane_type *ret, struct inf_err *reterr);
/* Checks that each group of a matrix has an integer zero, and a scale that is exact in F16.
 * -EOPNOTSUPP: a group has no such zero or no such scale; *reterr names the group. */
int repack_check_zeros(const struct repack *r, struct inf_err *reterr);
/* Returns whether all zeros are @zero. */
bool repack_has_zero(const struct repack *r, unsigned zero);
/* Returns whether blocks of a format of GGUF (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0) hold the same
 * numbers. */
bool repack_fits_blocks(const struct repack *r, enum inf_dtype to);
/* Writes a row as blocks of such a format. */
void repack_blocks(const struct repack *r, enum inf_dtype to, uint64_t row, void *out);
