/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the number formats of weights: block layouts and reference conversions.
 *
 * A row of a weight is a sequence of blocks; formats without blocks have blocks of one element. The
 * function decode is the reference, in plain C. The function encode may use vectors of the CPU
 * (fit.h), with the same results on every CPU. Tests, embeddings in rare formats, and converters
 * use both; kernels have their own fast decoding.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "quant/planes.h"

struct dtype_info {
    const char *name;     /* "q4_k", as users type it, in lower case */
    const char *label;    /* "Q4_K", for messages */
    uint32_t block_elems; /* elements of a block */
    uint32_t block_bytes; /* bytes of a block */
    void (*decode)(const void *src, float *dst, uint64_t n_elems); /* n_elems: whole blocks */
    void (*encode)(const float *src, void *dst, uint64_t n_elems); /* n_elems: whole blocks */
    /* Encodes like encode, but the error of element i also counts in proportion to @importance[i].
     * @importance is [n_elems], or NULL: then the function does what encode does. The member is
     * NULL if the format does not use importance. */
    void (*encode_by)(const float *src, const float *importance, void *dst, uint64_t n_elems);
    /* NULL: the format has no planes. In formats with planes, blocks contain only codes, the
     * functions above are NULL, and weight_decode_row() (graph/weight.h) decodes rows. The
     * functions are also NULL for coded matrices (quant/coded.h). */
    const struct planes_info *planes;
};

/* Returns the description of a format; never NULL for values below INF_DTYPE_N. */
const struct dtype_info *dtype_info(enum inf_dtype dtype);
/* Returns the description of the planes of an affine format, or NULL. */
static inline const struct planes_info *dtype_affine(enum inf_dtype dtype)
{
    const struct planes_info *p = dtype_info(dtype)->planes;

    return p && p->affine ? p : NULL;
}
/* Computes the bytes of a row of @n_elems elements. Returns false if the row is not a whole number
 * of blocks, or on overflow. */
bool dtype_row_bytes(enum inf_dtype dtype, uint64_t n_elems, uint64_t *ret_bytes);
