/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What files beside the tokenizer say about special tokens: tokenizer_config.json,
 * special_tokens_map.json, generation_config.json, config.json
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

/* Zeroed memory: no file says anything. */
struct config {
    json_t *files[CONFIG_N]; /* owned; NULL: absent */
};

int config_parse(struct config *c, enum config_file file, const char *text, size_t len,
                 struct inf_err *reterr);
/* Reads those that are in the directory. */
int config_read_dir(struct config *c, const char *dir, struct inf_err *reterr);
void config_done(struct config *c);

/* A key of tokenizer_config.json, or NULL. */
const json_t *config_get(const struct config *c, const char *key);
/* The text of a token such as "bos_token"; NULL when there is none. */
const char *config_token(const struct config *c, const char *key, size_t *ret_len);
/* Fills in bos, eos and pad, and puts BOS and EOS around texts as the flags say. */
int config_apply(const struct config *c, struct inf_tokenizer *tok, struct inf_err *reterr);
/* Marks every eos_token_id of the model's and the generation's configuration. */
int config_mark_eog(const struct config *c, struct inf_tokenizer *tok);

/* tokenizer.json with such files around it. */
int tokenizer_load_json(const char *json, size_t len, const struct config *config,
                        struct inf_tokenizer **ret_tok, struct inf_err *reterr);
/* A SentencePiece model. */
int tokenizer_load_spm(const void *data, size_t size, const struct config *config,
                       struct inf_tokenizer **ret_tok, struct inf_err *reterr);
/* vocab.json and merges.txt. */
int tokenizer_load_bpe(const char *vocab, size_t vocab_len, const char *merges, size_t merges_len,
                       const struct config *config, struct inf_tokenizer **ret_tok,
                       struct inf_err *reterr);
/* vocab.txt: BERT's WordPiece. */
int tokenizer_load_vocab(const char *text, size_t len, const struct config *config,
                         struct inf_tokenizer **ret_tok, struct inf_err *reterr);
