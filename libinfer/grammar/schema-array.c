/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays
 *
 * The first elements (the prefix) may have schemas of their own, and all other elements share one.
 * The nodes are made from the last element to the first one. There is one node for each *state* of
 * the array. The state says what the elements before the node have done: how many of them have
 * satisfied `contains`, or which values of an enumeration they have used (uniqueItems).
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

enum {
    MAX_COUNT = 1 << 16, /* no answer has more elements, so a larger maxItems is not enforced */
    MAX_PREFIX = 4096,
    MAX_CELLS = 1 << 14,
    MAX_UNIQUE = 8, /* values of an enumeration with uniqueItems */
};

struct array {
    struct schema *s;
    const struct facts *f;
    uint32_t prefix, min, max; /* max: GRAMMAR_FOREVER if there is none */
    const struct schema_value *limit_at, *unique_at, *contains, *contains_at;
    uint32_t min_contains, max_contains;
};

static const struct schema_value *array_prefix(const struct schema_value *v)
{
    const struct schema_value *prefix = schema_get(v, "prefixItems"), *items;

    items = schema_get(v, "items");
    return prefix ? prefix : items && items->type == VALUE_ARRAY ? items : NULL;
}

/* The schema of elements after the prefix; NULL: none. */
static const struct schema_value *array_rest(const struct schema_value *v)
{
    const struct schema_value *items = schema_get(v, "items");

    return items && items->type == VALUE_ARRAY ? schema_get(v, "additionalItems") : items;
}

static bool array_fact_covers(const struct schema_value *v, uint32_t i)
{
    const struct schema_value *prefix = array_prefix(v);

    return array_rest(v) || (prefix && i < prefix->n);
}

static bool array_is_evaluated(const struct array *a, uint32_t i, uint32_t top)
{
    for (uint32_t k = top; k < a->f->n; k++)
        if (schema_fact_is_below(a->f, k, top) &&
            (array_fact_covers(a->f->v[k].v, i) ||
             (k > top && schema_get(a->f->v[k].v, "unevaluatedItems"))))
            return true;
    return false;
}

/* Collects the schemas of element @i. */
static bool array_element_set(struct array *a, uint32_t i, struct schema_set *ret_set)
{
    *ret_set = (struct schema_set){0};
    for (uint32_t k = 0; k < a->f->n; k++) {
        const struct schema_value *v = a->f->v[k].v, *prefix = array_prefix(v), *m;
        const struct schema_value *rest = schema_get(v, "unevaluatedItems");

        if (a->f->v[k].only_ref)
            continue;
        m = prefix && i < prefix->n ? prefix->first : NULL;
        for (uint32_t n = i; m && n > 0; n--)
            m = m->next;
        if (!m)
            m = array_rest(v);
        if (m && !schema_set_add(a->s, ret_set, m))
            return false;
        if (rest && !array_is_evaluated(a, i, k) && !schema_set_add(a->s, ret_set, rest))
            return false;
    }
    return schema_step(a->s, a->s->root, i + a->f->n);
}

static grammar_node array_element(struct array *a, uint32_t i, const struct schema_value *more)
{
    struct schema_set set;

    if (!array_element_set(a, i, &set) || (more && !schema_set_add(a->s, &set, more)))
        return BUILDER_NONE;
    return schema_set_node(a->s, &set);
}

/* -- collection -- */

static void array_limits(struct array *a, const struct schema_value *v)
{
    const struct schema_value *min = schema_get(v, "minItems"), *max = schema_get(v, "maxItems");
    const struct schema_value *unique = schema_get(v, "uniqueItems");
    uint32_t n;

    if (min && schema_count(min, &n) && n > a->min) {
        a->min = n;
        a->limit_at = min;
    }
    if (max && schema_count(max, &n) && n < a->max) {
        a->max = n;
        a->limit_at = max;
    }
    if (unique && unique->truth)
        a->unique_at = unique;
}

static bool array_add_contains(struct array *a, const struct schema_value *v)
{
    const struct schema_value *c = schema_get(v, "contains"), *min = schema_get(v, "minContains");
    const struct schema_value *max = schema_get(v, "maxContains");
    uint32_t n_min = 1, n_max = GRAMMAR_FOREVER;

    if (!c)
        return true;
    if (min)
        schema_count(min, &n_min);
    if (max)
        schema_count(max, &n_max);
    if (n_min == 0 && n_max == GRAMMAR_FOREVER)
        return true;
    if (a->contains) {
        if (!a->s->loose)
            schema_fail(a->s, EINVAL, c, "two keywords 'contains' for one array are not supported");
        return a->s->loose;
    }
    a->contains = c;
    a->contains_at = max ? max : c;
    a->min_contains = n_min;
    a->max_contains = n_max;
    return true;
}

