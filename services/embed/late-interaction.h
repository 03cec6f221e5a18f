/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes texts for models of late interaction, and says which of the tokens these models compare.
 *
 * In ColBERT (Khattab and Zaharia 2020) and related models, a marker token says whether a text is a
 * query or a document. The marker follows the token that the tokenizer puts before every text, if
 * there is one. Queries are padded with further tokens, and the punctuation of documents is
 * ignored. A model has these settings in one of three file formats: "artifact.metadata" of
 * ColBERT's own code, config_sentence_transformers.json of PyLate, or the modules of
 * sentence-transformers.
 */

#include <infer/embed.h>
#include <infer/tokenizer.h>
#include <jansson.h>

enum interaction_role {
    INTERACTION_DOCUMENT,
    INTERACTION_QUERY,
    INTERACTION_N,
};

struct interaction {
    struct {
        int32_t marker; /* token that marks the role; -1: none */
        char *words;    /* text to put before each text; owned; NULL: none */
        uint32_t max;   /* maximum tokens of an encoded text; 0: the model's limit */
        bool skips;     /* the tokens of `skipped` are not compared */
    } roles[INTERACTION_N];
    uint32_t n_lead;     /* 1: the tokenizer puts a token before every text; else 0 */
    uint32_t n_filled;   /* queries are padded to this many tokens; 0: not padded */
    int32_t filler;      /* the token used for padding */
    bool filler_is_seen; /* whether tokens of the query attend to the padding */
    int32_t *skipped;    /* [n_skipped], ascending */
    size_t n_skipped;
};

/* Reads the settings of the model in @path. @prompts is its config_sentence_transformers.json, or
 * NULL. *ret is NULL if the model has no such settings. Returns 0; -EBADMSG or -EOPNOTSUPP, with
 * the reason in @reterr; or -ENOMEM. */
int interaction_read(const char *path, json_t *prompts, const struct inf_tokenizer *tok,
                     struct interaction **ret, struct inf_err *reterr);
struct interaction *interaction_free(struct interaction *it);

/* Encodes a text in its role. @max: the maximum number of tokens that the model takes.
 * *ret_encoding is as in inf_tokenizer_encode_texts(), *ret_seen is n_seen of struct
 * inf_embed_text. -E2BIG: the text is too long and @cut is INF_CUT_NONE; -ENOMEM. */
int interaction_encode(const struct interaction *it, const struct inf_tokenizer *tok,
                       enum interaction_role role, const struct inf_encode_text *text,
                       enum inf_cut cut, uint32_t max, struct inf_encoding *ret_encoding,
                       size_t *ret_seen);
/* Returns the maximum number of tokens of an encoded text in this role, for a model that takes @max
 * tokens. */
uint32_t interaction_max(const struct interaction *it, enum interaction_role role, uint32_t max);
/* Returns whether the vector of token @id is compared. */
bool interaction_counts(const struct interaction *it, enum interaction_role role, int32_t id);
