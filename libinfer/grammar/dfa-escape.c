/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns deterministic automata into states and edges that read the texts inside of a JSON string.
 *
 * Each character may be written as itself, if JSON permits that, or as an escape. An escape \uXXXX
 * is read digit by digit, and the automaton is followed as soon as the digits so far determine
 * another byte of the character in UTF-8. So a state between two digits consists of a state of the
 * automaton and up to four bits of the byte that is not complete. Such states are merged if their
 * edges are equal.
 */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/hash.h"
#include "core/index.h"
#include "grammar/dfa.h"

/* The largest number of edges of one state: one for each range of bytes that leads to the same
 * state, and three more. */
#define MAX_EDGES 260
#define NOWHERE   UINT32_MAX

/* The position within an escape sequence. The digits are h1 … h4; those of a low surrogate are
 * l2 … l4. */
enum place {
    PLACE_U,                  /* \u */
    PLACE_ZERO,               /* \u0 */
    PLACE_ZERO2,              /* \u00 */
    PLACE_ASCII,              /* \u00 h3, and bits = h3 */
    PLACE_SHARED,             /* the following places are reached in several ways */
    PLACE_ANY = PLACE_SHARED, /* before a digit, and the automaton has read the character */
    PLACE_TWO,                /* \u0 h2 of a character of two bytes, and bits = h2 */
    PLACE_D,                  /* \uD */
    PLACE_HIGH,               /* \uD h2 of a high surrogate, and bits = h2 & 3 */
    PLACE_THREE,              /* h1, and the automaton has read the first byte of three */
    PLACE_MIDDLE,             /* bits are the first four of the last byte but one */
    PLACE_LAST,               /* bits are the first two of the last byte */
    PLACE_HIGH3,              /* bits are the first four of the second byte of four */
    PLACE_LOW,                /* a high surrogate, and bits are the first two of the third byte */
    PLACE_LOW_U,              /* as PLACE_LOW, then a backslash */
    PLACE_LOW_D,              /* as PLACE_LOW, then \u */
    PLACE_LOW_HEAD,           /* as PLACE_LOW, then \uD */
};

struct place_memo {
    uint64_t key;
    uint32_t state;
};

struct edge_list {
    uint32_t n;
    struct edge edges[MAX_EDGES];
};

struct escaper {
    const struct dfa *dfa;
    struct nfa *nfa;
    uint32_t base;   /* state i of the automaton is state base + i */
    uint32_t *alike; /* [dfa->n] a state with the same edges for first bytes of long characters */
    bool *is_even;   /* [dfa->n] all further bytes of a character lead to the same state */
    struct index place_index, state_index;
    struct place_memo *memo;
    uint32_t *states; /* states that are found by their edges */
    uint32_t n_memo, cap_memo, n_states, cap_states;
    /* Ranges of bytes that stand for themselves. The bytes of a range are in one class. */
    struct {
        uint8_t first, last;
    } spans[256];
    uint32_t n_spans;
    int r; /* the first error */
};

static void escaper_done(struct escaper *e)
{
    index_done(&e->place_index);
    index_done(&e->state_index);
    free(e->memo);
    free(e->states);
    free(e->alike);
    free(e->is_even);
}

static uint32_t escaper_fail(struct escaper *e, int r)
{
    e->r = e->r < 0 ? e->r : r;
    return NOWHERE;
}

static uint32_t escaper_step(const struct escaper *e, uint32_t state, unsigned byte)
{
    if (state == DFA_DEAD)
        return DFA_DEAD;
    return e->dfa->next[(size_t)state * e->dfa->n_classes + e->dfa->class_of[byte]];
}

/* Returns the state of the nfa for a state of the automaton. */
static uint32_t escaper_state(const struct escaper *e, uint32_t state)
{
    return state == DFA_DEAD ? NOWHERE : e->base + state;
}

static void edges_add(struct edge_list *list, unsigned first, unsigned last, uint32_t to)
{
    struct edge *end = list->n > 0 ? &list->edges[list->n - 1] : NULL;

    if (to == NOWHERE)
        return;
    if (end && end->to == to && end->last + 1u == first) {
        end->last = (uint8_t)last;
        return;
    }
    assert(list->n < MAX_EDGES);
    list->edges[list->n++] =
        (struct edge){.kind = EDGE_BYTES, .first = (uint8_t)first, .last = (uint8_t)last, .to = to};
}

