/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the suffix automaton with arrays of states and edges.
 *
 * A text of n tokens has at most 2n states and 3n edges. An edge leads from one state to another
 * and has a token. A hash table finds edges by state and token; the edges of a state also form a
 * list, because splitting a state copies its edges. The link of a state leads to the state of its
 * longest suffix that occurs in more places.
 */
#include "draft/suffix.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define NONE  UINT32_MAX
#define CHAIN 32u /* states whose counts are updated for each token */

struct suffix_state {
    uint32_t len, link;
    uint32_t count;       /* how often the parts of the state occur */
    uint32_t first, best; /* edges: the newest one, and the one that was followed most often */
};

struct suffix_edge {
    uint32_t from, to;
    int32_t token;
    uint32_t next; /* the next edge of the same state */
};

struct suffix {
    struct suffix_state *states; /* [2 × max_tokens + 1]; state 0 is the empty part */
    struct suffix_edge *edges;   /* [3 × max_tokens + 1] */
    uint32_t *table;             /* [mask + 1]: edge + 1; 0: empty */
    uint32_t mask;
    uint32_t n_states, n_edges, n_tokens, max_tokens;
    uint32_t last; /* the state of the whole current text */
};

int suffix_new(uint32_t max_tokens, struct suffix **ret_suffix)
{
    _cleanup_(suffix_freep) struct suffix *x = NEW(struct suffix, 1);
    uint32_t n_table = 16;

    assert(max_tokens > 0 && max_tokens <= 1u << 24);
    if (!x)
        return -ENOMEM;
    while (n_table < 6 * max_tokens)
        n_table *= 2;
    x->states = NEW(struct suffix_state, 2 * (size_t)max_tokens + 1);
    x->edges = NEW(struct suffix_edge, 3 * (size_t)max_tokens + 1);
    x->table = NEW(uint32_t, n_table);
    if (!x->states || !x->edges || !x->table)
        return -ENOMEM;
    x->mask = n_table - 1;
    x->max_tokens = max_tokens;
    suffix_clear(x);
    *ret_suffix = STEAL(x);
    return 0;
}

struct suffix *suffix_free(struct suffix *x)
{
    if (!x)
        return NULL;
    free(x->states);
    free(x->edges);
    free(x->table);
    free(x);
    return NULL;
}

void suffix_clear(struct suffix *x)
{
    /* The table of a new automaton is already clear; clearing it again would make the system
     * provide all of its memory. */
    if (x->n_edges > 0)
        memset(x->table, 0, ((size_t)x->mask + 1) * sizeof(*x->table));
    x->states[0] = (struct suffix_state){.link = NONE, .first = NONE, .best = NONE};
    x->n_states = 1;
    x->n_edges = x->n_tokens = x->last = 0;
}

static uint32_t suffix_slot(const struct suffix *x, uint32_t state, int32_t token)
{
    const uint64_t key = (uint64_t)state << 32 | (uint32_t)token;

    return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & x->mask;
}

static uint32_t find_edge(const struct suffix *x, uint32_t state, int32_t token)
{
    for (uint32_t i = suffix_slot(x, state, token); x->table[i] > 0; i = (i + 1) & x->mask) {
        const struct suffix_edge *e = &x->edges[x->table[i] - 1];

        if (e->from == state && e->token == token)
            return x->table[i] - 1;
    }
    return NONE;
}

/* Adds an edge that does not exist yet. */
static uint32_t add_edge(struct suffix *x, uint32_t from, int32_t token, uint32_t to)
{
    const uint32_t edge = x->n_edges++;
    uint32_t i = suffix_slot(x, from, token);

    assert(edge <= 3 * x->max_tokens);
    while (x->table[i] > 0)
        i = (i + 1) & x->mask;
    x->table[i] = edge + 1;
    x->edges[edge] = (struct suffix_edge){from, to, token, x->states[from].first};
    x->states[from].first = edge;
    return edge;
}

static uint32_t add_state(struct suffix *x, uint32_t len)
{
    assert(x->n_states <= 2 * x->max_tokens);
    x->states[x->n_states] = (struct suffix_state){.len = len, .first = NONE, .best = NONE};
    return x->n_states++;
}

/* Splits the state to which @edge leads: the parts of at most @len tokens get a state of their own,
 * because they occur in one more place. */
