/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out which slices (see vocab.h) a configuration (see automaton.h) permits as a whole.
 *
 * A slice is permitted if all texts of its family up to its length may follow the configuration.
 * The answers are kept in the configurations on the way, so each answer is computed once.
 */
#include <errno.h>

#include "core/array.h"
#include "grammar/grammar.h"

/* The largest number of pairs of a configuration and a phase that are tried for texts of any
 * length. */
#define MAX_PAIRS 48
/* grammar_ascii_limit() finds limits of the length of texts up to this one. */
#define MAX_LIMIT 24
/* The largest number of steps for one answer. */
#define MAX_STEPS 20000

int family_moves_init(struct family_moves *m, const struct program *p, unsigned family)
{
    uint32_t n = 0, cap = 0;

    for (uint8_t phase = 0; phase < FAMILY_PHASES; phase++) {
        m->first[phase] = n;
        for (unsigned byte = 0; byte < 256; byte++) {
            const uint8_t to = family_step(family, phase, (uint8_t)byte);
            const struct family_move move = {p->class_of[byte], to};

            if (to == UTF8_INVALID ||
                (n > m->first[phase] && m->moves[n - 1].symbol == move.symbol &&
                 m->moves[n - 1].phase == move.phase))
                continue;
            if (ARRAY_GROW(m->moves, cap, (size_t)n + 1) < 0)
                return -ENOMEM;
            m->moves[n++] = move;
        }
    }
    m->first[FAMILY_PHASES] = n;
    return 0;
}

/* One question: whether all texts of a family up to a length may follow. */
struct question {
    struct inf_grammar *g;
    unsigned family, steps;
};

/* Returns what is known of a configuration in @phase; NULL if the configuration already holds the
 * answers for another phase. */
static struct cover *question_cover(const struct question *q, uint32_t config, uint8_t phase)
{
    struct cover *cover = &q->g->automaton.configs[config].cover[q->family];

    if (cover->good == 0 && cover->bad == 0)
        cover->phase = phase;
    return cover->phase == phase ? cover : NULL;
}

/* Returns 1 if all texts of @len characters may follow, 0 if not or if the answer takes too long,
 * or a negative errno value. If @phase is within a character, this character is the first of the
 * @len characters. */
static int question_ask(struct question *q, uint32_t config, uint8_t phase, uint8_t len)
{
    const struct family_moves *m = &q->g->moves[q->family];
    struct cover *cover = question_cover(q, config, phase);
    int r = 1;

    if (len == 0 || (cover && cover->good >= len))
        return 1;
    if (cover && cover->bad != 0 && cover->bad <= len)
        return 0;
    for (uint32_t i = m->first[phase]; r == 1 && i < m->first[phase + 1]; i++) {
        uint32_t to;

        if (q->steps++ > MAX_STEPS)
            return 0;
        r = grammar_step(q->g, config, m->moves[i].symbol, &to);
        if (r < 0)
            return r;
        if (to == AUTOMATON_DEAD)
            r = 0;
        else
            r = question_ask(q, to, m->moves[i].phase,
                             (uint8_t)(len - (m->moves[i].phase == UTF8_START)));
    }
    cover = question_cover(q, config, phase);
    if (cover && r == 1)
        cover->good = len;
    else if (cover && r == 0 && q->steps <= MAX_STEPS)
        cover->bad = len;
    return r;
}

struct pair {
    uint32_t config;
    uint8_t phase;
};

/* Adds a pair to a short list. Returns false if the list is full. */
static bool pairs_add(struct pair *pairs, unsigned *n, struct pair pair)
{
    for (unsigned i = 0; i < *n; i++)
        if (pairs[i].config == pair.config && pairs[i].phase == pair.phase)
            return true;
    if (*n >= MAX_PAIRS)
        return false;
    pairs[(*n)++] = pair;
    return true;
}

/* Answers for texts of any length. They may follow if no step from any pair on the way fails. */
static int question_ask_any(struct question *q, uint32_t config)
{
    const struct family_moves *m = &q->g->moves[q->family];
    struct pair pairs[MAX_PAIRS] = {{config, UTF8_START}};
    unsigned n = 1;

    for (unsigned i = 0; i < n; i++)
        for (uint32_t k = m->first[pairs[i].phase]; k < m->first[pairs[i].phase + 1]; k++) {
            struct pair to = {.phase = m->moves[k].phase};
            int r;

            r = grammar_step(q->g, pairs[i].config, m->moves[k].symbol, &to.config);
            if (r < 0)
                return r;
            if (to.config == AUTOMATON_DEAD || !pairs_add(pairs, &n, to))
                return 0;
        }
    for (unsigned i = 0; i < n; i++) {
        struct cover *cover = question_cover(q, pairs[i].config, pairs[i].phase);

        if (cover)
            cover->good = COVER_ANY;
    }
    return 1;
}

