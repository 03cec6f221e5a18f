/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the nodes of a grammar to a program (program.h): makes the states of all rules, and
 * removes the edges from which no text can be completed. */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/err.h"
#include "grammar/fragment.h"
#include "grammar/program.h"

#define MAX_TOKENS 4096

struct program *grammar_program_free(struct program *p)
{
    if (!p)
        return NULL;
    nfa_done(&p->nfa);
    free(p->starts);
    free(p->nullable);
    free(p->tokens);
    free(p);
    return NULL;
}

/* Makes the states of all rules. */
static int program_make_states(struct program *p, struct fragments *f, grammar_node root)
{
    uint32_t rule, cap = 0;
    int r;

    r = fragment_rule(f, root, &rule);
    if (r == 0)
        r = nfa_add_state(&f->nfa, true, &f->rule_end);
    for (uint32_t i = 0; r == 0 && i < f->n_rules; i++) {
        r = ARRAY_GROW(p->starts, cap, (size_t)i + 1);
        if (r == 0)
            r = fragment_make(f, f->rules[i], f->rule_end, &p->starts[i]);
    }
    if (r < 0)
        return r;
    p->n_rules = f->n_rules;
    p->nfa = f->nfa;
    p->nfa.work = NULL; /* belongs to the builder */
    f->nfa = (struct nfa){0};
    return 0;
}

/* Finds all states that have a property. A state has the property if it is final, or if one of its
 * edges leads to a state that has it. All edges count if @consuming is set, otherwise only empty
 * edges and calls. For a call, the start of the called rule must have the property as well. */
struct spread {
    const struct program *p;
    bool *has;
    uint32_t *first;  /* [n_states + 2] */
    uint32_t *edges;  /* edges that wait for a state: edges[first[state]] … */
    uint32_t *from;   /* [n_edges]: the state of an edge */
    uint8_t *missing; /* [n_edges]: states that the edge waits for */
    uint32_t *stack;
    uint32_t n_stack;
    bool consuming;
};

static void spread_done(struct spread *s)
{
    free(s->first);
    free(s->edges);
    free(s->from);
    free(s->missing);
    free(s->stack);
}

static bool spread_counts(const struct spread *s, const struct edge *edge)
{
    return s->consuming || edge->kind == EDGE_EMPTY || edge->kind == EDGE_CALL;
}

/* Lists under each state the edges that wait for it. */
static void spread_list(struct spread *s)
{
    const struct nfa *nfa = &s->p->nfa;

    for (uint32_t i = 0; i < nfa->n_edges; i++) {
        s->first[nfa->edges[i].to + 2]++;
        if (nfa->edges[i].kind == EDGE_CALL)
            s->first[s->p->starts[nfa->edges[i].arg] + 2]++;
    }
    for (uint32_t i = 2; i < nfa->n_states + 2; i++)
        s->first[i] += s->first[i - 1];
    for (uint32_t i = 0; i < nfa->n_edges; i++) {
        s->edges[s->first[nfa->edges[i].to + 1]++] = i;
        s->missing[i] = 1;
        if (nfa->edges[i].kind == EDGE_CALL) {
            s->edges[s->first[s->p->starts[nfa->edges[i].arg] + 1]++] = i;
            s->missing[i] = 2;
        }
    }
    for (uint32_t i = 0; i < nfa->n_states; i++)
        for (uint32_t e = 0; e < nfa->states[i].n; e++)
            s->from[nfa->states[i].first + e] = i;
}

static void spread_add(struct spread *s, uint32_t state)
{
    if (!s->has[state])
        s->stack[s->n_stack++] = state;
    s->has[state] = true;
}

static int spread_find(const struct program *p, bool consuming, bool *has)
{
    const struct nfa *nfa = &p->nfa;
    _cleanup_(spread_done) struct spread s = {.p = p, .has = has, .consuming = consuming};

    s.first = NEW(uint32_t, (size_t)nfa->n_states + 2);
    s.edges = NEW(uint32_t, 2 * (size_t)nfa->n_edges);
    s.from = NEW(uint32_t, nfa->n_edges);
    s.missing = NEW(uint8_t, nfa->n_edges);
    s.stack = NEW(uint32_t, nfa->n_states);
    if (!s.first || !s.edges || !s.from || !s.missing || !s.stack)
        return -ENOMEM;
    spread_list(&s);
    for (uint32_t i = 0; i < nfa->n_states; i++)
        if (nfa->states[i].is_final)
            spread_add(&s, i);
    while (s.n_stack > 0) {
        const uint32_t state = s.stack[--s.n_stack];

        for (uint32_t i = s.first[state]; i < s.first[state + 1]; i++)
            if (spread_counts(&s, &nfa->edges[s.edges[i]]) && --s.missing[s.edges[i]] == 0)
                spread_add(&s, s.from[s.edges[i]]);
    }
    return 0;
}

