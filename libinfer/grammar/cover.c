/* SPDX-License-Identifier: Apache-2.0 */
/* Finds operands of repetitions that accept all characters of a family. A family is a set of
 * characters (vocab.h). */
#include <errno.h>

#include "core/array.h"
#include "grammar/fragment.h"
#include "grammar/vocab.h"

/* The limits of operands that are examined. */
#define MAX_SIZE  400
#define MAX_DEPTH 4
#define MAX_PAIRS 64

/* A state of the automaton, and a phase: how the current character of the family may continue
 * (family_step()). */
struct pair {
    uint32_t state;
    uint8_t phase;
};

static bool pairs_add(struct pair *pairs, unsigned *n, struct pair pair)
{
    for (unsigned i = 0; i < *n; i++)
        if (pairs[i].state == pair.state && pairs[i].phase == pair.phase)
            return true;
    if (*n == MAX_PAIRS)
        return false;
    pairs[(*n)++] = pair;
    return true;
}

/* Returns whether an automaton accepts each single character of a family. */
static bool dfa_covers(const struct dfa *dfa, unsigned family)
{
    struct pair pairs[MAX_PAIRS] = {{0, UTF8_START}};
    unsigned n = 1;

    for (unsigned i = 0; i < n; i++)
        for (unsigned byte = 0; byte < 256; byte++) {
            const uint8_t phase = family_step(family, pairs[i].phase, (uint8_t)byte);
            uint32_t to;

            if (phase == UTF8_INVALID)
                continue;
            to = dfa->next[(size_t)pairs[i].state * dfa->n_classes + dfa->class_of[byte]];
            if (to == DFA_DEAD || (phase == UTF8_START && !dfa->is_final[to]))
                return false;
            if (phase != UTF8_START && !pairs_add(pairs, &n, (struct pair){to, phase}))
                return false;
        }
    return true;
}

/* Returns whether a node is a class of characters, or a choice with such a class among its
 * alternatives. compiler_covers() makes automatons only for such nodes. */
static bool node_has_class(const struct grammar_builder *b, grammar_node node, unsigned depth)
{
    const struct node *n = &b->nodes[node];

    if (n->kind == NODE_CLASS)
        return true;
    if (n->kind == NODE_JSON_ESCAPED)
        return b->nodes[node_words(b, node)[0]].kind == NODE_CLASS;
    if (depth == 0 || n->size > MAX_SIZE)
        return false;
    if (n->kind == NODE_RULE)
        return b->rules[n->min].body != BUILDER_NONE &&
               node_has_class(b, b->rules[n->min].body, depth - 1);
    for (uint32_t i = 0; n->kind == NODE_ALT && i < n->n; i++)
        if (node_has_class(b, node_words(b, node)[i], depth - 1))
            return true;
    return false;
}

int compiler_covers(struct compiler *c, grammar_node node)
{
    struct inf_err *reterr = c->reterr;
    const struct dfa *dfa;
    int r, covers = 0;

    r = ARRAY_GROW_ZEROED(c->covers, c->cap_covers, (size_t)node + 1);
    if (r < 0 || c->covers[node] != 0)
        return r < 0 ? r : c->covers[node] - 1;
    c->covers[node] = 1;
    if (!node_has_class(c->b, node, MAX_DEPTH))
        return 0;
    c->reterr = NULL; /* it is no error if the node is not regular */
    r = compiler_dfa(c, node, &dfa);
    c->reterr = reterr;
    if (r < 0)
        return r == -ENOMEM || work_add(&c->b->work, 0) < 0 ? r : 0;
    for (unsigned family = 0; family < N_FAMILIES; family++)
        covers |= dfa_covers(dfa, family) << family;
    c->covers[node] = (uint8_t)(1 + covers);
    return covers;
}
