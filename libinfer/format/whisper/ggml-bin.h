/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads ggml .bin files, the files of whisper.cpp: Whisper models, and Silero's models of voice
 * activity detection.
 *
 * A file has a magic number, hyperparameters in a fixed sequence of 32-bit words, for Whisper the
 * mel filters and the vocabulary, and then tensors until the end of the file. Each tensor has its
 * dimensions, its name and its data. The format aligns nothing, so tensor data that are not aligned
 * to their elements are copied. Opening a file checks all of it except the values of tensors.
 */

#include "core/macros.h"
#include "format/format.h"

struct ggml_bin;

enum ggml_bin_kind {
    GGML_BIN_WHISPER,
    GGML_BIN_VAD, /* Silero, 16 kHz */
};

/* Hyperparameters of Whisper. Counts are 1 … 2^20, and layers and mel bins at most 1,024. Widths
 * are multiples of the number of heads. */
struct ggml_bin_whisper {
    uint32_t n_vocab; /* includes the special tokens, which the list of tokens in the file may
                         lack */
    uint32_t n_audio_ctx, n_audio_embd, n_audio_heads, n_audio_layers;
    uint32_t n_text_ctx, n_text_embd, n_text_heads, n_text_layers;
    uint32_t n_mels;
};

/* The bytes of a token, not NUL-terminated. */
struct ggml_bin_token {
    const char *text;
    uint32_t len;
};

/* Returns whether a file begins like a ggml .bin file; false also if the file cannot be read. */
bool ggml_bin_probe(const char *path);
/* Opens a file. Returns 0, -EBADMSG, -ENOMEM, or an error of opening the file. */
int ggml_bin_open(const char *path, struct ggml_bin **ret_bin, struct inf_err *reterr);
/* Parses a file in memory, which must outlive *ret_bin. Tests and fuzzers call this function. */
int ggml_bin_parse(const void *data, uint64_t size, struct ggml_bin **ret_bin,
                   struct inf_err *reterr);
struct ggml_bin *ggml_bin_close(struct ggml_bin *bin);
DEFINE_CLEANUP(struct ggml_bin *, ggml_bin_close);

enum ggml_bin_kind ggml_bin_kind(const struct ggml_bin *bin);
/* These functions are only for GGML_BIN_WHISPER. The results are borrowed. The id of a token is its
 * index. */
const struct ggml_bin_whisper *ggml_bin_whisper(const struct ggml_bin *bin);
const struct ggml_bin_token *ggml_bin_tokens(const struct ggml_bin *bin, size_t *ret_n);

/* Returns the mapped file. */
const struct file_map *ggml_bin_file(const struct ggml_bin *bin);
size_t ggml_bin_n(const struct ggml_bin *bin);
const struct format_tensor *ggml_bin_at(const struct ggml_bin *bin, size_t i);
/* Returns NULL if there is no such tensor. */
const struct format_tensor *ggml_bin_find(const struct ggml_bin *bin, const char *name);
