/* SPDX-License-Identifier: Apache-2.0 */
/* Makes states and edges from the nodes of a grammar. fragment.h explains nodes and fragments. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "core/hash.h"
#include "grammar/fragment.h"

/* A class with more ranges than this becomes an automaton with few states before it is used. */
#define CLASS_PLAIN 8
/* An automaton with more states than this becomes a rule. */
#define DFA_PLAIN     12
#define ESCAPED_PLAIN 12 /* the same for texts in JSON strings */
/* The operands of a node with more states than this are escaped one by one, so no automaton of the
 * whole node is made. */
#define ESCAPE_WHOLE 300
/* A sequence becomes a rule if it contains a repetition that has more than SEQ_PLAIN states and
 * repeats its operand more than REPEAT_SHORT times. */
#define SEQ_PLAIN    400
#define REPEAT_SHORT 16
#define MAX_CALLS    3000
/* The limit of the states from which one deterministic automaton is made. */
#define INLINE_STATES (1u << 17)

void compiler_done(struct compiler *c)
{
    for (uint32_t i = 0; i < c->cap_dfas; i++)
        dfa_free(c->dfas[i]);
    free(c->dfas);
    free(c->covers);
    free(c->active);
    *c = (struct compiler){0};
}

void fragments_done(struct fragments *f)
{
    nfa_done(&f->nfa);
    index_done(&f->memo_index);
    free(f->memo);
    free(f->rules);
    free(f->rule_of);
    repeat_chains_done(&f->chains);
    *f = (struct fragments){0};
}

int fragment_rule(struct fragments *f, grammar_node body, uint32_t *ret_rule)
{
    int r;

    r = ARRAY_GROW_ZEROED(f->rule_of, f->cap_rule_of, (size_t)body + 1);
    if (r == 0)
        r = ARRAY_GROW(f->rules, f->cap_rules, (size_t)f->n_rules + 1);
    if (r < 0)
        return r;
    if (f->rule_of[body] == 0) {
        f->rules[f->n_rules++] = body;
        f->rule_of[body] = f->n_rules;
    }
    *ret_rule = f->rule_of[body] - 1;
    return 0;
}

int fragment_edge(struct fragments *f, struct edge edge, uint32_t *ret_start)
{
    int r;

    r = nfa_add_state(&f->nfa, false, ret_start);
    return r < 0 ? r : nfa_set_edges(&f->nfa, *ret_start, &edge, 1);
}

static int fragment_bytes(struct fragments *f, const uint32_t *words, uint32_t n, uint32_t next,
                          uint32_t *ret_start)
{
    int r = 0;

    for (uint32_t i = n; r == 0 && i-- > 0;) {
        const struct edge edge = {
            .kind = EDGE_BYTES, .first = (uint8_t)words[i], .last = (uint8_t)words[i], .to = next};

        r = fragment_edge(f, edge, &next);
    }
    *ret_start = next;
    return r;
}

int fragment_fork(struct fragments *f, uint32_t x, uint32_t y, uint32_t *ret_start)
{
    const struct edge edges[] = {{.kind = EDGE_EMPTY, .to = x}, {.kind = EDGE_EMPTY, .to = y}};
    int r;

    r = nfa_add_state(&f->nfa, false, ret_start);
    return r < 0 ? r : nfa_set_edges(&f->nfa, *ret_start, edges, 2);
}

static int fragment_token_id(struct fragments *f, uint32_t id, uint32_t next, uint32_t *ret_start)
{
    const struct edge edge = {.kind = EDGE_TOKEN, .arg = id, .to = next};

    if (!f->c->tok || id >= inf_tokenizer_n_vocab(f->c->tok) || f->is_inline)
        return err_set(f->c->reterr, EINVAL,
                       f->is_inline ? "a token is used inside of a regular expression"
                                    : "the tokenizer has no token %u",
                       (unsigned)id);
    return fragment_edge(f, edge, ret_start);
}

