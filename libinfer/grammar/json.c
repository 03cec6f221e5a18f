/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of JSON itself (RFC 8259). */
#include <string.h>

#include "grammar/builder.h"

static grammar_node json_text(struct grammar_builder *b, const char *text)
{
    return grammar_bytes(b, text, strlen(text));
}

static grammar_node json_set(struct grammar_builder *b, const char *chars)
{
    struct grammar_range ranges[16];
    size_t n = 0;

    for (; *chars; chars++)
        ranges[n++] = (struct grammar_range){(unsigned char)*chars, (unsigned char)*chars};
    return grammar_class(b, ranges, n, false);
}

static grammar_node json_digits(struct grammar_builder *b, uint32_t min)
{
    const struct grammar_range digits = {'0', '9'};

    return grammar_repeat(b, grammar_class(b, &digits, 1, false), min, GRAMMAR_FOREVER);
}

static grammar_node json_string(struct grammar_builder *b)
{
    const struct grammar_range special[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    const struct grammar_range hex[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    const grammar_node digits = grammar_repeat(b, grammar_class(b, hex, 3, false), 4, 4);
    const grammar_node code = grammar_seq(b, (grammar_node[]){json_text(b, "u"), digits}, 2);
    const grammar_node codes[] = {json_set(b, "\"\\/bfnrt"), code};
    const grammar_node escape =
        grammar_seq(b, (grammar_node[]){json_text(b, "\\"), grammar_alt(b, codes, 2)}, 2);
    const grammar_node chars[] = {grammar_class(b, special, 3, true), escape};
    const grammar_node body = grammar_repeat(b, grammar_alt(b, chars, 2), 0, GRAMMAR_FOREVER);

    return grammar_seq(b, (grammar_node[]){json_text(b, "\""), body, json_text(b, "\"")}, 3);
}

static grammar_node json_optional(struct grammar_builder *b, const grammar_node *nodes, size_t n)
{
    return grammar_repeat(b, grammar_seq(b, nodes, n), 0, 1);
}

static grammar_node json_number(struct grammar_builder *b)
{
    const struct grammar_range nonzero = {'1', '9'};
    const grammar_node whole[] = {
        json_text(b, "0"),
        grammar_seq(b, (grammar_node[]){grammar_class(b, &nonzero, 1, false), json_digits(b, 0)},
                    2)};
    const grammar_node sign = grammar_repeat(b, json_set(b, "+-"), 0, 1);
    const grammar_node parts[] = {
        grammar_repeat(b, json_text(b, "-"), 0, 1),
        grammar_alt(b, whole, 2),
        json_optional(b, (grammar_node[]){json_text(b, "."), json_digits(b, 1)}, 2),
        json_optional(b, (grammar_node[]){json_set(b, "eE"), sign, json_digits(b, 1)}, 3),
    };

    return grammar_seq(b, parts, 4);
}

/* A list of members in brackets. */
static grammar_node json_list(struct grammar_builder *b, const char *open, grammar_node member,
                              const char *close, grammar_node space)
{
    const grammar_node more[] = {json_text(b, ","), space, member, space};
    const grammar_node members[] = {member, space,
                                    grammar_repeat(b, grammar_seq(b, more, 4), 0, GRAMMAR_FOREVER)};
    const grammar_node parts[] = {json_text(b, open), space, json_optional(b, members, 3),
                                  json_text(b, close)};

    return grammar_seq(b, parts, 4);
}

grammar_node grammar_json(struct grammar_builder *b, bool only_objects)
{
    const grammar_node value = grammar_rule_new(b, "value"), object = grammar_rule_new(b, "object");
    const grammar_node string = grammar_rule_new(b, "string");
    const grammar_node space = grammar_repeat(b, json_set(b, " \t\n\r"), 0, GRAMMAR_FOREVER);
    const grammar_node pair[] = {string, space, json_text(b, ":"), space, value};
    const grammar_node values[] = {
        object,
        json_list(b, "[", value, "]", space),
        string,
        json_number(b),
        json_text(b, "true"),
        json_text(b, "false"),
        json_text(b, "null"),
    };

    grammar_rule_set(b, string, json_string(b));
    grammar_rule_set(b, object, json_list(b, "{", grammar_seq(b, pair, 5), "}", space));
    grammar_rule_set(b, value, grammar_alt(b, values, 7));
    return only_objects ? object : value;
}
