/* SPDX-License-Identifier: Apache-2.0 */
#include "token-walk.h"

#include <string.h>

#include "core/array.h"
#include "grammar/grammar.h"
#include "grammar/matcher.h"
#include "tokenizer/tokenizer.h"

#define MAX_PLACES 900000 /* limit of the configurations that the search for an end visits */

struct walk {
    struct inf_grammar *g;
    struct grammar_matcher *m;
    uint32_t *mask;
    uint64_t seed;
    int32_t token_of[256];
};

/* A configuration, and the byte and the earlier place from which the search reached it. */
struct place {
    uint32_t config, from;
    uint8_t byte;
};

struct search {
    struct place *places;
    bool *seen; /* [cap_seen] by configuration */
    uint32_t n, cap, cap_seen;
};

static uint64_t walk_random(struct walk *w)
{
    uint64_t z = w->seed += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static bool mask_has(const struct walk *w, uint32_t token)
{
    return w->mask[token / 32] >> (token % 32) & 1;
}

/* Finds a random token of the mask; -1: there is none. */
static int32_t walk_token(struct walk *w)
{
    const uint32_t n = w->g->vocab->n_words;
    const uint32_t from = (uint32_t)(walk_random(w) % n);

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = (from + i) % n;
        const unsigned shift = (unsigned)(walk_random(w) % 32);
        const uint32_t bits = w->mask[at] >> shift;

        if (bits != 0)
            return (int32_t)(32 * at + shift + (unsigned)__builtin_ctz(bits));
        if (w->mask[at] != 0)
            return (int32_t)(32 * at + (unsigned)__builtin_ctz(w->mask[at]));
    }
    return -1;
}

static bool walk_is_end(const struct walk *w, int32_t token)
{
    return (inf_tokenizer_token_flags(w->g->vocab->tok, token) & INF_TOKEN_EOG) != 0;
}

/* Chooses a token. Half of the time it takes the shortest of five random tokens, because short
 * tokens lead to an end sooner. */
static int32_t walk_choose(struct walk *w)
{
    int32_t token = walk_token(w);
    unsigned char bytes[8];

    for (unsigned i = walk_random(w) % 2 * 4; token >= 0 && i > 0; i--) {
        const int32_t other = walk_token(w);

        if (inf_tokenizer_token_bytes(w->g->vocab->tok, other, bytes, sizeof(bytes)) <
            inf_tokenizer_token_bytes(w->g->vocab->tok, token, bytes, sizeof(bytes)))
            token = other;
    }
    return token;
}

static bool walk_append(const struct walk *w, int32_t token, struct str *ret)
{
    unsigned char bytes[4096];
    const size_t n = inf_tokenizer_token_bytes(w->g->vocab->tok, token, bytes, sizeof(bytes));

    return n <= sizeof(bytes) && str_append(ret, (const char *)bytes, n) == 0;
}

static bool search_add(struct search *s, uint32_t config, uint32_t from, unsigned byte)
{
    if (ARRAY_GROW(s->places, s->cap, (size_t)s->n + 1) < 0 ||
        ARRAY_GROW_ZEROED(s->seen, s->cap_seen, (size_t)config + 1) < 0)
        return false;
    if (!s->seen[config])
        s->places[s->n++] = (struct place){config, from, (uint8_t)byte};
    s->seen[config] = true;
    return true;
}

/* Searches for the fewest bytes that complete a text. Returns the number of the last place, or
 * -1. */
static int64_t search_end(struct search *s, struct inf_grammar *g, uint32_t config)
{
    if (!search_add(s, config, 0, 0))
        return -1;
    for (uint32_t i = 0; i < s->n && s->n < MAX_PLACES; i++) {
        const uint32_t at = s->places[i].config;

        if (g->automaton.configs[at].is_complete)
            return i;
        for (unsigned byte = 0; byte < 256; byte++) {
            uint32_t to;

            if (byte > 0 && g->program->class_of[byte] == g->program->class_of[byte - 1])
                continue;
            if (automaton_step(&g->automaton, at, g->program->class_of[byte], &to) < 0)
                return -1;
            if (to != AUTOMATON_DEAD && !search_add(s, to, i, byte))
                return -1;
        }
    }
    return -1;
}

/* Finds the token of each single byte; -1: there is none. */
static void walk_list_bytes(struct walk *w)
{
    static const struct inf_grammar_vocab *known;
    static int32_t token_of[256];

    if (known == w->g->vocab) {
        memcpy(w->token_of, token_of, sizeof(token_of));
        return;
    }
    memset(w->token_of, 0xff, sizeof(w->token_of));
    for (int32_t t = 0; t < (int32_t)w->g->vocab->n_vocab; t++) {
        unsigned char bytes[8];

        if (vocab_has_bytes(w->g->vocab, t) &&
            inf_tokenizer_token_bytes(w->g->vocab->tok, t, bytes, sizeof(bytes)) == 1)
            w->token_of[bytes[0]] = t;
    }
    memcpy(token_of, w->token_of, sizeof(token_of));
    known = w->g->vocab;
}

/* Checks that the mask permits the token of a byte, and accepts this token. */
static bool walk_byte(struct walk *w, uint8_t byte)
{
    const int32_t token = w->token_of[byte];

    return token >= 0 && grammar_matcher_mask(w->m, w->mask) == 0 && mask_has(w, (uint32_t)token) &&
           grammar_matcher_accept(w->m, token) == 0;
}

static bool walk_end(struct walk *w, struct str *ret)
{
    struct search s = {0};
    _cleanup_str_ struct str end = {0};
    int64_t at = search_end(&s, w->g, w->m->config);
    bool ok = at >= 0;

    for (; ok && at > 0; at = s.places[at].from)
        ok = str_putc(&end, (char)s.places[at].byte) == 0;
    while (ok && end.len > 0) {
        const char byte = end.data[--end.len];

        ok = walk_byte(w, (uint8_t)byte) && str_putc(ret, byte) == 0;
    }
    free(s.places);
    free(s.seen);
    return ok && grammar_matcher_is_complete(w->m);
}

static bool walk_tokens(struct walk *w, size_t n, struct str *ret)
{
    for (size_t i = 0; i < n; i++) {
        int32_t token;

        if (grammar_matcher_mask(w->m, w->mask) < 0)
            return false;
        token = walk_choose(w);
        if (token < 0 || grammar_matcher_accept(w->m, token) != 0)
            return false;
        if (walk_is_end(w, token))
            return true;
        if (!walk_append(w, token, ret))
            return false;
    }
    return walk_end(w, ret);
}

bool token_walk(struct inf_grammar *grammar, uint64_t seed, size_t n_tokens, struct str *ret)
{
    _cleanup_free_ uint32_t *mask = NEW(uint32_t, grammar->vocab->n_words);
    _cleanup_(grammar_matcher_freep) struct grammar_matcher *m = NULL;
    struct walk w = {.g = grammar, .mask = mask, .seed = seed};

    if (!mask || grammar_matcher_new(grammar, &m) < 0)
        return false;
    w.m = m;
    walk_list_bytes(&w);
    return walk_tokens(&w, n_tokens, ret);
}