static int fragment_token(struct fragments *f, const uint32_t *words, uint32_t n, uint32_t next,
                          uint32_t *ret_start)
{
    _cleanup_free_ char *text = NEW(char, n);
    int32_t id = -1;
    uint32_t by_bytes, by_id;
    int r;

    if (!text)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        text[i] = (char)words[i];
    if (f->c->tok && !f->is_inline)
        id = inf_tokenizer_find(f->c->tok, text, n);
    if (id >= 0 && (inf_tokenizer_token_flags(f->c->tok, id) &
                    (INF_TOKEN_SPECIAL | INF_TOKEN_EOG | INF_TOKEN_UNKNOWN)))
        return fragment_token_id(f, (uint32_t)id, next, ret_start);
    r = fragment_bytes(f, words, n, next, &by_bytes);
    if (r < 0)
        return r;
    if (id < 0) {
        *ret_start = by_bytes;
        return 0;
    }
    r = fragment_token_id(f, (uint32_t)id, next, &by_id);
    return r < 0 ? r : fragment_fork(f, by_bytes, by_id, ret_start);
}

static bool repeat_is_long(const struct grammar_builder *b, grammar_node node)
{
    const struct node *x = &b->nodes[node];

    if (x->kind == NODE_JSON_ESCAPED && x->size > ESCAPE_WHOLE)
        x = &b->nodes[node_words(b, node)[0]];
    return x->kind == NODE_REPEAT && x->size > SEQ_PLAIN &&
           (x->max == GRAMMAR_FOREVER ? x->min : x->max) > REPEAT_SHORT;
}

/* Returns whether a sequence contains a long repetition. Such a sequence becomes a rule, so that
 * sequences with the same end share the states of their repetitions. */
static bool seq_is_long(const struct grammar_builder *b, grammar_node node)
{
    for (uint32_t i = 0; i < b->nodes[node].n; i++)
        if (repeat_is_long(b, node_words(b, node)[i]))
            return true;
    return false;
}

static int fragment_seq(struct fragments *f, grammar_node node, uint32_t next, uint32_t *ret_start)
{
    struct edge edge = {.kind = EDGE_CALL, .to = next};
    int r = 0;

    if (!f->is_inline && next != f->rule_end && seq_is_long(f->c->b, node)) {
        r = fragment_rule(f, node, &edge.arg);
        return r < 0 ? r : fragment_edge(f, edge, ret_start);
    }
    for (uint32_t i = f->c->b->nodes[node].n; r == 0 && i-- > 0;)
        r = fragment_make(f, node_words(f->c->b, node)[i], next, &next);
    *ret_start = next;
    return r;
}

static int fragment_alt(struct fragments *f, grammar_node node, uint32_t next, uint32_t *ret_start)
{
    const uint32_t n = f->c->b->nodes[node].n;
    _cleanup_free_ struct edge *edges = NEW(struct edge, n);
    int r = 0;

    if (!edges)
        return -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        edges[i].kind = EDGE_EMPTY;
        r = fragment_make(f, node_words(f->c->b, node)[i], next, &edges[i].to);
    }
    if (r == 0)
        r = nfa_add_state(&f->nfa, false, ret_start);
    return r < 0 ? r : nfa_set_edges(&f->nfa, *ret_start, edges, n);
}

/* Copies the body of a rule, or calls the rule. */
static int fragment_call(struct fragments *f, uint32_t rule, uint32_t next, uint32_t *ret_start)
{
    const struct rule *called = &f->c->b->rules[rule];
    struct edge edge = {.kind = EDGE_CALL, .to = next};
    int r;

    if (called->body == BUILDER_NONE)
        return err_set(f->c->reterr, EINVAL, "rule \"%s\" is not defined",
                       called->name ? called->name : "");
    if (!f->is_inline) {
        r = fragment_rule(f, called->body, &edge.arg);
        return r < 0 ? r : fragment_edge(f, edge, ret_start);
    }
    if (f->c->active[rule])
        return err_set(f->c->reterr, EINVAL,
                       "rule \"%s\" contains itself, so it cannot be used in a regular expression",
                       called->name ? called->name : "");
    f->c->active[rule] = true;
    r = fragment_make(f, called->body, next, ret_start);
    f->c->active[rule] = false;
    return r;
}