bool grammar_covers_any(struct inf_grammar *g, unsigned family, uint32_t config, uint8_t phase)
{
    const struct question q = {.g = g, .family = family};
    const struct cover *cover = question_cover(&q, config, phase);

    if (phase == UTF8_START && g->automaton.configs[config].known[family] == COVER_ANY)
        return true;
    return cover && cover->good == COVER_ANY;
}

/* Finds the longest slice of one family by trying texts. */
static int grammar_try_levels(struct inf_grammar *g, unsigned family, uint32_t config,
                              const struct slice **ret_slice)
{
    struct question q = {.g = g, .family = family};
    const struct slice *slices = g->vocab->families[family].slices;
    const struct cover *cover;
    int r;

    r = question_ask(&q, config, UTF8_START, 1);
    if (r <= 0)
        return r;
    cover = question_cover(&q, config, UTF8_START);
    r = cover && cover->good == COVER_ANY ? 1 : question_ask_any(&q, config);
    for (unsigned level = N_LEVELS; r >= 0 && level-- > 0;) {
        if (slices[level].max_len != UINT32_MAX)
            r = question_ask(&q, config, UTF8_START, (uint8_t)slices[level].max_len);
        if (r == 1) {
            *ret_slice = &slices[level];
            return 0;
        }
    }
    return r;
}

static int grammar_find_level(struct inf_grammar *g, unsigned family, uint32_t config,
                              const struct slice **ret_slice)
{
    const struct slice *slices = g->vocab->families[family].slices;
    const uint8_t known = g->automaton.configs[config].known[family];

    *ret_slice = NULL;
    if (known == 0)
        return grammar_try_levels(g, family, config, ret_slice);
    for (unsigned level = N_LEVELS; level-- > 0 && !*ret_slice;)
        if (known == COVER_ANY || slices[level].max_len <= known)
            *ret_slice = &slices[level];
    return 0;
}

int grammar_find_slice(struct inf_grammar *g, uint32_t config, const struct family **ret_family,
                       const struct slice **ret_slice)
{
    const struct slice *slice;
    int r = 0;

    *ret_slice = NULL;
    for (unsigned family = 0; r == 0 && family < N_FAMILIES; family++) {
        r = grammar_find_level(g, family, config, &slice);
        if (r == 0 && slice && (!*ret_slice || slice->n_other < (*ret_slice)->n_other)) {
            *ret_slice = slice;
            *ret_family = &g->vocab->families[family];
        }
    }
    return r;
}

/* Adds to @next the configurations after one character of ASCII. Returns a negative errno value,
 * or 1 if the list is full. */
static int grammar_add_next(struct inf_grammar *g, unsigned family, uint32_t config,
                            struct pair *next, unsigned *n_next)
{
    const struct family_moves *m = &g->moves[family];

    for (uint32_t i = m->first[UTF8_START]; i < m->first[UTF8_START + 1]; i++) {
        struct pair to = {0};
        int r;

        if (m->moves[i].phase != UTF8_START)
            continue;
        r = grammar_step(g, config, m->moves[i].symbol, &to.config);
        if (r < 0)
            return r;
        if (to.config != AUTOMATON_DEAD && !pairs_add(next, n_next, to))
            return 1;
    }
    return 0;
}

int grammar_ascii_limit(struct inf_grammar *g, unsigned family, uint32_t config,
                        uint32_t *ret_limit)
{
    struct pair pairs[2][MAX_PAIRS] = {{{.config = config}}};
    unsigned n[2] = {1, 0};
    uint32_t len;

    *ret_limit = UINT32_MAX;
    for (len = 0; len <= MAX_LIMIT; len++) {
        const struct pair *from = pairs[len % 2];
        const unsigned to = (len + 1) % 2;

        n[to] = 0;
        for (unsigned i = 0; i < n[len % 2]; i++) {
            const int r = grammar_add_next(g, family, from[i].config, pairs[to], &n[to]);

            if (r != 0)
                return MIN(r, 0);
        }
        if (n[to] == 0) {
            *ret_limit = len;
            return 0;
        }
    }
    return 0;
}
