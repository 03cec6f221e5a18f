/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A grammar as states and edges, from which the automaton is made while it is used
 *
 * A text can be completed from each state to which an edge leads, because all other edges are
 * removed.
 */

#include <infer/tokenizer.h>

#include "grammar/builder.h"
#include "grammar/nfa.h"

struct program {
    struct nfa nfa;   /* arg of EDGE_TOKEN: here the number of a symbol, not the id of a token */
    uint32_t *starts; /* [n_rules]: first states; rule 0 is the whole grammar */
    bool *nullable;   /* [n_states]: the rest of the rule after the state may be empty */
    uint32_t n_rules;
    /* A symbol is a class of bytes, or a token: symbol n_classes + i is tokens[i]. */
    uint8_t class_of[256];
    uint8_t byte_of[256]; /* a byte of each class */
    uint32_t n_classes, n_symbols;
    int32_t *tokens;
};

/*
 * Compiles @root. @tok may be NULL; there are no tokens then. @b gets more nodes. -EINVAL: no text
 * belongs to the grammar, a rule has no body, or an operand of grammar_and(), grammar_not() or
 * grammar_json_escaped() is not regular; *reterr has the reason. -E2BIG; -ENOMEM.
 */
int grammar_program_new(struct grammar_builder *b, grammar_node root,
                        const struct inf_tokenizer *tok, struct program **ret_program,
                        struct inf_err *reterr);
struct program *grammar_program_free(struct program *p);
DEFINE_CLEANUP(struct program *, grammar_program_free);

/* Returns whether a rule ends in this state and cannot continue. */
static inline bool program_is_end(const struct program *p, uint32_t state)
{
    return p->nfa.states[state].is_final && p->nfa.states[state].n == 0;
}
