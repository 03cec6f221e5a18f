/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads special tokens from the files beside the tokenizer: tokenizer_config.json,
 * special_tokens_map.json, generation_config.json and config.json.
 */

#include "format/json.h"
#include "tokenizer/pipeline.h"

enum config_file {
    CONFIG_TOKENIZER,
    CONFIG_SPECIAL_MAP,
    CONFIG_GENERATION,
    CONFIG_MODEL,
    CONFIG_N,
};

/* All zero: there are no such files. */
struct config {
    json_t *files[CONFIG_N]; /* owned; NULL: the file is missing */
};

int config_parse(struct config *c, enum config_file file, const char *text, size_t len,
                 struct inf_err *reterr);
/* Reads the configuration files that the directory contains. */
int config_read_dir(struct config *c, const char *dir, struct inf_err *reterr);
void config_done(struct config *c);

/* Returns the value of a key of tokenizer_config.json, or NULL. */
const json_t *config_get(const struct config *c, const char *key);
/* Returns the text of the token for a key such as "bos_token"; NULL if there is none. */
const char *config_token(const struct config *c, const char *key, size_t *ret_len);
/* Sets bos, eos and pad, and adds BOS and EOS around texts as the flags in the files say. */
int config_apply(const struct config *c, struct inf_tokenizer *tok, struct inf_err *reterr);
/* Marks every eos_token_id of config.json and generation_config.json as ending a generation. */
int config_mark_eog(const struct config *c, struct inf_tokenizer *tok);

/* Loads tokenizer.json with the configuration files beside it. */
int tokenizer_load_json(const char *json, size_t len, const struct config *config,
                        struct inf_tokenizer **ret_tok, struct inf_err *reterr);
/* Loads a SentencePiece model. */
int tokenizer_load_spm(const void *data, size_t size, const struct config *config,
                       struct inf_tokenizer **ret_tok, struct inf_err *reterr);
/* Loads vocab.json and merges.txt. */
int tokenizer_load_bpe(const char *vocab, size_t vocab_len, const char *merges, size_t merges_len,
                       const struct config *config, struct inf_tokenizer **ret_tok,
                       struct inf_err *reterr);
/* Loads vocab.txt: BERT's WordPiece. */
int tokenizer_load_vocab(const char *text, size_t len, const struct config *config,
                         struct inf_tokenizer **ret_tok, struct inf_err *reterr);
