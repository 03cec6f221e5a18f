/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the header of a new GGUF v3 file (ggml docs/gguf.md): metadata, tensor directory, and the
 * places of the tensors' data.
 *
 * Struct gguf_out holds only the header in memory. Its user adds all metadata pairs and then all
 * tensors, takes the header, and writes the data of the tensors to the file in any order. Sizes are
 * checked for overflow.
 */

#include <infer/types.h>

#include "core/macros.h"
#include "core/map.h"
#include "core/str.h"
#include "format/gguf/gguf.h"

/* The default of general.alignment, which the files have. */
#define GGUF_ALIGNMENT 32u

struct gguf_place {
    uint64_t offset; /* from the beginning of the data section */
    uint64_t size;   /* without the padding after it */
};

/* A struct of zeros is an empty header. */
struct gguf_out {
    struct str pairs, directory;
    struct map keys, names; /* keys and names that were added */
    char **owned;           /* [n_owned]: copies of keys and names */
    size_t n_owned, owned_cap;
    struct gguf_place *places; /* [n_tensors] */
    size_t n_pairs, n_tensors, places_cap;
    uint64_t data_size; /* bytes of the data section so far, with padding */
    int failed;         /* 0, or the error of an earlier call, which all later calls return */
};

/* All functions return 0, -ENOMEM, -EEXIST (there is already such a key or name) or -EOVERFLOW. The
 * first error is kept, so that callers need to check only the last call. */
int gguf_out_u32(struct gguf_out *w, const char *key, uint32_t x);
int gguf_out_f32(struct gguf_out *w, const char *key, float x);
int gguf_out_bool(struct gguf_out *w, const char *key, bool x);
int gguf_out_string(struct gguf_out *w, const char *key, const char *text, uint64_t len);
/* Adds an array of @n numbers: @data has them without gaps, little-endian. */
int gguf_out_array(struct gguf_out *w, const char *key, enum gguf_type elem, const void *data,
                   uint64_t n);
int gguf_out_strings(struct gguf_out *w, const char *key, const struct gguf_str *texts, uint64_t n);
/* Copies a pair of a parsed file. */
int gguf_out_value(struct gguf_out *w, const struct gguf_value *value);
/* Adds a tensor of the number format @type (format/gguf/ggml-type.h). Its data follow those of the
 * tensor that was added before it. -EINVAL: rows of dims[0] elements are not whole blocks, or a
 * dimension is 0.
 */
int gguf_out_tensor(struct gguf_out *w, const char *name, const uint64_t *dims, uint32_t n_dims,
                    uint32_t type);

/* Makes the header, with the padding up to the data section. The caller frees *ret_data. */
int gguf_out_header(const struct gguf_out *w, char **ret_data, size_t *ret_size);
void gguf_out_done(struct gguf_out *w);
