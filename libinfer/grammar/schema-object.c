/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects
 *
 * An object has the declared properties in the order of the schema, without some of the optional
 * ones, and then additional properties. The key of an additional property is none of the declared
 * names. The grammar does not enforce that additional keys differ from each other.
 */
#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "grammar/schema.h"

enum {
    MAX_PATTERNS = 6, /* patterns of patternProperties at one place; all their subsets are tried */
    MAX_CELLS = 1 << 14,
    RULE_EVERY = 64, /* a new rule begins after this many properties, so that nodes are not nested
                        deeply */
};

struct property {
    const char *name;
    size_t len;
    bool required;
    const struct schema_value *at;
    grammar_node member; /* key and value */
};

struct pattern {
    const char *text;
    size_t len;
    const struct schema_value *at;
    grammar_node node;
};

struct object {
    struct schema *s;
    const struct facts *f;
    struct property *properties;
    struct pattern patterns[MAX_PATTERNS];
    struct map names;            /* name → index */
    struct schema_set key_rules; /* schemas of propertyNames */
    grammar_node keys;           /* strings that propertyNames permits; s->any_text: all */
    grammar_node other;          /* member that is not declared */
    uint32_t n, cap, n_patterns, n_required;
    uint32_t min, max; /* number of properties */
    const struct schema_value *limit_at;
    bool lost_patterns; /* additionalProperties cannot be enforced */
};

static bool object_fail_memory(struct object *o)
{
    schema_fail(o->s, ENOMEM, o->f->v[0].v, "out of memory");
    return false;
}

/* -- collection -- */

static bool object_declare(struct object *o, const char *name, size_t len, bool required,
                           const struct schema_value *at)
{
    uint64_t index;

    if (!schema_step(o->s, at, 1))
        return false;
    if (map_find(&o->names, name, len, &index)) {
        struct property *p = &o->properties[index];

        o->n_required += required && !p->required;
        p->required = p->required || required;
        if (required)
            p->at = at;
        return true;
    }
    if (ARRAY_GROW(o->properties, o->cap, o->n + (size_t)1) < 0 ||
        map_put(&o->names, name, len, o->n) < 0)
        return object_fail_memory(o);
    o->properties[o->n++] = (struct property){name, len, required, at, BUILDER_NONE};
    o->n_required += required;
    return true;
}

static bool object_add_pattern(struct object *o, const struct schema_value *m)
{
    struct pattern *p = &o->patterns[o->n_patterns];

    for (uint32_t i = 0; i < o->n_patterns; i++)
        if (o->patterns[i].len == m->key_len && !memcmp(o->patterns[i].text, m->key, m->key_len))
            return true;
    if (o->n_patterns == MAX_PATTERNS && o->s->loose) {
        o->lost_patterns = true;
        return true;
    }
    if (o->n_patterns == MAX_PATTERNS) {
        schema_fail(o->s, EINVAL, m, "more than %d patterns of properties apply here",
                    MAX_PATTERNS);
        return false;
    }
    *p = (struct pattern){m->key, m->key_len, m, BUILDER_NONE};
    p->node = schema_pattern_node(o->s, m, m->key, m->key_len);
    o->n_patterns++;
    return p->node != BUILDER_NONE;
}

static void object_limit(struct object *o, const struct schema_value *v)
{
    const struct schema_value *min = schema_get(v, "minProperties");
    const struct schema_value *max = schema_get(v, "maxProperties");
    uint32_t n;

    if (min && schema_count(min, &n) && n > o->min) {
        o->min = n;
        o->limit_at = min;
    }
    if (max && schema_count(max, &n) && n < o->max) {
        o->max = n;
        o->limit_at = max;
    }
}

static bool object_collect_declared(struct object *o, const struct schema_value *v)
{
    const struct schema_value *m = schema_get(v, "properties");

    for (m = m ? m->first : NULL; m; m = m->next)
        if (!object_declare(o, m->key, m->key_len, false, m))
            return false;
    return true;
}

