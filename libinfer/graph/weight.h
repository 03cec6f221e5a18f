/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes weights where they lie in memory. The reader of the file owns the memory. */

#include <infer/types.h>

#include "quant/coded.h"

/* Further arrays of numbers that some number formats have beside the codes of a weight. */
enum weight_plane {
    WEIGHT_SCALES,
    WEIGHT_ZEROS, /* what is subtracted from, or added to, the codes of a group */
    WEIGHT_ORDER, /* the group of each column */
    WEIGHT_PLANES,
};

/* Describes a weight matrix where it lies in memory: @rows × @cols, row-major. Each row is a whole
 * number of blocks of its number format. Vectors have rows = 1. If all members are zero (data is
 * NULL), the model does not have this weight. A weight can consist of several matrices of the same
 * shape, one for each expert. */
struct weight {
    const void *data;
    enum inf_dtype dtype;
    uint32_t rows, cols;
    uint32_t n_experts;    /* 0: one matrix */
    uint64_t expert_bytes; /* distance from one expert's matrix to the next */
    /* [n_experts]: the addresses of the matrices, if they are not at equal distances; else NULL.
     * `data` is then the first address. */
    const void *const *experts;
    /* quant/affine.h, quant/bitnet.h and quant/fp4-planes.h describe them. */
    const void *planes[WEIGHT_PLANES];
    uint32_t group;    /* columns that share an element of the planes; 0: no plane has such
                          elements */
    uint32_t row_step; /* distance from one row to the next in memory, in rows, also in the planes;
                          0: 1. Only for MXFP4 with planes */
    /* Coded matrices (quant/coded.h): one matrix, or one for each expert; row 0 of this weight is
     * row coded_first of them. Then planes[WEIGHT_SCALES] is set, and the other members for planes
     * are not used. NULL: another format. */
    const struct coded *coded;
    uint32_t coded_first;
    const char *name; /* for messages; lives as long as data */
    bool packed;      /* stored in the layout for products of many rows on the CPU
                         (backend/reformat.h) */
};

/* Decodes row @i of @w, which is one matrix, to @dst: cols floats. */
void weight_decode_row(const struct weight *w, uint32_t i, float *dst);
/* Returns the bytes of @w with its planes and all experts; UINT64_MAX if they do not fit 64 bits,
 * and 0 if the model does not have this weight. */
uint64_t weight_bytes(const struct weight *w);

/* Returns the matrix of expert @i, or itself if @w is one matrix. */
struct weight weight_of_expert(const struct weight *w, uint32_t i);

/* Returns the address of the matrix of expert @i. */
static inline const void *weight_expert(const struct weight *w, uint32_t i)
{
    return w->experts ? w->experts[i] : (const char *)w->data + i * w->expert_bytes;
}