static uint32_t split_state(struct suffix *x, uint32_t edge, uint32_t len)
{
    const uint32_t old = x->edges[edge].to, copy = add_state(x, len);
    const int32_t token = x->edges[edge].token;

    x->states[copy].link = x->states[old].link;
    x->states[copy].count = x->states[old].count;
    x->states[old].link = copy;
    for (uint32_t e = x->states[old].first; e != NONE; e = x->edges[e].next) {
        const uint32_t made = add_edge(x, copy, x->edges[e].token, x->edges[e].to);

        if (e == x->states[old].best)
            x->states[copy].best = made;
    }
    for (uint32_t from = x->edges[edge].from; from != NONE; from = x->states[from].link) {
        const uint32_t e = find_edge(x, from, token);

        if (e == NONE || x->edges[e].to != old)
            break;
        x->edges[e].to = copy;
    }
    return copy;
}

/* Follows the links from @state to the first state that has an edge with @token. Adds such an edge,
 * which leads to @to, to each state before it. Returns the first state and sets *ret_edge to its
 * edge; returns NONE if no state has such an edge. */
static uint32_t extend_states(struct suffix *x, uint32_t state, int32_t token, uint32_t to,
                              uint32_t *ret_edge)
{
    uint32_t edge = NONE;

    while (state != NONE && (edge = find_edge(x, state, token)) == NONE) {
        add_edge(x, state, token, to);
        state = x->states[state].link;
    }
    *ret_edge = edge;
    return state;
}

/* Counts the place where the current text ends now. @before is the state of the place before
 * @token; the most frequent edges of this state and of the states along its links are updated. */
static void count_place(struct suffix *x, uint32_t before, int32_t token)
{
    uint32_t state = x->last;

    for (uint32_t i = 0; i < CHAIN && state != 0; i++, state = x->states[state].link)
        x->states[state].count++;
    for (uint32_t i = 0; i < CHAIN && before != NONE; i++, before = x->states[before].link) {
        struct suffix_state *from = &x->states[before];
        const uint32_t edge = find_edge(x, before, token);

        if (from->best == NONE ||
            x->states[x->edges[edge].to].count >= x->states[x->edges[from->best].to].count)
            from->best = edge;
    }
}

bool suffix_add(struct suffix *x, int32_t token)
{
    const uint32_t before = x->last;
    const uint32_t len = x->states[before].len + 1;
    uint32_t edge = find_edge(x, before, token), state, from;

    if (x->n_tokens == x->max_tokens)
        return false;
    x->n_tokens++;
    if (edge != NONE) {
        /* The automaton has this text already, as the beginning or a part of another one. */
        state = x->edges[edge].to;
        x->last = x->states[state].len == len ? state : split_state(x, edge, len);
        count_place(x, before, token);
        return true;
    }
    state = add_state(x, len);
    from = extend_states(x, before, token, state, &edge);
    if (from == NONE)
        x->states[state].link = 0;
    else if (x->states[x->edges[edge].to].len == x->states[from].len + 1)
        x->states[state].link = x->edges[edge].to;
    else
        x->states[state].link = split_state(x, edge, x->states[from].len + 1);
    x->last = state;
    count_place(x, before, token);
    return true;
}

void suffix_end_text(struct suffix *x)
{
    x->last = 0;
}

uint32_t suffix_n_tokens(const struct suffix *x)
{
    return x->n_tokens;
}

struct suffix_place suffix_repeated(const struct suffix *x)
{
    const struct suffix_state *last = &x->states[x->last];

    /* The whole current text is a repetition if another text contains it. */
    if (x->last == 0 || last->count > 1)
        return (struct suffix_place){x->last, last->len};
    return (struct suffix_place){last->link, x->states[last->link].len};
}

struct suffix_place suffix_follow(const struct suffix *x, struct suffix_place place, int32_t token)
{
    uint32_t edge;

    /* The state of the part may have been split since the place was found. */
    while (place.state != 0 && place.len <= x->states[x->states[place.state].link].len)
        place.state = x->states[place.state].link;
    while ((edge = find_edge(x, place.state, token)) == NONE) {
        if (place.state == 0)
            return (struct suffix_place){0};
        place.state = x->states[place.state].link;
        place.len = x->states[place.state].len;
    }
    return (struct suffix_place){x->edges[edge].to, place.len + 1};
}

uint32_t suffix_draft(const struct suffix *x, struct suffix_place place, uint32_t n,
                      int32_t *ret_tokens, float *ret_share)
{
    uint32_t state = place.state, i = 0;

    for (; i < n; i++) {
        const struct suffix_edge *e;

        /* This part occurs only at the ends of texts, so no token has followed it. A shorter part
         * may occur elsewhere. */
        while (state != 0 && x->states[state].best == NONE)
            state = x->states[state].link;
        if (state == 0)
            break;
        e = &x->edges[x->states[state].best];
        if (i == 0)
            *ret_share = (float)x->states[e->to].count / (float)MAX(x->states[state].count, 1u);
        ret_tokens[i] = e->token;
        state = e->to;
    }
    return i;
}