/* Makes the fragment of a node inside of a JSON string: escapes the operands of the node. */
static int fragment_escape(struct fragments *f, grammar_node node, uint32_t next,
                           uint32_t *ret_start)
{
    struct grammar_builder *b = f->c->b;
    const struct node x = b->nodes[node];
    _cleanup_free_ grammar_node *parts = NEW(grammar_node, x.n);
    grammar_node whole;

    if (!parts)
        return -ENOMEM;
    for (uint32_t i = 0; i < x.n; i++)
        parts[i] = grammar_json_escaped(b, node_words(b, node)[i]);
    if (x.kind == NODE_REPEAT)
        whole = grammar_repeat(b, parts[0], x.min, x.max);
    else
        whole = x.kind == NODE_SEQ ? grammar_seq(b, parts, x.n) : grammar_alt(b, parts, x.n);
    return whole == BUILDER_NONE ? b->error : fragment_make(f, whole, next, ret_start);
}

/* Makes the states of a node that is an operation on automata. A large automaton becomes a rule,
 * so that all places that use it share its states. */
static int fragment_dfa(struct fragments *f, grammar_node node, uint32_t next, uint32_t *ret_start)
{
    const bool escaped = f->c->b->nodes[node].kind == NODE_JSON_ESCAPED && !f->is_inline;
    const grammar_node operand = escaped ? node_words(f->c->b, node)[0] : node;
    const struct node x = f->c->b->nodes[operand];
    const bool divisible = escaped && node_is_divisible(&x);
    struct edge edge = {.kind = EDGE_CALL, .to = next};
    const struct dfa *dfa;
    int r;

    if (divisible && x.size > ESCAPE_WHOLE)
        return fragment_escape(f, operand, next, ret_start);
    r = compiler_dfa(f->c, operand, &dfa);
    if (r == -E2BIG && divisible)
        return fragment_escape(f, operand, next, ret_start);
    if (r < 0)
        return r;
    if (!f->is_inline && next != f->rule_end && dfa->n > (escaped ? ESCAPED_PLAIN : DFA_PLAIN)) {
        r = fragment_rule(f, node, &edge.arg);
        return r < 0 ? r : fragment_edge(f, edge, ret_start);
    }
    return escaped ? dfa_escaped_to_nfa(dfa, &f->nfa, next, ret_start)
                   : dfa_to_nfa(dfa, &f->nfa, next, ret_start);
}

static int fragment_make_new(struct fragments *f, grammar_node node, uint32_t next,
                             uint32_t *ret_start)
{
    const struct node x = f->c->b->nodes[node];
    const uint32_t *words = f->c->b->words + x.at;

    switch ((enum node_kind)x.kind) {
    case NODE_EMPTY:
        *ret_start = next;
        return 0;
    case NODE_NOTHING:
        return nfa_add_state(&f->nfa, false, ret_start);
    case NODE_BYTES:
        return fragment_bytes(f, words, x.n, next, ret_start);
    case NODE_CLASS:
        if (x.n > 2 * CLASS_PLAIN)
            return fragment_dfa(f, node, next, ret_start);
        return class_fragment(&f->nfa, words, x.n, next, ret_start);
    case NODE_TOKEN:
        return fragment_token(f, words, x.n, next, ret_start);
    case NODE_TOKEN_ID:
        return fragment_token_id(f, x.min, next, ret_start);
    case NODE_SEQ:
        return fragment_seq(f, node, next, ret_start);
    case NODE_ALT:
        return fragment_alt(f, node, next, ret_start);
    case NODE_REPEAT:
        return repeat_fragment(f, node, next, ret_start);
    case NODE_RULE:
        return fragment_call(f, x.min, next, ret_start);
    case NODE_AND:
    case NODE_NOT:
    case NODE_JSON_ESCAPED:
    case NODE_UNTIL:
        return fragment_dfa(f, node, next, ret_start);
    }
    return -EINVAL;
}

