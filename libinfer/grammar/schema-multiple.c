/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes nodes of the multiples of a number, by the remainder of the digits so far
 *
 * A node stands for the digits that may follow the first i digits if the first i digits form a
 * number with the remainder r. The nodes are made from the last digit to the first one, so each of
 * them exists once.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

struct multiple {
    struct schema *s;
    uint32_t factor, n_int, n_frac;
    grammar_node *now, *after; /* [factor] nodes of the digits that follow, by remainder */
    grammar_node *tail;        /* [factor] nodes of the text after the integer part, by remainder */
};

static grammar_node multiple_digit(struct schema *s, uint32_t digit)
{
    const char text = (char)('0' + digit);

    return grammar_bytes(s->b, &text, 1);
}

/* Returns the node of the rest of a number from one place on. It is either @end, or a digit of at
 * least @first and the node that follows this digit. */
static grammar_node multiple_step(struct multiple *m, uint32_t r, uint32_t first, grammar_node end)
{
    grammar_node ways[11], parts[2];
    size_t n = 0;

    for (uint32_t digit = first; digit < 10; digit++) {
        parts[0] = multiple_digit(m->s, digit);
        parts[1] = m->after[(r * 10 + digit) % m->factor];
        ways[n++] = schema_seq(m->s, parts, 2);
    }
    ways[n++] = end;
    return schema_alt(m->s, ways, n);
}

static void multiple_swap(struct multiple *m)
{
    grammar_node *other = m->now;

    m->now = m->after;
    m->after = other;
}

/* Fills in m->tail. */
static void multiple_fraction(struct multiple *m)
{
    const grammar_node empty = grammar_empty(m->s->b);
    uint32_t power = 1 % m->factor; /* 10^(number of missing digits), modulo the factor */

    for (uint32_t r = 0; r < m->factor; r++)
        m->after[r] = r == 0 ? empty : m->s->nothing;
    for (uint32_t i = m->n_frac; i-- > 0;) {
        power = power * 10 % m->factor;
        for (uint32_t r = 0; r < m->factor; r++) {
            const bool ends = i > 0 && r * power % m->factor == 0;

            m->now[r] = multiple_step(m, r, 0, ends ? empty : m->s->nothing);
        }
        multiple_swap(m);
    }
    for (uint32_t r = 0; r < m->factor; r++) {
        const bool ends = r * power % m->factor == 0;
        const grammar_node parts[] = {schema_chars(m->s, "."), m->after[r]};
        const grammar_node ways[] = {ends ? empty : m->s->nothing,
                                     m->n_frac > 0 ? schema_seq(m->s, parts, 2) : m->s->nothing};

        m->tail[r] = schema_alt(m->s, ways, 2);
    }
}

static grammar_node multiple_integer(struct multiple *m)
{
    grammar_node ways[2], parts[2];

    memcpy(m->after, m->tail, m->factor * sizeof(*m->tail));
    for (uint32_t i = m->n_int - 1; i-- > 0;) {
        for (uint32_t r = 0; r < m->factor; r++)
            m->now[r] = multiple_step(m, r, 0, m->tail[r]);
        multiple_swap(m);
    }
    ways[0] = multiple_step(m, 0, 1, m->s->nothing);
    parts[0] = multiple_digit(m->s, 0);
    parts[1] = m->tail[0];
    ways[1] = schema_seq(m->s, parts, 2);
    return schema_alt(m->s, ways, 2);
}

grammar_node multiple_node(struct schema *s, uint32_t factor, uint32_t n_int, uint32_t n_frac)
{
    _cleanup_free_ grammar_node *room = NEW(grammar_node, 3 * (size_t)factor);
    struct multiple m = {.s = s, .factor = factor, .n_int = n_int, .n_frac = n_frac};
    grammar_node parts[2];

    if (!room || (uint64_t)factor * (n_int + n_frac) > MULTIPLE_STATES)
        return s->nothing;
    m.now = room;
    m.after = room + factor;
    m.tail = room + 2 * (size_t)factor;
    multiple_fraction(&m);
    parts[1] = multiple_integer(&m);
    parts[0] = schema_optional(s, schema_chars(s, "-"));
    return schema_seq(s, parts, 2);
}
