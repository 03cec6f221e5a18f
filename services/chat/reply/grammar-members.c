/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the grammar of the members of objects, and of values in Gemma's notation. There are
 * separators only between members that are present. */
#include "chat/reply/grammar-members.h"

#include <errno.h>
#include <string.h>

#define GEMMA_MAX_DEPTH 8

struct member {
    const char *key;
    json_t *schema;
    unsigned rule; /* the number of the rule for the key and the value */
};

void grammar_check_members(struct lark *l, json_t *schema)
{
    if (json_object_size(json_object_get(schema, "properties")) > GRAMMAR_MAX_MEMBERS && !l->error)
        l->error = -E2BIG;
}

/* Collects the members, the required ones first. *ret_n_required is the number of required
 * members. */
static size_t members_collect(json_t *schema, struct member *members, size_t *ret_n_required)
{
    json_t *property;
    const char *key;
    size_t n = 0;

    for (int pass = 0; pass < 2; pass++) {
        json_object_foreach(json_object_get(schema, "properties"), key, property)
        {
            if (grammar_requires(schema, key) == (pass == 0))
                members[n++] = (struct member){.key = key, .schema = property};
        }
        if (pass == 0)
            *ret_n_required = n;
    }
    return n;
}

static void members_put_rules(struct lark *l, json_t *root, struct member *members, size_t n,
                              grammar_member put)
{
    for (size_t i = 0; i < n; i++) {
        struct str saved;

        members[i].rule = lark_begin_rule(l, &saved);
        put(l, root, members[i].key, members[i].schema);
        lark_end_rule(l, &saved);
    }
}

/* Writes the optional members, which begin at @first. Each of them may be missing. There are
 * separators only between members that are present. @follows: a required member comes before the
 * optional ones. */
static void members_put_optional(struct lark *l, const struct member *members, size_t first,
                                 size_t n, bool follows, const char *separator)
{
    unsigned behind = 0;

    if (follows) {
        for (size_t i = first; i < n; i++)
            lark_printf(l, "(%s r_%u)? ", separator, members[i].rule);
        return;
    }
    /* For each member, makes a rule of everything that may follow it. Such a rule needs the rule of
     * the next member, so the loop begins with the last member. */
    lark_puts(l, first < n ? "(" : "");
    for (size_t i = n; i-- > first;) {
        struct str saved;
        const unsigned rest = lark_begin_rule(l, &saved);

        if (i + 1 < n)
            lark_printf(l, "(%s r_%u)? r_%u", separator, members[i + 1].rule, behind);
        else
            lark_puts(l, "\"\"");
        lark_end_rule(l, &saved);
        behind = rest;
        lark_printf(l, "r_%u r_%u %s", members[i].rule, rest, i > first ? "| " : "");
    }
    lark_puts(l, first < n ? ")? " : "");
}

void grammar_put_members(struct lark *l, json_t *root, json_t *schema, const char *separator,
                         grammar_member put)
{
    const size_t max = json_object_size(json_object_get(schema, "properties"));
    _cleanup_free_ struct member *members = NEW(struct member, max + 1);
    size_t n_required = 0, n;

    if (!members) {
        l->error = l->error ? l->error : -ENOMEM;
        return;
    }
    grammar_check_members(l, schema);
    if (l->error)
        return;
    n = members_collect(schema, members, &n_required);
    members_put_rules(l, root, members, n, put);
    for (size_t i = 0; i < n_required; i++)
        lark_printf(l, "%s r_%u ", i ? separator : "", members[i].rule);
    members_put_optional(l, members, n_required, n, n_required > 0, separator);
}

/* Returns whether a schema has only keywords that gemma_put() can write. */
static bool gemma_is_simple(json_t *schema, int depth)
{
    static const char *const known[] = {
        "type",     "description", "title",    "default", "enum",
        "examples", "properties",  "required", "items",   "additionalProperties"};
    json_t *value, *property;
    const char *key, *name;
    size_t i;

    if (!json_is_object(schema) || depth == GEMMA_MAX_DEPTH ||
        !json_is_string(json_object_get(schema, "type")))
        return false;
    json_object_foreach(schema, key, value)
    {
        bool found = false;

        for (i = 0; i < ARRAY_SIZE(known); i++)
            found = found || strcmp(known[i], key) == 0;
        if (!found)
            return false;
    }
    json_array_foreach(json_object_get(schema, "enum"), i, value)
    {
        if (!json_is_string(value))
            return false;
    }
    json_object_foreach(json_object_get(schema, "properties"), name, property)
    {
        if (!gemma_is_simple(property, depth + 1))
            return false;
    }
    value = json_object_get(schema, "items");
    return !value || gemma_is_simple(value, depth + 1);
}

static void gemma_put(struct lark *l, json_t *root, json_t *schema);

static void gemma_put_member(struct lark *l, json_t *root, const char *key, json_t *schema)
{
    lark_text(l, key, strlen(key));
    lark_puts(l, "\":\" ");
    gemma_put(l, root, schema);
}

static void gemma_put_string(struct lark *l, json_t *values)
{
    lark_marker(l, "<|\"|>");
    if (json_array_size(values))
        lark_one_of(l, values);
    else
        lark_puts(l, "GEMMA_TEXT ");
    lark_marker(l, "<|\"|>");
}

static void gemma_put_object(struct lark *l, json_t *root, json_t *schema)
{
    lark_puts(l, "\"{\" ");
    grammar_put_members(l, root, schema, "\",\"", gemma_put_member);
    lark_puts(l, "\"}\" ");
}

static void gemma_put_array(struct lark *l, json_t *root, json_t *items)
{
    struct str saved;
    unsigned item;

    if (!items) {
        lark_puts(l, "%json {\"type\":\"array\"} ");
        return;
    }
    item = lark_begin_rule(l, &saved);
    gemma_put(l, root, items);
    lark_end_rule(l, &saved);
    lark_printf(l, "\"[\" (r_%u (\",\" r_%u)*)? \"]\" ", item, item);
}

static void gemma_put(struct lark *l, json_t *root, json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));

    if (type && strcmp(type, "string") == 0)
        gemma_put_string(l, json_object_get(schema, "enum"));
    else if (type && strcmp(type, "object") == 0 && json_object_get(schema, "properties"))
        gemma_put_object(l, root, schema);
    else if (type && strcmp(type, "array") == 0)
        gemma_put_array(l, root, json_object_get(schema, "items"));
    else
        lark_json(l, schema);
}

void grammar_put_gemma(struct lark *l, json_t *root)
{
    if (json_object_get(root, "properties") && gemma_is_simple(root, 0))
        gemma_put_object(l, root, root);
    else
        lark_json(l, root);
}
