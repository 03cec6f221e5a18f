/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings: lengths, patterns, formats, enumerations
 *
 * Each constraint is a language (a set) of strings without escapes. The intersection of these
 * languages is then written in the escaped form of JSON. If only the length is limited, the node is
 * a repetition of characters, which is cheaper.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "grammar/schema.h"

/* If the estimated number of states is less than this, the automaton is not too large. */
enum { STATES_SMALL = 4000 };

/* Reads the lengths that all facts permit, without those that the other constraints imply. Returns
 * false if no limit of the length is left. */
static bool lengths_read(struct schema *s, const struct facts *f, grammar_node language,
                         struct lengths *l)
{
    uint32_t n;

    *l = (struct lengths){0, GRAMMAR_FOREVER, NULL};
    for (uint32_t i = 0; i < f->n; i++) {
        const struct schema_value *min = schema_get(f->v[i].v, "minLength");
        const struct schema_value *max = schema_get(f->v[i].v, "maxLength");

        if (min && schema_count(min, &n) && n > l->min) {
            l->min = n;
            l->at = min;
        }
        if (max && schema_count(max, &n) && n < l->max) {
            l->max = n;
            l->at = max;
        }
    }
    if (l->at && l->min <= l->max)
        schema_drop_lengths(s, language, l);
    return l->min > 0 || l->max != GRAMMAR_FOREVER;
}

static grammar_node string_any_char(struct schema *s)
{
    return grammar_class(s->b, NULL, 0, true);
}

static grammar_node string_and(struct schema *s, grammar_node a, grammar_node b)
{
    if (a == BUILDER_NONE || b == BUILDER_NONE)
        return BUILDER_NONE;
    if (a == s->nothing || b == s->nothing)
        return s->nothing;
    return grammar_and(s->b, a, b);
}

/* @all is the intersection of the constraints so far. @plain: no constraint was added. */
struct language {
    grammar_node all;
    bool plain;
};

static void language_add(struct schema *s, struct language *l, grammar_node node)
{
    l->all = l->plain ? node : string_and(s, l->all, node);
    l->plain = false;
}

static grammar_node string_pattern(struct schema *s, const struct schema_value *at,
                                   const char *pattern, size_t len, bool unanchored)
{
    struct inf_err err = {0};
    grammar_node node;
    int r;

    r = grammar_regex(s->b, pattern, len, unanchored, &node, &err);
    if (r == 0)
        return node;
    if (r == -ENOMEM) {
        s->r = s->r ? s->r : err_set(s->reterr, ENOMEM, "out of memory");
        return BUILDER_NONE;
    }
    if (s->loose)
        return s->any_text;
    return schema_fail(s, -r, at, "%.150s", err.text);
}

static void language_add_fact(struct schema *s, struct language *l, const struct schema_value *v)
{
    const struct schema_value *pattern = schema_get(v, "pattern");
    const struct schema_value *format = schema_get(v, "format");
    const struct schema_value *not_pattern = schema_get(v, " notPattern");
    const struct schema_value *not_format = schema_get(v, " notFormat");
    const struct schema_value *excluded = schema_get(v, " excluded");
    const char *text;

    if (pattern)
        language_add(s, l, schema_pattern_node(s, pattern, pattern->text, pattern->len));
    if (not_pattern && !s->loose)
        language_add(s, l,
                     grammar_not(s->b, schema_pattern_node(s, not_pattern, not_pattern->text,
                                                           not_pattern->len)));
    text = format && format->type == VALUE_STRING ? schema_format_pattern(format->text, format->len)
                                                  : NULL;
    if (text)
        language_add(s, l, string_pattern(s, format, text, strlen(text), false));
    text = not_format ? schema_format_pattern(not_format->text, not_format->len) : NULL;
    if (text)
        language_add(s, l,
                     grammar_not(s->b, string_pattern(s, not_format, text, strlen(text), false)));
    for (excluded = excluded ? excluded->first : NULL; excluded; excluded = excluded->next)
        if (excluded->type == VALUE_STRING)
            language_add(s, l,
                         grammar_not(s->b, grammar_bytes(s->b, excluded->text, excluded->len)));
}

grammar_node schema_pattern_node(struct schema *s, const struct schema_value *at, const char *text,
                                 size_t len)
{
    uint64_t known;
    grammar_node node;

    if (map_find(&s->patterns, text, len, &known))
        return (grammar_node)known;
    node = string_pattern(s, at, text, len, true);
    if (node != BUILDER_NONE && map_put(&s->patterns, text, len, node) < 0)
        return schema_fail(s, ENOMEM, at, "out of memory");
    return node;
}

static grammar_node string_values(struct schema *s, const struct schema_values *values, bool raw)
{
    _cleanup_free_ grammar_node *ways = NEW(grammar_node, values->n + (size_t)1);
    size_t n = 0;

    if (!ways)
        return schema_fail(s, ENOMEM, s->root, "out of memory");
    for (uint32_t i = 0; i < values->n; i++) {
        const struct schema_value *v = values->v[i];

        if (v->type == VALUE_STRING && schema_step(s, v, 1))
            ways[n++] =
                raw ? grammar_bytes(s->b, v->text, v->len) : schema_literal(s, v->text, v->len);
    }
    return s->r < 0 ? BUILDER_NONE : schema_alt(s, ways, n);
}

/* Returns the language that the patterns and formats of all facts permit, without lengths and
 * enumerations. */
static struct language string_patterns(struct schema *s, const struct facts *f)
{
    struct language l = {.plain = true, .all = s->any_text};

    for (uint32_t i = 0; i < f->n && schema_step(s, f->v[i].v, 1); i++)
        language_add_fact(s, &l, f->v[i].v);
    return l;
}

