/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encodes text with the two models of SentencePiece: BPE by scores, and unigram.
 *
 * Both models take normalized text. In BPE, user-defined pieces are found first and are not split,
 * and unused pieces take part in merges and are split again at the end.
 */

#include "core/map.h"
#include "tokenizer/text.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

struct spm {
    const struct vocab *vocab;
    struct map pieces; /* BPE: possible results of merges: normal, user-defined and unused pieces */
    struct trie user;  /* user-defined pieces */
    struct trie all;   /* unigram: the pieces of the same kinds */
    uint32_t max_len;
    int32_t bytes[256];
    bool byte_fallback; /* unknown characters become bytes */
    bool has_unused;
    int32_t unknown; /* -1: unknown characters without bytes are dropped */
    bool single;     /* unigram: sums of scores are float, as in SentencePiece, not double */
    bool user_bonus; /* unigram: user-defined pieces always win */
    bool user_zero;  /* unigram: user-defined pieces score 0, as in llama.cpp */
    double unknown_score, max_score;
};

struct spm_work {
    struct spm_symbol *symbols;
    size_t cap;
    struct spm_pair *heap;
    size_t n_heap, heap_cap;
    struct spm_node *nodes;
    size_t node_cap;
    struct map split; /* maps an unused piece's text to the length of its left part */
};

/* Builds the tables of a model. The vocabulary must be complete. @any_kind: treats all kinds of
 * pieces alike, as the unigram model of tokenizer.json does. */
int spm_init(struct spm *m, const struct vocab *vocab, bool unigram, bool any_kind);
void spm_done(struct spm *m);
void spm_work_done(struct spm_work *w);

int spm_encode(const struct spm *m, struct spm_work *w, const char *text, size_t len,
               struct ids *out);
int unigram_encode(const struct spm *m, struct spm_work *w, const char *text, size_t len,
                   struct ids *out);
