/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of schemas, which name a place by its JSON pointer, and the limits of the work
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "grammar/schema.h"

enum { POINTER_MAX = 120 };

struct pointer {
    char text[POINTER_MAX];
    size_t start; /* the pointer is written from its end */
    bool cut;
};

static void pointer_prepend(struct pointer *p, char ch)
{
    if (p->start > 0)
        p->text[--p->start] = ch;
    else
        p->cut = true;
}

static void pointer_prepend_key(struct pointer *p, const char *key, size_t len)
{
    while (len-- > 0) {
        if (key[len] == '~' || key[len] == '/') {
            pointer_prepend(p, key[len] == '~' ? '0' : '1');
            pointer_prepend(p, '~');
        } else {
            pointer_prepend(p, key[len]);
        }
    }
    pointer_prepend(p, '/');
}

static void pointer_of(const struct schema_value *v, struct pointer *p)
{
    char number[16];

    p->start = sizeof(p->text);
    p->cut = false;
    for (; v && v->parent; v = v->parent) {
        if (v->key) {
            pointer_prepend_key(p, v->key, v->key_len);
        } else if (v->index != UINT32_MAX) {
            snprintf(number, sizeof(number), "%u", v->index);
            pointer_prepend_key(p, number, strlen(number));
        }
    }
}

grammar_node schema_fail(struct schema *s, int code, const struct schema_value *at,
                         const char *format, ...)
{
    struct pointer p;
    char text[160];
    va_list ap;

    if (s->r < 0)
        return BUILDER_NONE;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    while (at && at->type == VALUE_ALIAS)
        at = at->alias;
    pointer_of(at, &p);
    s->r = err_set(s->reterr, code, "'%s%.*s': %s", p.cut ? "…" : "#",
                   (int)(sizeof(p.text) - p.start), p.text + p.start, text);
    return BUILDER_NONE;
}

grammar_node schema_fail_memory(struct schema *s)
{
    if (s->r == 0)
        s->r = err_set(s->reterr, ENOMEM, "out of memory");
    return BUILDER_NONE;
}

bool schema_step(struct schema *s, const struct schema_value *at, uint32_t n)
{
    int r;

    if (s->r < 0)
        return false;
    s->n_steps += n;
    if (s->n_steps > SCHEMA_MAX_STEPS || s->n_nodes > SCHEMA_MAX_NODES ||
        s->arena.used > SCHEMA_MAX_MEMORY)
        schema_fail(s, E2BIG, at, "the schema is too complex");
    r = grammar_builder_error(s->b);
    if (r == -ENOMEM && s->r == 0)
        s->r = err_set(s->reterr, ENOMEM, "out of memory");
    else if (r < 0)
        schema_fail(s, -r, at, "the schema is too complex");
    return s->r == 0;
}

grammar_node schema_conflict(struct schema *s, const struct schema_value *at, const char *text)
{
    if (!s->conflict_text) {
        s->conflict = at;
        s->conflict_text = text;
    }
    return s->nothing;
}

grammar_node schema_seq(struct schema *s, const grammar_node *nodes, size_t n)
{
    s->n_nodes += 1 + (uint32_t)n / 8;
    for (size_t i = 0; i < n; i++)
        if (nodes[i] == BUILDER_NONE || nodes[i] == s->nothing)
            return nodes[i];
    return n == 1 ? nodes[0] : grammar_seq(s->b, nodes, n);
}

/* Nodes that permit nothing are left out. */
grammar_node schema_alt(struct schema *s, const grammar_node *nodes, size_t n)
{
    _cleanup_free_ grammar_node *some = NEW(grammar_node, n);
    size_t n_some = 0;

    if (!some) {
        if (s->r == 0)
            s->r = err_set(s->reterr, ENOMEM, "out of memory");
        return BUILDER_NONE;
    }
    s->n_nodes += 1 + (uint32_t)n / 8;
    for (size_t i = 0; i < n; i++) {
        if (nodes[i] == BUILDER_NONE)
            return BUILDER_NONE;
        if (nodes[i] != s->nothing)
            some[n_some++] = nodes[i];
    }
    if (n_some == 0)
        return s->nothing;
    return n_some == 1 ? some[0] : grammar_alt(s->b, some, n_some);
}

grammar_node schema_optional(struct schema *s, grammar_node node)
{
    s->n_nodes++;
    if (node == s->nothing)
        return grammar_empty(s->b);
    return node == BUILDER_NONE ? node : grammar_repeat(s->b, node, 0, 1);
}

grammar_node schema_chars(struct schema *s, const char *text)
{
    return grammar_bytes(s->b, text, strlen(text));
}
