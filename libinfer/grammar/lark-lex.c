/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a text in Lark's notation into words. */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "grammar/lark-lex.h"

static int lex_fail(const struct lark_lexer *l, const char *what)
{
    return err_set_at(l->reterr, EINVAL, l->at, "line %u: %s", l->line, what);
}

static char lex_peek(const struct lark_lexer *l, size_t ahead)
{
    return l->len - l->at > ahead ? l->text[l->at + ahead] : '\0';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Skips blanks and comments, but not the end of the line. */
static void lex_blanks(struct lark_lexer *l)
{
    for (; l->at < l->len; l->at++) {
        const char c = lex_peek(l, 0);

        if (c == '#' || (c == '/' && lex_peek(l, 1) == '/')) {
            while (l->at < l->len && l->text[l->at] != '\n')
                l->at++;
            if (l->at == l->len)
                return;
            l->at--;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

/* Skips ends of lines. Returns whether they end a statement. */
static bool lex_lines(struct lark_lexer *l)
{
    bool found = false;

    for (lex_blanks(l); lex_peek(l, 0) == '\n' && l->at < l->len; lex_blanks(l)) {
        l->line++;
        l->at++;
        found = true;
    }
    return found && l->brackets == 0 && lex_peek(l, 0) != '|';
}

/* Skips a text up to the closing @quote, in which a backslash hides the next character. */
static int lex_quoted(struct lark_lexer *l, char quote)
{
    for (l->at++; l->at < l->len && l->text[l->at] != '\n'; l->at++) {
        const char c = l->text[l->at];

        if (c == '\\')
            l->at++;
        else if (c == quote) {
            l->at++;
            return 0;
        }
        if (l->at >= l->len)
            break;
    }
    l->at = MIN(l->at, l->len);
    return lex_fail(l, quote == '/' ? "a regular expression has no end" : "a string has no end");
}

/* Reads a quoted text and the letters after it. */
static int lex_literal(struct lark_lexer *l, struct lark_word *word, enum lark_kind kind)
{
    const size_t start = l->at;
    int r;

    r = lex_quoted(l, l->text[l->at]);
    if (r < 0)
        return r;
    word->kind = kind;
    word->len = l->at - start;
    word->flags = l->text + l->at;
    while (is_letter(lex_peek(l, 0)))
        l->at++;
    word->n_flags = (size_t)(l->text + l->at - word->flags);
    return 0;
}

/* Skips a text in braces. Braces in strings, regular expressions and comments do not count. */
static int lex_block(struct lark_lexer *l)
{
    size_t depth = 0;
    int r;

    while (l->at < l->len) {
        const char c = lex_peek(l, 0);

        if (c == '"' || (c == '/' && lex_peek(l, 1) != '/')) {
            r = lex_quoted(l, c);
            if (r < 0)
                return r;
            continue;
        }
        if (c == '/') {
            lex_blanks(l);
            continue;
        }
        l->line += c == '\n';
        depth += c == '{';
        depth -= c == '}';
        l->at++;
        if (depth == 0)
            return 0;
    }
    return lex_fail(l, "a block has no end");
}

static int lex_token(struct lark_lexer *l)
{
    while (l->at < l->len && l->text[l->at] != '>' && l->text[l->at] != '\n')
        l->at++;
    if (lex_peek(l, 0) != '>')
        return lex_fail(l, "a token has no end");
    l->at++;
    return 0;
}

static void lex_name(struct lark_lexer *l)
{
    while (is_letter(lex_peek(l, 0)) || is_digit(lex_peek(l, 0)))
        l->at++;
}

static int lex_sign(struct lark_lexer *l)
{
    const char c = lex_peek(l, 0);

    if (c == '\0' || !strchr(":|()[]{}*+?~&.,=-!@", c))
        return lex_fail(l, "a character is not expected here");
    l->brackets += c == '(' || c == '[' || c == '{';
    l->brackets -= l->brackets > 0 && (c == ')' || c == ']' || c == '}');
    l->at += (c == '.' && lex_peek(l, 1) == '.') || (c == '-' && lex_peek(l, 1) == '>') ? 2 : 1;
    return 0;
}

static int lex_other(struct lark_lexer *l, struct lark_word *word)
{
    const char c = lex_peek(l, 0);

    if (l->wants_block && c == '{') {
        word->kind = LARK_BLOCK;
        return lex_block(l);
    }
    if (is_letter(c)) {
        word->kind = LARK_NAME;
        lex_name(l);
        return 0;
    }
    if (c == '%') {
        word->kind = LARK_DIRECTIVE;
        l->at++;
        lex_name(l);
        return 0;
    }
    if (c == '<') {
        word->kind = LARK_TOKEN;
        return lex_token(l);
    }
    word->kind = is_digit(c) ? LARK_NUMBER : LARK_SIGN;
    if (!is_digit(c))
        return lex_sign(l);
    while (is_digit(lex_peek(l, 0)))
        l->at++;
    return 0;
}

static bool takes_block(const struct lark_word *word)
{
    static const char *const names[] = {"%json",      "%json_loose", "%lark",
                                        "%json_text", "%llguidance", "%regex"};

    for (size_t i = 0; word->kind == LARK_DIRECTIVE && i < ARRAY_SIZE(names); i++)
        if (word->len == strlen(names[i]) && memcmp(word->text, names[i], word->len) == 0)
            return true;
    return false;
}

int lark_lex(struct lark_lexer *l, struct lark_word *ret_word)
{
    struct lark_word word = {.line = l->line};
    int r = 0;

    if (lex_lines(l) && l->at < l->len) {
        word.kind = LARK_LINE;
        word.text = "end of the line";
        word.len = strlen(word.text);
        *ret_word = word;
        return 0;
    }
    word.line = l->line;
    word.text = l->text + l->at;
    if (l->at >= l->len) {
        word.kind = LARK_END;
        word.text = "end of the text";
        word.len = strlen(word.text);
    } else if (lex_peek(l, 0) == '"' || lex_peek(l, 0) == '/') {
        r = lex_literal(l, &word, lex_peek(l, 0) == '"' ? LARK_STRING : LARK_REGEX);
    } else {
        r = lex_other(l, &word);
        word.len = (size_t)(l->text + l->at - word.text);
    }
    l->wants_block = takes_block(&word);
    if (r == 0)
        *ret_word = word;
    return r;
}