static void language_add_lengths(struct schema *s, struct language *l, const struct lengths *n)
{
    const uint32_t max = n->max > LENGTH_MAX ? GRAMMAR_FOREVER : n->max;

    language_add(s, l, grammar_repeat(s->b, string_any_char(s), n->min, max));
}

grammar_node schema_string_language(struct schema *s, const struct facts *f, bool *ret_plain)
{
    struct schema_values values;
    struct language l;
    struct lengths n;
    bool has_values;

    *ret_plain = false;
    if (!schema_enum_values(s, f, &values, &has_values))
        return BUILDER_NONE;
    l = string_patterns(s, f);
    if (lengths_read(s, f, l.all, &n)) {
        if (n.min > n.max)
            return schema_conflict(s, n.at, "minLength is more than maxLength");
        language_add_lengths(s, &l, &n);
    }
    if (has_values)
        language_add(s, &l, string_values(s, &values, true));
    *ret_plain = l.plain;
    return s->r < 0 ? BUILDER_NONE : l.all;
}

bool schema_matches(struct schema *s, grammar_node node, const char *text, size_t len,
                    bool *ret_matches)
{
    const struct dfa *dfa;
    uint32_t state = 0;
    int r;

    r = node == BUILDER_NONE ? grammar_builder_error(s->b) : compiler_dfa(&s->compiler, node, &dfa);
    if (r < 0 || node == BUILDER_NONE) {
        schema_fail(s, r < 0 ? -r : ENOMEM, s->root, "the schema is too complex");
        return false;
    }
    for (size_t i = 0; i < len && state != DFA_DEAD; i++)
        state = dfa->next[(size_t)state * dfa->n_classes + dfa->class_of[(unsigned char)text[i]]];
    *ret_matches = state != DFA_DEAD && dfa->is_final[state];
    return true;
}

grammar_node schema_quoted(struct schema *s, grammar_node language)
{
    grammar_node parts[] = {s->quote, BUILDER_NONE, s->quote};

    if (language == s->nothing || language == BUILDER_NONE)
        return language;
    parts[1] = grammar_json_escaped(s->b, language);
    return schema_seq(s, parts, 3);
}

static grammar_node string_of_length(struct schema *s, const struct lengths *n)
{
    const uint32_t max = n->max > LENGTH_MAX ? GRAMMAR_FOREVER : n->max;
    grammar_node parts[] = {s->quote, BUILDER_NONE, s->quote};

    if (n->min > LENGTH_MAX)
        return schema_fail(s, EINVAL, n->at, "the length is more than %d", LENGTH_MAX);
    parts[1] = grammar_repeat(s->b, s->character, n->min, max);
    return schema_seq(s, parts, 3);
}

/* Returns the first pattern or format of the facts. */
static const struct schema_value *string_pattern_of(const struct facts *f)
{
    static const char *const keys[] = {"pattern", "format", " notPattern", " notFormat"};

    for (uint32_t i = 0; i < f->n; i++)
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            if (schema_get(f->v[i].v, keys[k]))
                return schema_get(f->v[i].v, keys[k]);
    return f->n > 0 ? f->v[0].v : NULL;
}

/* Returns whether the automaton of a language is too large. @patterns is the language without the
 * lengths. */
static bool string_is_too_large(struct schema *s, grammar_node language, grammar_node patterns,
                                const struct lengths *n)
{
    const uint32_t counted = n->max == GRAMMAR_FOREVER ? n->min : MIN(n->max, LENGTH_MAX);
    const struct dfa *dfa;

    return !node_is_divisible(&s->b->nodes[language]) &&
           (uint64_t)s->b->nodes[patterns].size * MAX(counted, 1) >= STATES_SMALL &&
           compiler_dfa(&s->compiler, language, &dfa) == -E2BIG;
}

/* Makes the node of strings for which the automaton of the whole language is too large. The lengths
 * are then enforced without an automaton (schema_counted_string()), or, with s->loose, ignored.
 * @patterns is the language without lengths. */
static grammar_node string_large(struct schema *s, const struct facts *f,
                                 const struct language *patterns, const struct lengths *n)
{
    grammar_node node;

    if (schema_counted_string(s, patterns->all, n, &node))
        return node == s->nothing
                   ? schema_conflict(s, n->at, "the pattern permits no text of this length")
                   : node;
    if (s->loose)
        return string_is_too_large(s, patterns->all, patterns->all, n)
                   ? s->string
                   : schema_quoted(s, patterns->all);
    if (!n->at)
        return schema_fail(s, EINVAL, string_pattern_of(f), "the pattern is too large");
    return schema_fail(s, EINVAL, n->at,
                       "the length is too large to be counted beside a pattern or a format");
}

grammar_node schema_string(struct schema *s, const struct facts *f)
{
    const struct language patterns = string_patterns(s, f);
    struct schema_values values;
    grammar_node language;
    struct lengths n;
    bool has_values, has_lengths = lengths_read(s, f, patterns.all, &n), plain;

    if (!schema_enum_values(s, f, &values, &has_values))
        return BUILDER_NONE;
    if (n.min > n.max)
        return schema_conflict(s, n.at, "minLength is more than maxLength");
    if (patterns.plain && !has_lengths)
        return has_values ? string_values(s, &values, false) : s->string;
    if (patterns.plain && !has_values)
        return string_of_length(s, &n);
    if (n.min > LENGTH_MAX)
        return schema_fail(s, EINVAL, n.at, "the length is more than %d", LENGTH_MAX);
    language = schema_string_language(s, f, &plain);
    if (s->r < 0 || language == BUILDER_NONE)
        return BUILDER_NONE;
    if (!has_values && string_is_too_large(s, language, patterns.all, &n))
        return string_large(s, f, &patterns, &n);
    return schema_quoted(s, language);
}