/* Removes edges that lead to a state or call a rule from which nothing can be completed. */
static void program_remove_edges(struct program *p, const bool *productive)
{
    struct nfa *nfa = &p->nfa;

    for (uint32_t i = 0; i < nfa->n_states; i++) {
        struct edge *edges = nfa->edges + nfa->states[i].first;
        uint32_t n = 0;

        for (uint32_t e = 0; e < nfa->states[i].n; e++)
            if (productive[edges[e].to] &&
                (edges[e].kind != EDGE_CALL || productive[p->starts[edges[e].arg]]))
                edges[n++] = edges[e];
        nfa->states[i].n = n;
    }
}

static int program_prune(struct program *p, struct inf_err *reterr)
{
    _cleanup_free_ bool *productive = NEW(bool, p->nfa.n_states);
    int r;

    p->nullable = NEW(bool, p->nfa.n_states);
    if (!productive || !p->nullable)
        return -ENOMEM;
    r = spread_find(p, true, productive);
    if (r == 0)
        r = spread_find(p, false, p->nullable);
    if (r < 0)
        return r;
    if (!productive[p->starts[0]])
        return err_set(reterr, EINVAL, "the grammar permits no text at all");
    program_remove_edges(p, productive);
    return 0;
}

/* Gives the token of an edge a symbol. Equal tokens have one symbol. */
static int program_number_token(struct program *p, struct edge *edge, uint32_t *cap)
{
    uint32_t n = p->n_symbols - p->n_classes;
    int r;

    for (uint32_t i = 0; i < n; i++)
        if (p->tokens[i] == (int32_t)edge->arg) {
            edge->arg = p->n_classes + i;
            return 0;
        }
    if (n >= MAX_TOKENS)
        return -E2BIG;
    r = ARRAY_GROW(p->tokens, *cap, (size_t)n + 1);
    if (r < 0)
        return r;
    p->tokens[n] = (int32_t)edge->arg;
    edge->arg = p->n_symbols++;
    return 0;
}

static int program_number_symbols(struct program *p)
{
    uint32_t cap = 0;
    int r = 0;

    p->n_classes = nfa_classes(&p->nfa, p->class_of);
    for (unsigned byte = 0; byte < 256; byte++)
        p->byte_of[p->class_of[byte]] = (uint8_t)byte;
    p->n_symbols = p->n_classes;
    for (uint32_t i = 0; r == 0 && i < p->nfa.n_states; i++)
        for (uint32_t e = 0; r == 0 && e < p->nfa.states[i].n; e++)
            if (nfa_edges(&p->nfa, i)[e].kind == EDGE_TOKEN)
                r = program_number_token(p, &p->nfa.edges[p->nfa.states[i].first + e], &cap);
    return r;
}

int grammar_program_new(struct grammar_builder *b, grammar_node root,
                        const struct inf_tokenizer *tok, struct program **ret_program,
                        struct inf_err *reterr)
{
    _cleanup_(compiler_done) struct compiler compiler = {.b = b, .tok = tok, .reterr = reterr};
    _cleanup_(fragments_done) struct fragments f = {.c = &compiler, .nfa.work = &b->work};
    _cleanup_(grammar_program_freep) struct program *p = NULL;
    struct inf_err err = {0};
    int r = b->error;

    compiler.reterr = &err;
    p = NEW(struct program, 1);
    compiler.active = NEW(bool, b->n_rules);
    if (!p || !compiler.active)
        return -ENOMEM;
    if (r == 0 && root >= b->n_nodes)
        r = -EINVAL;
    if (r == 0)
        r = program_make_states(p, &f, root);
    if (r == 0)
        r = program_prune(p, &err);
    if (r == 0)
        r = program_number_symbols(p);
    if (r == -E2BIG)
        return err_set(reterr, E2BIG, "the grammar is too large");
    if (r < 0 && err.text[0] == '\0')
        return err_set(reterr, -r, r == -ENOMEM ? "memory is short" : "the grammar is invalid");
    if (r < 0 && reterr)
        *reterr = err;
    if (r < 0)
        return r;
    *ret_program = STEAL(p);
    return 0;
}