static bool object_collect_rest(struct object *o, const struct schema_value *v)
{
    const struct schema_value *m = schema_get(v, "required"), *keys;

    for (m = m ? m->first : NULL; m; m = m->next)
        if (!object_declare(o, m->text, m->len, true, m))
            return false;
    m = schema_get(v, "patternProperties");
    for (m = m ? m->first : NULL; m; m = m->next)
        if (!object_add_pattern(o, m))
            return false;
    object_limit(o, v);
    keys = schema_get(v, "propertyNames");
    return !keys || schema_set_add(o->s, &o->key_rules, keys);
}

static bool object_collect(struct object *o)
{
    for (uint32_t i = 0; i < o->f->n; i++)
        if (!o->f->v[i].only_ref && !object_collect_declared(o, o->f->v[i].v))
            return false;
    for (uint32_t i = 0; i < o->f->n; i++)
        if (!o->f->v[i].only_ref && !object_collect_rest(o, o->f->v[i].v))
            return false;
    return true;
}

/* -- names -- */

struct names {
    grammar_node all;
};

static bool object_add_names(struct schema *s, const struct facts *f, void *data)
{
    struct names *names = data;
    bool plain;
    grammar_node ways[2] = {names->all, BUILDER_NONE};

    if (!(schema_leaf_types(s, f) & TYPE_STRING))
        return true;
    ways[1] = schema_string_language(s, f, &plain);
    names->all = schema_alt(s, ways, 2);
    return names->all != BUILDER_NONE;
}

static bool object_read_names(struct object *o)
{
    struct names names = {o->s->nothing};

    o->keys = o->s->any_text;
    if (o->key_rules.n == 0)
        return true;
    if (!schema_expand(o->s, &o->key_rules, object_add_names, &names))
        return false;
    o->keys = names.all;
    return true;
}

/* -- values -- */

/* The set of patterns that match a key: bit i stands for o->patterns[i]. */
typedef uint32_t pattern_mask;

static bool object_pattern_in(const struct object *o, pattern_mask mask,
                              const struct schema_value *m)
{
    for (uint32_t i = 0; i < o->n_patterns; i++)
        if (o->patterns[i].len == m->key_len && !memcmp(o->patterns[i].text, m->key, m->key_len))
            return mask >> i & 1;
    return false;
}

/* Adds the schemas that @v has for a property. @name is NULL for keys that no schema declares.
 * *ret_seen tells whether @v has any. */
static bool object_add_fact(struct object *o, const struct schema_value *v, const char *name,
                            size_t len, pattern_mask mask, struct schema_set *set, bool *ret_seen)
{
    const struct schema_value *m = schema_get(v, "patternProperties"), *more;
    bool seen = false;

    more = name ? schema_get_n(schema_get(v, "properties"), name, len) : NULL;
    if (more) {
        seen = true;
        if (!schema_set_add(o->s, set, more))
            return false;
    }
    for (m = m ? m->first : NULL; m; m = m->next) {
        if (!object_pattern_in(o, mask, m))
            continue;
        seen = true;
        if (!schema_set_add(o->s, set, m))
            return false;
    }
    more = seen || o->lost_patterns ? NULL : schema_get(v, "additionalProperties");
    *ret_seen = seen || more;
    return !more || schema_set_add(o->s, set, more);
}

/* Returns whether fact @top or a fact below it has a schema for the property. The facts below a
 * fact stand after it in the list. */
static bool object_is_evaluated(const struct object *o, const bool *seen, uint32_t top)
{
    for (uint32_t i = top; i < o->f->n; i++)
        if (schema_fact_is_below(o->f, i, top) &&
            (seen[i] || (i > top && schema_get(o->f->v[i].v, "unevaluatedProperties"))))
            return true;
    return false;
}

