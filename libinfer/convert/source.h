/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the tensors and the metadata of a new GGUF file, and gives the numbers of the tensors.
 *
 * A directory in Hugging Face layout becomes a GGUF file with the names and keys of its
 * architecture. A GGUF file is copied: each of its tensors, also those that this build does not
 * compute with, becomes a tensor of the new file. The tensors are in the order that mix_choose()
 * needs.
 */

#include <infer/types.h>

#include "core/file.h"
#include "core/macros.h"
#include "format/format.h"
#include "format/gguf/out.h"
#include "graph/weight.h"

struct source;

/* Row i of a new matrix is row rows[i] of the old one, or zeros. */
#define SOURCE_ZEROS UINT32_MAX

/* Describes how a tensor differs from the weight that the model binds. NULL: the order is the same.
 * The elements of a vector count as rows. */
struct source_order {
    const uint32_t *rows;    /* [rows of the new matrix] */
    const uint32_t *columns; /* [cols]: column k changes places with column columns[k], for all k
                                one after the other */
    bool minus_exp;          /* the new numbers are -exp(x) */
};

struct source_tensor {
    const char *name; /* in the new file */
    uint64_t dims[FORMAT_MAX_DIMS];
    uint32_t n_dims;
    uint32_t type;     /* its present format (format/gguf/ggml-type.h), or the nearest one */
    bool quantized;    /* its present format is smaller than 16 bits */
    const void *bytes; /* the data, if they can be copied as they are; else NULL */
    uint64_t size;     /* bytes of the data */
    struct weight w;   /* the numbers, if they can be decoded; else data is NULL */
    struct source_order order;
};

/* Opens the model @path. -EOPNOTSUPP: the model cannot be converted. */
int source_open(const char *path, struct source **ret, struct inf_err *reterr);
struct source *source_close(struct source *s);
DEFINE_CLEANUP(struct source *, source_close);

size_t source_n(const struct source *s);
const struct source_tensor *source_at(const struct source *s, size_t i);
/* Returns file @i of the model's files; NULL: there are no more files. */
const struct file_map *source_file(const struct source *s, size_t i);
/* Writes the metadata, except for the keys that say how the tensors are stored. */
int source_put_meta(const struct source *s, struct gguf_out *w);
/* Returns a number of the new file's metadata, for example "llama.block_count"; if the key has a
 * number for each layer, the number of the first layer. Returns false if there is no such key. */
bool source_number(const struct source *s, const char *key, uint64_t *ret);
/* Returns general.architecture. */
const char *source_arch(const struct source *s);

/* Decodes row @i of the new tensor, counted over all its matrices, to dims[0] floats. */
void source_row(const struct source_tensor *t, uint64_t i, float *dst);
/* Returns the row of the old matrices, counted over all of them, from which row @i comes. The order
 * of the rows must not contain SOURCE_ZEROS. */
static inline uint64_t source_old_row(const struct source_tensor *t, uint64_t i)
{
    const uint64_t n = t->dims[1];

    return t->order.rows ? i / n * t->w.rows + t->order.rows[i % n] : i;
}
