/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the states of repetitions. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/hash.h"
#include "grammar/fragment.h"

/* An operand with more than REPEAT_OPERAND states becomes a rule if the repetition would have more
 * than REPEAT_STATES states. */
#define REPEAT_OPERAND 4
#define REPEAT_STATES  400
/* A repetition of more operands than this is made from blocks (repeat_blocks()). */
#define REPEAT_PLAIN 1000
/* A value of the parameter `more` of repeat_times(): the operands may be left out. */
#define OPTIONAL (GRAMMAR_FOREVER - 1)

void repeat_chains_done(struct repeat_chains *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        free(c->chains[i].states);
    free(c->chains);
    index_done(&c->index);
}

static int chain_add(struct repeat_chain *chain, uint32_t state)
{
    int r;

    r = ARRAY_GROW(chain->states, chain->cap, (size_t)chain->n + 1);
    if (r == 0)
        chain->states[chain->n++] = state;
    return r;
}

/* Makes the states that read the operand of a repetition once. */
static int repeat_operand(struct fragments *f, grammar_node operand, bool as_rule, uint32_t next,
                          uint32_t *ret_start)
{
    struct edge edge = {.kind = EDGE_CALL, .to = next};
    int r;

    if (!as_rule)
        return fragment_make(f, operand, next, ret_start);
    r = fragment_rule(f, operand, &edge.arg);
    return r < 0 ? r : fragment_edge(f, edge, ret_start);
}

/* Notes that @times characters of the families @covers (sets of characters, see vocab.h) may follow
 * @state. */
static void repeat_cover(struct fragments *f, uint32_t state, int covers, uint32_t times)
{
    uint8_t cover = COVER_ANY;

    if (times != GRAMMAR_FOREVER)
        cover = (uint8_t)MIN(times, COVER_ANY - 1);
    for (unsigned i = 0; i < N_FAMILIES; i++)
        if (covers >> i & 1)
            f->nfa.states[state].cover[i] = cover;
}

/* The parameters of one repetition. */
struct repeat {
    grammar_node x;
    bool as_rule;
    int covers;
};

/* Makes the states that read the operand any number of times. */
static int repeat_star(struct fragments *f, struct repeat repeat, uint32_t next,
                       uint32_t *ret_start)
{
    struct edge edges[] = {{.kind = EDGE_EMPTY}, {.kind = EDGE_EMPTY, .to = next}};
    int r;

    r = nfa_add_state(&f->nfa, false, ret_start);
    if (r == 0)
        r = repeat_operand(f, repeat.x, repeat.as_rule, *ret_start, &edges[0].to);
    if (r == 0)
        r = nfa_set_edges(&f->nfa, *ret_start, edges, 2);
    if (r == 0)
        repeat_cover(f, *ret_start, repeat.covers, GRAMMAR_FOREVER);
    return r;
}

/* Finds the chain of a repetition before @next, or makes an empty one. */
static int repeat_find_chain(struct fragments *f, struct repeat repeat, uint32_t more,
                             uint32_t next, uint32_t *ret_chain)
{
    struct repeat_chains *c = &f->chains;
    const uint32_t key[] = {repeat.x, repeat.as_rule, more, next};
    const uint32_t hash = (uint32_t)hash_seeded(key, sizeof(key));
    uint32_t at, found;

    if (index_reserve(&c->index, (size_t)c->n + 1) < 0 ||
        ARRAY_GROW(c->chains, c->cap, (size_t)c->n + 1) < 0)
        return -ENOMEM;
    at = index_start(&c->index, hash);
    for (; index_match(&c->index, hash, &at, &found); at++)
        if (memcmp(c->chains[found].key, key, sizeof(key)) == 0) {
            *ret_chain = found;
            return 0;
        }
    index_put(&c->index, at, hash, c->n);
    c->chains[c->n] = (struct repeat_chain){.n = 0};
    memcpy(c->chains[c->n].key, key, sizeof(key));
    *ret_chain = c->n++;
    return 0;
}

/* Makes the state of one more repetition before @next. @times: how many characters may follow it.
 */
static int repeat_once(struct fragments *f, struct repeat repeat, bool optional, uint32_t times,
                       uint32_t end, uint32_t next, uint32_t *ret_state)
{
    struct edge edge = {.kind = EDGE_EMPTY};
    int r;

    r = repeat_operand(f, repeat.x, repeat.as_rule, next, &edge.to);
    if (r < 0)
        return r;
    if (!optional && repeat.covers == 0) {
        *ret_state = edge.to;
        return 0;
    }
    r = optional ? fragment_fork(f, edge.to, end, ret_state) : fragment_edge(f, edge, ret_state);
    if (r == 0)
        repeat_cover(f, *ret_state, repeat.covers, times);
    return r;
}

