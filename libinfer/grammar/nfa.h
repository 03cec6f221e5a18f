/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * States and edges that are made from nodes
 *
 * A rule is a set of states with one start and one final state. An edge consumes a byte of a range,
 * consumes one token, consumes nothing, or consumes a text of another rule.
 */

#include "core/macros.h"
#include "grammar/work.h"

#define NFA_MAX_STATES (1u << 20)
#define NFA_MAX_EDGES  (1u << 22)

enum edge_kind {
    EDGE_BYTES,
    EDGE_EMPTY,
    EDGE_CALL,  /* arg: the number of the rule */
    EDGE_TOKEN, /* arg: the id of the token */
};

struct edge {
    uint32_t to, arg;
    uint8_t kind, first, last;
};

/*
 * Families are sets of characters that many grammars permit all together, see vocab.h. All texts
 * with at most cover[family] characters of a family may follow the state; COVER_ANY: texts of any
 * length.
 */
#define N_FAMILIES 3
#define COVER_ANY  255

struct state {
    uint32_t first, n; /* n edges, from index `first` on */
    bool is_final;
    uint8_t cover[N_FAMILIES];
};

/* A struct of zeros is an automaton without states. */
struct nfa {
    struct work *work; /* counts its states and edges; NULL: nothing counts them */
    struct state *states;
    struct edge *edges;
    uint32_t n_states, cap_states, n_edges, cap_edges;
};

/* -ENOMEM, -E2BIG: a limit of the nfa or the limit of work. */
int nfa_add_state(struct nfa *nfa, bool is_final, uint32_t *ret_state);
/* Sets all edges of @state, which has none yet. */
int nfa_set_edges(struct nfa *nfa, uint32_t state, const struct edge *edges, uint32_t n);
void nfa_done(struct nfa *nfa);

static inline const struct edge *nfa_edges(const struct nfa *nfa, uint32_t state)
{
    return nfa->n_edges > 0 ? nfa->edges + nfa->states[state].first : NULL;
}

/* Sets class_of[byte] so that all bytes of a class are in the same ranges of edges. Returns the
 * number of classes. Each class is a range of bytes, and the numbers of the classes ascend. */
uint32_t nfa_classes(const struct nfa *nfa, uint8_t ret_class_of[256]);
