/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expands the schemas of a place into alternatives, which are lists of facts (see schema.h)
 *
 * Every schema that a fact names by $ref or allOf becomes a fact as well. A schema that offers
 * alternatives (anyOf, oneOf, if, not, …) adds a choice: an array of schemas, the *ways*, one of
 * which must apply. When all facts are known, the choices are tried one after the other.
 */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "grammar/schema.h"

enum { CHAIN_MAX = 256 };

enum outcome { OUTCOME_ERROR, OUTCOME_NOTHING, OUTCOME_OK };

struct choice {
    const struct schema_value *ways; /* an array of schemas */
    uint32_t parent;
};

struct expansion {
    struct schema *s;
    struct fact *facts;
    struct choice *choices;
    uint32_t n_facts, cap_facts, n_choices, cap_choices;
    uint32_t n_leaves;
    schema_leaf_fn leaf;
    void *data;
};

static enum outcome expansion_add(struct expansion *e, const struct schema_value *v,
                                  uint32_t parent);

static enum outcome expansion_memory(struct expansion *e, const struct schema_value *v)
{
    schema_fail(e->s, ENOMEM, v, "out of memory");
    return OUTCOME_ERROR;
}

/* Returns true if a schema refers to itself at the same place, or if the chain of references is too
 * long; both are errors. */
static bool expansion_is_cycle(struct expansion *e, const struct schema_value *v, uint32_t parent)
{
    unsigned n = 0;

    for (; parent != UINT32_MAX; parent = e->facts[parent].parent) {
        if (e->facts[parent].v == v) {
            schema_fail(e->s, EINVAL, v, "the schema refers to itself without any progress");
            return true;
        }
        if (++n > CHAIN_MAX) {
            schema_fail(e->s, E2BIG, v, "more than %d schemas refer to each other here", CHAIN_MAX);
            return true;
        }
    }
    return false;
}

static bool expansion_has(const struct expansion *e, const struct schema_value *v)
{
    for (uint32_t i = 0; i < e->n_facts; i++)
        if (e->facts[i].v == v)
            return true;
    return false;
}

static enum outcome expansion_add_refs(struct expansion *e, const struct schema_value *v,
                                       uint32_t fact)
{
    static const char *const names[] = {"$ref", "$dynamicRef", "$recursiveRef"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct schema_value *ref = schema_get(v, names[i]), *to;
        enum outcome o;

        if (!ref)
            continue;
        to = schema_ref_resolve(e->s, v, ref);
        if (!to)
            return OUTCOME_ERROR;
        o = expansion_add(e, to, fact);
        if (o != OUTCOME_OK)
            return o;
    }
    return OUTCOME_OK;
}

static enum outcome expansion_add_all(struct expansion *e, const struct schema_value *v,
                                      uint32_t fact)
{
    const struct schema_value *all = schema_get(v, "allOf");
    enum outcome o = OUTCOME_OK;

    for (all = all ? all->first : NULL; all && o == OUTCOME_OK; all = all->next)
        o = expansion_add(e, all, fact);
    return o;
}

static enum outcome expansion_add_choices(struct expansion *e, const struct schema_value *v,
                                          uint32_t fact)
{
    const struct schema_value *all = schema_choices(e->s, v);

    if (!all)
        return OUTCOME_ERROR;
    for (all = all->first; all; all = all->next) {
        if (all->n == 1) {
            const enum outcome o = expansion_add(e, all->first, fact);

            if (o != OUTCOME_OK)
                return o;
            continue;
        }
        if (e->n_choices >= CHAIN_MAX) {
            schema_fail(e->s, E2BIG, v, "more than %d choices apply to one value", CHAIN_MAX);
            return OUTCOME_ERROR;
        }
        if (ARRAY_GROW(e->choices, e->cap_choices, e->n_choices + (size_t)1) < 0)
            return expansion_memory(e, v);
        e->choices[e->n_choices++] = (struct choice){all, fact};
    }
    return OUTCOME_OK;
}

static enum outcome expansion_add_object(struct expansion *e, const struct schema_value *v,
                                         uint32_t parent)
{
    const uint32_t fact = e->n_facts;
    enum outcome o;

    if (!schema_keyword_check(e->s, v))
        return OUTCOME_ERROR;
    if (e->n_facts >= SCHEMA_MAX_FACTS) {
        schema_fail(e->s, E2BIG, v, "more than %d schemas apply to one value", SCHEMA_MAX_FACTS);
        return OUTCOME_ERROR;
    }
    if (ARRAY_GROW(e->facts, e->cap_facts, e->n_facts + (size_t)1) < 0)
        return expansion_memory(e, v);
    e->facts[e->n_facts++] = (struct fact){v, parent};
    if (e->s->old_refs && schema_get(v, "$ref")) {
        e->facts[fact].only_ref = true;
        return expansion_add_refs(e, v, fact);
    }
    o = expansion_add_refs(e, v, fact);
    if (o == OUTCOME_OK)
        o = expansion_add_all(e, v, fact);
    return o == OUTCOME_OK ? expansion_add_choices(e, v, fact) : o;
}

