/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes words with byte-pair encoding and ranked merges.
 *
 * Merges are stored in one of two ways. A merge by id refers to both parts and to the result by the
 * ids of their pieces; bpe_add_merge() checks that these pieces exist. Merges by text are the lines
 * ("left right") of a GGUF file: they stay in place, and an index maps the hashes of both parts to
 * the line. With merges by text a file with 150,000 merges opens in a few milliseconds, and parts
 * and results need not be pieces.
 *
 * The merge with the lowest rank is done first, and among equal ranks the leftmost one. The pairs
 * of a word with more than a few symbols are kept in a heap, so a word of n symbols takes n log n
 * steps.
 */

#include "core/index.h"
#include "core/str.h"
#include "format/gguf/gguf.h"
#include "tokenizer/text.h"
#include "tokenizer/vocab.h"

struct bpe_merge {
    uint64_t pair; /* left << 32 | right; UINT64_MAX: the slot is free */
    uint32_t rank;
    int32_t id;
};

struct bpe {
    const struct vocab *vocab;
    bool by_text;
    const struct gguf_value *lines; /* merges by text: the lines by rank, borrowed */
    struct index line_ids;
    struct bpe_merge *merges; /* merges by id */
    size_t n_merges, cap;
    uint64_t seed;
    int32_t ascii[128]; /* ids of single characters */
    int32_t bytes[256];
    bool byte_fallback; /* unknown characters become bytes */
    bool fuse_unknown;
    bool ignore_merges; /* do not split words that are pieces */
    bool newline_words; /* do not split a word of only newlines if it is a piece */
    int32_t unknown; /* only for merges by id: the id of the unknown token; -1: unknown characters
                        are dropped */
    const char *prefix, *suffix; /* only for merges by id: prefix of continuing pieces, suffix of
                                    the last piece; or NULL */
    size_t prefix_len, suffix_len;
};

/* Working memory that is reused for the next word. */
struct bpe_work {
    struct bpe_symbol *symbols;
    size_t cap;
    struct bpe_pair *heap;
    size_t heap_cap;
    struct str name;
};

/* Reserves room for @n_merges merges by id. The vocabulary must be complete. */
int bpe_init(struct bpe *b, const struct vocab *vocab, size_t n_merges);
/*
 * Adds the next merge by id. Both parts and the result must be pieces. If a pair is added again,
 * the last merge is used.
 */
int bpe_add_merge(struct bpe *b, const char *left, size_t left_len, const char *right,
                  size_t right_len, uint32_t rank, struct inf_err *reterr);
/* Adds all merges by text: at most VOCAB_MAX_PIECES strings in the order of their ranks. Lines
 * without a space are skipped. If lines are equal, the first one is used. The lines are
 * borrowed. */
int bpe_add_lines(struct bpe *b, const struct gguf_value *lines);
void bpe_done(struct bpe *b);
void bpe_work_done(struct bpe_work *w);

int bpe_encode(const struct bpe *b, struct bpe_work *w, const char *word, size_t len,
               struct ids *out);
