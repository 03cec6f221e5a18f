/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tokenizer as a pipeline, whatever file it came from
 *
 * Encoding: tokens in the raw text are cut out (added); the rest is normalised, tokens are cut
 * out again (added_normal), it is split into words, and the model turns each word into ids;
 * prefix and suffix go around. Decoding: pieces become strings, and the decoder's steps turn
 * these into text. Loaders fill a zeroed struct and call pipeline_finish(); then it is immutable.
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

/* What stands around two texts: before the first, between them, behind. */
struct around_pair {
    bool there;
    int32_t ids[3][PIPELINE_MAX_AROUND];
    uint8_t types[3][PIPELINE_MAX_AROUND];
    unsigned n[3];
    uint8_t text_types[2];
};

struct inf_tokenizer {
    struct arena arena; /* texts of steps */
    struct gguf *gguf;  /* the tokenizer's own; or NULL */
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
    bool one_type; /* texts of a pair are of one kind, whatever the post-processor says */
    enum piece_style style;
    struct decoder dec;
    struct map shown; /* piece → item of added_normal's trie that stands for it in texts */
    int32_t bos, eos, pad;
    size_t max_bytes;    /* of text that one token can stand for; 0: any number */
    bool swallows_space; /* white space does not count among them */
};

/* -1 everywhere. */
void pipeline_init(struct inf_tokenizer *tok);
/* Puts tokens around every text; -EINVAL beyond the limit. */
int pipeline_add_prefix(struct inf_tokenizer *tok, int32_t id);
int pipeline_add_suffix(struct inf_tokenizer *tok, int32_t id);
/* One more token in place @part around a pair; -EINVAL beyond the limit. */
int pipeline_add_pair(struct inf_tokenizer *tok, unsigned part, int32_t id, uint8_t type);
/* Sorts the sets of added tokens and marks those that end a generation. */
int pipeline_finish(struct inf_tokenizer *tok);

/* Whether a text has more than @max_ids tokens (0: any number) for sure, as its size alone tells.
 */
bool pipeline_is_too_long(const struct inf_tokenizer *tok, const char *text, size_t len,
                          size_t max_ids);

/* Marks the tokens that end generations by their usual names, and @tok->eos. */
void eog_mark(struct inf_tokenizer *tok);
/* Makes control tokens of pieces with such names. */
void eog_control(struct inf_tokenizer *tok);