static bool object_value_set(struct object *o, const char *name, size_t len, pattern_mask mask,
                             struct schema_set *ret_set)
{
    _cleanup_free_ bool *seen = NEW(bool, o->f->n);

    *ret_set = (struct schema_set){0};
    if (!seen)
        return object_fail_memory(o);
    for (uint32_t i = 0; i < o->f->n; i++)
        if (!o->f->v[i].only_ref &&
            !object_add_fact(o, o->f->v[i].v, name, len, mask, ret_set, &seen[i]))
            return false;
    for (uint32_t i = 0; i < o->f->n; i++) {
        const struct schema_value *u = schema_get(o->f->v[i].v, "unevaluatedProperties");

        if (u && !o->f->v[i].only_ref && !object_is_evaluated(o, seen, i) &&
            !schema_set_add(o->s, ret_set, u))
            return false;
    }
    return schema_step(o->s, o->s->root, o->f->n);
}

static grammar_node object_and(struct schema *s, grammar_node a, grammar_node b)
{
    if (a == BUILDER_NONE || b == BUILDER_NONE)
        return BUILDER_NONE;
    if (a == s->nothing || b == s->nothing)
        return s->nothing;
    if (a == s->any_text || a == b)
        return b;
    return b == s->any_text ? a : grammar_and(s->b, a, b);
}

static grammar_node object_member(struct object *o, grammar_node key, const struct schema_set *set)
{
    const grammar_node value = schema_set_node(o->s, set);
    const grammar_node parts[] = {key, o->s->colon, value};

    return schema_seq(o->s, parts, 3);
}

/* Returns the node of the strings that match the patterns of @mask and none of the other patterns.
 */
static grammar_node object_mask_node(struct object *o, pattern_mask mask)
{
    grammar_node all = o->s->any_text;

    for (uint32_t i = 0; i < o->n_patterns; i++)
        all = object_and(o->s, all,
                         mask >> i & 1 ? o->patterns[i].node
                                       : grammar_not(o->s->b, o->patterns[i].node));
    return all;
}

/* Makes the member (key and value) of a declared name. */
static grammar_node object_declared(struct object *o, const struct property *p)
{
    pattern_mask mask = 0;
    struct schema_set set;
    bool matches = true;

    if (o->keys != o->s->any_text && o->keys != o->s->nothing &&
        !schema_matches(o->s, o->keys, p->name, p->len, &matches))
        return BUILDER_NONE;
    if (!matches || o->keys == o->s->nothing)
        return o->s->nothing;
    for (uint32_t i = 0; i < o->n_patterns; i++) {
        if (!schema_matches(o->s, o->patterns[i].node, p->name, p->len, &matches))
            return BUILDER_NONE;
        mask |= (pattern_mask)matches << i;
    }
    if (!object_value_set(o, p->name, p->len, mask, &set))
        return BUILDER_NONE;
    return object_member(o, schema_literal(o->s, p->name, p->len), &set);
}

/* Returns a regular node: the strings that are not declared names. */
static grammar_node object_undeclared_language(struct object *o)
{
    _cleanup_free_ grammar_node *names = NEW(grammar_node, o->n + (size_t)1);

    if (!names)
        return schema_fail_memory(o->s);
    for (uint32_t i = 0; i < o->n; i++)
        names[i] = grammar_bytes(o->s->b, o->properties[i].name, o->properties[i].len);
    return o->n == 0 ? o->s->any_text : grammar_not(o->s->b, schema_alt(o->s, names, o->n));
}

/* Returns the node of the keys, with their quotes, that are not declared names. If the result is
 * s->nothing, the caller uses object_undeclared_language() instead. */
static grammar_node object_undeclared_keys(struct object *o)
{
    _cleanup_free_ struct key_name *names = NEW(struct key_name, o->n + (size_t)1);

    if (!names)
        return schema_fail_memory(o->s);
    for (uint32_t i = 0; i < o->n; i++)
        names[i] = (struct key_name){o->properties[i].name, o->properties[i].len};
    return o->n == 0 ? o->s->string : schema_other_keys(o->s, names, o->n);
}

