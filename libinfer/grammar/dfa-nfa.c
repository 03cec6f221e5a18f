/* SPDX-License-Identifier: Apache-2.0 */
/* Turns deterministic automata back into states and edges, as they are or escaped for JSON. */
#include <errno.h>
#include <string.h>

#include "grammar/dfa.h"

/* The edges of one state: one for each range of bytes that leads to the same state, and three
 * more. */
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
        r = nfa_set_edges(nfa, base + i, list.edges, list.n);
    }
    if (r == 0)
        *ret_start = base;
    return r;
}

static bool needs_escape(unsigned byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

/* Adds a state that reads the second hexadecimal digit of a byte whose first digit is @high. */
static int add_low_digit(struct nfa *nfa, const struct dfa *dfa, uint32_t state, unsigned high,
                         uint32_t base, uint32_t *ret_state)
{
    struct edge_list list = {.n = 0};
    int r;

    for (unsigned low = 0; low < 16; low++) {
        const unsigned byte = high << 4 | low;
        const uint32_t to = dfa_step(dfa, state, byte);

        if (!needs_escape(byte) || to == DFA_DEAD)
            continue;
        edges_add(&list, EDGE_BYTES, (unsigned)"0123456789abcdef"[low],
                  (unsigned)"0123456789abcdef"[low], base + to);
        if (low >= 10)
            edges_add(&list, EDGE_BYTES, (unsigned)"ABCDEF"[low - 10], (unsigned)"ABCDEF"[low - 10],
                      base + to);
    }
    r = nfa_add_state(nfa, false, ret_state);
    return r < 0 ? r : nfa_set_edges(nfa, *ret_state, list.edges, list.n);
}

/* Adds the states behind "\u": two zeros and two digits. */
static int add_code(struct nfa *nfa, const struct dfa *dfa, uint32_t state, uint32_t base,
                    uint32_t *ret_state)
{
    static const unsigned highs[] = {0, 1, 2, 5};
    struct edge_list list = {.n = 0};
    uint32_t next, to;
    int r = 0;

    for (unsigned i = 0; r == 0 && i < ARRAY_SIZE(highs); i++) {
        r = add_low_digit(nfa, dfa, state, highs[i], base, &to);
        edges_add(&list, EDGE_BYTES, '0' + highs[i], '0' + highs[i], to);
    }
    if (r == 0)
        r = nfa_add_state(nfa, false, &next);
    if (r == 0)
        r = nfa_set_edges(nfa, next, list.edges, list.n);
    for (unsigned i = 0; r == 0 && i < 2; i++) {
        list.n = 0;
        edges_add(&list, EDGE_BYTES, '0', '0', next);
        r = nfa_add_state(nfa, false, &next);
        if (r == 0)
            r = nfa_set_edges(nfa, next, list.edges, list.n);
    }
    if (r == 0)
        *ret_state = next;
    return r;
}

/* Adds the state behind a backslash. */
static int add_escape(struct nfa *nfa, const struct dfa *dfa, uint32_t state, uint32_t base,
                      uint32_t *ret_state)
{
    static const char codes[][2] = {
        {'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'b', '\b'},
        {'f', '\f'}, {'n', '\n'},  {'r', '\r'}, {'t', '\t'},
    };
    struct edge_list list = {.n = 0};
    uint32_t code = 0;
    int r;

    r = add_code(nfa, dfa, state, base, &code);
    if (r < 0)
        return r;
    edges_add(&list, EDGE_BYTES, 'u', 'u', code);
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        const uint32_t to = dfa_step(dfa, state, (unsigned char)codes[i][1]);

        if (to != DFA_DEAD)
            edges_add(&list, EDGE_BYTES, (unsigned)codes[i][0], (unsigned)codes[i][0], base + to);
    }
    r = nfa_add_state(nfa, false, ret_state);
    return r < 0 ? r : nfa_set_edges(nfa, *ret_state, list.edges, list.n);
}

static bool has_escape(const struct dfa *dfa, uint32_t state)
{
    for (unsigned byte = 0; byte <= '\\'; byte++)
        if ((needs_escape(byte) || byte == '/') && dfa_step(dfa, state, byte) != DFA_DEAD)
            return true;
    return false;
}

static int add_escaped_state(struct nfa *nfa, const struct dfa *dfa, uint32_t state, uint32_t base,
                             uint32_t end)
{
    struct edge_list list = {.n = 0};
    uint32_t escape;
    int r;

    edges_add_range(&list, dfa, state, 0x20, '"' - 1, base);
    edges_add_range(&list, dfa, state, '"' + 1, '\\' - 1, base);
    edges_add_range(&list, dfa, state, '\\' + 1, 255, base);
    if (has_escape(dfa, state)) {
        r = add_escape(nfa, dfa, state, base, &escape);
        if (r < 0)
            return r;
        edges_add(&list, EDGE_BYTES, '\\', '\\', escape);
    }
    if (dfa->is_final[state])
        edges_add(&list, EDGE_EMPTY, 0, 0, end);
    return nfa_set_edges(nfa, base + state, list.edges, list.n);
}

int dfa_json_escaped(const struct dfa *x, struct dfa **ret_dfa)
{
    _cleanup_(nfa_done) struct nfa nfa = {0};
    uint32_t end;
    int r;

    r = nfa_add_state(&nfa, true, &end);
    if (r == 0)
        r = nfa_add_states(&nfa, x->n);
    for (uint32_t i = 0; r == 0 && i < x->n; i++)
        r = add_escaped_state(&nfa, x, i, end + 1, end);
    return r < 0 ? r : dfa_from_nfa(&nfa, end + 1, ret_dfa);
}
