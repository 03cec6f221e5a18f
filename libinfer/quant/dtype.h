/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the number formats of weights: block layouts and reference conversions.
 *
 * A row of a weight is a sequence of blocks; formats without blocks have blocks of one element.
 * decode and encode are the references: plain C, exact in float. Tests, embeddings in rare formats
 * and converters use them; kernels have their own fast decoding.
 */

#include <infer/types.h>

#include "core/macros.h"

struct dtype_info {
    const char *name;     /* "q4_k", as users type it, in lower case */
    const char *label;    /* "Q4_K", for messages */
    uint32_t block_elems; /* elements of a block */
    uint32_t block_bytes; /* bytes of a block */
    uint32_t affine_bits; /* bits of a code in affine formats (quant/affine.h), whose blocks have
                             only codes; 0 in other formats */
    void (*decode)(const void *src, float *dst, uint64_t n_elems); /* n: whole blocks */
    void (*encode)(const float *src, void *dst, uint64_t n_elems); /* n: whole blocks */
    /* Encodes as encode() does, but the error of element i counts @column[i] ≥ 0 times as much;
     * @column may be NULL. NULL: the format has no such encoder. */
    void (*encode_weighted)(const float *src, const float *column, void *dst, uint64_t n_elems);
    /* decode and encode are NULL in formats with planes (graph/weight.h). These are the affine
     * formats, packed ternary (quant/bitnet.h), and MXFP4 with planes (quant/fp4-planes.h). Only
     * weight_decode_row() (graph/weight.h) decodes these. */
};

/* Returns the description of a format; never NULL for values below INF_DTYPE_N. */
const struct dtype_info *dtype_info(enum inf_dtype dtype);
/* Computes the bytes of a row of @n_elems elements. Returns false if the row is not a whole number
 * of blocks, or on overflow. */
bool dtype_row_bytes(enum inf_dtype dtype, uint64_t n_elems, uint64_t *ret_bytes);