static bool array_collect(struct array *a)
{
    for (uint32_t i = 0; i < a->f->n; i++) {
        const struct schema_value *v = a->f->v[i].v, *prefix = array_prefix(v);

        if (a->f->v[i].only_ref)
            continue;
        array_limits(a, v);
        if (!array_add_contains(a, v))
            return false;
        if (prefix && prefix->n > MAX_PREFIX) {
            schema_fail(a->s, EINVAL, prefix, "more than %d elements have schemas", MAX_PREFIX);
            return false;
        }
        a->prefix = prefix ? MAX(a->prefix, prefix->n) : a->prefix;
    }
    if (a->min > MAX_COUNT)
        schema_fail(a->s, EINVAL, a->limit_at, "the number is larger than %d", MAX_COUNT);
    if (a->max > MAX_COUNT)
        a->max = GRAMMAR_FOREVER;
    return a->s->r == 0;
}

/* -- brackets -- */

static grammar_node array_brackets(struct array *a, grammar_node contents, bool may_be_empty)
{
    struct schema *s = a->s;
    const grammar_node open = schema_chars(s, "["), close = schema_chars(s, "]");
    const grammar_node full[] = {open, s->gap, contents, s->gap, close};
    const grammar_node empty[] = {open, s->gap, close};
    const grammar_node ways[] = {may_be_empty ? schema_seq(s, empty, 3) : s->nothing,
                                 schema_seq(s, full, 5)};

    return schema_alt(s, ways, 2);
}

static grammar_node array_rule(struct schema *s, grammar_node body)
{
    grammar_node rule;

    if (body == s->nothing || body == BUILDER_NONE)
        return body;
    rule = grammar_rule_new(s->b, NULL);
    grammar_rule_set(s->b, rule, body);
    return rule;
}

static grammar_node array_with_comma(struct schema *s, grammar_node element)
{
    const grammar_node parts[] = {s->comma, element};

    return schema_seq(s, parts, 2);
}

/* -- plain arrays -- */

/* Returns the node of all elements after the first @n ones. All of these elements have the schema
 * of array_rest(). */
static grammar_node array_tail(struct array *a, uint32_t n)
{
    const uint32_t min = a->min > n ? a->min - n : 0;
    const uint32_t max = a->max == GRAMMAR_FOREVER ? a->max : a->max - n;
    grammar_node rest = max > 0 ? array_element(a, a->prefix, NULL) : a->s->nothing;

    if (rest == BUILDER_NONE)
        return rest;
    if (rest == a->s->nothing)
        return min > 0 ? rest : grammar_empty(a->s->b);
    rest = array_with_comma(a->s, rest);
    if (min > 4 || (max > 4 && max != GRAMMAR_FOREVER))
        rest = array_rule(a->s, rest);
    return grammar_repeat(a->s->b, rest, min, max);
}

static grammar_node array_plain(struct array *a)
{
    const uint32_t n = MIN(MAX(a->prefix, 1u), a->max);
    grammar_node after = n > 0 ? array_tail(a, n) : a->s->nothing, contents = a->s->nothing;

    for (uint32_t i = n; i-- > 0;) {
        const grammar_node element = array_element(a, i, NULL);
        grammar_node parts[] = {element, after};

        if (element == BUILDER_NONE || after == BUILDER_NONE)
            return BUILDER_NONE;
        contents = schema_seq(a->s, parts, 2);
        after = array_with_comma(a->s, contents);
        if (i < a->min && after == a->s->nothing)
            continue;
        after = i < a->min ? after : schema_optional(a->s, after);
        if (i % 64 == 63)
            after = array_rule(a->s, after);
    }
    return array_brackets(a, contents, a->min == 0);
}

/* -- contains -- */

/* The nodes of one element. @with: the element satisfies `contains`. @without: the element need not
 * satisfy `contains`; if there is a limit (maxContains), it must not satisfy it. */
struct kinds {
    grammar_node with, without;
};

