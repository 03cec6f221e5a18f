/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ggml .bin: the files of whisper.cpp (Whisper models, and Silero's voice activity detection)
 *
 * A magic number, hyperparameters in fixed words, mel filters and the vocabulary for Whisper, then
 * tensors until the end of the file, each with its dimensions, name and data. Nothing is aligned:
 * data that are not aligned to their elements are copied. Opening checks everything, as with GGUF.
 */

#include "core/macros.h"
#include "format/format.h"

struct ggml_bin;

enum ggml_bin_kind {
    GGML_BIN_WHISPER,
    GGML_BIN_VAD, /* Silero, 16 kHz */
};

/* For Whisper. Counts are 1 … 2^20, layers and mel bins at most 1,024; widths are multiples of
 * their heads. */
struct ggml_bin_whisper {
    uint32_t n_vocab; /* includes special tokens, which the file's vocabulary may lack */
    uint32_t n_audio_ctx, n_audio_embd, n_audio_heads, n_audio_layers;
    uint32_t n_text_ctx, n_text_embd, n_text_heads, n_text_layers;
    uint32_t n_mels;
};

/* Bytes of a token, not NUL-terminated. */
struct ggml_bin_token {
    const char *text;
    uint32_t len;
};

/* Whether a file begins like one of these. False also if it cannot be read. */
bool ggml_bin_probe(const char *path);
/* -ENOENT…, -EBADMSG, -ENOMEM. */
int ggml_bin_open(const char *path, struct ggml_bin **ret_bin, struct inf_err *reterr);
/* From memory, which must outlive it; for tests and fuzzing. */
int ggml_bin_parse(const void *data, uint64_t size, struct ggml_bin **ret_bin,
                   struct inf_err *reterr);
struct ggml_bin *ggml_bin_close(struct ggml_bin *bin);
DEFINE_CLEANUP(struct ggml_bin *, ggml_bin_close);

enum ggml_bin_kind ggml_bin_kind(const struct ggml_bin *bin);
/* Only for GGML_BIN_WHISPER; all borrowed. A token's id is its index. */
const struct ggml_bin_whisper *ggml_bin_whisper(const struct ggml_bin *bin);
const struct ggml_bin_token *ggml_bin_tokens(const struct ggml_bin *bin, size_t *ret_n);

/* The mapped file. */
const struct file_map *ggml_bin_file(const struct ggml_bin *bin);
size_t ggml_bin_n(const struct ggml_bin *bin);
const struct format_tensor *ggml_bin_at(const struct ggml_bin *bin, size_t i);
/* NULL: there is none. */
const struct format_tensor *ggml_bin_find(const struct ggml_bin *bin, const char *name);
