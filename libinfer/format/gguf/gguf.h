/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GGUF v2 and v3 (ggml docs/gguf.md): header, metadata pairs, tensor directory
 *
 * Opening checks everything, in private memory. Afterwards no accessor can fail, neither on a
 * malformed file nor on one that is modified later. Tensor data are read in place and may have any
 * value.
 */

#include <infer/types.h>

#include "core/file.h"
#include "core/macros.h"
#include "format/format.h"

struct gguf;

enum gguf_type {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
};

struct gguf_str {
    const char *data; /* not NUL-terminated, any bytes */
    uint64_t len;
};

struct gguf_value {
    const char *key; /* NUL-terminated */
    enum gguf_type type;
    enum gguf_type elem;       /* type of an array's elements; never GGUF_ARRAY */
    uint64_t n;                /* elements of an array; 1 otherwise */
    const unsigned char *data; /* first value, unaligned little-endian; private */
    const uint32_t *offsets;   /* arrays of strings: [n] offset of each string from data; else
                                  NULL */
};

/* Maps a file. For a split model ("-00001-of-00003.gguf") it must be the first part; all other
 * parts are opened too. A file without tensors is valid. */
int gguf_open(const char *path, struct gguf **ret_gguf, struct inf_err *reterr);
/* Like gguf_open(), but opens only this part of a split model: its own metadata and tensors. */
int gguf_open_part(const char *path, struct gguf **ret_gguf, struct inf_err *reterr);
/* One part from memory, which must outlive it; for tests and fuzzing. */
int gguf_parse(const void *data, uint64_t size, struct gguf **ret_gguf, struct inf_err *reterr);
struct gguf *gguf_close(struct gguf *g);
DEFINE_CLEANUP(struct gguf *, gguf_close);

/* The mapped parts in order; NULL past the last. */
const struct file_map *gguf_file(const struct gguf *g, size_t i);
size_t gguf_n_values(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i);
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);

/* Return true and set *ret if the key exists with a matching type (any integer type for u64, any
 * number for f64). Text is not converted. */
bool gguf_u64(const struct gguf *g, const char *key, uint64_t *ret);
bool gguf_f64(const struct gguf *g, const char *key, double *ret);
bool gguf_bool(const struct gguf *g, const char *key, bool *ret);
bool gguf_string(const struct gguf *g, const char *key, struct gguf_str *ret);
/* String @i of an array of strings, or string 0 of a single string. */
struct gguf_str gguf_string_at(const struct gguf_value *v, uint64_t i);
/* Element @i of an array of numbers. */
double gguf_elem_f64(const struct gguf_value *v, uint64_t i);
int64_t gguf_elem_i64(const struct gguf_value *v, uint64_t i);

size_t gguf_n_tensors(const struct gguf *g);
const struct format_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