/* Returns the node of the keys that are not declared names and match the patterns of @mask. */
static grammar_node object_other_keys(struct object *o, pattern_mask mask)
{
    const grammar_node language = object_and(o->s, object_mask_node(o, mask), o->keys);
    grammar_node keys;

    if (language == o->s->any_text) {
        keys = object_undeclared_keys(o);
        if (keys != o->s->nothing)
            return keys;
    }
    return schema_quoted(o->s, object_and(o->s, language, object_undeclared_language(o)));
}

/* Returns the node of a member whose key is not a declared name. */
static grammar_node object_other(struct object *o)
{
    grammar_node ways[1 << MAX_PATTERNS], key;
    struct schema_set set;
    size_t n = 0;

    for (pattern_mask mask = 0; mask < 1u << o->n_patterns; mask++) {
        if (!object_value_set(o, NULL, 0, mask, &set))
            return BUILDER_NONE;
        if (set.n == 1 && set.v[0]->type == VALUE_BOOL)
            continue;
        key = object_other_keys(o, mask);
        ways[n++] = object_member(o, key, &set);
        if (ways[n - 1] == BUILDER_NONE)
            return BUILDER_NONE;
    }
    return schema_alt(o->s, ways, n);
}

static grammar_node object_rule(struct schema *s, grammar_node body)
{
    grammar_node rule;

    if (body == s->nothing || body == BUILDER_NONE)
        return body;
    rule = grammar_rule_new(s->b, NULL);
    grammar_rule_set(s->b, rule, body);
    return rule;
}

/* Returns the number up to which properties are counted. */
static uint32_t object_top(const struct object *o)
{
    return o->max != GRAMMAR_FOREVER ? o->max : o->min;
}

static bool object_make_members(struct object *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        struct property *p = &o->properties[i];

        p->member = object_declared(o, p);
        if (p->member == BUILDER_NONE)
            return false;
        if (p->member == o->s->nothing && p->required) {
            schema_conflict(o->s, p->at, "a required property permits nothing");
            o->max = 0;
            o->min = 1;
        }
    }
    if (o->min > o->max)
        return true;
    /* If properties are counted, each member is used many times. */
    for (uint32_t i = 0; i < o->n && object_top(o) > 0; i++)
        o->properties[i].member = object_rule(o->s, o->properties[i].member);
    o->other = object_other(o);
    return o->other != BUILDER_NONE;
}

/* -- order -- */

/* Returns the node of the properties that are not declared. They follow @count other properties. */
static grammar_node object_tail(struct object *o, uint32_t count)
{
    const uint32_t min = o->min > count ? o->min - count : 0;
    const uint32_t max = o->max == GRAMMAR_FOREVER ? o->max : o->max - count;
    const grammar_node parts[] = {o->s->comma, o->other};

    if (o->other == o->s->nothing || max == 0)
        return min > 0 ? o->s->nothing : grammar_empty(o->s->b);
    return grammar_repeat(o->s->b, schema_seq(o->s, parts, 2), min, max);
}

/*
 * Makes the nodes of what may follow from property @i on: rest[c] follows c properties
 * (c is at most object_top()). @after has these nodes for property i + 1.
 */
static void object_step(struct object *o, uint32_t i, const grammar_node *after, grammar_node *rest)
{
    const struct property *p = &o->properties[i];
    const uint32_t top = object_top(o);

    for (uint32_t c = 0; c <= top; c++) {
        const bool full = c == top && o->max != GRAMMAR_FOREVER;
        const grammar_node parts[] = {o->s->comma, p->member, after[MIN(c + 1, top)]};
        grammar_node ways[2];

        ways[0] = full ? o->s->nothing : schema_seq(o->s, parts, 3);
        ways[1] = p->required ? o->s->nothing : after[c];
        rest[c] = schema_alt(o->s, ways, 2);
        if (i % RULE_EVERY == RULE_EVERY - 1)
            rest[c] = object_rule(o->s, rest[c]);
    }
}

