/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Number formats: block layouts and plain conversions
 *
 * A row of a weight is a sequence of blocks; formats without blocks have blocks of one element.
 * decode and encode are the references: plain C, exact in float, used by tests, embeddings of odd
 * formats and converters; kernels have their own fast decoding.
 */

#include <infer/types.h>

#include "core/macros.h"

struct dtype_info {
    const char *name;     /* "q4_k", as people type it in lower case */
    const char *label;    /* "Q4_K", as people read it */
    uint32_t block_elems; /* elements of a block */
    uint32_t block_bytes; /* bytes of a block */
    void (*decode)(const void *src, float *dst, uint64_t n_elems); /* n: whole blocks */
    void (*encode)(const float *src, void *dst, uint64_t n_elems); /* n: whole blocks */
};

/* Never NULL for values below INF_DTYPE_N. */
const struct dtype_info *dtype_info(enum inf_dtype dtype);
/* Finds by name, any case; INF_DTYPE_INVALID if unknown. */
enum inf_dtype dtype_from_name(const char *name);
/* Bytes of a row of @n_elems; false when it is no whole number of blocks or overflows. */
bool dtype_row_bytes(enum inf_dtype dtype, uint64_t n_elems, uint64_t *ret_bytes);
