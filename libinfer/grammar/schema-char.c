/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Characters inside of JSON strings, in every way in which JSON can write them (RFC 8259, 7)
 *
 * Characters above U+FFFF are escaped by pairs of \u escapes. Half a pair is not a character.
 */
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"
#include "grammar/schema.h"

static grammar_node char_set(struct schema *s, const char *chars)
{
    struct grammar_range ranges[16];
    size_t n = 0;

    for (; *chars && n < ARRAY_SIZE(ranges); chars++)
        ranges[n++] = (struct grammar_range){(unsigned char)*chars, (unsigned char)*chars};
    return grammar_class(s->b, ranges, n, false);
}

static grammar_node char_hex(struct schema *s, uint32_t n)
{
    static const struct grammar_range hex[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};

    return grammar_repeat(s->b, grammar_class(s->b, hex, 3, false), n, n);
}

/* Returns the node of the escapes uXXXX, which follow a backslash, for the characters from U+0100
 * on. */
static grammar_node char_unicode_wide(struct schema *s)
{
    static const struct grammar_range no_d[] = {
        {'1', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}};
    static const struct grammar_range low[] = {{'0', '7'}};
    static const struct grammar_range some[] = {{'1', '9'}, {'A', 'F'}, {'a', 'f'}};
    const grammar_node d = char_set(s, "dD");
    const grammar_node zero[] = {schema_chars(s, "0"), grammar_class(s->b, some, 3, false),
                                 char_hex(s, 2)};
    const grammar_node plain[] = {grammar_class(s->b, no_d, 5, false), char_hex(s, 3)};
    const grammar_node d_plain[] = {d, grammar_class(s->b, low, 1, false), char_hex(s, 2)};
    const grammar_node pair[] = {d, char_set(s, "89aAbB"),   char_hex(s, 2), schema_chars(s, "\\u"),
                                 d, char_set(s, "cCdDeEfF"), char_hex(s, 2)};
    const grammar_node ways[] = {grammar_seq(s->b, zero, 3), grammar_seq(s->b, plain, 2),
                                 grammar_seq(s->b, d_plain, 3), grammar_seq(s->b, pair, 7)};
    const grammar_node all[] = {schema_chars(s, "u"), grammar_alt(s->b, ways, 4)};

    return grammar_seq(s->b, all, 2);
}

grammar_node schema_char_wide(struct schema *s)
{
    const grammar_node parts[] = {schema_chars(s, "\\"), char_unicode_wide(s)};

    return grammar_seq(s->b, parts, 2);
}

grammar_node schema_char_any(struct schema *s)
{
    static const struct grammar_range special[] = {{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
    const grammar_node latin[] = {schema_chars(s, "u00"), char_hex(s, 2)};
    const grammar_node escapes[] = {char_set(s, "\"\\/bfnrt"), grammar_seq(s->b, latin, 2),
                                    char_unicode_wide(s)};
    const grammar_node escape[] = {schema_chars(s, "\\"), grammar_alt(s->b, escapes, 3)};
    const grammar_node ways[] = {grammar_class(s->b, special, 3, true),
                                 grammar_seq(s->b, escape, 2)};

    return grammar_alt(s->b, ways, 2);
}

/* -- one character -- */

static grammar_node char_hex_digit(struct schema *s, unsigned digit)
{
    const char both[] = {"0123456789abcdef"[digit], "0123456789ABCDEF"[digit], 0};

    return digit < 10 ? grammar_bytes(s->b, both, 1) : char_set(s, both);
}

static grammar_node char_unit(struct schema *s, uint32_t unit)
{
    const grammar_node parts[] = {schema_chars(s, "\\u"), char_hex_digit(s, unit >> 12 & 15),
                                  char_hex_digit(s, unit >> 8 & 15),
                                  char_hex_digit(s, unit >> 4 & 15), char_hex_digit(s, unit & 15)};

    return grammar_seq(s->b, parts, 5);
}

grammar_node schema_char(struct schema *s, uint32_t cp)
{
    static const char names[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
    const char *at = cp && cp < 0x80 ? strchr(chars, (int)cp) : NULL;
    grammar_node ways[3], pair[2];
    char text[4];
    size_t n = 0;

    if (cp >= 0x20 && cp != '"' && cp != '\\')
        ways[n++] = grammar_bytes(s->b, text, utf8_encode(cp, text));
    if (at) {
        text[0] = '\\';
        text[1] = names[at - chars];
        ways[n++] = grammar_bytes(s->b, text, 2);
    }
    if (cp < 0x10000) {
        ways[n++] = char_unit(s, cp);
    } else {
        pair[0] = char_unit(s, 0xd800 + ((cp - 0x10000) >> 10));
        pair[1] = char_unit(s, 0xdc00 + ((cp - 0x10000) & 0x3ff));
        ways[n++] = grammar_seq(s->b, pair, 2);
    }
    return schema_alt(s, ways, n);
}

/* Plain characters of ASCII have one spelling, so that most constants are simple texts. */
static bool char_is_plain(char ch)
{
    return ch >= 0x20 && ch < 0x7f && ch != '"' && ch != '\\';
}

grammar_node schema_literal(struct schema *s, const char *text, size_t len)
{
    _cleanup_free_ grammar_node *parts = NEW(grammar_node, len + 2);
    size_t n = 0, start = 0, step;
    uint32_t cp = 0;

    if (!parts)
        return schema_fail_memory(s);
    parts[n++] = s->quote;
    while (start < len) {
        size_t end = start;

        while (end < len && char_is_plain(text[end]))
            end++;
        if (end > start)
            parts[n++] = grammar_bytes(s->b, text + start, end - start);
        start = end;
        if (start == len)
            break;
        step = utf8_decode(text + start, len - start, &cp);
        parts[n++] = schema_char(s, cp);
        start += MAX(step, (size_t)1);
    }
    parts[n++] = s->quote;
    return schema_seq(s, parts, n);
}
