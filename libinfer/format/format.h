/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files of models: untrusted bytes in, a directory of tensors and hyperparameters out
 *
 * Tensors have GGUF's canonical names whatever the file calls them ("blk.0.attn_q.weight",
 * "token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"); data points
 * into the mapping. Everything that a later layer relies on is checked here: sizes against the
 * file, names for doubles, alignment to the element size, counts for overflow.
 */

#include <infer/types.h>

#include "core/file.h"
#include "core/macros.h"
#include "core/sha256.h"
#include "format/hparams.h"

struct format;
struct ggml_bin;
struct gguf;
struct whisper_config;

#define FORMAT_MAX_DIMS 4

struct format_tensor {
    const char *name;      /* canonical */
    const char *file_name; /* as the file calls it */
    const char *type_name; /* of the elements as the file calls it: "Q4_K", "BF16" */
    enum inf_dtype dtype;  /* INF_DTYPE_INVALID: a type that this build cannot compute with */
    uint32_t n_dims;
    uint64_t dims[FORMAT_MAX_DIMS]; /* dims[0] runs fastest: a weight is dims[1] rows × dims[0] */
    const void *data;
    uint64_t size; /* bytes */
};

enum format_flags {
    FORMAT_VOCAB_ONLY = 1 << 0, /* weights and hyperparameters may be absent */
};

/* Opens a GGUF file (split files from the first part), a Hugging Face directory, or a .bin file of
 * whisper.cpp. Whisper's tensors have the names of their file. */
int format_open(const char *path, unsigned flags, struct format **ret_format,
                struct inf_err *reterr);
struct format *format_close(struct format *f);
DEFINE_CLEANUP(struct format *, format_close);

const char *format_kind(const struct format *f); /* "gguf", "safetensors" or "ggml" */
/* Only valid (n_layers > 0) when the file has hyperparameters. */
const struct hparams *format_hparams(const struct format *f);
size_t format_n_tensors(const struct format *f);
const struct format_tensor *format_tensor_at(const struct format *f, size_t i);
/* NULL: absent, which is normal. */
const struct format_tensor *format_find(const struct format *f, const char *name);

/* NULL: no Whisper model. */
const struct whisper_config *format_whisper(const struct format *f);

/* Where the tokenizer lies: the GGUF's metadata, the directory, or the .bin file. Others are NULL.
 */
const struct gguf *format_gguf(const struct format *f);
const struct ggml_bin *format_bin(const struct format *f);
const char *format_dir(const struct format *f);
/* The chat template's text: "tokenizer.chat_template" of a GGUF; of a directory
 * chat_template.jinja, chat_template.json, or the key of tokenizer_config.json (its "default"
 * when there are several). NULL: none. Borrowed. */
const char *format_chat_template(const struct format *f, size_t *ret_len);

/* A digest of hyperparameters and directory, wherever the file lies and whatever it is called. Not
 * of the weights: enough for what lives no longer than the mapping, not for what is stored. */
void format_identity(const struct format *f, uint8_t ret_digest[SHA256_BYTES]);

/* The files that hold the weights, in an order that depends on the model alone. NULL past the last.
 */
const struct file_map *format_file(const struct format *f, size_t i);

/* Metadata pairs as text, for people: false past the last. */
bool format_meta(const struct format *f, size_t i, const char **ret_key, const char **ret_value);
