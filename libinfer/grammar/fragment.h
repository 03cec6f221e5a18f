/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes states and edges from nodes.
 *
 * A node of a grammar stands for a set of texts. A fragment is a part of an nfa: from its first
 * state, the nfa can read any of these texts, and then it is in the state that follows the
 * fragment. A fragment is made after the state that follows it. If the same node is followed by the
 * same state at two places of a grammar, both places use one fragment.
 */

#include <infer/tokenizer.h>

#include "core/index.h"
#include "grammar/dfa.h"
#include "grammar/node.h"

/* The state of one compilation, which all its parts share. */
struct compiler {
    struct grammar_builder *b;
    const struct inf_tokenizer *tok; /* NULL: there are no tokens */
    struct inf_err *reterr;
    struct dfa **dfas; /* [cap_dfas] by node, NULL: not made yet */
    uint32_t cap_dfas;
    bool *active;    /* [n_rules] by rule of the builder: whether it is being copied */
    uint8_t *covers; /* [cap_covers] by node, see compiler_covers() */
    uint32_t cap_covers;
    unsigned depth; /* of nested calls */
};

void compiler_done(struct compiler *c);
/* Makes the automaton of a regular node, or finds it. The automaton belongs to the compiler. */
int compiler_dfa(struct compiler *c, grammar_node node, const struct dfa **ret_dfa);
/* Characters are divided into families (see grammar/vocab.h). Finds the families in which each
 * character by itself is a text of @node. Returns a set of bits, or a negative errno value. The set
 * is empty for nodes that are hard to examine. */
int compiler_covers(struct compiler *c, grammar_node node);

struct fragment_memo {
    grammar_node node;
    uint32_t next, start;
};

/* The states of one repeated operand: from states[i] on, the operand is read i + 1 times. */
struct repeat_chain {
    uint32_t key[4]; /* operand; whether it is a rule; @more and @next of repeat_times() */
    uint32_t *states;
    uint32_t n, cap;
};

struct repeat_chains {
    struct index index;
    struct repeat_chain *chains;
    uint32_t n, cap;
};

/* The rules of an nfa, which are made from nodes. Rule 0 is the whole grammar. */
struct fragments {
    struct compiler *c;
    struct nfa nfa;
    bool is_inline;    /* rules are copied instead of called */
    uint32_t rule_end; /* the final state of all rules; equal last parts of rules share states */
    struct index memo_index;
    struct fragment_memo *memo;
    uint32_t n_memo, cap_memo;
    struct repeat_chains chains;
    grammar_node *rules; /* the bodies of the rules that are called */
    uint32_t n_rules, cap_rules;
    uint32_t *rule_of; /* [cap_rule_of] by node: number of its rule + 1; 0: none */
    uint32_t cap_rule_of;
};

void fragments_done(struct fragments *f);
/* The errors are those of grammar_program_new(). */
int fragment_make(struct fragments *f, grammar_node node, uint32_t next, uint32_t *ret_start);
/* Makes a state with one edge. */
int fragment_edge(struct fragments *f, struct edge edge, uint32_t *ret_start);
/* Makes a state with empty edges to two others. */
int fragment_fork(struct fragments *f, uint32_t x, uint32_t y, uint32_t *ret_start);
/* Makes the fragment of a NODE_REPEAT. */
int repeat_fragment(struct fragments *f, grammar_node node, uint32_t next, uint32_t *ret_start);
void repeat_chains_done(struct repeat_chains *c);
/* Finds or makes the rule with this body, and sets *ret_rule to its number. */
int fragment_rule(struct fragments *f, grammar_node body, uint32_t *ret_rule);
/* Makes the fragment of a class. @words are the first and last code points of its @n / 2 ranges. */
int class_fragment(struct nfa *nfa, const uint32_t *words, uint32_t n, uint32_t next,
                   uint32_t *ret_start);
