/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes GGUF v3 into memory, good or deliberately bad: nothing is checked, so that tests can say
 * anything. Zeroed memory is an empty writer with the format's usual alignment of 32. Out of
 * memory ends the test.
 */

#include "core/str.h"

struct gguf_writer {
    struct str values, tensors, data;
    uint64_t n_values, n_tensors;
    uint32_t version;   /* 0: 3 */
    uint64_t alignment; /* 0: 32; the caller writes the key */
};

void gguf_put_u32(struct gguf_writer *w, const char *key, uint32_t x);
void gguf_put_f32(struct gguf_writer *w, const char *key, float x);
void gguf_put_bool(struct gguf_writer *w, const char *key, bool x);
void gguf_put_string(struct gguf_writer *w, const char *key, const char *x);
void gguf_put_strings(struct gguf_writer *w, const char *key, const char *const *x, uint64_t n);
void gguf_put_i32s(struct gguf_writer *w, const char *key, const int32_t *x, uint64_t n);
void gguf_put_f32s(struct gguf_writer *w, const char *key, const float *x, uint64_t n);
void gguf_put_bools(struct gguf_writer *w, const char *key, const uint8_t *x, uint64_t n);
/* Any bytes behind the key and the value type. */
void gguf_put_raw(struct gguf_writer *w, const char *key, uint32_t type, const void *data,
                  size_t len);
/* @type as ggml numbers it; the data goes to the next multiple of the alignment. */
void gguf_put_tensor(struct gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                     uint32_t n_dims, const void *data, size_t size);
/* An entry of the directory alone. */
void gguf_put_entry(struct gguf_writer *w, const char *name, uint32_t type, const uint64_t *dims,
                    uint32_t n_dims, uint64_t offset);

/* The whole file, freed by the caller; the writer is empty afterwards. */
char *gguf_writer_finish(struct gguf_writer *w, size_t *ret_len);
/* … into a new file below $TMPDIR; its path is freed (and the file removed) by the caller. */
char *gguf_writer_save(struct gguf_writer *w);
/* Writes any bytes to a new file, as gguf_writer_save() does. */
char *test_file_save(const void *data, size_t len);
