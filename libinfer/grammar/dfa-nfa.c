/* SPDX-License-Identifier: Apache-2.0 */
/* Turns deterministic automata back into states and edges. */
#include <errno.h>
#include <string.h>

#include "grammar/dfa.h"

/* The largest number of edges of one state: one for each range of bytes that leads to the same
 * state, and one to the end. */
#define MAX_EDGES 260

struct edge_list {
    struct edge edges[MAX_EDGES];
    uint32_t n;
};

static void edges_add(struct edge_list *list, enum edge_kind kind, unsigned first, unsigned last,
                      uint32_t to)
{
    assert(list->n < MAX_EDGES);
    list->edges[list->n++] = (struct edge){
        .kind = (uint8_t)kind, .first = (uint8_t)first, .last = (uint8_t)last, .to = to};
}

static uint32_t dfa_step(const struct dfa *dfa, uint32_t state, unsigned byte)
{
    return dfa->next[(size_t)state * dfa->n_classes + dfa->class_of[byte]];
}

/* Adds edges for the bytes from @first to @last. State i of @dfa is state @base + i. */
static void edges_add_range(struct edge_list *list, const struct dfa *dfa, uint32_t state,
                            unsigned first, unsigned last, uint32_t base)
{
    while (first <= last) {
        const uint32_t to = dfa_step(dfa, state, first);
        unsigned end = first;

        while (end < last && dfa_step(dfa, state, end + 1) == to)
            end++;
        if (to != DFA_DEAD)
            edges_add(list, EDGE_BYTES, first, end, base + to);
        first = end + 1;
    }
}

static int nfa_add_states(struct nfa *nfa, uint32_t n)
{
    uint32_t state;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = nfa_add_state(nfa, false, &state);
    return r;
}

int dfa_to_nfa(const struct dfa *dfa, struct nfa *nfa, uint32_t next, uint32_t *ret_start)
{
    const uint32_t base = nfa->n_states;
    int r;

    r = nfa_add_states(nfa, dfa->n);
    for (uint32_t i = 0; r == 0 && i < dfa->n; i++) {
        struct edge_list list = {.n = 0};

        edges_add_range(&list, dfa, i, 0, 255, base);
        if (dfa->is_final[i])
            edges_add(&list, EDGE_EMPTY, 0, 0, next);
        r = work_add(nfa->work, WORK_ROW);
        if (r == 0)
            r = nfa_set_edges(nfa, base + i, list.edges, list.n);
    }
    if (r == 0)
        *ret_start = base;
    return r;
}
