/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Byte-pair encoding with ranked merges
 *
 * Symbols are ids of the vocabulary, and above them ids of texts that only merges know (GGUF
 * files may hold such). The lowest rank merges first, the leftmost of equals; words of more than
 * a few symbols use a heap, so a word of n symbols takes n log n steps.
 */

#include "core/str.h"
#include "tokenizer/text.h"
#include "tokenizer/vocab.h"

struct bpe_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank;
    int32_t id;
};

struct bpe {
    const struct vocab *vocab;
    struct bpe_merge *merges;
    size_t n_merges, cap;
    uint64_t seed;
    struct vocab extra; /* its id i is symbol vocab->n + i */
    int32_t ascii[128]; /* ids of single characters */
    int32_t bytes[256];
    bool byte_fallback; /* unknown characters become bytes */
    bool byte_pieces;   /* …at the end, each byte being a piece, as llama.cpp does */
    bool fuse_unknown;
    bool ignore_merges;          /* words of the vocabulary are taken whole */
    bool newline_words;          /* the same for words of newlines alone */
    int32_t unknown;             /* -1: characters without a piece are dropped */
    const char *prefix, *suffix; /* of continuing pieces, of the last piece; or NULL */
    size_t prefix_len, suffix_len;
};

/* Working space, kept between words. */
struct bpe_work {
    struct bpe_symbol *symbols;
    size_t cap;
    struct bpe_pair *heap;
    size_t heap_cap;
    struct str name;
};

/* After the vocabulary is complete. */
int bpe_init(struct bpe *b, const struct vocab *vocab, size_t n_merges);
/*
 * The next merge. With @strict, both parts and the result must be pieces, and of equal pairs the
 * last counts; else the first.
 */
int bpe_add_merge(struct bpe *b, const char *left, size_t left_len, const char *right,
                  size_t right_len, uint32_t rank, bool strict, struct inf_err *reterr);
void bpe_done(struct bpe *b);
void bpe_work_done(struct bpe_work *w);

int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *word, size_t len,
               struct ids *out);