static bool array_kinds(struct array *a, uint32_t i, struct kinds *ret_kinds)
{
    const struct schema_value *other = NULL;

    if (a->max_contains != GRAMMAR_FOREVER) {
        other = schema_negate(a->s, a->contains);
        if (!other)
            return false;
    }
    ret_kinds->with = array_element(a, i, a->contains);
    ret_kinds->without =
        ret_kinds->with == BUILDER_NONE ? BUILDER_NONE : array_element(a, i, other);
    return ret_kinds->without != BUILDER_NONE;
}

static bool array_counts_to(const struct array *a, uint32_t *ret_top)
{
    *ret_top = a->max_contains != GRAMMAR_FOREVER ? a->max_contains : a->min_contains;
    return *ret_top < MAX_CELLS;
}

/* Makes the nodes of what may follow in an array of any length. ret_rest[i] may follow i elements
 * that satisfied `contains`; i is at most @top. */
static bool contains_endless(struct array *a, uint32_t top, grammar_node *ret_rest)
{
    struct schema *s = a->s;
    struct kinds k;

    if (!array_kinds(a, a->prefix, &k))
        return false;
    for (uint32_t c = top + 1; c-- > 0;) {
        const bool full = c == top && a->max_contains != GRAMMAR_FOREVER;
        const grammar_node without = array_with_comma(s, k.without);
        const grammar_node with = array_with_comma(s, k.with);
        const grammar_node both[] = {without, with};
        grammar_node others, parts[3], ways[2];

        others = full || c < top ? without : schema_alt(s, both, 2);
        others = others == s->nothing ? grammar_empty(s->b)
                                      : grammar_repeat(s->b, others, 0, GRAMMAR_FOREVER);
        parts[0] = others;
        parts[1] = with;
        parts[2] = c < top ? ret_rest[c + 1] : s->nothing;
        ways[0] = c < top ? schema_seq(s, parts, 3) : s->nothing;
        ways[1] = c >= a->min_contains ? others : s->nothing;
        ret_rest[c] = array_rule(s, schema_alt(s, ways, 2));
    }
    return s->r == 0;
}

static bool contains_step(struct array *a, uint32_t i, uint32_t top, const grammar_node *after,
                          grammar_node *rest, grammar_node *ret_first)
{
    struct schema *s = a->s;
    struct kinds k;

    if (!array_kinds(a, MIN(i, a->prefix), &k))
        return false;
    for (uint32_t c = 0; c <= top; c++) {
        const bool full = c == top && a->max_contains != GRAMMAR_FOREVER;
        const grammar_node with[] = {k.with, after[MIN(c + 1, top)]};
        const grammar_node without[] = {k.without, after[c]};
        grammar_node ways[2];

        ways[0] = full ? s->nothing : schema_seq(s, with, 2);
        ways[1] = schema_seq(s, without, 2);
        rest[c] = schema_alt(s, ways, 2);
        if (c == 0)
            *ret_first = rest[0];
        ways[0] = array_with_comma(s, rest[c]);
        ways[1] = i >= a->min && c >= a->min_contains ? grammar_empty(s->b) : s->nothing;
        rest[c] = array_rule(s, schema_alt(s, ways, 2));
    }
    return schema_step(s, a->contains, top + 1);
}

static grammar_node array_with_contains(struct array *a)
{
    const bool endless = a->max == GRAMMAR_FOREVER;
    const uint32_t n = endless ? MAX(MAX(a->min, a->prefix), 1u) : a->max;
    _cleanup_free_ grammar_node *room = NULL;
    grammar_node *after, *rest, contents = a->s->nothing;
    uint32_t top;

    if (!array_counts_to(a, &top) || ((uint64_t)top + 1) * (n + (uint64_t)1) > MAX_CELLS)
        return schema_fail(a->s, EINVAL, a->contains_at, "the numbers of elements are too large");
    room = NEW(grammar_node, 2 * ((size_t)top + 1));
    if (!room)
        return schema_fail(a->s, ENOMEM, a->contains, "out of memory");
    after = room;
    rest = room + top + 1;
    for (uint32_t c = 0; c <= top; c++)
        after[c] = c >= a->min_contains ? grammar_empty(a->s->b) : a->s->nothing;
    if (endless && !contains_endless(a, top, after))
        return BUILDER_NONE;
    for (uint32_t i = n; i-- > 0;) {
        grammar_node *swap = after;

        if (!contains_step(a, i, top, after, rest, &contents))
            return BUILDER_NONE;
        after = rest;
        rest = swap;
    }
    return array_brackets(a, contents, a->min == 0 && a->min_contains == 0);
}