static uint32_t edges_hash(const struct edge_list *list)
{
    uint64_t hash = hash_seed();

    for (uint32_t i = 0; i < list->n; i++)
        hash = hash_fold(hash ^ ((uint64_t)list->edges[i].to << 16 |
                                 (uint64_t)list->edges[i].first << 8 | list->edges[i].last),
                         0x9e3779b97f4a7c15u);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool edges_equal(const struct edge *edges, const struct edge_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (edges[i].to != list->edges[i].to || edges[i].first != list->edges[i].first ||
            edges[i].last != list->edges[i].last)
            return false;
    return true;
}

/* Finds or makes the state with these edges. */
static uint32_t escaper_put(struct escaper *e, const struct edge_list *list)
{
    const uint32_t hash = edges_hash(list);
    uint32_t at, found, state;
    int r;

    if (list->n == 0 || e->r < 0)
        return NOWHERE;
    if (index_reserve(&e->state_index, (size_t)e->n_states + 1) < 0 ||
        ARRAY_GROW(e->states, e->cap_states, (size_t)e->n_states + 1) < 0)
        return escaper_fail(e, -ENOMEM);
    at = index_start(&e->state_index, hash);
    for (; index_match(&e->state_index, hash, &at, &found); at++) {
        state = e->states[found];
        if (e->nfa->states[state].n == list->n && edges_equal(nfa_edges(e->nfa, state), list))
            return state;
    }
    r = nfa_add_state(e->nfa, false, &state);
    if (r == 0)
        r = nfa_set_edges(e->nfa, state, list->edges, list->n);
    if (r < 0)
        return escaper_fail(e, r);
    index_put(&e->state_index, at, hash, e->n_states);
    e->states[e->n_states++] = state;
    return state;
}

static uint32_t escaper_place(struct escaper *e, enum place place, uint32_t state, unsigned bits);

/* Returns the state after digit @h in a place where at most two digits have been read. */
static uint32_t place_begin(struct escaper *e, enum place place, uint32_t state, unsigned bits,
                            unsigned h)
{
    switch (place) {
    case PLACE_U:
        if (h == 0)
            return escaper_place(e, PLACE_ZERO, state, 0);
        if (h == 0xd)
            return escaper_place(e, PLACE_D, e->alike[state], 0);
        return escaper_place(e, PLACE_THREE, escaper_step(e, state, 0xe0 | h), 0);
    case PLACE_ZERO:
        if (h == 0)
            return escaper_place(e, PLACE_ZERO2, state, 0);
        if (h < 8)
            return escaper_place(e, PLACE_TWO, e->alike[state], h);
        return escaper_place(e, PLACE_MIDDLE, escaper_step(e, state, 0xe0), h);
    case PLACE_ZERO2:
        if (h < 8 && e->dfa->class_of[h << 4] == e->dfa->class_of[h << 4 | 15])
            return escaper_place(e, PLACE_ANY, escaper_step(e, state, h << 4), 0);
        if (h < 8)
            return escaper_place(e, PLACE_ASCII, state, h);
        return escaper_place(e, PLACE_LAST, escaper_step(e, state, 0xc0 | h >> 2), h & 3);
    case PLACE_THREE:
        return escaper_place(e, PLACE_MIDDLE, state, h);
    case PLACE_D:
        if (h < 8)
            return escaper_place(e, PLACE_MIDDLE, escaper_step(e, state, 0xed), h);
        return h < 12 ? escaper_place(e, PLACE_HIGH, state, h & 3) : NOWHERE;
    default:
        return escaper_place(e, PLACE_LAST, escaper_step(e, state, 0xc0 | bits << 2 | h >> 2),
                             h & 3); /* PLACE_TWO */
    }
}

/* Returns the state after digit @h in any place where a digit is read. */
static uint32_t place_digit(struct escaper *e, enum place place, uint32_t state, unsigned bits,
                            unsigned h)
{
    const unsigned plane = (bits << 2 | h >> 2) + 1; /* PLACE_HIGH */

    switch (place) {
    case PLACE_ASCII:
        return escaper_state(e, escaper_step(e, state, bits << 4 | h));
    case PLACE_ANY:
        return escaper_state(e, state);
    case PLACE_MIDDLE:
        return escaper_place(e, PLACE_LAST, escaper_step(e, state, 0x80 | bits << 2 | h >> 2),
                             h & 3);
    case PLACE_LAST:
        return escaper_state(e, escaper_step(e, state, 0x80 | bits << 4 | h));
    case PLACE_HIGH:
        return escaper_place(e, PLACE_HIGH3, escaper_step(e, state, 0xf0 | plane >> 2),
                             (plane & 3) << 2 | (h & 3));
    case PLACE_HIGH3:
        return escaper_place(e, PLACE_LOW, escaper_step(e, state, 0x80 | bits << 2 | h >> 2),
                             h & 3);
    case PLACE_LOW_HEAD:
        return h < 12 ? NOWHERE : escaper_place(e, PLACE_MIDDLE, state, bits << 2 | (h & 3));
    default:
        return place_begin(e, place, state, bits, h);
    }
}

static uint32_t place_make(struct escaper *e, enum place place, uint32_t state, unsigned bits)
{
    struct edge_list list;
    uint32_t to[16];

    list.n = 0;
    if (place == PLACE_LOW)
        edges_add(&list, '\\', '\\', escaper_place(e, PLACE_LOW_U, state, bits));
    else if (place == PLACE_LOW_U)
        edges_add(&list, 'u', 'u', escaper_place(e, PLACE_LOW_D, state, bits));
    if (place == PLACE_LOW_D) {
        to[0] = escaper_place(e, PLACE_LOW_HEAD, state, bits);
        edges_add(&list, 'D', 'D', to[0]);
        edges_add(&list, 'd', 'd', to[0]);
    }
    if (place == PLACE_LOW || place == PLACE_LOW_U || place == PLACE_LOW_D)
        return escaper_put(e, &list);
    for (unsigned h = 0; h < 16; h++)
        to[h] = place_digit(e, place, state, bits, h);
    for (unsigned h = 0; h < 10; h++)
        edges_add(&list, '0' + h, '0' + h, to[h]);
    for (unsigned h = 10; h < 16; h++)
        edges_add(&list, 'A' + h - 10, 'A' + h - 10, to[h]);
    for (unsigned h = 10; h < 16; h++)
        edges_add(&list, 'a' + h - 10, 'a' + h - 10, to[h]);
    return escaper_put(e, &list);
}

/* Returns whether the automaton can read a byte from @first to @last in @state. */
static bool escaper_reads(const struct escaper *e, uint32_t state, unsigned first, unsigned last)
{
    const uint32_t *row = e->dfa->next + (size_t)state * e->dfa->n_classes;

    for (unsigned c = e->dfa->class_of[first]; c <= e->dfa->class_of[last]; c++)
        if (row[c] != DFA_DEAD)
            return true;
    return false;
}

/* Returns false only if no character can continue at a place. A result of true may be wrong. */
static bool place_reads(const struct escaper *e, enum place place, uint32_t state, unsigned bits)
{
    switch (place) {
    case PLACE_ZERO2:
        return escaper_reads(e, state, 0, 0xc3);
    case PLACE_ASCII:
        return escaper_reads(e, state, bits << 4, bits << 4 | 15);
    case PLACE_TWO:
        return escaper_reads(e, state, 0xc0 | bits << 2, 0xc3 | bits << 2);
    case PLACE_D:
        return escaper_reads(e, state, 0xed, 0xf4);
    case PLACE_HIGH:
        return escaper_reads(e, state, 0xf0, 0xf4);
    default:
        return true;
    }
}

/* Returns the state for a place within an escape sequence, if the bits that were read so far
 * matter. */
static uint32_t escaper_place_bits(struct escaper *e, enum place place, uint32_t state,
                                   unsigned bits)
{
    const uint64_t key = (uint64_t)state << 32 | (uint64_t)place << 8 | bits;
    const uint32_t hash = (uint32_t)hash_fold(key ^ hash_seed(), 0x9e3779b97f4a7c15u);
    uint32_t at, found, made;

    if (state == DFA_DEAD || e->r < 0 || !place_reads(e, place, state, bits))
        return NOWHERE;
    if (work_add(e->nfa->work, WORK_ESCAPE) < 0)
        return escaper_fail(e, -E2BIG);
    at = index_start(&e->place_index, hash);
    for (;
         place >= PLACE_SHARED && e->n_memo > 0 && index_match(&e->place_index, hash, &at, &found);
         at++)
        if (e->memo[found].key == key)
            return e->memo[found].state;
    made = place_make(e, place, state, bits);
    if (place < PLACE_SHARED)
        return made;
    if (index_reserve(&e->place_index, (size_t)e->n_memo + 1) < 0 ||
        ARRAY_GROW(e->memo, e->cap_memo, (size_t)e->n_memo + 1) < 0)
        return escaper_fail(e, -ENOMEM);
    at = index_start(&e->place_index, hash);
    while (index_match(&e->place_index, hash, &at, &found))
        at++;
    index_put(&e->place_index, at, hash, e->n_memo);
    e->memo[e->n_memo++] = (struct place_memo){key, made};
    return made;
}

/* Returns the state of a place; NOWHERE: no character continues in this way. */
static uint32_t escaper_place(struct escaper *e, enum place place, uint32_t state, unsigned bits)
{
    if (state != DFA_DEAD && place >= PLACE_MIDDLE && e->is_even[state])
        bits = 0; /* they make no difference */
    return escaper_place_bits(e, place, state, bits);
}

/* Returns the state after a backslash. */
static uint32_t escaper_backslash(struct escaper *e, uint32_t state)
{
    static const char codes[][2] = {
        {'"', '"'},  {'/', '/'},  {'\\', '\\'}, {'b', '\b'},
        {'f', '\f'}, {'n', '\n'}, {'r', '\r'},  {'t', '\t'},
    };
    struct edge_list list;

    list.n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
        const uint32_t to = escaper_step(e, state, (unsigned char)codes[i][1]);

        edges_add(&list, (unsigned)codes[i][0], (unsigned)codes[i][0], escaper_state(e, to));
    }
    edges_add(&list, 'u', 'u', escaper_place(e, PLACE_U, state, 0));
    return escaper_put(e, &list);
}

