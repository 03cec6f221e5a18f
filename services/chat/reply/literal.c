/* SPDX-License-Identifier: Apache-2.0 */
/* Writes literals of Python and of Gemma as JSON. */
#include "chat/reply/literal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/json.h"

#define LITERAL_MAX_WORD 256

static const char literal_quote[] = "<|\"|>";

enum {
    LITERAL_VALUE, /* a value comes next, or the end of a list */
    LITERAL_STRING,
    LITERAL_KEY_STRING,
    LITERAL_AFTER, /* a comma comes next, or a closing bracket */
    LITERAL_KEY,   /* a key comes next, or the end of the object */
    LITERAL_COLON,
};

static bool literal_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool literal_is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '+' || c == '.' || c == '$' ||
           (unsigned char)c >= 0x80;
}

static enum step literal_after_value(struct literal *l)
{
    l->state = LITERAL_AFTER;
    return l->depth ? STEP_AGAIN : STEP_DONE;
}

/* Returns whether a word is a number in JSON's syntax. */
static bool literal_is_number(const char *word, size_t len)
{
    size_t i = len && word[0] == '-', digits;

    digits = i;
    while (i < len && isdigit((unsigned char)word[i]))
        i++;
    if (i == digits || (word[digits] == '0' && i > digits + 1))
        return false;
    if (i < len && word[i] == '.') {
        digits = ++i;
        while (i < len && isdigit((unsigned char)word[i]))
            i++;
        if (i == digits)
            return false;
    }
    if (i < len && (word[i] == 'e' || word[i] == 'E')) {
        i++;
        i += i < len && (word[i] == '+' || word[i] == '-');
        digits = i;
        while (i < len && isdigit((unsigned char)word[i]))
            i++;
        if (i == digits)
            return false;
    }
    return i == len;
}

static int literal_put_word(const char *word, size_t len, struct str *out)
{
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (len == strlen(words[i][0]) && memcmp(word, words[i][0], len) == 0)
            return str_puts(out, words[i][1]);
    return literal_is_number(word, len) ? str_append(out, word, len)
                                        : json_put_string(out, word, len);
}

/* Finds the length of the word at byte @pos. */
static enum step literal_word(struct literal_text t, size_t pos, size_t *ret_len)
{
    size_t n = 0;

    while (pos + n < t.len && literal_is_word(t.data[pos + n]) && n <= LITERAL_MAX_WORD)
        n++;
    *ret_len = n;
    if (n == 0 || n > LITERAL_MAX_WORD)
        return STEP_FAIL;
    return pos + n < t.len || t.ended ? STEP_DONE : STEP_MORE;
}

/* Begins a string if a quote comes next. Returns STEP_FAIL if no quote comes next. */
static enum step literal_open_string(struct literal *l, struct literal_text t, size_t *pos,
                                     int state, struct str *out)
{
    const size_t n = MIN(t.len - *pos, strlen(literal_quote));
    const char c = t.data[*pos];

    if (c == '<' && memcmp(t.data + *pos, literal_quote, n) == 0) {
        if (n < strlen(literal_quote))
            return STEP_MORE;
        *pos += n;
    } else if (c == '"' || c == '\'') {
        ++*pos;
    } else {
        return STEP_FAIL;
    }
    l->delimiter = c;
    l->escaped = false;
    l->state = state;
    return str_putc(out, '"') < 0 ? STEP_FAIL : STEP_AGAIN;
}

static enum step literal_open_list(struct literal *l, char c, size_t *pos, struct str *out)
{
    if (l->depth == PARSER_MAX_NESTING)
        return STEP_FAIL;
    l->stack[l->depth++] = c == '{' ? '}' : c == '[' ? ']' : ')';
    l->state = c == '{' ? LITERAL_KEY : LITERAL_VALUE;
    ++*pos;
    return str_putc(out, c == '{' ? '{' : '[') < 0 ? STEP_FAIL : STEP_AGAIN;
}

static enum step literal_close_list(struct literal *l, size_t *pos, struct str *out)
{
    const char closer = l->stack[--l->depth];

    ++*pos;
    if (str_putc(out, closer == '}' ? '}' : ']') < 0)
        return STEP_FAIL;
    return literal_after_value(l);
}

static bool literal_is_closer(const struct literal *l, char c)
{
    return l->depth && l->stack[l->depth - 1] == c;
}

static enum step literal_value(struct literal *l, struct literal_text t, size_t *pos,
                               struct str *out)
{
    const char c = t.data[*pos];
    enum step s = literal_open_string(l, t, pos, LITERAL_STRING, out);
    size_t n;