static enum outcome expansion_add(struct expansion *e, const struct schema_value *v,
                                  uint32_t parent)
{
    while (v->type == VALUE_ALIAS)
        v = v->alias;
    if (!schema_step(e->s, v, 1 + e->n_facts / 16))
        return OUTCOME_ERROR;
    if (v->type == VALUE_BOOL) {
        if (!v->truth)
            schema_conflict(e->s, v, "the schema is false");
        return v->truth ? OUTCOME_OK : OUTCOME_NOTHING;
    }
    if (v->type != VALUE_OBJECT) {
        schema_fail(e->s, EINVAL, v, "a schema must be an object, true or false");
        return OUTCOME_ERROR;
    }
    if (expansion_is_cycle(e, v, parent))
        return OUTCOME_ERROR;
    return expansion_has(e, v) ? OUTCOME_OK : expansion_add_object(e, v, parent);
}

static bool expansion_leaf(struct expansion *e)
{
    const struct facts f = {e->n_facts, e->facts};

    if (schema_leaf_types(e->s, &f) == 0) {
        if (e->n_facts > 0)
            schema_conflict(e->s, e->facts[0].v, "no type and no value fits all keywords");
        return e->s->r == 0;
    }
    if (++e->n_leaves > SCHEMA_MAX_CHOICES) {
        schema_fail(e->s, E2BIG, e->n_facts > 0 ? e->facts[0].v : e->s->root,
                    "the choices have more than %d combinations", SCHEMA_MAX_CHOICES);
        return false;
    }
    if (++e->s->n_leaves > SCHEMA_MAX_LEAVES) {
        schema_fail(e->s, E2BIG, e->n_facts > 0 ? e->facts[0].v : e->s->root,
                    "the schema is too complex");
        return false;
    }
    return e->leaf(e->s, &f, e->data);
}

/* Tries all ways of the choices from @i on. */
static bool expansion_solve(struct expansion *e, uint32_t i)
{
    const uint32_t n_facts = e->n_facts, n_choices = e->n_choices;
    struct choice c;

    if (i == e->n_choices)
        return expansion_leaf(e);
    c = e->choices[i];
    for (const struct schema_value *way = c.ways->first; way; way = way->next) {
        const enum outcome o = expansion_add(e, way, c.parent);

        if (o == OUTCOME_ERROR || (o == OUTCOME_OK && !expansion_solve(e, i + 1)))
            return false;
        e->n_facts = n_facts;
        e->n_choices = n_choices;
    }
    return true;
}

bool schema_expand(struct schema *s, const struct schema_set *set, schema_leaf_fn leaf, void *data)
{
    struct expansion e = {.s = s, .leaf = leaf, .data = data};
    enum outcome o = OUTCOME_OK;
    bool ok;

    for (uint32_t i = 0; i < set->n && o == OUTCOME_OK; i++)
        o = expansion_add(&e, set->v[i], UINT32_MAX);
    ok = o == OUTCOME_OK ? expansion_solve(&e, 0) : o == OUTCOME_NOTHING;
    free(e.facts);
    free(e.choices);
    return ok && s->r == 0;
}

/* -- sets -- */

struct ways {
    grammar_node *v;
    uint32_t n, cap;
};

static bool set_add_leaf(struct schema *s, const struct facts *f, void *data)
{
    const grammar_node node = schema_leaf_node(s, f);
    struct ways *w = data;

    if (node == BUILDER_NONE)
        return false;
    if (ARRAY_GROW(w->v, w->cap, w->n + (size_t)1) < 0) {
        schema_fail(s, ENOMEM, s->root, "out of memory");
        return false;
    }
    w->v[w->n++] = node;
    return true;
}

static bool set_same(const struct schema_value *a, const struct schema_value *b)
{
    while (a->type == VALUE_ALIAS)
        a = a->alias;
    while (b->type == VALUE_ALIAS)
        b = b->alias;
    return a == b;
}

/* Returns whether a schema has no keyword that restricts a value. */
bool schema_is_everything(const struct schema_value *v)
{
    if (v->type == VALUE_BOOL)
        return v->truth;
    if (v->type != VALUE_OBJECT)
        return false;
    for (const struct schema_value *m = v->first; m; m = m->next)
        if (schema_keyword_kind(m->key, m->key_len) != KEYWORD_NOTE)
            return false;
    return true;
}

bool schema_set_add(struct schema *s, struct schema_set *set, const struct schema_value *v)
{
    const struct schema_value **more;

    if (!v || schema_is_everything(v))
        return s->r == 0;
    for (uint32_t i = 0; i < set->n; i++)
        if (set_same(set->v[i], v))
            return true;
    more = arena_alloc(&s->arena, (set->n + (size_t)1) * sizeof(*more));
    if (!more) {
        schema_fail(s, ENOMEM, v, "out of memory");
        return false;
    }
    if (set->n > 0)
        memcpy(more, set->v, set->n * sizeof(*more));
    more[set->n++] = v;
    set->v = more;
    return true;
}

grammar_node schema_set_node(struct schema *s, const struct schema_set *set)
{
    struct ways w = {0};
    grammar_node node = BUILDER_NONE;
    uint64_t known;

    if (set->n == 0)
        return s->any;
    if (map_find(&s->sets, set->v, set->n * sizeof(*set->v), &known))
        return (grammar_node)known;
    if (schema_expand(s, set, set_add_leaf, &w))
        node = schema_alt(s, w.v, w.n);
    free(w.v);
    if (node != BUILDER_NONE && map_set(&s->sets, set->v, set->n * sizeof(*set->v), node) < 0)
        return schema_fail(s, ENOMEM, set->v[0], "out of memory");
    return node;
}
