/* SPDX-License-Identifier: Apache-2.0 */
/* Turns ranges of code points into the sequences of bytes that encode them. */
#include <errno.h>

#include "core/array.h"
#include "core/utf8.h"
#include "grammar/fragment.h"

/* The number of earlier states with which a new state is compared. */
#define RECENT 16

struct class
{
    struct nfa *nfa;
    uint32_t next;
    struct edge *firsts; /* the edges of the start */
    uint32_t n_firsts, cap_firsts;
    struct {
        struct edge edge;
        uint32_t state;
    } recent[RECENT];
    uint32_t n_recent;
};

/* Finds or makes a state whose only edge is @edge. */
static int class_state(struct class *c, struct edge edge, uint32_t *ret_state)
{
    const uint32_t n = MIN(c->n_recent, RECENT);
    int r;

    for (uint32_t i = 0; i < n; i++)
        if (c->recent[i].edge.to == edge.to && c->recent[i].edge.first == edge.first &&
            c->recent[i].edge.last == edge.last) {
            *ret_state = c->recent[i].state;
            return 0;
        }
    r = nfa_add_state(c->nfa, false, ret_state);
    if (r == 0)
        r = nfa_set_edges(c->nfa, *ret_state, &edge, 1);
    c->recent[c->n_recent % RECENT].edge = edge;
    c->recent[c->n_recent++ % RECENT].state = *ret_state;
    return r;
}

/* Adds the code points from @first to @last. Byte i of their encodings may be any byte between byte
 * i of @first and byte i of @last, independently of the other bytes. */
static int class_add_sequence(struct class *c, uint32_t first, uint32_t last)
{
    char a[4], b[4];
    const size_t len = utf8_encode(first, a);
    uint32_t to = c->next;
    int r;

    utf8_encode(last, b);
    r = ARRAY_GROW(c->firsts, c->cap_firsts, (size_t)c->n_firsts + 1);
    for (size_t i = len; r == 0 && i-- > 0;) {
        const struct edge edge = {
            .kind = EDGE_BYTES, .first = (uint8_t)a[i], .last = (uint8_t)b[i], .to = to};

        if (i == 0)
            c->firsts[c->n_firsts++] = edge;
        else
            r = class_state(c, edge, &to);
    }
    return r;
}

/* Adds code points whose encodings have the same length. The range is split until, in each part,
 * the bytes after the first differing byte have their whole range. */
static int class_add_split(struct class *c, uint32_t first, uint32_t last)
{
    int r;

    for (unsigned bits = 6; last > 0x7f && bits <= 18; bits += 6) {
        const uint32_t mask = (1u << bits) - 1;

        if ((first & ~mask) == (last & ~mask))
            continue;
        if ((first & mask) != 0) {
            r = class_add_split(c, first, first | mask);
            return r < 0 ? r : class_add_split(c, (first | mask) + 1, last);
        }
        if ((last & mask) != mask) {
            r = class_add_split(c, first, (last & ~mask) - 1);
            return r < 0 ? r : class_add_split(c, last & ~mask, last);
        }
    }
    return class_add_sequence(c, first, last);
}

static int class_add(struct class *c, uint32_t first, uint32_t last)
{
    static const uint32_t parts[][2] = {
        {0, 0x7f}, {0x80, 0x7ff}, {0x800, 0xd7ff}, {0xe000, 0xffff}, {0x10000, 0x10ffff}};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
        if (first <= parts[i][1] && last >= parts[i][0])
            r = class_add_split(c, MAX(first, parts[i][0]), MIN(last, parts[i][1]));
    return r;
}

int class_fragment(struct nfa *nfa, const uint32_t *words, uint32_t n, uint32_t next,
                   uint32_t *ret_start)
{
    struct class c = {.nfa = nfa, .next = next};
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n; i += 2)
        r = class_add(&c, words[i], words[i + 1]);
    if (r == 0)
        r = nfa_add_state(nfa, false, ret_start);
    if (r == 0)
        r = nfa_set_edges(nfa, *ret_start, c.firsts, c.n_firsts);
    free(c.firsts);
    return r;
}
