/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes weights where they lie in memory. The reader of the file owns the memory. */

#include <infer/types.h>

#include "quant/coded.h"
#include "quant/planes.h"

struct turn_params;

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
    const void *planes[WEIGHT_PLANES]; /* quant/planes.h */
    enum plane_type plane_type;        /* of the scales */
    uint32_t group;    /* columns that share an element of the planes; 0: the planes have one
                          element for the whole matrix, or there are none */
    uint32_t row_step; /* distance from one row to the next in memory, in rows, also in the planes;
                          0: 1. Only for formats with struct planes_info.steps */
    /* Coded matrices (quant/coded.h): one matrix, or one for each expert; row 0 of this weight is
     * row coded_first of them. If this member is set, planes[WEIGHT_SCALES] is set too, and the
     * other members for planes are not used. NULL: another format. */
    const struct coded *coded;
    uint32_t coded_first;
    /* How rows of the input must be prepared (graph/params.h); NULL: the product reads them as they
     * are. graph_matmul() appends a node for it. */
    const struct turn_params *turn;
    const char *name; /* for messages; lives as long as data */
    bool packed;      /* stored in the layout for products of many rows on the CPU
                         (backend/reformat.h) */
};

/* Returns the bytes of a row of codes or blocks of @w, without row_step. @w is checked. */
uint64_t weight_row_bytes(const struct weight *w);
/* Returns the bytes of a row of the plane @plane, without row_step; 0: the plane has no rows, or
 * does not exist. */
uint64_t weight_plane_bytes(const struct weight *w, enum weight_plane plane);
/* Returns row @i of @w, which is one matrix with planes. */
struct plane_row weight_plane_row(const struct weight *w, uint32_t i);
/* Returns the distance in bytes from the plane @plane of one expert to the same plane of the next
 * expert. The planes of experts are at equal distances, and so are their codes. */
uint64_t weight_plane_expert_bytes(const struct weight *w, enum weight_plane plane);

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
