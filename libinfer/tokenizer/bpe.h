/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Byte-pair encoding with ranked merges
 *
 * Merges are known in one of two ways. By id: both parts and the result are pieces, which is
 * checked when a merge is added. By text: the lines of a GGUF file ("left right") stay where they
 * are, and an index leads from the hashes of both parts to the line; opening a file with 150,000
 * of them costs a few milliseconds, and parts and results that are no pieces need nothing special.
 *
 * The lowest rank merges first, the leftmost of equals; words of more than a few symbols use a
 * heap, so a word of n symbols takes n log n steps.
 */

#include "core/index.h"
#include "core/str.h"
#include "format/gguf/gguf.h"
#include "tokenizer/text.h"
#include "tokenizer/vocab.h"

struct bpe_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
    uint32_t rank;
    int32_t id;
};

struct bpe {
    const struct vocab *vocab;
    bool by_text;
    const struct gguf_value *lines; /* by text: the merges by rank, borrowed */
    struct index line_ids;
    struct bpe_merge *merges; /* by id */
    size_t n_merges, cap;
    uint64_t seed;
    int32_t ascii[128]; /* ids of single characters */
    int32_t bytes[256];
    bool byte_fallback; /* unknown characters become bytes */
    bool fuse_unknown;
    bool ignore_merges;          /* words of the vocabulary are taken whole */
    bool newline_words;          /* the same for words of newlines alone */
    int32_t unknown;             /* by id; -1: characters without a piece are dropped */
    const char *prefix, *suffix; /* by id: of continuing pieces, of the last piece; or NULL */
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

/* After the vocabulary is complete; with room for @n_merges by id. */
int bpe_init(struct bpe *b, const struct vocab *vocab, size_t n_merges);
/*
 * The next merge by id. Both parts and the result must be pieces; of equal pairs the last counts.
 */
int bpe_add_merge(struct bpe *b, const char *left, size_t left_len, const char *right,
                  size_t right_len, uint32_t rank, struct inf_err *reterr);
/* All merges by text, at most VOCAB_MAX_PIECES strings in the order of their ranks; lines without a
 * space are skipped, and of equal lines the first counts. They are borrowed. */
int bpe_add_lines(struct bpe *b, const struct gguf_value *lines);
void bpe_done(struct bpe *b);
void bpe_work_done(struct bpe_work *w);

int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *word, size_t len,
               struct ids *out);
