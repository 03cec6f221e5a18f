/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What models for late interaction read around a text, and which of its tokens they compare
 *
 * ColBERT (Khattab and Zaharia 2020) and its kind mark queries and documents by a token behind the
 * first one, fill queries up with tokens that ask for more, and leave punctuation of documents out.
 * Three forms of files tell how: "artifact.metadata" of ColBERT's own code,
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
        char *words;    /* to put before the text; owned; NULL: none */
        uint32_t max;   /* tokens of a text with what stands around it; 0: as the model says */
        bool skips;     /* tokens of the list below are not compared */
    } roles[INTERACTION_N];
    uint32_t n_lead;     /* tokens that the tokenizer puts before every text */
    uint32_t n_filled;   /* queries have so many tokens at least; 0: they are not filled up */
    int32_t filler;      /* by which */
    bool filler_is_seen; /* by the tokens of the query */
    int32_t *skipped;    /* [n_skipped], ascending */
    size_t n_skipped;
};

/* *ret is NULL when @path, or @prompts, its config_sentence_transformers.json (NULL: none), tells
 * of no such thing. -EBADMSG, -EOPNOTSUPP with the reason; -ENOMEM. */
int interaction_read(const char *path, json_t *prompts, const struct inf_tokenizer *tok,
                     struct interaction **ret, struct inf_err *reterr);
struct interaction *interaction_free(struct interaction *it);

/* Encodes a text in its role. @max: tokens that the model takes. *ret_encoding as that of
 * inf_tokenizer_encode_texts(), *ret_seen as in inf_embed_text. -E2BIG: it is too long and @cut is
 * INF_CUT_NONE; -ENOMEM. */
int interaction_encode(const struct interaction *it, const struct inf_tokenizer *tok,
                       enum interaction_role role, const struct inf_encode_text *text,
                       enum inf_cut cut, uint32_t max, struct inf_encoding *ret_encoding,
                       size_t *ret_seen);
/* Tokens that a text in this role may have, of a model that takes @max. */
uint32_t interaction_max(const struct interaction *it, enum interaction_role role, uint32_t max);
/* Whether the vector of this token is compared. */
bool interaction_counts(const struct interaction *it, enum interaction_role role, int32_t id);
