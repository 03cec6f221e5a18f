/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the node of an alternative: the values that satisfy all of its facts (see schema.h)
 *
 * Alternatives with equal facts have one node. An alternative of arrays or objects gets a rule
 * before its contents are looked at, because the contents may lead back to it. Schemas that are
 * nested too deep for the stack wait in a list.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

enum { STACK_DEPTH = 48 };

struct leaf_work {
    struct leaf_work *next;
    struct facts facts;
    unsigned types;
    grammar_node rule;
};

/* Returns the types that the values of an enum have; TYPE_ANY: the schema has no enum. */
static unsigned leaf_enum_types(const struct schema_value *v)
{
    const struct schema_value *list = schema_get(v, "enum"), *one = schema_get(v, "const");
    const struct schema_value *nullable = schema_get(v, "nullable");
    const unsigned null = nullable && nullable->truth ? TYPE_NULL : 0;
    unsigned types = TYPE_ANY, some = 0;

    if (list && list->type == VALUE_ARRAY && schema_enum_is_scalar(list)) {
        for (list = list->first; list; list = list->next)
            some |= schema_value_type(list);
        types &= some | null;
    }
    return one ? types & (schema_value_type(one) | null) : types;
}

bool schema_fact_is_below(const struct facts *f, uint32_t i, uint32_t top)
{
    bool below = false;

    for (; i != UINT32_MAX; i = f->v[i].parent) {
        if (f->v[i].v->is_negation)
            return false;
        below = below || i == top;
    }
    return below;
}

unsigned schema_leaf_types(struct schema *s, const struct facts *f)
{
    unsigned types = TYPE_ANY;

    for (uint32_t i = 0; i < f->n && types; i++)
        if (!f->v[i].only_ref)
            types &= schema_types(f->v[i].v) & leaf_enum_types(f->v[i].v);
    schema_step(s, s->root, f->n);
    return types;
}

/* -- null and booleans -- */

static bool leaf_excludes(const struct facts *f, const struct schema_value *v)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const struct schema_value *m = schema_get(f->v[i].v, " excluded");

        for (m = m ? m->first : NULL; m; m = m->next)
            if (schema_equal(m, v))
                return true;
    }
    return false;
}

static grammar_node leaf_word(struct schema *s, const struct facts *f,
                              const struct schema_values *values, bool has_values,
                              const struct schema_value *word, const char *text)
{
    bool found = !has_values;

    for (uint32_t i = 0; i < values->n; i++)
        found = found || schema_equal(values->v[i], word);
    return found && !leaf_excludes(f, word) ? schema_chars(s, text) : s->nothing;
}

static grammar_node leaf_words(struct schema *s, const struct facts *f, unsigned types)
{
    const struct schema_value yes = {.type = VALUE_BOOL, .truth = true}, no = {.type = VALUE_BOOL};
    const struct schema_value null = {.type = VALUE_NULL};
    struct schema_values values;
    grammar_node ways[3] = {s->nothing, s->nothing, s->nothing};
    bool has;

    if (!schema_enum_values(s, f, &values, &has))
        return BUILDER_NONE;
    if (types & TYPE_NULL)
        ways[0] = leaf_word(s, f, &values, has, &null, "null");
    if (types & TYPE_BOOLEAN) {
        ways[1] = leaf_word(s, f, &values, has, &yes, "true");
        ways[2] = leaf_word(s, f, &values, has, &no, "false");
    }
    return schema_alt(s, ways, 3);
}

/* -- all types -- */

static grammar_node leaf_build(struct schema *s, const struct facts *f, unsigned types)
{
    grammar_node ways[5] = {s->nothing, s->nothing, s->nothing, s->nothing, s->nothing};

    if (!schema_step(s, f->v[0].v, f->n))
        return BUILDER_NONE;
    if (types & (TYPE_NULL | TYPE_BOOLEAN))
        ways[0] = leaf_words(s, f, types);
    if (types & TYPE_NUMBER)
        ways[1] = schema_number(s, f, types & TYPE_NUMBER);
    if (types & TYPE_STRING)
        ways[2] = schema_string(s, f);
    if (types & TYPE_ARRAY)
        ways[3] = schema_array(s, f);
    if (types & TYPE_OBJECT)
        ways[4] = schema_object(s, f);
    return s->r < 0 ? BUILDER_NONE : schema_alt(s, ways, 5);
}