/* Returns the node of the contents of an object with at least one property. The nodes of what may
 * follow a property are made from the last property to the first one. No comma stands before the
 * first property of an object. */
static grammar_node object_contents(struct object *o)
{
    const uint32_t top = object_top(o), one = MIN(1u, top);
    _cleanup_free_ grammar_node *rests = NEW(grammar_node, 2 * ((size_t)top + 1));
    grammar_node *rest = rests, *after = rests ? rests + top + 1 : NULL, first, ways[2], parts[2];

    if (!rests)
        return object_fail_memory(o), BUILDER_NONE;
    for (uint32_t c = 0; c <= top; c++)
        after[c] = object_tail(o, c);
    parts[0] = o->other;
    parts[1] = after[one];
    first = o->max == 0 ? o->s->nothing : schema_seq(o->s, parts, 2);
    for (uint32_t i = o->n; i-- > 0;) {
        grammar_node *swap = rest;

        parts[0] = o->properties[i].member;
        parts[1] = after[one];
        ways[0] = o->max == 0 ? o->s->nothing : schema_seq(o->s, parts, 2);
        ways[1] = o->properties[i].required ? o->s->nothing : first;
        first = schema_alt(o->s, ways, 2);
        if (i % RULE_EVERY == RULE_EVERY - 1)
            first = object_rule(o->s, first);
        object_step(o, i, after, rest);
        rest = after;
        after = swap;
        if (!schema_step(o->s, o->properties[i].at, top + 1))
            return BUILDER_NONE;
    }
    return first;
}

static grammar_node object_braces(struct object *o, grammar_node contents)
{
    struct schema *s = o->s;
    const grammar_node open = schema_chars(s, "{"), close = schema_chars(s, "}");
    const grammar_node full[] = {open, s->gap, contents, s->gap, close};
    const grammar_node empty[] = {open, s->gap, close};
    const bool may_be_empty = o->n_required == 0 && o->min == 0;
    const grammar_node ways[] = {may_be_empty ? schema_seq(s, empty, 3) : s->nothing,
                                 schema_seq(s, full, 5)};

    return schema_alt(s, ways, 2);
}

static grammar_node object_node(struct object *o)
{
    if (!object_collect(o) || !object_read_names(o) || !object_make_members(o))
        return BUILDER_NONE;
    if (o->min > o->max || o->n_required > o->max)
        return schema_conflict(o->s, o->limit_at,
                               "the limits of the number of properties contradict each other");
    if (o->n_required >= o->min)
        o->min = 0;
    if (o->other == o->s->nothing && o->max >= o->n)
        o->max = GRAMMAR_FOREVER;
    if (((uint64_t)object_top(o) + 1) * (o->n + (uint64_t)1) > MAX_CELLS)
        return schema_fail(o->s, EINVAL, o->limit_at, "the number of properties is too large");
    return object_braces(o, object_contents(o));
}

static bool object_has_keywords(const struct facts *f)
{
    static const char *const names[] = {
        "properties",    "patternProperties", "additionalProperties", "unevaluatedProperties",
        "propertyNames", "required",          "minProperties",        "maxProperties"};

    for (uint32_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            if (!f->v[i].only_ref && schema_get(f->v[i].v, names[k]))
                return true;
    return false;
}

grammar_node schema_object(struct schema *s, const struct facts *f)
{
    struct object o = {.s = s, .f = f, .max = GRAMMAR_FOREVER};
    grammar_node node;

    if (!object_has_keywords(f))
        return s->any_object;
    node = object_node(&o);
    free(o.properties);
    map_done(&o.names);
    return node;
}