/* -- different elements -- */

static bool unique_set_values(struct schema *s, const struct facts *f, void *data)
{
    struct schema_values *all = data, values;
    bool has;

    if (!schema_enum_values(s, f, &values, &has) || !has || all->v || values.n > MAX_UNIQUE ||
        schema_leaf_types(s, f) & (TYPE_ARRAY | TYPE_OBJECT))
        all->n = UINT32_MAX;
    else
        *all = values;
    return s->r == 0;
}

/* Returns the node of one value of an enumeration, or s->nothing if the schemas of the element do
 * not permit this value. */
static grammar_node unique_value(struct array *a, const struct schema_set *set,
                                 const struct schema_value *v)
{
    struct schema *s = a->s;
    struct schema_value *only = schema_make(s, VALUE_OBJECT, v);
    struct schema_value *list = schema_make(s, VALUE_ARRAY, v);
    struct schema_set both = *set;

    list = schema_add(s, list, NULL, 0, schema_copy(s, v));
    if (!schema_add(s, only, "enum", 4, list) || !schema_set_add(s, &both, only))
        return BUILDER_NONE;
    return schema_set_node(s, &both);
}

/* Returns the node of arrays of the values @nodes[n] in which no value occurs twice. rest[r] is the
 * node of the rest of an array if the values at the bits of r have been used. */
static grammar_node unique_node(struct array *a, const grammar_node *nodes, uint32_t n)
{
    struct schema *s = a->s;
    grammar_node rest[1 << MAX_UNIQUE], contents = s->nothing;

    for (uint32_t used = 1u << n; used-- > 0;) {
        const uint32_t count = (uint32_t)__builtin_popcount(used);
        grammar_node ways[MAX_UNIQUE], all[2];
        uint32_t n_ways = 0;

        for (uint32_t i = 0; i < n && count < a->max; i++) {
            const grammar_node parts[] = {nodes[i], rest[used | 1u << i]};

            if (!(used >> i & 1))
                ways[n_ways++] = schema_seq(s, parts, 2);
        }
        contents = schema_alt(s, ways, n_ways);
        all[0] = array_with_comma(s, contents);
        all[1] = count >= a->min ? grammar_empty(s->b) : s->nothing;
        rest[used] = array_rule(s, schema_alt(s, all, 2));
    }
    return array_brackets(a, contents, a->min == 0);
}

static grammar_node array_unique(struct array *a)
{
    struct schema_values values = {0};
    grammar_node nodes[MAX_UNIQUE];
    struct schema_set set;
    uint32_t n = 0;

    if (!array_element_set(a, 0, &set) ||
        (set.n > 0 && !schema_expand(a->s, &set, unique_set_values, &values)))
        return BUILDER_NONE;
    if (set.n == 0 || values.n == UINT32_MAX || a->prefix > 0 || a->contains)
        return a->s->loose ? array_plain(a)
                           : schema_fail(a->s, EINVAL, a->unique_at,
                                         "the keyword 'uniqueItems' is only supported if the "
                                         "elements have an enum of at most %d values",
                                         MAX_UNIQUE);
    for (uint32_t i = 0; i < values.n; i++) {
        bool repeated = false;

        for (uint32_t k = 0; k < i; k++)
            repeated = repeated || schema_equal(values.v[k], values.v[i]);
        if (!repeated)
            nodes[n++] = unique_value(a, &set, values.v[i]);
    }
    return a->s->r < 0 ? BUILDER_NONE : unique_node(a, nodes, n);
}

static bool array_has_keywords(const struct facts *f)
{
    static const char *const names[] = {"items",    "prefixItems",     "additionalItems",
                                        "minItems", "maxItems",        "uniqueItems",
                                        "contains", "unevaluatedItems"};

    for (uint32_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (!f->v[i].only_ref && schema_get(f->v[i].v, names[k]))
                return true;
    return false;
}

grammar_node schema_array(struct schema *s, const struct facts *f)
{
    struct array a = {.s = s, .f = f, .max = GRAMMAR_FOREVER};

    if (!array_has_keywords(f))
        return s->any_array;
    if (!array_collect(&a))
        return BUILDER_NONE;
    if (a.min > a.max)
        return schema_conflict(s, a.limit_at, "minItems is more than maxItems");
    if (a.unique_at && a.max > 1)
        return array_unique(&a);
    return a.contains ? array_with_contains(&a) : array_plain(&a);
}
