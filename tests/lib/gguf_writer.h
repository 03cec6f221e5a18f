/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes GGUF files (version 3) in memory. The functions check nothing, so tests can also write
 * invalid files. A zeroed struct is an empty writer with the format's default alignment of 32.
 * Running out of memory ends the test.
 */

#include "core/str.h"

struct gguf_writer {
    struct str values, tensors, data;
    uint64_t n_values, n_tensors;
    uint32_t version;   /* 0 means version 3 */
    uint64_t alignment; /* 0 means 32; for another value the caller also writes the key */
};

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t x);
void gguf_put_f32(struct gguf_writer *w, const char *key, float x);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool x);
void gguf_put_string(struct gguf_writer *w, const char *key, const char *x);
void gguf_put_strings(struct gguf_writer *w, const char *key, const char *const *x, uint64_t n);
void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *x, uint64_t n);
void gguf_put_f32s(struct gguf_writer *w, const char *key, const float *x, uint64_t n);
void gguf_put_bools(struct gguf_writer *w, const char *key, const uint8_t *x, uint64_t n);
/* Writes @key, the type @type of the value, and the bytes @data as the value. */
void gguf_put_raw(struct gguf_writer *w, const char *key, uint32_t type, const void *data,
                  size_t len);
/* Writes a tensor. @type is the number of the type in ggml. The data starts at the next multiple of
 * the alignment. */
void gguf_put_tensor(struct gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                     uint32_t n_dims, const void *data, size_t size);
/* Writes only the directory entry of a tensor, without data. */
void gguf_put_entry(struct gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                    uint32_t n_dims, uint64_t offset);

/* Returns the whole file, which the caller frees; the writer is empty afterwards. */
char *gguf_writer_finish(struct gguf_writer *w, size_t *ret_len);
/* Writes the whole file to a new file below $TMPDIR. The caller removes the file and frees the
 * returned path. */
char *gguf_writer_save(struct gguf_writer *w);
/* Writes any bytes to a new file, as gguf_writer_save() does. */
char *test_file_save(const void *data, size_t len);
