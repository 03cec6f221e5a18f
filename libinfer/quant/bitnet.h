/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the packed ternary format in which Hugging Face holds BitNet b1.58.
 *
 * A matrix of N × K weights is N / 4 stored rows of K bytes (transformers, integrations/bitnet.py).
 * The weight of row r + t × N / 4 and column c is (q - 1) × factor, where q = 0, 1 or 2 is in bits
 * 2t, 2t + 1 of byte c of stored row r. So four rows that are far apart share their bytes. They are
 * also called packed rows: row r + t × N / 4 is packed row 4r + t. Packed rows are numbered in the
 * order of the memory, and packed rows 4r … 4r + 3 share the K bytes from byte r × K on.
 *
 * The factor belongs to the whole matrix. It is the number in the tensor weight_scale if
 * quantization_config.linear_class is "autobitlinear", and otherwise 1 divided by this number.
 * struct weight (graph/weight.h) has the factor as a float in the plane WEIGHT_SCALES.
 */

#include "quant/planes.h"

/* Returns the row of a matrix of @rows rows, a multiple of 4, that is packed row @p. */
static inline uint32_t bitnet_row(uint32_t p, uint32_t rows)
{
    return p / 4 + p % 4 * (rows / 4);
}

/* Decodes @n weights of one row; @codes are the bytes of its stored row, and @t its place in
 * them. */
void bitnet_decode(const void *codes, unsigned t, float factor, float *dst, uint64_t n);
/* Decodes a row (struct planes_info). */
void bitnet_decode_row(const struct plane_row *row, float *dst, uint64_t n);
