/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a JSON Schema, and makes the nodes that all schemas share
 *
 * White space in a document is limited, so that a model cannot write blanks forever. One space may
 * stand after ':'. After ',' and inside of brackets and braces there may be one space, or the end
 * of a line and up to 64 blanks. This includes the compact and the indented JSON that programs
 * usually write.
 */
#include <errno.h>

#include "core/err.h"
#include "grammar/schema.h"

enum { INDENT_MAX = 64 };

static grammar_node schema_rule(struct schema *s, const char *name, grammar_node body)
{
    const grammar_node rule = grammar_rule_new(s->b, name);

    grammar_rule_set(s->b, rule, body);
    return rule;
}

static void schema_init_gap(struct schema *s)
{
    static const struct grammar_range blanks[] = {{'\t', '\t'}, {' ', ' '}};
    const grammar_node line[] = {
        schema_chars(s, "\n"),
        grammar_repeat(s->b, grammar_class(s->b, blanks, 2, false), 0, INDENT_MAX)};
    const grammar_node ways[] = {grammar_empty(s->b), schema_chars(s, " "),
                                 grammar_seq(s->b, line, 2)};
    grammar_node parts[2];

    s->gap = schema_rule(s, "gap", grammar_alt(s->b, ways, 3));
    parts[0] = schema_chars(s, ",");
    parts[1] = s->gap;
    s->comma = schema_rule(s, "comma", grammar_seq(s->b, parts, 2));
    parts[0] = schema_chars(s, ":");
    parts[1] = grammar_repeat(s->b, schema_chars(s, " "), 0, 1);
    s->colon = grammar_seq(s->b, parts, 2);
}

static void schema_init_strings(struct schema *s)
{
    static const struct grammar_range digits = {'0', '9'};
    const grammar_node any = grammar_class(s->b, NULL, 0, true);
    grammar_node parts[3], rest[2];

    s->digit = grammar_class(s->b, &digits, 1, false);
    s->quote = schema_chars(s, "\"");
    s->any_text = grammar_repeat(s->b, any, 0, GRAMMAR_FOREVER);
    s->character = schema_rule(s, "character", schema_char_any(s));
    parts[0] = parts[2] = s->quote;
    parts[1] = grammar_repeat(s->b, schema_char_any(s), 0, GRAMMAR_FOREVER);
    rest[0] = grammar_repeat(s->b, schema_char_any(s), 0, GRAMMAR_FOREVER);
    rest[1] = s->quote;
    s->string_rest = schema_rule(s, "rest", grammar_seq(s->b, rest, 2));
    s->string = schema_rule(s, "string", grammar_seq(s->b, parts, 3));
}

/* Returns the node of a list between brackets: any number of elements, with commas between them. */
static grammar_node schema_list(struct schema *s, const char *open, grammar_node element,
                                const char *close)
{
    const grammar_node more[] = {s->comma, element};
    const grammar_node some[] = {
        element, grammar_repeat(s->b, grammar_seq(s->b, more, 2), 0, GRAMMAR_FOREVER), s->gap};
    const grammar_node all[] = {schema_chars(s, open), s->gap,
                                grammar_repeat(s->b, grammar_seq(s->b, some, 3), 0, 1),
                                schema_chars(s, close)};

    return grammar_seq(s->b, all, 4);
}

static void schema_init_values(struct schema *s)
{
    const grammar_node any = grammar_rule_new(s->b, "value");
    const grammar_node member[] = {s->string, s->colon, any};
    grammar_node ways[7];

    s->any_object =
        schema_rule(s, "object", schema_list(s, "{", grammar_seq(s->b, member, 3), "}"));
    s->any_array = schema_rule(s, "array", schema_list(s, "[", any, "]"));
    ways[0] = s->any_object;
    ways[1] = s->any_array;
    ways[2] = s->string;
    ways[3] = schema_number_any(s, TYPE_NUMBER);
    ways[4] = schema_chars(s, "true");
    ways[5] = schema_chars(s, "false");
    ways[6] = schema_chars(s, "null");
    grammar_rule_set(s->b, any, grammar_alt(s->b, ways, 7));
    s->any = any;
}

static void schema_init(struct schema *s, struct grammar_builder *b, struct inf_err *reterr)
{
    *s = (struct schema){.b = b, .reterr = reterr, .compiler = {.b = b}};
    s->nothing = grammar_nothing(b);
    schema_init_gap(s);
    schema_init_strings(s);
    schema_init_values(s);
}

static void schema_done(struct schema *s)
{
    map_done(&s->ids);
    map_done(&s->dynamic);
    map_done(&s->sets);
    map_done(&s->keys);
    map_done(&s->leaves);
    map_done(&s->patterns);
    compiler_done(&s->compiler);
    arena_done(&s->arena);
}

static grammar_node schema_root(struct schema *s, const char *text, size_t len)
{
    struct schema_set set = {0};
    grammar_node node;

    if (!schema_value_read(s, text, len) || !schema_ref_index(s))
        return BUILDER_NONE;
    s->null = schema_make(s, VALUE_NULL, s->root);
    s->no_choices = schema_make(s, VALUE_ARRAY, s->root);
    if (s->root->type != VALUE_OBJECT && s->root->type != VALUE_BOOL)
        return schema_fail(s, EINVAL, s->root, "a schema must be an object, true or false");
    if (!schema_set_add(s, &set, s->root))
        return BUILDER_NONE;
    node = schema_set_node(s, &set);
    if (node == BUILDER_NONE || !schema_leaf_finish(s))
        return BUILDER_NONE;
    if (node == s->nothing)
        return schema_fail(s, EINVAL, s->conflict ? s->conflict : s->root,
                           "the schema permits no text: %s",
                           s->conflict_text ? s->conflict_text : "nothing is left");
    return node;
}

int grammar_read_schema(struct grammar_builder *b, const char *text, size_t len,
                        grammar_node *ret_node, struct inf_err *reterr)
{
    return grammar_read_schema_how(b, text, len, false, ret_node, reterr);
}

int grammar_read_schema_how(struct grammar_builder *b, const char *text, size_t len, bool loose,
                            grammar_node *ret_node, struct inf_err *reterr)
{
    struct schema s;
    grammar_node node;
    int r;

    schema_init(&s, b, reterr);
    s.loose = loose;
    node = schema_root(&s, text, len);
    if (node == BUILDER_NONE && s.r == 0)
        schema_step(&s, s.root, 0);
    r = s.r;
    schema_done(&s);
    if (r == 0 && node == BUILDER_NONE)
        r = err_set(reterr, ENOMEM, "out of memory");
    if (r == 0)
        *ret_node = node;
    return r;
}

grammar_node grammar_json(struct grammar_builder *b, bool only_objects)
{
    struct schema s;
    grammar_node node;

    schema_init(&s, b, NULL);
    node = only_objects ? s.any_object : s.any;
    schema_done(&s);
    return grammar_builder_error(b) < 0 ? BUILDER_NONE : node;
}
