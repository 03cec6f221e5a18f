/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys that are none of the declared names
 *
 * The names are a trie of code points. A key follows the trie until it ends at a node where no name
 * ends, or until it has a character with which no name continues. Any string may follow this
 * character. Inside of the trie, characters of ASCII that need no escape are written without one,
 * so that no declared name can be spelled in another way.
 */
#include <errno.h>
#include <string.h>

#include "core/str.h"
#include "core/utf8.h"
#include "grammar/schema.h"

enum {
    RULE_EVERY = 64 /* a new rule begins after this many levels, so that nodes are not nested
                       deeply */
};

/* Sorted names[first … last), which are equal in the first @at bytes. */
struct span_of_names {
    const struct key_name *names;
    size_t first, last, at;
};

static grammar_node key_level(struct schema *s, const struct span_of_names *n, unsigned level);

static int key_compare(const void *a, const void *b)
{
    const struct key_name *x = a, *y = b;
    const int order = memcmp(x->text, y->text, MIN(x->len, y->len));

    return order ? order : (x->len > y->len) - (x->len < y->len);
}

/* Returns the node of the escapes of those ASCII characters that need one. With @wide, the escapes
 * of all characters beyond ASCII are included. */
static grammar_node key_escapes(struct schema *s, bool wide)
{
    static const struct grammar_range low[] = {{'0', '1'}},
                                      high[] = {{'8', '9'}, {'A', 'F'}, {'a', 'f'}};
    static const struct grammar_range hex[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    const grammar_node digit = grammar_class(s->b, hex, 3, false);
    const grammar_node control[] = {schema_chars(s, "\\u00"), grammar_class(s->b, low, 1, false),
                                    digit};
    const grammar_node latin[] = {schema_chars(s, "\\u00"), grammar_class(s->b, high, 3, false),
                                  digit};
    grammar_node ways[12];
    size_t n = 0;

    for (const char *c = "\"\\/bfnrt"; *c; c++) {
        const char text[] = {'\\', *c, 0};

        ways[n++] = schema_chars(s, text);
    }
    ways[n++] = schema_seq(s, control, 3);
    if (wide) {
        ways[n++] = schema_seq(s, latin, 3);
        ways[n++] = schema_char_wide(s);
    }
    return schema_alt(s, ways, n);
}

static bool key_needs_escape(uint32_t cp)
{
    return cp < 0x20 || cp == '"' || cp == '\\' || cp == '/';
}

/* Returns the node of a character with which no name continues here, followed by any string. */
static grammar_node key_leave(struct schema *s, const struct grammar_range *taken, size_t n)
{
    _cleanup_free_ struct grammar_range *ranges = NEW(struct grammar_range, n + 3);
    bool wide = true, special = false;
    grammar_node ways[2], parts[2];

    if (!ranges)
        return schema_fail_memory(s);
    for (size_t i = 0; i < n; i++) {
        ranges[i] = taken[i];
        wide = wide && taken[i].first < 0x80;
        special = special || key_needs_escape(taken[i].first);
    }
    ranges[n] = (struct grammar_range){0, 0x1f};
    ranges[n + 1] = (struct grammar_range){'"', '"'};
    ranges[n + 2] = (struct grammar_range){'\\', '\\'};
    ways[0] = grammar_class(s->b, ranges, n + 3, true);
    ways[1] = special ? s->nothing : key_escapes(s, wide);
    parts[0] = schema_alt(s, ways, 2);
    parts[1] = s->string_rest;
    return schema_seq(s, parts, 2);
}

/* Adds, for each character with which a name continues here, the node of the keys that continue
 * with this character. */
static size_t key_children(struct schema *s, const struct span_of_names *n, unsigned level,
                           grammar_node *ways, struct grammar_range *taken)
{
    size_t count = 0;

    for (size_t i = n->first, end; i < n->last; i = end) {
        const char *text = n->names[i].text + n->at;
        struct span_of_names child = {n->names, i, 0, 0};
        uint32_t cp = 0;
        size_t len = utf8_decode(text, n->names[i].len - n->at, &cp);
        grammar_node parts[2];

        len = MAX(len, (size_t)1);
        for (end = i + 1; end < n->last && memcmp(n->names[end].text + n->at, text, len) == 0;
             end++)
            ;
        child.last = end;
        child.at = n->at + len;
        taken[count] = (struct grammar_range){cp, cp};
        parts[0] = key_needs_escape(cp) || cp >= 0x80 ? schema_char(s, cp)
                                                      : grammar_bytes(s->b, text, len);
        parts[1] = key_level(s, &child, level + 1);
        ways[count++] = schema_seq(s, parts, 2);
    }
    return count;
}

/* Returns the node of the rest of a key, including the closing quote. The key begins with the first
 * @at bytes of the given names, and must not become one of these names. */
static grammar_node key_level(struct schema *s, const struct span_of_names *n, unsigned level)
{
    struct span_of_names below = *n;
    const bool is_name = n->first < n->last && n->names[n->first].len == n->at;
    _cleanup_free_ grammar_node *ways = NEW(grammar_node, n->last - n->first + 2);
    _cleanup_free_ struct grammar_range *taken = NEW(struct grammar_range, n->last - n->first + 1);
    grammar_node node, rule;
    size_t count;

    if (!ways || !taken || !schema_step(s, s->root, 1))
        return ways && taken ? BUILDER_NONE : schema_fail_memory(s);
    below.first += is_name;
    count = key_children(s, &below, level, ways, taken);
    ways[count] = key_leave(s, taken, count);
    ways[count + 1] = is_name ? s->nothing : s->quote;
    node = schema_alt(s, ways, count + 2);
    if (level % RULE_EVERY != RULE_EVERY - 1 || node == BUILDER_NONE)
        return node;
    rule = grammar_rule_new(s->b, NULL);
    grammar_rule_set(s->b, rule, node);
    return rule;
}

static bool key_join(const struct key_name *names, size_t n, struct str *ret)
{
    for (size_t i = 0; i < n; i++)
        if (str_append(ret, &names[i].len, sizeof(names[i].len)) < 0 ||
            str_append(ret, names[i].text, names[i].len) < 0)
            return false;
    return true;
}

grammar_node schema_other_keys(struct schema *s, struct key_name *names, size_t n)
{
    struct span_of_names all = {names, 0, n, 0};
    _cleanup_str_ struct str joined = {0};
    grammar_node parts[2];
    uint64_t known;
    const char *key;

    for (size_t i = 0; i < n; i++)
        if (names[i].len > KEY_MAX)
            return s->nothing;
    qsort(names, n, sizeof(*names), key_compare);
    if (!key_join(names, n, &joined))
        return schema_fail_memory(s);
    if (map_find(&s->keys, joined.data ? joined.data : "", joined.len, &known))
        return (grammar_node)known;
    parts[0] = s->quote;
    parts[1] = key_level(s, &all, 0);
    parts[0] = schema_seq(s, parts, 2);
    key = arena_strndup(&s->arena, joined.data ? joined.data : "", joined.len);
    if (parts[0] != BUILDER_NONE && (!key || map_put(&s->keys, key, joined.len, parts[0]) < 0))
        return schema_fail_memory(s);
    return parts[0];
}
