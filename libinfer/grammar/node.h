/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stores the nodes of a builder. Equal nodes are stored once, so that equal parts of a grammar
 * share their states.
 */

#include "core/index.h"
#include "grammar/builder.h"
#include "grammar/work.h"

#define BUILDER_MAX_NODES (1u << 20)
#define BUILDER_MAX_WORDS (1u << 23)
#define BUILDER_MAX_DEPTH 1000 /* the largest depth of nested nodes between two rules */

enum node_kind {
    NODE_EMPTY,
    NODE_NOTHING,
    NODE_BYTES,
    NODE_CLASS,
    NODE_TOKEN,
    NODE_TOKEN_ID,
    NODE_SEQ,
    NODE_ALT,
    NODE_REPEAT,
    NODE_RULE,
    NODE_AND,
    NODE_NOT,
    NODE_JSON_ESCAPED,
    NODE_UNTIL,
};

/*
 * A node has n words, which begin at builder->words[at]. The words of SEQ, ALT, REPEAT, AND, NOT
 * and JSON_ESCAPED are the operands. The words of a CLASS are the ends of its ranges in ascending
 * order. BYTES, TOKEN and UNTIL have one byte in each word.
 */
struct node {
    uint8_t kind;
    bool is_text; /* its texts are known to consist of whole code points */
    uint16_t depth;
    uint32_t at, n;
    uint32_t min, max; /* limits of a REPEAT; min: number of a RULE, or id of a TOKEN_ID */
    uint32_t size;     /* estimated number of states; UINT32_MAX also stands for larger ones */
};

struct rule {
    char *name; /* NULL: none */
    grammar_node body;
};

struct grammar_builder {
    int error;
    struct work work; /* the work for this grammar so far */
    struct node *nodes;
    uint32_t *words;
    struct rule *rules;
    uint32_t n_nodes, cap_nodes, n_words, cap_words, n_rules, cap_rules;
    struct index index;
};

static inline const uint32_t *node_words(const struct grammar_builder *b, grammar_node node)
{
    return b->words + b->nodes[node].at;
}

/* Returns whether the text of a node can be escaped operand by operand. */
static inline bool node_is_divisible(const struct node *node)
{
    return node->is_text &&
           (node->kind == NODE_SEQ || node->kind == NODE_ALT || node->kind == NODE_REPEAT);
}