static bool leaf_is_scoped(const struct facts *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (schema_get(f->v[i].v, "unevaluatedProperties") ||
            schema_get(f->v[i].v, "unevaluatedItems"))
            return true;
    return false;
}

/* Copies the facts that matter: facts with keywords of their own, or all facts if keywords such as
 * unevaluatedItems depend on the parents of facts. Also makes the key of the alternative. */
static bool leaf_facts(struct schema *s, const struct facts *f, struct facts *ret_facts,
                       const uint64_t **ret_key, size_t *ret_len)
{
    const bool scoped = leaf_is_scoped(f);
    struct fact *v = arena_alloc(&s->arena, (f->n + (size_t)1) * sizeof(*v));
    uint64_t *key = arena_alloc(&s->arena, (2 * (size_t)f->n + 1) * sizeof(*key));
    size_t n = 0, len = 0;

    if (!v || !key) {
        schema_fail(s, ENOMEM, s->root, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < f->n; i++) {
        if (!scoped && (f->v[i].only_ref || !f->v[i].v->asserts))
            continue;
        v[n++] = f->v[i];
        key[len++] = f->v[i].v->id;
        if (scoped)
            key[len++] = f->v[i].parent;
    }
    *ret_facts = (struct facts){(uint32_t)n, v};
    *ret_key = key;
    *ret_len = len * sizeof(*key);
    return true;
}

static bool leaf_remember(struct schema *s, const uint64_t *key, size_t len, grammar_node node)
{
    if (node == BUILDER_NONE)
        return false;
    if (map_set(&s->leaves, key, len, node) < 0) {
        schema_fail(s, ENOMEM, s->root, "out of memory");
        return false;
    }
    return true;
}

/* Makes the node of arrays and objects. */
static grammar_node leaf_container(struct schema *s, const struct facts *f, unsigned types,
                                   const uint64_t *key, size_t len)
{
    const grammar_node rule = grammar_rule_new(s->b, NULL);
    grammar_node body;

    s->n_nodes++;
    if (rule == BUILDER_NONE || !leaf_remember(s, key, len, rule)) {
        schema_step(s, s->root, 0);
        return BUILDER_NONE;
    }
    if (s->depth >= STACK_DEPTH) {
        struct leaf_work *work = arena_alloc(&s->arena, sizeof(*work));

        if (!work)
            return schema_fail(s, ENOMEM, s->root, "out of memory");
        *work = (struct leaf_work){s->work, *f, types, rule};
        s->work = work;
        return rule;
    }
    s->depth++;
    body = leaf_build(s, f, types);
    s->depth--;
    if (body == BUILDER_NONE)
        return body;
    grammar_rule_set(s->b, rule, body);
    if (body != s->nothing)
        return rule;
    return leaf_remember(s, key, len, body) ? body : BUILDER_NONE;
}

grammar_node schema_leaf_node(struct schema *s, const struct facts *f)
{
    const unsigned types = schema_leaf_types(s, f);
    struct facts own;
    const uint64_t *key;
    size_t len;
    uint64_t known;
    grammar_node node;

    if (s->r < 0 || !leaf_facts(s, f, &own, &key, &len))
        return BUILDER_NONE;
    if (own.n == 0)
        return s->any;
    if (map_find(&s->leaves, key, len, &known))
        return (grammar_node)known;
    if (types & (TYPE_ARRAY | TYPE_OBJECT))
        return leaf_container(s, &own, types, key, len);
    node = leaf_build(s, &own, types);
    return leaf_remember(s, key, len, node) ? node : BUILDER_NONE;
}

bool schema_leaf_finish(struct schema *s)
{
    while (s->work && s->r == 0) {
        struct leaf_work *work = s->work;
        grammar_node body;

        s->work = work->next;
        body = leaf_build(s, &work->facts, work->types);
        if (body != BUILDER_NONE)
            grammar_rule_set(s->b, work->rule, body);
    }
    return schema_step(s, s->root, 0);
}