/*
 * Makes the states that read the operand @n times and then continue at @next. With @more ==
 * OPTIONAL they read it up to @n times; otherwise @more is the number of further operands that may
 * follow. Repetitions that differ only in @n share one chain of states.
 */
static int repeat_times(struct fragments *f, struct repeat repeat, uint32_t n, uint32_t more,
                        uint32_t next, uint32_t *ret_start)
{
    const bool optional = more == OPTIONAL;
    uint32_t chain, state;
    int r;

    if (n == 0) {
        *ret_start = next;
        return 0;
    }
    r = repeat_find_chain(f, repeat, more, next, &chain);
    while (r == 0 && f->chains.chains[chain].n < n) {
        const struct repeat_chain *c = &f->chains.chains[chain];
        uint32_t times = c->n + 1;

        if (!optional)
            times = more == GRAMMAR_FOREVER ? more : more + times;
        r = repeat_once(f, repeat, optional, times, next, c->n > 0 ? c->states[c->n - 1] : next,
                        &state);
        if (r == 0)
            r = chain_add(&f->chains.chains[chain], state);
    }
    if (r == 0)
        *ret_start = f->chains.chains[chain].states[n - 1];
    return r;
}

static uint32_t square_root(uint32_t n)
{
    uint32_t root = 1;

    while ((uint64_t)root * root < n)
        root = root < 256 ? root + 1 : root + root / 256;
    return root;
}

/* Writes a repetition of n operands as about √n blocks of √n operands each. */
static grammar_node repeat_blocks(struct grammar_builder *b, grammar_node x, uint32_t min,
                                  uint32_t max)
{
    const uint32_t least = min > REPEAT_PLAIN ? square_root(min) : 0;
    const uint32_t more = max == GRAMMAR_FOREVER ? 0 : max - min;
    const uint32_t most = more > REPEAT_PLAIN ? square_root(more) : 0;
    grammar_node nodes[3], block, choice[2];
    uint32_t n = 0;

    if (least > 0) {
        block = grammar_repeat(b, x, least, least);
        nodes[n++] = grammar_repeat(b, block, min / least, min / least);
        nodes[n++] = grammar_repeat(b, x, min % least, min % least);
    } else {
        nodes[n++] = grammar_repeat(b, x, min, min);
    }
    if (max == GRAMMAR_FOREVER) {
        nodes[n++] = grammar_repeat(b, x, 0, max);
    } else if (most > 0) {
        block = grammar_repeat(b, x, most, most);
        choice[0] = grammar_repeat(b, x, 0, most - 1);
        choice[1] = grammar_repeat(b, block, 0, more / most - 1);
        choice[0] = grammar_seq(b, (grammar_node[]){choice[1], choice[0]}, 2);
        choice[1] = grammar_seq(b,
                                (grammar_node[]){grammar_repeat(b, block, more / most, more / most),
                                                 grammar_repeat(b, x, 0, more % most)},
                                2);
        nodes[n++] = grammar_alt(b, choice, 2);
    } else {
        nodes[n++] = grammar_repeat(b, x, 0, more);
    }
    return grammar_seq(b, nodes, n);
}

int repeat_fragment(struct fragments *f, grammar_node node, uint32_t next, uint32_t *ret_start)
{
    const struct node n = f->c->b->nodes[node];
    struct repeat repeat = {.x = node_words(f->c->b, node)[0]};
    const bool forever = n.max == GRAMMAR_FOREVER;
    const uint32_t more = forever ? 0 : n.max - n.min;
    int r = 0;

    if (!f->is_inline && (n.min > REPEAT_PLAIN || more > REPEAT_PLAIN)) {
        const grammar_node blocks = repeat_blocks(f->c->b, repeat.x, n.min, n.max);

        return f->c->b->error < 0 ? f->c->b->error : fragment_make(f, blocks, next, ret_start);
    }
    repeat.as_rule = !f->is_inline && n.max > 1 && n.size > REPEAT_STATES &&
                     f->c->b->nodes[repeat.x].size > REPEAT_OPERAND && (!forever || n.min > 0);
    repeat.covers = f->is_inline ? 0 : compiler_covers(f->c, repeat.x);
    if (repeat.covers < 0)
        return repeat.covers;
    if (forever)
        r = repeat_star(f, repeat, next, &next);
    else
        r = repeat_times(f, repeat, more, OPTIONAL, next, &next);
    return r < 0
               ? r
               : repeat_times(f, repeat, n.min, forever ? GRAMMAR_FOREVER : more, next, ret_start);
}
