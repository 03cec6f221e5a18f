/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Lark's notation with the extensions of llguidance (docs/syntax.md there, revision of
 * 2025-12), see docs/grammars.md.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "grammar/lark-common.h"
#include "grammar/lark.h"
#include "grammar/nodes.h"
#include "grammar/regex.h"

#define MAX_NESTED 8

int lark_fail(const struct lark *l, const char *what)
{
    return err_set(l->reterr, EINVAL, "line %u: %s (at \"%.*s\")", l->word.line, what,
                   (int)MIN(l->word.len, 40), l->word.text ? l->word.text : "");
}

int lark_next(struct lark *l)
{
    return lark_lex(&l->lexer, &l->word);
}

bool lark_is(const struct lark *l, enum lark_kind kind, const char *text)
{
    return l->word.kind == kind && l->word.len == strlen(text) &&
           memcmp(l->word.text, text, l->word.len) == 0;
}

int lark_skip(struct lark *l, const char *text)
{
    int r;

    if (!lark_is(l, LARK_SIGN, text))
        return 0;
    r = lark_next(l);
    return r < 0 ? r : 1;
}

int lark_expect(struct lark *l, const char *text)
{
    char what[40];
    const int r = lark_skip(l, text);

    snprintf(what, sizeof(what), "\"%s\" is expected", text);
    return r < 0 ? r : r == 1 ? 0 : lark_fail(l, what);
}

/* The attributes in the brackets after the name of a rule. */
struct attributes {
    char *suffix; /* NULL: none */
    size_t n_suffix;
    bool is_lazy;
};

static int lark_attribute(struct lark *l, struct attributes *a)
{
    int r;

    if (lark_is(l, LARK_NAME, "lazy")) {
        a->is_lazy = true;
        return lark_next(l);
    }
    if (lark_is(l, LARK_NAME, "capture"))
        return lark_next(l);
    if (!lark_is(l, LARK_NAME, "suffix"))
        return lark_fail(l, "an attribute is not supported");
    r = lark_next(l);
    if (r == 0)
        r = lark_expect(l, "=");
    if (r == 0 && (l->word.kind != LARK_STRING || l->word.n_flags > 0 || l->word.len < 3))
        r = lark_fail(l, "a string is expected");
    if (r < 0)
        return r;
    free(STEAL(a->suffix));
    r = lark_string(l, &l->word, &a->suffix, &a->n_suffix);
    return r < 0 ? r : lark_next(l);
}

static int lark_attributes(struct lark *l, struct attributes *a)
{
    int r;

    r = lark_skip(l, "[");
    if (r <= 0)
        return r;
    do
        r = lark_attribute(l, a);
    while (r == 0 && (r = lark_skip(l, ",")) == 1);
    return r < 0 ? r : lark_expect(l, "]");
}

/* Applies attributes to the node of the text after the colon. */
static grammar_node attributes_apply(const struct attributes *a, struct lark *l, grammar_node body)
{
    const struct grammar_range all = {0, SET_LAST};
    grammar_node more;

    if (a->suffix) {
        body = grammar_seq(l->b,
                           (grammar_node[]){body, grammar_bytes(l->b, a->suffix, a->n_suffix)}, 2);
        body = grammar_and(l->b, body, grammar_until(l->b, a->suffix, a->n_suffix));
    }
    if (a->is_lazy) {
        more = grammar_repeat(l->b, grammar_class(l->b, &all, 1, false), 1, GRAMMAR_FOREVER);
        more = grammar_seq(l->b, (grammar_node[]){body, more}, 2);
        body = grammar_and(l->b, body, grammar_not(l->b, more));
    }
    return body;
}

static bool is_terminal_name(const char *text)
{
    text += strspn(text, "_");
    return *text >= 'A' && *text <= 'Z';
}

/* Skips the signs that may stand before a name. */
static int lark_name_marks(struct lark *l)
{
    int r;

    do
        r = lark_skip(l, "?");
    while (r == 1 || (r == 0 && (r = lark_skip(l, "!")) == 1));
    return r;
}

/* Skips the priority after a name. */
static int lark_priority(struct lark *l)
{
    int r;

    if (lark_is(l, LARK_SIGN, "{"))
        return lark_fail(l, "templates are not supported");
    r = lark_skip(l, ".");
    if (r == 1)
        r = lark_skip(l, "-");
    else
        return r;
    if (r >= 0 && l->word.kind != LARK_NUMBER)
        return lark_fail(l, "a number is expected");
    return r < 0 ? r : lark_next(l);
}

static int lark_define(struct lark *l, const char *text, size_t len, grammar_node *ret_rule)
{
    struct name *name;
    int r;

    r = names_get(&l->names, l->b, text, len, l->word.line, &name);
    if (r < 0)
        return r;
    if (name->is_defined)
        return lark_fail(l, "a name is defined twice");
    name->is_defined = true;
    l->in_terminal = is_terminal_name(name->text);
    *ret_rule = name->rule;
    return 0;
}

static int lark_rule(struct lark *l)
{
    struct attributes a = {0};
    grammar_node rule, body;
    int r;

    r = lark_name_marks(l);
    if (r == 0 && l->word.kind != LARK_NAME)
        r = lark_fail(l, "the name of a rule is expected");
    if (r == 0)
        r = lark_define(l, l->word.text, l->word.len, &rule);
    if (r == 0)
        r = lark_next(l);
    if (r == 0)
        r = lark_priority(l);
    if (r == 0)
        r = lark_attributes(l, &a);
    if (r == 0)
        r = lark_expect(l, ":");
    if (a.suffix || a.is_lazy)
        l->in_terminal = true;
    if (r == 0)
        r = lark_choice(l, &body);
    if (r == 0)
        grammar_rule_set(l->b, rule, attributes_apply(&a, l, body));
    free(a.suffix);
    return r;
}

