/* SPDX-License-Identifier: Apache-2.0 */
/* Follows one text through a grammar, token by token. automaton.h explains configurations. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "grammar/grammar.h"

#define USUAL_BYTES 256 /* most tokens are shorter */

/* Makes a matcher that is not in the list of its grammar yet. */
static struct grammar_matcher *matcher_alloc(struct inf_grammar *grammar)
{
    struct grammar_matcher *m = NEW(struct grammar_matcher, 1);

    if (m)
        m->grammar = inf_grammar_ref(grammar);
    return m;
}

static void matcher_link(struct grammar_matcher *m)
{
    struct inf_grammar *g = m->grammar;

    m->next = g->matchers;
    if (m->next)
        m->next->prev = m;
    g->matchers = m;
    g->n_matchers++;
}

int grammar_matcher_new(struct inf_grammar *grammar, struct grammar_matcher **ret_matcher)
{
    struct grammar_matcher *m = matcher_alloc(grammar);
    int r;

    if (!m)
        return -ENOMEM;
    pthread_mutex_lock(&grammar->lock);
    r = grammar_make_room(grammar);
    if (r == 0)
        r = automaton_start(&grammar->automaton, &m->config);
    if (r == 0)
        matcher_link(m);
    pthread_mutex_unlock(&grammar->lock);
    if (r < 0) {
        inf_grammar_unref(grammar);
        free(m);
        return r;
    }
    *ret_matcher = m;
    return 0;
}

struct grammar_matcher *grammar_matcher_free(struct grammar_matcher *m)
{
    struct inf_grammar *g;

    if (!m)
        return NULL;
    g = m->grammar;
    pthread_mutex_lock(&g->lock);
    if (m->prev)
        m->prev->next = m->next;
    else
        g->matchers = m->next;
    if (m->next)
        m->next->prev = m->prev;
    g->n_matchers--;
    pthread_mutex_unlock(&g->lock);
    inf_grammar_unref(g);
    free(m);
    return NULL;
}

int grammar_matcher_clone(const struct grammar_matcher *m, struct grammar_matcher **ret_matcher)
{
    struct grammar_matcher *clone = matcher_alloc(m->grammar);

    if (!clone)
        return -ENOMEM;
    pthread_mutex_lock(&m->grammar->lock);
    clone->config = m->config;
    clone->has_ended = m->has_ended;
    matcher_link(clone);
    pthread_mutex_unlock(&m->grammar->lock);
    *ret_matcher = clone;
    return 0;
}

static void mask_ends(const struct inf_grammar_vocab *v, uint32_t *ret_mask)
{
    memset(ret_mask, 0, v->n_words * sizeof(*ret_mask));
    for (uint32_t i = 0; i < v->n_ends; i++)
        ret_mask[v->ends[i] / 32] |= 1u << (v->ends[i] % 32);
}

int grammar_matcher_mask(struct grammar_matcher *m, uint32_t *ret_mask)
{
    struct inf_grammar *g = m->grammar;
    int r;

    if (m->has_ended) {
        mask_ends(g->vocab, ret_mask);
        return 0;
    }
    pthread_mutex_lock(&g->lock);
    r = grammar_make_room(g);
    if (r == 0)
        r = grammar_mask(g, m->config, ret_mask);
    pthread_mutex_unlock(&g->lock);
    return r;
}

/* Follows the bytes of a token. *ret_config is AUTOMATON_DEAD if they do not continue the text. */
static int follow_bytes(struct inf_grammar *g, uint32_t config, int32_t token, uint32_t *ret_config)
{
    unsigned char usual[USUAL_BYTES], *bytes = usual;
    _cleanup_free_ unsigned char *more = NULL;
    size_t len;
    int r = 0;

    *ret_config = AUTOMATON_DEAD;
    if (!vocab_has_bytes(g->vocab, token))
        return 0;
    len = inf_tokenizer_token_bytes(g->vocab->tok, token, usual, sizeof(usual));
    if (len > g->vocab->max_len)
        return 0;
    if (len > sizeof(usual)) {
        more = NEW(unsigned char, len);
        if (!more)
            return -ENOMEM;
        bytes = more;
        inf_tokenizer_token_bytes(g->vocab->tok, token, more, len);
    }
    for (size_t i = 0; r == 0 && i < len && config != AUTOMATON_DEAD; i++)
        r = grammar_step(g, config, g->program->class_of[bytes[i]], &config);
    if (r == 0 && len > 0)
        *ret_config = config;
    return r;
}

/* Follows a token that the grammar names. */
static int follow_token(struct inf_grammar *g, uint32_t config, int32_t token, uint32_t *ret_config)
{
    const struct program *p = g->program;

    *ret_config = AUTOMATON_DEAD;
    for (uint32_t i = 0; i < p->n_symbols - p->n_classes; i++)
        if (p->tokens[i] == token)
            return grammar_step(g, config, p->n_classes + i, ret_config);
    return 0;
}

/* Finds the configuration of a text that may be in the configuration @x or in @y. */
static int follow_both(struct inf_grammar *g, uint32_t x, uint32_t y, uint32_t *ret_config)
{
    if (x == AUTOMATON_DEAD || x == y) {
        *ret_config = y;
        return 0;
    }
    if (y == AUTOMATON_DEAD) {
        *ret_config = x;
        return 0;
    }
    return automaton_join(&g->automaton, x, y, ret_config);
}

static bool is_end(const struct inf_grammar_vocab *v, int32_t token)
{
    for (uint32_t i = 0; i < v->n_ends; i++)
        if (v->ends[i] == token)
            return true;
    return false;
}

static int matcher_follow(struct grammar_matcher *m, int32_t token)
{
    struct inf_grammar *g = m->grammar;
    uint32_t by_bytes, by_token, config;
    int r;

    r = grammar_make_room(g);
    if (r == 0)
        r = follow_bytes(g, m->config, token, &by_bytes);
    if (r == 0)
        r = follow_token(g, m->config, token, &by_token);
    if (r == 0)
        r = follow_both(g, by_bytes, by_token, &config);
    if (r < 0)
        return r;
    if (config != AUTOMATON_DEAD) {
        m->config = config;
        return 0;
    }
    if (!g->automaton.configs[m->config].is_complete || !is_end(g->vocab, token))
        return MATCHER_REFUSED;
    m->has_ended = true;
    return 0;
}

int grammar_matcher_accept(struct grammar_matcher *m, int32_t token)
{
    int r;

    if (m->has_ended || token < 0 || (uint32_t)token >= m->grammar->vocab->n_vocab)
        return MATCHER_REFUSED;
    pthread_mutex_lock(&m->grammar->lock);
    r = matcher_follow(m, token);
    pthread_mutex_unlock(&m->grammar->lock);
    return r;
}

bool grammar_matcher_is_complete(const struct grammar_matcher *m)
{
    bool is_complete;

    pthread_mutex_lock(&m->grammar->lock);
    is_complete = m->has_ended || m->grammar->automaton.configs[m->config].is_complete;
    pthread_mutex_unlock(&m->grammar->lock);
    return is_complete;
}

bool grammar_matcher_must_end(struct grammar_matcher *m)
{
    const struct config *config;
    bool must_end;

    pthread_mutex_lock(&m->grammar->lock);
    config = &m->grammar->automaton.configs[m->config];
    must_end = m->has_ended || (config->is_complete && config->n == 0);
    pthread_mutex_unlock(&m->grammar->lock);
    return must_end;
}
