/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads model files: turns untrusted bytes into a list of tensors and hyperparameters.
 *
 * Tensors have GGUF's canonical names, whatever the file calls them ("blk.0.attn_q.weight",
 * "token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"). Their data
 * point into the mapping of the file. The readers check everything that the rest of the library
 * relies on: sizes against the file, duplicate names, alignment to the element size, overflow of
 * counts.
 */

#include <infer/types.h>

#include "core/file.h"
#include "core/macros.h"
#include "core/sha256.h"
#include "format/arch-desc.h"
#include "format/hparams.h"

struct format;
struct ggml_bin;
struct gguf;
struct whisper_config;

#define FORMAT_MAX_DIMS 4

struct format_tensor {
    const char *name;      /* canonical */
    const char *file_name; /* name in the file */
    const char *type_name; /* element type in the words of the file: "Q4_K", "BF16" */
    enum inf_dtype dtype;  /* INF_DTYPE_INVALID: sconce cannot compute with this type */
    uint32_t n_dims;
    uint64_t dims[FORMAT_MAX_DIMS]; /* dims[0] varies fastest; a matrix has dims[1] rows of dims[0]
                                       elements */
    const void *data;
    uint64_t size; /* bytes */
};

enum format_flags {
    FORMAT_VOCAB_ONLY = 1 << 0, /* weights and hyperparameters may be missing */
};

/* Opens a GGUF file, a Hugging Face directory, or a .bin file of whisper.cpp. @path of a split GGUF
 * model is its first part. @archs are the architectures that the caller can compute, and must
 * outlive the format; -EOPNOTSUPP: the model has another architecture, which the message names.
 * Tensors of Whisper keep the names that they have in the file. */
int format_open(const char *path, unsigned flags, const struct arch_list *archs,
                struct format **ret_format, struct inf_err *reterr);
struct format *format_close(struct format *f);
DEFINE_CLEANUP(struct format *, format_close);

const char *format_kind(const struct format *f); /* "gguf", "safetensors" or "ggml" */
/* Returns the hyperparameters. They are valid only if n_layers is above 0; otherwise the file has
 * no hyperparameters. */
const struct hparams *format_hparams(const struct format *f);
/* Returns the description of the architecture; NULL: there are no hyperparameters. */
const struct arch_desc *format_arch(const struct format *f);
size_t format_n_tensors(const struct format *f);
const struct format_tensor *format_tensor_at(const struct format *f, size_t i);
/* Returns NULL if there is no such tensor. That is not an error. */
const struct format_tensor *format_find(const struct format *f, const char *name);
/* Finds the number of a tensor for format_tensor_at(). Returns false if there is no such tensor. */
bool format_find_index(const struct format *f, const char *name, size_t *ret_i);

/* Writes the name of the matrix of one expert: "ffn_gate.3.weight" for "ffn_gate_exps.weight".
 * Returns false if @name does not have this form, or the result does not fit @size bytes. */
bool format_expert_name(const char *name, uint32_t i_expert, char *out, size_t size);

/* Returns whether @name ends as the name of a tensor that holds a part of a matrix X: X.weight,
 * X.scales, X.qweight and others. *ret_n is the number of bytes of the ending. */
bool format_part_end(const char *name, size_t *ret_n);

/* Returns the settings of a Whisper model; NULL: the model is not a Whisper model. */
const struct whisper_config *format_whisper(const struct format *f);

/* Return the source of the tokenizer, which is the GGUF file with its metadata, the .bin file, or
 * the directory. Functions for a source that the model does not have return NULL. */
const struct gguf *format_gguf(const struct format *f);
const struct ggml_bin *format_bin(const struct format *f);
const char *format_dir(const struct format *f);
/* Returns the text of the chat template, borrowed; NULL: there is none. The template comes from
 * "tokenizer.chat_template" of a GGUF file; in a directory from chat_template.jinja,
 * chat_template.json, or the key chat_template of tokenizer_config.json (the template "default" if
 * there are several). */
const char *format_chat_template(const struct format *f, size_t *ret_len);

/* Computes a digest of the hyperparameters and of the tensors' names, types and shapes. The digest
 * does not depend on the path of the file, nor on the values of the weights. So two models that
 * differ only in their weights have the same digest. The digest may identify data that are dropped
 * before the model is closed, but not data that are stored on disk. */
void format_identity(const struct format *f, uint8_t ret_digest[SHA256_BYTES]);

/* Returns file @i of the files with the weights; NULL: there are no more files. The order of the
 * files depends only on the model. */
const struct file_map *format_file(const struct format *f, size_t i);

/* Gives metadata pair @i as text, for people to read. Returns false after the last pair. */
bool format_meta(const struct format *f, size_t i, const char **ret_key, const char **ret_value);