/* Makes the terminal @common of the library "common" known as @name. */
static int lark_import_name(struct lark *l, const struct lark_word *common,
                            const struct lark_word *name)
{
    const char *pattern = lark_common(common->text, common->len);
    grammar_node rule, body;
    int r;

    if (!pattern)
        return lark_fail(l, "\"common\" has no terminal of this name");
    r = lark_define(l, name->text, name->len, &rule);
    if (r == 0)
        r = regex_read(l->b, pattern, strlen(pattern), REGEX_RUST, &body, l->reterr);
    if (r == 0)
        grammar_rule_set(l->b, rule, body);
    return r;
}

/* Reads "NAME" or "NAME -> OTHER". */
static int lark_import_one(struct lark *l)
{
    const struct lark_word common = l->word;
    struct lark_word name = common;
    int r;

    if (common.kind != LARK_NAME)
        return lark_fail(l, "the name of a terminal is expected");
    if (!lark_common(common.text, common.len))
        return lark_fail(l, "\"common\" has no terminal of this name");
    r = lark_next(l);
    if (r == 0)
        r = lark_skip(l, "->");
    if (r == 1) {
        name = l->word;
        if (name.kind != LARK_NAME)
            return lark_fail(l, "a name is expected");
        r = lark_next(l);
    }
    return r < 0 ? r : lark_import_name(l, &common, &name);
}

static int lark_import(struct lark *l)
{
    int r;

    if (!lark_is(l, LARK_NAME, "common"))
        return lark_fail(l, "only names of \"common\" can be imported");
    r = lark_next(l);
    if (r == 0)
        r = lark_skip(l, ".");
    if (r == 1)
        return lark_import_one(l);
    if (r == 0)
        r = lark_expect(l, "(");
    if (r < 0)
        return r;
    do
        r = lark_import_one(l);
    while (r == 0 && (r = lark_skip(l, ",")) == 1);
    return r < 0 ? r : lark_expect(l, ")");
}

static int lark_ignore(struct lark *l)
{
    grammar_node node;
    int r;

    l->in_terminal = true;
    r = lark_choice(l, &node);
    return r < 0 ? r : nodes_add(l->ignored, node);
}

static int lark_statement(struct lark *l)
{
    int r;

    if (l->word.kind != LARK_DIRECTIVE)
        return lark_rule(l);
    if (lark_is(l, LARK_DIRECTIVE, "%import")) {
        r = lark_next(l);
        return r < 0 ? r : lark_import(l);
    }
    if (lark_is(l, LARK_DIRECTIVE, "%ignore")) {
        r = lark_next(l);
        return r < 0 ? r : lark_ignore(l);
    }
    return lark_fail(l, "this directive is not supported");
}

/* Tells whether the text ignores anything, which must be known before its rules are read. */
static int lark_finds_ignore(const struct lark *l)
{
    struct lark copy = *l;
    int r;

    do {
        r = lark_next(&copy);
        if (r == 0 && lark_is(&copy, LARK_DIRECTIVE, "%ignore"))
            return 1;
    } while (r == 0 && copy.word.kind != LARK_END);
    return r;
}

static int lark_statements(struct lark *l)
{
    int r;

    r = lark_finds_ignore(l);
    if (r == 1)
        l->ignore = grammar_rule_new(l->b, "%ignore");
    if (r >= 0)
        r = lark_next(l);
    while (r == 0 && l->word.kind != LARK_END) {
        if (l->word.kind == LARK_LINE) {
            r = lark_next(l);
            continue;
        }
        r = lark_statement(l);
        if (r == 0 && l->word.kind > LARK_LINE)
            r = lark_fail(l, "the end of the line is expected");
    }
    if (r == 0 && l->ignore != BUILDER_NONE)
        grammar_rule_set(l->b, l->ignore,
                         grammar_repeat(l->b, grammar_alt(l->b, l->ignored->list, l->ignored->n), 0,
                                        GRAMMAR_FOREVER));
    return r;
}

int lark_read(struct grammar_builder *b, const char *text, size_t len, unsigned depth,
              grammar_node *ret_node, struct inf_err *reterr)
{
    _cleanup_nodes_ struct nodes ignored = {0};
    struct lark l = {.b = b, .ignored = &ignored, .ignore = BUILDER_NONE, .reterr = reterr};
    const struct name *start;
    int r;

    if (len > LARK_MAX_TEXT || depth > MAX_NESTED)
        return err_set(
            reterr, E2BIG,
            "a grammar has more than %u bytes, or its blocks are nested more than %d deep",
            LARK_MAX_TEXT, MAX_NESTED);
    l.lexer =
        (struct lark_lexer){.text = text, .len = len, .line = 1, .depth = depth, .reterr = reterr};
    r = lark_statements(&l);
    if (r == 0)
        r = names_check(&l.names, reterr);
    if (r == 0)
        r = grammar_builder_error(b);
    if (r == 0) {
        start = names_find(&l.names, "start");
        if (start)
            *ret_node = start->rule;
        else
            r = err_set(reterr, EINVAL, "there is no rule \"start\"");
    }
    names_done(&l.names);
    if (r == -E2BIG && grammar_builder_error(b) < 0)
        err_set(reterr, E2BIG, "the grammar is too large");
    return r;
}

int grammar_read_lark(struct grammar_builder *b, const char *text, size_t len,
                      grammar_node *ret_node, struct inf_err *reterr)
{
    return lark_read(b, text, len, 0, ret_node, reterr);
}