int fragment_make(struct fragments *f, grammar_node node, uint32_t next, uint32_t *ret_start)
{
    const uint32_t key[] = {node, next};
    const uint32_t hash = (uint32_t)hash_seeded(key, sizeof(key));
    uint32_t at, found;
    int r;

    if (work_add(&f->c->b->work, WORK_CALL) < 0)
        return -E2BIG;
    if (index_reserve(&f->memo_index, (size_t)f->n_memo + 1) < 0)
        return -ENOMEM;
    at = index_start(&f->memo_index, hash);
    for (; index_match(&f->memo_index, hash, &at, &found); at++)
        if (f->memo[found].node == node && f->memo[found].next == next) {
            *ret_start = f->memo[found].start;
            return 0;
        }
    if (f->c->depth >= MAX_CALLS || (f->is_inline && f->nfa.n_states > INLINE_STATES))
        return -E2BIG;
    f->c->depth++;
    r = fragment_make_new(f, node, next, ret_start);
    f->c->depth--;
    if (r < 0)
        return r;
    if (index_reserve(&f->memo_index, (size_t)f->n_memo + 1) < 0 ||
        ARRAY_GROW(f->memo, f->cap_memo, (size_t)f->n_memo + 1) < 0)
        return -ENOMEM;
    at = index_start(&f->memo_index, hash);
    while (index_match(&f->memo_index, hash, &at, &found))
        at++;
    index_put(&f->memo_index, at, hash, f->n_memo);
    f->memo[f->n_memo++] = (struct fragment_memo){node, next, *ret_start};
    return 0;
}

/* Makes the automaton of a node that is not an operation on automata. */
static int compiler_dfa_plain(struct compiler *c, grammar_node node, struct dfa **ret_dfa)
{
    _cleanup_(fragments_done) struct fragments f = {
        .c = c, .nfa.work = &c->b->work, .is_inline = true};
    const struct node x = c->b->nodes[node];
    uint32_t end, start;
    int r;

    r = nfa_add_state(&f.nfa, true, &end);
    if (r < 0)
        return r;
    if (x.kind == NODE_CLASS)
        r = class_fragment(&f.nfa, c->b->words + x.at, x.n, end, &start);
    else
        r = fragment_make(&f, node, end, &start);
    return r < 0 ? r : dfa_from_nfa(&f.nfa, start, ret_dfa);
}

static int compiler_dfa_new(struct compiler *c, grammar_node node, struct dfa **ret_dfa)
{
    const struct node x = c->b->nodes[node];
    const uint32_t *words = c->b->words + x.at;
    const struct dfa *operands[2];
    int r = 0;

    if (x.kind == NODE_UNTIL)
        return dfa_until(words, x.n, &c->b->work, ret_dfa);
    if (x.kind != NODE_AND && x.kind != NODE_NOT && x.kind != NODE_JSON_ESCAPED)
        return compiler_dfa_plain(c, node, ret_dfa);
    for (uint32_t i = 0; r == 0 && i < x.n; i++)
        r = compiler_dfa(c, words[i], &operands[i]);
    if (r < 0)
        return r;
    if (x.kind == NODE_AND)
        return dfa_and(operands[0], operands[1], &c->b->work, ret_dfa);
    return x.kind == NODE_NOT ? dfa_not(operands[0], &c->b->work, ret_dfa)
                              : dfa_json_escaped(operands[0], &c->b->work, ret_dfa);
}

int compiler_dfa(struct compiler *c, grammar_node node, const struct dfa **ret_dfa)
{
    struct dfa *dfa;
    int r;

    r = ARRAY_GROW_ZEROED(c->dfas, c->cap_dfas, (size_t)node + 1);
    if (r < 0)
        return r;
    if (!c->dfas[node]) {
        if (c->depth >= MAX_CALLS)
            return -E2BIG;
        c->depth++;
        r = compiler_dfa_new(c, node, &dfa);
        c->depth--;
        if (r < 0)
            return r;
        c->dfas[node] = dfa;
    }
    *ret_dfa = c->dfas[node];
    return 0;
}
