/* SPDX-License-Identifier: Apache-2.0 */
/* Reads GBNF, the notation of llama.cpp (grammars/README.md there, revision of 2025-12). */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "core/utf8.h"
#include "grammar/names.h"
#include "grammar/nodes.h"
#include "grammar/set.h"

#define MAX_TEXT   (1u << 20) /* bytes */
#define MAX_DEPTH  200
#define MAX_REPEAT 1000000000

struct gbnf {
    struct grammar_builder *b;
    const char *text;
    size_t len, at;
    unsigned line, depth;
    struct names names;
    struct inf_err *reterr;
};

static int gbnf_choice(struct gbnf *g, grammar_node *ret_node);

static int gbnf_fail(const struct gbnf *g, const char *what)
{
    return err_set_at(g->reterr, EINVAL, g->at, "line %u: %s", g->line, what);
}

static char gbnf_peek(const struct gbnf *g)
{
    return g->at < g->len ? g->text[g->at] : '\0';
}

static bool gbnf_skip(struct gbnf *g, const char *text)
{
    const size_t n = strlen(text);

    if (g->len - g->at < n || memcmp(g->text + g->at, text, n) != 0)
        return false;
    g->at += n;
    return true;
}

/* Skips blanks and comments; with @lines also the ends of lines. */
static void gbnf_space(struct gbnf *g, bool lines)
{
    for (; g->at < g->len; g->at++) {
        const char c = g->text[g->at];

        if (c == '#') {
            while (g->at < g->len && g->text[g->at] != '\n')
                g->at++;
            if (g->at == g->len)
                return;
            g->at--;
        } else if (c == '\n') {
            if (!lines)
                return;
            g->line++;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

static size_t gbnf_name(struct gbnf *g)
{
    const size_t start = g->at;

    while (g->at < g->len && is_name_char(g->text[g->at]))
        g->at++;
    return g->at - start;
}

static int gbnf_hex(struct gbnf *g, size_t n, uint32_t *ret_cp)
{
    uint32_t cp = 0;

    for (size_t i = 0; i < n; i++, g->at++) {
        const char c = gbnf_peek(g);

        if (c >= '0' && c <= '9')
            cp = cp << 4 | (uint32_t)(c - '0');
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            cp = cp << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return gbnf_fail(g, "an escape needs more hexadecimal digits");
    }
    *ret_cp = cp;
    return 0;
}

/* Reads one character of a literal or a class. */
static int gbnf_char(struct gbnf *g, uint32_t *ret_cp)
{
    size_t n;

    if (!gbnf_skip(g, "\\")) {
        n = utf8_decode(g->text + g->at, g->len - g->at, ret_cp);
        if (n == 0)
            return gbnf_fail(g, "the text ends early or is not UTF-8");
        g->line += *ret_cp == '\n';
        g->at += n;
        return 0;
    }
    g->at++;
    switch (g->at <= g->len ? g->text[g->at - 1] : '\0') {
    case 'x':
        return gbnf_hex(g, 2, ret_cp);
    case 'u':
        return gbnf_hex(g, 4, ret_cp);
    case 'U':
        return gbnf_hex(g, 8, ret_cp);
    case 't':
        *ret_cp = '\t';
        return 0;
    case 'r':
        *ret_cp = '\r';
        return 0;
    case 'n':
        *ret_cp = '\n';
        return 0;
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
    case '/':
        *ret_cp = (unsigned char)g->text[g->at - 1];
        return 0;
    default:
        g->at = MIN(g->at, g->len);
        return gbnf_fail(g, "an escape is not known");
    }
}

static int gbnf_literal(struct gbnf *g, grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes nodes = {0};
    int r = 0;

    g->at++;
    while (r == 0 && !gbnf_skip(g, "\"")) {
        char utf8[4];
        uint32_t cp;
        size_t n = 0;

        r = gbnf_char(g, &cp);
        if (r == 0)
            n = utf8_encode(cp, utf8);
        if (r == 0 && n == 0)
            return gbnf_fail(g, "an escape is not a code point");
        if (r == 0)
            r = nodes_add(&nodes, grammar_bytes(g->b, utf8, n));
    }
    if (r == 0)
        *ret_node = grammar_seq(g->b, nodes.list, nodes.n);
    return r;
}

static int gbnf_class(struct gbnf *g, grammar_node *ret_node)
{
    struct set set = {0};
    bool invert;
    int r = 0;

    g->at++;
    invert = gbnf_skip(g, "^");
    while (r == 0 && !gbnf_skip(g, "]")) {
        uint32_t first, last;

        r = gbnf_char(g, &first);
        last = first;
        if (r == 0 && gbnf_peek(g) == '-' && g->at + 1 < g->len && g->text[g->at + 1] != ']') {
            g->at++;
            r = gbnf_char(g, &last);
        }
        if (r == 0 && first > last)
            r = gbnf_fail(g, "the ends of a range are in the wrong order");
        if (r == 0)
            r = set_add(&set, first, last);
    }
    if (r == 0)
        *ret_node = grammar_class(g->b, set.ranges, set.n, invert);
    set_done(&set);
    return r;
}

/* Reads a token: its text, which begins and ends with angle brackets, or its id in angle and square
 * brackets. */
static int gbnf_token(struct gbnf *g, grammar_node *ret_node)
{
    const size_t start = g->at;
    uint64_t id = 0;

    if (gbnf_skip(g, "<[")) {
        const size_t digits = g->at;

        for (; gbnf_peek(g) >= '0' && gbnf_peek(g) <= '9' && id <= INT32_MAX; g->at++)
            id = 10 * id + (uint64_t)(gbnf_peek(g) - '0');
        if (g->at == digits || id > INT32_MAX || !gbnf_skip(g, "]>"))
            return gbnf_fail(g, "the id of a token is invalid");
        *ret_node = grammar_token_id(g->b, (uint32_t)id);
        return 0;
    }
    while (gbnf_peek(g) != '>') {
        if (g->at >= g->len || gbnf_peek(g) == '\n')
            return gbnf_fail(g, "a token has no end");
        g->at++;
    }
    g->at++;
    *ret_node = grammar_token(g->b, g->text + start, g->at - start);
    return 0;
}

static int gbnf_group(struct gbnf *g, grammar_node *ret_node)
{
    int r;

    if (g->depth >= MAX_DEPTH)
        return err_set(g->reterr, E2BIG, "line %u: more than %d brackets are nested", g->line,
                       MAX_DEPTH);
    g->at++;
    g->depth++;
    r = gbnf_choice(g, ret_node);
    g->depth--;
    return r == 0 && !gbnf_skip(g, ")") ? gbnf_fail(g, "a bracket is not closed") : r;
}

static int gbnf_atom(struct gbnf *g, grammar_node *ret_node)
{
    const struct grammar_range all = {0, SET_LAST};
    const size_t start = g->at;
    struct name *name;
    size_t n;
    int r;

    switch (gbnf_peek(g)) {
    case '"':
        return gbnf_literal(g, ret_node);
    case '[':
        return gbnf_class(g, ret_node);
    case '(':
        return gbnf_group(g, ret_node);
    case '<':
        return gbnf_token(g, ret_node);
    case '!':
        return gbnf_fail(g, "\"!\" before a token is not supported");
    case '.':
        g->at++;
        *ret_node = grammar_class(g->b, &all, 1, false);
        return 0;
    default:
        n = gbnf_name(g);
        if (n == 0)
            return gbnf_fail(g, "a rule, a literal or a class is expected");
        r = names_get(&g->names, g->b, g->text + start, n, g->line, &name);
        if (r == 0)
            *ret_node = name->rule;
        return r;
    }
}

static bool gbnf_number(struct gbnf *g, uint32_t *ret_number)
{
    const size_t start = g->at;
    uint64_t number = 0;

    for (; gbnf_peek(g) >= '0' && gbnf_peek(g) <= '9' && number <= MAX_REPEAT; g->at++)
        number = 10 * number + (uint64_t)(gbnf_peek(g) - '0');
    *ret_number = (uint32_t)number;
    return g->at > start && number <= MAX_REPEAT;
}

/* Reads "{2}", "{2,}", "{2,3}" or "{,3}" after the first bracket. */
static int gbnf_braces(struct gbnf *g, uint32_t *ret_min, uint32_t *ret_max)
{
    bool has_min, has_max = false;

    gbnf_space(g, true);
    has_min = gbnf_number(g, ret_min);
    *ret_max = *ret_min;
    gbnf_space(g, true);
    if (gbnf_skip(g, ",")) {
        gbnf_space(g, true);
        has_max = gbnf_number(g, ret_max);
        if (!has_max)
            *ret_max = GRAMMAR_FOREVER;
        gbnf_space(g, true);
    }
    if ((!has_min && !has_max) || *ret_min > *ret_max || !gbnf_skip(g, "}"))
        return gbnf_fail(g, "a repetition is invalid");
    return 0;
}

static int gbnf_repeated(struct gbnf *g, grammar_node *ret_node)
{
    uint32_t min, max;
    int r;

    r = gbnf_atom(g, ret_node);
    while (r == 0) {
        gbnf_space(g, g->depth > 0);
        if (gbnf_skip(g, "*"))
            *ret_node = grammar_repeat(g->b, *ret_node, 0, GRAMMAR_FOREVER);
        else if (gbnf_skip(g, "+"))
            *ret_node = grammar_repeat(g->b, *ret_node, 1, GRAMMAR_FOREVER);
        else if (gbnf_skip(g, "?"))
            *ret_node = grammar_repeat(g->b, *ret_node, 0, 1);
        else if (gbnf_skip(g, "{")) {
            r = gbnf_braces(g, &min, &max);
            if (r == 0)
                *ret_node = grammar_repeat(g->b, *ret_node, min, max);
        } else {
            break;
        }
    }
    return r;
}

static bool gbnf_at_end(const struct gbnf *g)
{
    const char c = gbnf_peek(g);

    return g->at >= g->len || c == '|' || c == ')' || c == '\n';
}

static int gbnf_sequence(struct gbnf *g, grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes nodes = {0};
    grammar_node node;
    int r = 0;

    while (r == 0 && !gbnf_at_end(g)) {
        r = gbnf_repeated(g, &node);
        if (r == 0)
            r = nodes_add(&nodes, node);
    }
    if (r == 0)
        *ret_node = grammar_seq(g->b, nodes.list, nodes.n);
    return r;
}

/* Returns whether the next line continues the rule. It does so if it begins with "|". */
static bool gbnf_continues(struct gbnf *g)
{
    const struct gbnf here = *g;

    gbnf_space(g, true);
    if (gbnf_peek(g) == '|')
        return true;
    *g = here;
    return false;
}

static int gbnf_choice(struct gbnf *g, grammar_node *ret_node)
{
    _cleanup_nodes_ struct nodes nodes = {0};
    grammar_node node;
    int r;

    do {
        gbnf_space(g, true);
        r = gbnf_sequence(g, &node);
        if (r == 0)
            r = nodes_add(&nodes, node);
    } while (r == 0 && gbnf_continues(g) && gbnf_skip(g, "|"));
    if (r == 0)
        *ret_node = grammar_alt(g->b, nodes.list, nodes.n);
    return r;
}

static int gbnf_rule(struct gbnf *g)
{
    const size_t start = g->at, n = gbnf_name(g);
    struct name *name;
    grammar_node body, rule;
    int r;

    if (n == 0)
        return gbnf_fail(g, "the name of a rule is expected");
    r = names_get(&g->names, g->b, g->text + start, n, g->line, &name);
    if (r < 0)
        return r;
    if (name->is_defined)
        return gbnf_fail(g, "a rule is defined twice");
    name->is_defined = true;
    rule = name->rule;
    gbnf_space(g, false);
    if (!gbnf_skip(g, "::="))
        return gbnf_fail(g, "\"::=\" is expected after the name of a rule");
    r = gbnf_choice(g, &body);
    if (r < 0)
        return r;
    grammar_rule_set(g->b, rule, body);
    gbnf_space(g, false);
    return g->at < g->len && gbnf_peek(g) != '\n' ? gbnf_fail(g, "the end of a line is expected")
                                                  : 0;
}

static int gbnf_read(struct gbnf *g, grammar_node *ret_node)
{
    const struct name *root;
    int r = 0;

    for (gbnf_space(g, true); r == 0 && g->at < g->len; gbnf_space(g, true))
        r = gbnf_rule(g);
    if (r == 0)
        r = names_check(&g->names, g->reterr);
    if (r == 0)
        r = grammar_builder_error(g->b);
    if (r < 0)
        return r;
    root = names_find(&g->names, "root");
    if (!root)
        return err_set(g->reterr, EINVAL, "there is no rule \"root\"");
    *ret_node = root->rule;
    return 0;
}

int grammar_read_gbnf(struct grammar_builder *b, const char *text, size_t len,
                      grammar_node *ret_node, struct inf_err *reterr)
{
    struct gbnf g = {.b = b, .text = text, .len = len, .line = 1, .reterr = reterr};
    int r;

    if (len > MAX_TEXT)
        return err_set(reterr, E2BIG, "a grammar has more than %u bytes", MAX_TEXT);
    r = gbnf_read(&g, ret_node);
    names_done(&g.names);
    if (r == -E2BIG && grammar_builder_error(b) < 0)
        err_set(reterr, E2BIG, "the grammar is too large");
    return r;
}
