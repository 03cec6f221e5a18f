/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the grammars that requests of one model used most recently.
 *
 * Compiling a grammar takes time, and a grammar's automaton grows while it is used. Therefore
 * requests with the same tools or the same schema share one grammar. Any thread may use the cache.
 */

#include <infer/grammar.h>
#include <pthread.h>

#include "core/macros.h"

struct grammar_cache_entry {
    enum inf_grammar_kind kind;
    char *text;
    size_t len;
    struct inf_grammar *grammar;
};

struct grammar_cache_limits {
    size_t n;       /* entries */
    size_t n_bytes; /* bytes of the texts of all entries together */
    size_t memory;  /* bytes of the automaton of one grammar, see inf_grammar_vocab_set_memory() */
};

struct grammar_cache {
    pthread_mutex_t lock;
    struct inf_grammar_vocab *vocab; /* made for the first grammar; NULL until then */
    struct grammar_cache_limits limits;
    struct grammar_cache_entry *entries; /* the most recently used one first */
    size_t n, cap, n_bytes;
};

void grammar_cache_init(struct grammar_cache *cache, const struct grammar_cache_limits *limits);
/* Finds a grammar in the cache, or compiles it. The caller owns the reference *ret_grammar. The
 * errors are those of inf_grammar_new(). */
int grammar_cache_get(struct grammar_cache *cache, const struct inf_tokenizer *tok,
                      enum inf_grammar_kind kind, const char *text, size_t len,
                      struct inf_grammar **ret_grammar, struct inf_err *reterr);
/* Compiles a grammar without keeping it, to find out whether it is valid. */
int grammar_cache_try(struct grammar_cache *cache, const struct inf_tokenizer *tok,
                      enum inf_grammar_kind kind, const char *text, size_t len,
                      struct inf_err *reterr);
void grammar_cache_done(struct grammar_cache *cache);