    if (s != STEP_FAIL)
        return s;
    if (c == '{' || c == '[' || c == '(')
        return literal_open_list(l, c, pos, out);
    if (c != '}' && literal_is_closer(l, c))
        return literal_close_list(l, pos, out);
    s = literal_word(t, *pos, &n);
    if (s != STEP_DONE)
        return s;
    if (literal_put_word(t.data + *pos, n, out) < 0)
        return STEP_FAIL;
    *pos += n;
    return literal_after_value(l);
}

/* Writes the escape sequence \@c of Python or JSON as JSON. */
static int literal_put_escape(char c, struct str *out)
{
    switch (c) {
    case '\'':
        return str_putc(out, '\'');
    case '\n':
        return 0;
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
    case 'u':
        return str_printf(out, "\\%c", c);
    default:
        return (unsigned char)c < 0x20 ? 0 : str_printf(out, "\\\\%c", c);
    }
}

static int literal_put_byte(char c, struct str *out)
{
    if (c == '"' || c == '\\')
        return str_printf(out, "\\%c", c);
    if (c == '\n')
        return str_puts(out, "\\n");
    return (unsigned char)c < 0x20 ? str_printf(out, "\\u%04x", (unsigned)c) : str_putc(out, c);
}

static enum step literal_end_string(struct literal *l, struct str *out)
{
    if (str_putc(out, '"') < 0)
        return STEP_FAIL;
    if (l->state == LITERAL_KEY_STRING) {
        l->state = LITERAL_COLON;
        return STEP_AGAIN;
    }
    return literal_after_value(l);
}

static enum step literal_string(struct literal *l, struct literal_text t, size_t *pos,
                                struct str *out)
{
    const size_t n = MIN(t.len - *pos, strlen(literal_quote));
    const char c = t.data[*pos];

    if (l->delimiter == '<' && c == '<' && memcmp(t.data + *pos, literal_quote, n) == 0) {
        if (n < strlen(literal_quote))
            return STEP_MORE;
        *pos += n;
        return literal_end_string(l, out);
    }
    ++*pos;
    if (l->escaped) {
        l->escaped = false;
        return literal_put_escape(c, out) < 0 ? STEP_FAIL : STEP_AGAIN;
    }
    if (l->delimiter != '<' && c == l->delimiter)
        return literal_end_string(l, out);
    if (l->delimiter != '<' && c == '\\') {
        l->escaped = true;
        return STEP_AGAIN;
    }
    return literal_put_byte(c, out) < 0 ? STEP_FAIL : STEP_AGAIN;
}

static enum step literal_key(struct literal *l, struct literal_text t, size_t *pos, struct str *out)
{
    enum step s;
    size_t n;

    if (literal_is_closer(l, t.data[*pos]))
        return literal_close_list(l, pos, out);
    s = literal_open_string(l, t, pos, LITERAL_KEY_STRING, out);
    if (s != STEP_FAIL)
        return s;
    s = literal_word(t, *pos, &n);
    if (s != STEP_DONE)
        return s;
    if (json_put_string(out, t.data + *pos, n) < 0)
        return STEP_FAIL;
    *pos += n;
    l->state = LITERAL_COLON;
    return STEP_AGAIN;
}

static enum step literal_separator(struct literal *l, struct literal_text t, size_t *pos,
                                   struct str *out)
{
    const char c = t.data[*pos];
    const bool in_object = literal_is_closer(l, '}');

    if (l->state == LITERAL_AFTER && literal_is_closer(l, c))
        return literal_close_list(l, pos, out);
    if (c != (l->state == LITERAL_AFTER ? ',' : ':'))
        return STEP_FAIL;
    ++*pos;
    l->state = l->state == LITERAL_AFTER && in_object ? LITERAL_KEY : LITERAL_VALUE;
    return str_putc(out, c) < 0 ? STEP_FAIL : STEP_AGAIN;
}

static enum step literal_step(struct literal *l, struct literal_text t, size_t *pos,
                              struct str *out)
{
    const bool in_string = l->state == LITERAL_STRING || l->state == LITERAL_KEY_STRING;

    while (!in_string && *pos < t.len && literal_is_space(t.data[*pos]))
        ++*pos;
    if (*pos == t.len)
        return STEP_MORE;
    switch (l->state) {
    case LITERAL_VALUE:
        return literal_value(l, t, pos, out);
    case LITERAL_STRING:
    case LITERAL_KEY_STRING:
        return literal_string(l, t, pos, out);
    case LITERAL_KEY:
        return literal_key(l, t, pos, out);
    default:
        return literal_separator(l, t, pos, out);
    }
}

enum step literal_read(struct literal *l, struct literal_text text, size_t *pos, struct str *out)
{
    enum step s;

    do {
        s = literal_step(l, text, pos, out);
    } while (s == STEP_AGAIN);
    return s;
}