/* Makes the edges of one state of the automaton. */
static int escaper_make(struct escaper *e, uint32_t state, uint32_t end)
{
    struct edge_list list;

    list.n = 0;
    for (uint32_t i = 0; i < e->n_spans; i++)
        edges_add(&list, e->spans[i].first, e->spans[i].last,
                  escaper_state(e, escaper_step(e, state, e->spans[i].first)));
    edges_add(&list, '\\', '\\', escaper_backslash(e, state));
    if (e->dfa->is_final[state])
        list.edges[list.n++] = (struct edge){.kind = EDGE_EMPTY, .to = end};
    return e->r < 0 ? e->r : nfa_set_edges(e->nfa, e->base + state, list.edges, list.n);
}

static int escaper_find_alike(struct escaper *e)
{
    _cleanup_(index_done) struct index index = {0};
    const struct dfa *dfa = e->dfa;
    const size_t first = dfa->class_of[0xc0], n = dfa->class_of[0xf4] - first + 1;

    e->alike = NEW(uint32_t, dfa->n);
    if (!e->alike || index_reserve(&index, dfa->n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < dfa->n; i++) {
        const uint32_t *row = dfa->next + (size_t)i * dfa->n_classes + first;
        const uint32_t hash = (uint32_t)hash_seeded(row, n * sizeof(*row));
        uint32_t at = index_start(&index, hash);

        for (; index_match(&index, hash, &at, &e->alike[i]); at++)
            if (memcmp(dfa->next + (size_t)e->alike[i] * dfa->n_classes + first, row,
                       n * sizeof(*row)) == 0)
                break;
        if (!index_match(&index, hash, &at, &e->alike[i])) {
            e->alike[i] = i;
            index_put(&index, at, hash, i);
        }
    }
    return 0;
}

static int escaper_find_even(struct escaper *e)
{
    const struct dfa *dfa = e->dfa;

    e->is_even = NEW(bool, dfa->n);
    if (!e->is_even)
        return -ENOMEM;
    for (uint32_t i = 0; i < dfa->n; i++) {
        const uint32_t *row = dfa->next + (size_t)i * dfa->n_classes;

        e->is_even[i] = true;
        for (unsigned c = dfa->class_of[0x80]; c < dfa->class_of[0xbf]; c++)
            e->is_even[i] &= row[c] == row[c + 1];
    }
    return 0;
}

static void escaper_find_spans(struct escaper *e)
{
    for (unsigned byte = 0x20; byte < 256; byte++) {
        const uint32_t n = e->n_spans;

        if (byte == '"' || byte == '\\')
            continue;
        if (n > 0 && e->spans[n - 1].last + 1u == byte &&
            e->dfa->class_of[byte] == e->dfa->class_of[byte - 1]) {
            e->spans[n - 1].last = (uint8_t)byte;
            continue;
        }
        e->spans[n].first = e->spans[n].last = (uint8_t)byte;
        e->n_spans++;
    }
}

int dfa_escaped_to_nfa(const struct dfa *dfa, struct nfa *nfa, uint32_t next, uint32_t *ret_start)
{
    _cleanup_(escaper_done) struct escaper e = {.dfa = dfa, .nfa = nfa, .base = nfa->n_states};
    uint32_t state;
    int r;

    escaper_find_spans(&e);
    r = escaper_find_alike(&e);
    if (r == 0)
        r = escaper_find_even(&e);
    for (uint32_t i = 0; r == 0 && i < dfa->n; i++)
        r = nfa_add_state(nfa, false, &state);
    if (r == 0)
        r = index_reserve(&e.place_index, 1);
    if (r == 0)
        r = work_add(nfa->work, WORK_ROW * (uint64_t)dfa->n);
    for (uint32_t i = 0; r == 0 && i < dfa->n; i++)
        r = escaper_make(&e, i, next);
    if (r == 0)
        *ret_start = e.base;
    return r;
}

int dfa_json_escaped(const struct dfa *x, struct work *work, struct dfa **ret_dfa)
{
    _cleanup_(nfa_done) struct nfa nfa = {.work = work};
    uint32_t end, start;
    int r;

    r = nfa_add_state(&nfa, true, &end);
    if (r == 0)
        r = dfa_escaped_to_nfa(x, &nfa, end, &start);
    return r < 0 ? r : dfa_from_nfa(&nfa, start, ret_dfa);
}
