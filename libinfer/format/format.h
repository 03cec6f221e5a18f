/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Model files: from untrusted bytes to a directory of tensors and hyperparameters
 *
 * Tensors have GGUF's canonical names, whatever the file calls them ("blk.0.attn_q.weight",
 * "token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"). Their data
 * point into the mapping. Everything that later layers rely on is checked here: sizes against the
 * file, duplicate names, alignment to the element size, overflow of counts.
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
    const char *type_name; /* element type as the file calls it: "Q4_K", "BF16" */
    enum inf_dtype dtype;  /* INF_DTYPE_INVALID: a type that this build cannot compute with */
    uint32_t n_dims;
    uint64_t dims[FORMAT_MAX_DIMS]; /* dims[0] varies fastest: a weight is dims[1] rows × dims[0] */
    const void *data;
    uint64_t size; /* bytes */
};

enum format_flags {
    FORMAT_VOCAB_ONLY = 1 << 0, /* weights and hyperparameters may be missing */
};

/* Opens a GGUF file (a split model by its first part), a Hugging Face directory, or a .bin file of
 * whisper.cpp. Whisper's tensors keep the names of their file. */
int format_open(const char *path, unsigned flags, struct format **ret_format,
                struct inf_err *reterr);
struct format *format_close(struct format *f);
DEFINE_CLEANUP(struct format *, format_close);

const char *format_kind(const struct format *f); /* "gguf", "safetensors" or "ggml" */
/* Only valid (n_layers > 0) if the file has hyperparameters. */
const struct hparams *format_hparams(const struct format *f);
size_t format_n_tensors(const struct format *f);
const struct format_tensor *format_tensor_at(const struct format *f, size_t i);
/* NULL: there is none, which is normal. */
const struct format_tensor *format_find(const struct format *f, const char *name);

/* NULL: not a Whisper model. */
const struct whisper_config *format_whisper(const struct format *f);

/* The source of the tokenizer: the GGUF's metadata, the directory, or the .bin file. The others are
 * NULL. */
const struct gguf *format_gguf(const struct format *f);
const struct ggml_bin *format_bin(const struct format *f);
const char *format_dir(const struct format *f);
/* The text of the chat template: "tokenizer.chat_template" of a GGUF; in a directory
 * chat_template.jinja, chat_template.json, or the key of tokenizer_config.json (its "default" if
 * there are several). NULL: none. Borrowed. */
const char *format_chat_template(const struct format *f, size_t *ret_len);

/* A digest of hyperparameters and tensor directory, independent of the file's path. It does not
 * cover the weights: enough for data that live no longer than the mapping, not for stored data. */
void format_identity(const struct format *f, uint8_t ret_digest[SHA256_BYTES]);

/* The files that hold the weights, in an order that depends only on the model. NULL past the
 * last. */
const struct file_map *format_file(const struct format *f, size_t i);

/* Metadata pairs as text, for people. Returns false past the last. */
bool format_meta(const struct format *f, size_t i, const char **ret_key, const char **ret_value);
