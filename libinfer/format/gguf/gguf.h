/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads GGUF v2 and v3 (ggml docs/gguf.md): header, metadata pairs and tensor directory.
 *
 * Opening a file copies header, metadata and directory to private memory and checks them there.
 * After that no accessor can fail, even if the file is modified. Tensor data are read in place and
 * may have any value.
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
    const char *data; /* any bytes, not NUL-terminated */
    uint64_t len;
};

struct gguf_value {
    const char *key; /* NUL-terminated */
    enum gguf_type type;
    enum gguf_type elem;       /* type of an array's elements; never GGUF_ARRAY */
    uint64_t n;                /* number of elements of an array; 1 for other types */
    const unsigned char *data; /* the first value, unaligned and little-endian, in private memory */
    const uint32_t *offsets;   /* for arrays of strings: [n] offset of each string from data;
                                  otherwise NULL */
};

/* Maps a file. If the file is a part of a split model ("-00001-of-00003.gguf"), it must be the
 * first part, and all other parts are opened as well. A file without tensors is valid. */
int gguf_open(const char *path, struct gguf **ret_gguf, struct inf_err *reterr);
/* Does what gguf_open() does, but opens only one part of a split model, with the metadata and
 * tensors of this part. */
int gguf_open_part(const char *path, struct gguf **ret_gguf, struct inf_err *reterr);
/* Parses one part in memory, which must outlive *ret_gguf. Tests and fuzzers call this function. */
int gguf_parse(const void *data, uint64_t size, struct gguf **ret_gguf, struct inf_err *reterr);
struct gguf *gguf_close(struct gguf *g);
DEFINE_CLEANUP(struct gguf *, gguf_close);

/* Returns mapped part @i, in order; NULL: there are no more parts. */
const struct file_map *gguf_file(const struct gguf *g, size_t i);
size_t gguf_n_values(const struct gguf *g);
const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i);
const struct gguf_value *gguf_find(const struct gguf *g, const char *key);

/* These functions return true and set *ret if the key exists and has a matching value: for u64 any
 * integer that is not negative, for f64 any number. Text is not converted to a number. */
bool gguf_u64(const struct gguf *g, const char *key, uint64_t *ret);
bool gguf_f64(const struct gguf *g, const char *key, double *ret);
bool gguf_bool(const struct gguf *g, const char *key, bool *ret);
bool gguf_string(const struct gguf *g, const char *key, struct gguf_str *ret);
/* Returns string @i of an array of strings. If the value is a single string, @i must be 0. */
struct gguf_str gguf_string_at(const struct gguf_value *v, uint64_t i);
/* Return element @i of an array of numbers. */
double gguf_elem_f64(const struct gguf_value *v, uint64_t i);
int64_t gguf_elem_i64(const struct gguf_value *v, uint64_t i);

size_t gguf_n_tensors(const struct gguf *g);
const struct format_tensor *gguf_tensor_at(const struct gguf *g, size_t i);
