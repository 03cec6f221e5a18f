/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Late interaction: how such models read a text, and which of its tokens they compare
 *
 * ColBERT (Khattab and Zaharia 2020) and related models mark queries and documents with a token
 * after the first one, pad queries with further tokens, and ignore the punctuation of documents.
 * The settings are in one of three file formats: "artifact.metadata" of ColBERT's own code,
 * config_sentence_transformers.json of PyLate, and the modules of sentence-transformers.
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
        int32_t marker; /* -1: none */
        char *words;    /* text to put before the text; owned; NULL: none */
        uint32_t max;   /* limit of tokens of a text and those around it; 0: the model's limit */
        bool skips;     /* tokens of the list below are not compared */
    } roles[INTERACTION_N];
    uint32_t n_lead;     /* number of tokens that the tokenizer puts before every text */
    uint32_t n_filled;   /* queries are padded to this many tokens; 0: not padded */
    int32_t filler;      /* the token used for padding */
    bool filler_is_seen; /* whether tokens of the query attend to the padding */
    int32_t *skipped;    /* [n_skipped], ascending */
    size_t n_skipped;
};

/* Reads the settings. *ret is NULL if neither @path nor @prompts, the model's
 * config_sentence_transformers.json (NULL: none), has any. -EBADMSG, -EOPNOTSUPP with the reason;
 * -ENOMEM. */
int interaction_read(const char *path, json_t *prompts, const struct inf_tokenizer *tok,
                     struct interaction **ret, struct inf_err *reterr);
struct interaction *interaction_free(struct interaction *it);

/* Encodes a text in its role. @max: the limit of tokens that the model takes. *ret_encoding is as
 * in inf_tokenizer_encode_texts(), *ret_seen as in inf_embed_text. -E2BIG: the text is too long and
 * @cut is INF_CUT_NONE; -ENOMEM. */
int interaction_encode(const struct interaction *it, const struct inf_tokenizer *tok,
                       enum interaction_role role, const struct inf_encode_text *text,
                       enum inf_cut cut, uint32_t max, struct inf_encoding *ret_encoding,
                       size_t *ret_seen);
/* Most tokens of a text in this role, for a model that takes @max. */
uint32_t interaction_max(const struct interaction *it, enum interaction_role role, uint32_t max);
/* Whether the vector of token @id is compared. */
bool interaction_counts(const struct interaction *it, enum interaction_role role, int32_t id);
