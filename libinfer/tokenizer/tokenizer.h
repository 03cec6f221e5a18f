/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the functions that load tokenizers from files, and other internals of
 * <infer/tokenizer.h>. */

#include <infer/tokenizer.h>

#include "core/macros.h"

struct format;
struct ggml_bin;
struct gguf;
struct str;

/* Loads the tokenizer of an opened model. The tokenizer is read from the metadata of a GGUF file
 * (tokenizer.ggml.*), or from the first of these files that a directory contains: tokenizer.json,
 * tokenizer.model (SentencePiece), vocab.json with merges.txt, vocab.txt (WordPiece). In a
 * directory, tokenizer_config.json and similar files are read as well if they exist. The tokenizer
 * borrows the texts of a GGUF file, so @f or @g must outlive the tokenizer. */
int tokenizer_open(const struct format *f, struct inf_tokenizer **ret_tok, struct inf_err *reterr);
int tokenizer_open_gguf(const struct gguf *g, struct inf_tokenizer **ret_tok,
                        struct inf_err *reterr);
int tokenizer_open_dir(const char *dir, struct inf_tokenizer **ret_tok, struct inf_err *reterr);
/* Loads the vocabulary of a Whisper model. */
int tokenizer_open_bin(const struct ggml_bin *bin, struct inf_tokenizer **ret_tok,
                       struct inf_err *reterr);
/* Loads a single file: tokenizer.json, a SentencePiece model, vocab.txt, or GGUF. The first bytes
 * decide which of these it is. tokenizer_config.json and similar files in the same directory are
 * read as well. */
int tokenizer_open_file(const char *path, struct inf_tokenizer **ret_tok, struct inf_err *reterr);
/* Loads the text @json of a tokenizer.json. @config is the text of tokenizer_config.json, or
 * NULL. */
int tokenizer_parse_json(const char *json, size_t len, const char *config, size_t config_len,
                         struct inf_tokenizer **ret_tok, struct inf_err *reterr);
/* Finds the bytes that each token alone adds to a text, as inf_tokenizer_token_bytes() does:
 * the bytes of a token end at ret_ends[id] in @ret_bytes, which the caller frees. -ENOMEM. */
int tokenizer_all_bytes(const struct inf_tokenizer *tok, struct str *ret_bytes, size_t *ret_ends);
struct inf_tokenizer *tokenizer_free(struct inf_tokenizer *tok);
DEFINE_CLEANUP(struct inf_tokenizer *, tokenizer_free);
