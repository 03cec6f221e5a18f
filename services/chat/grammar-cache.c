/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the grammars that requests of one model used most recently. */
#include "chat/grammar-cache.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"

void grammar_cache_init(struct grammar_cache *cache, const struct grammar_cache_limits *limits)
{
    *cache = (struct grammar_cache){.lock = PTHREAD_MUTEX_INITIALIZER, .limits = *limits};
}

static void cache_drop_last(struct grammar_cache *cache)
{
    struct grammar_cache_entry *last = &cache->entries[--cache->n];

    cache->n_bytes -= last->len;
    inf_grammar_unref(last->grammar);
    free(last->text);
}

/* Finds an entry and moves it to the front. */
static struct inf_grammar *cache_find(struct grammar_cache *cache, enum inf_grammar_kind kind,
                                      const char *text, size_t len)
{
    for (size_t i = 0; i < cache->n; i++) {
        const struct grammar_cache_entry e = cache->entries[i];

        if (e.kind != kind || e.len != len || memcmp(e.text, text, len) != 0)
            continue;
        memmove(cache->entries + 1, cache->entries, i * sizeof(e));
        cache->entries[0] = e;
        return inf_grammar_ref(e.grammar);
    }
    return NULL;
}

/* Adds an entry at the front. If memory is short, the grammar is not kept. */
static void cache_add(struct grammar_cache *cache, enum inf_grammar_kind kind, const char *text,
                      size_t len, struct inf_grammar *grammar)
{
    const struct grammar_cache_limits *limits = &cache->limits;
    char *copy;

    if (limits->n == 0 || len > limits->n_bytes)
        return;
    while (cache->n == limits->n || (cache->n && cache->n_bytes + len > limits->n_bytes))
        cache_drop_last(cache);
    copy = malloc(len + 1);
    if (!copy || ARRAY_GROW(cache->entries, cache->cap, cache->n + 1) < 0) {
        free(copy);
        return;
    }
    memcpy(copy, text, len);
    memmove(cache->entries + 1, cache->entries, cache->n * sizeof(cache->entries[0]));
    cache->entries[0] = (struct grammar_cache_entry){kind, copy, len, inf_grammar_ref(grammar)};
    cache->n_bytes += len;
    cache->n++;
}

/* Makes the vocabulary if there is none yet. The caller holds the lock. */
static int cache_make_vocab(struct grammar_cache *cache, const struct inf_tokenizer *tok)
{
    int r;

    if (cache->vocab)
        return 0;
    r = inf_grammar_vocab_new(tok, &cache->vocab);
    if (r == 0)
        inf_grammar_vocab_set_memory(cache->vocab, cache->limits.memory);
    return r;
}

int grammar_cache_get(struct grammar_cache *cache, const struct inf_tokenizer *tok,
                      enum inf_grammar_kind kind, const char *text, size_t len,
                      struct inf_grammar **ret_grammar, struct inf_err *reterr)
{
    struct inf_grammar *grammar;
    int r;

    pthread_mutex_lock(&cache->lock);
    r = cache_make_vocab(cache, tok);
    grammar = r < 0 ? NULL : cache_find(cache, kind, text, len);
    pthread_mutex_unlock(&cache->lock);
    if (grammar) {
        *ret_grammar = grammar;
        return 0;
    }
    r = r < 0 ? r : inf_grammar_new(cache->vocab, kind, text, len, &grammar, reterr);
    if (r < 0)
        return r;
    pthread_mutex_lock(&cache->lock);
    cache_add(cache, kind, text, len, grammar);
    pthread_mutex_unlock(&cache->lock);
    *ret_grammar = grammar;
    return 0;
}

int grammar_cache_try(struct grammar_cache *cache, const struct inf_tokenizer *tok,
                      enum inf_grammar_kind kind, const char *text, size_t len,
                      struct inf_err *reterr)
{
    struct inf_grammar *grammar = NULL;
    int r;

    pthread_mutex_lock(&cache->lock);
    r = cache_make_vocab(cache, tok);
    pthread_mutex_unlock(&cache->lock);
    r = r < 0 ? r : inf_grammar_new(cache->vocab, kind, text, len, &grammar, reterr);
    inf_grammar_unref(grammar);
    return r;
}

void grammar_cache_done(struct grammar_cache *cache)
{
    while (cache->n)
        cache_drop_last(cache);
    free(cache->entries);
    inf_grammar_vocab_unref(cache->vocab);
    pthread_mutex_destroy(&cache->lock);
}
