/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Defines a tokenizer as a pipeline, independent of its file format.
 *
 * Encoding has these steps: added tokens are cut out of the raw text (added). The rest is
 * normalized, and added tokens are cut out of the normalized text (added_normal). The text is split
 * into words, and the model turns each word into ids. Prefix and suffix are added around the ids.
 * Decoding turns pieces into strings, and the decoder's steps turn the strings into text. Loaders
 * fill a zeroed struct inf_tokenizer and call pipeline_finish(), after which the tokenizer is
 * immutable.
 */

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decode.h"
#include "tokenizer/normalize.h"
#include "tokenizer/split.h"
#include "tokenizer/spm.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocab.h"
#include "tokenizer/wordpiece.h"

enum model_kind {
    MODEL_BPE,
    MODEL_SPM, /* BPE by scores */
    MODEL_UNIGRAM,
    MODEL_WORDPIECE,
};

#define PIPELINE_MAX_AROUND 16

/* Tokens around two texts: before the first, between them, after the second. */
struct around_pair {
    bool there;
    int32_t ids[3][PIPELINE_MAX_AROUND];
    uint8_t types[3][PIPELINE_MAX_AROUND];
    unsigned n[3];
    uint8_t text_types[2];
};

struct inf_tokenizer {
    struct arena arena; /* memory of the steps' texts */
    struct gguf *gguf;  /* owned by the tokenizer; or NULL */
    struct vocab vocab;
    struct added added, added_normal;
    struct normalizer norm;
    struct splitter split;
    enum model_kind model;
    const char *kind; /* static */
    struct bpe bpe;
    struct spm spm;
    struct wordpiece wordpiece;
    int32_t prefix[PIPELINE_MAX_AROUND], suffix[PIPELINE_MAX_AROUND];
    unsigned n_prefix, n_suffix;
    struct around_pair pair;
    bool one_type; /* both texts of a pair have the same type, even if the post-processor gives them
                      different ones */
    enum piece_style style;
    struct decoder dec;
    struct map shown; /* maps the text of an added token to the item of added_normal's trie that has
                         the token's normalized text */
    int32_t bos, eos, pad;
    size_t max_bytes; /* upper bound of the bytes of text that one token represents; 0: unknown */
    bool swallows_space; /* an added token may include any amount of white space, which max_bytes
                            does not count */
};

/* Sets all ids to -1. */
void pipeline_init(struct inf_tokenizer *tok);
/* These functions add a token before or after every text. -EINVAL beyond the limit. */
int pipeline_add_prefix(struct inf_tokenizer *tok, int32_t id);
int pipeline_add_suffix(struct inf_tokenizer *tok, int32_t id);
/* Adds a token of type @type to a pair: @part 0 is before the first text, 1 between the texts, 2
 * after the second. -EINVAL beyond the limit. */
int pipeline_add_pair(struct inf_tokenizer *tok, unsigned part, int32_t id, uint8_t type);
/* Sorts the sets of added tokens and marks the tokens that end generation. */
int pipeline_finish(struct inf_tokenizer *tok);

/* Returns whether the size of a text already proves that the text has more than @max_ids tokens.
 * @max_ids 0: there is no limit, so returns false. */
bool pipeline_is_too_long(const struct inf_tokenizer *tok, const char *text, size_t len,
                          size_t max_ids);

/* Marks @tok->eos and the tokens with the usual names as ending generation. */
void eog_mark(struct inf_tokenizer *tok);
/* Turns pieces into control tokens if they have the usual name of a token that ends generation. */
void eog_control(struct inf_tokenizer *tok);
