/* SPDX-License-Identifier: Apache-2.0 */
/* Reads calls of Gemma 4, call:NAME{key:value}, and calls in Python's syntax,
 * [name(key=value), …]. */
#include <errno.h>
#include <string.h>

#include "chat/reply/literal.h"
#include "chat/reply/parser-state.h"
#include "common/wire/json.h"

enum {
    LITERAL_CALL_OPEN, /* the opener comes next */
    LITERAL_CALL_FIRST,
    LITERAL_CALL_NAME,
    LITERAL_CALL_BRACKET,
    LITERAL_CALL_OBJECT, /* Gemma */
    LITERAL_CALL_KEY,    /* Python */
    LITERAL_CALL_VALUE,
    LITERAL_CALL_COMMA,
    LITERAL_CALL_NEXT,
    LITERAL_CALL_CLOSE,
};

static enum step literal_call_to(struct reply_parser *p, int step)
{
    p->step = step;
    return STEP_AGAIN;
}

static bool literal_call_is_gemma(const struct reply_parser *p)
{
    return p->reply->format->body == BODY_GEMMA;
}

/* Gives the sink the part of a value that has come so far. */
static enum step literal_call_value(struct reply_parser *p)
{
    _cleanup_str_ struct str out = {};
    const struct literal_text text = {p->in.data, p->in.len, p->ended};
    const enum step s = literal_read(&p->literal, text, &p->pos, &out);

    if (out.len)
        parser_arguments(p, out.data, out.len);
    return s;
}

static enum step literal_call_open(struct reply_parser *p)
{
    const struct reply_format *f = p->reply->format;

    for (size_t i = 0; i < ARRAY_SIZE(f->openers) && f->openers[i]; i++)
        if (parser_take(p, f->openers[i]) == MATCH_FULL)
            break;
    return literal_call_to(p, literal_call_is_gemma(p) ? LITERAL_CALL_NAME : LITERAL_CALL_FIRST);
}

static enum step literal_call_first(struct reply_parser *p)
{
    if (!parser_skip_space(p))
        return STEP_MORE;
    if (p->in.data[p->pos] != '[')
        return STEP_FAIL;
    p->pos++;
    return literal_call_to(p, LITERAL_CALL_NAME);
}

static enum step literal_call_name(struct reply_parser *p)
{
    size_t n;
    bool whole;
    enum match m;

    if (!parser_skip_space(p))
        return STEP_MORE;
    if (literal_call_is_gemma(p)) {
        m = parser_match(p, p->pos, "call:");
        if (m != MATCH_FULL)
            return m == MATCH_PART ? STEP_MORE : STEP_FAIL;
        p->pos += strlen("call:");
    }
    n = parser_name(p, p->pos, &whole);
    if (!whole) {
        p->pos -= literal_call_is_gemma(p) ? strlen("call:") : 0;
        return STEP_MORE;
    }
    str_clear(&p->key);
    if (str_append(&p->key, p->in.data + p->pos, n) < 0)
        parser_fail(p, -ENOMEM);
    p->pos += n;
    return n ? literal_call_to(p, LITERAL_CALL_BRACKET) : STEP_FAIL;
}

static enum step literal_call_bracket(struct reply_parser *p)
{
    const bool gemma = literal_call_is_gemma(p);

    if (!parser_skip_space(p))
        return STEP_MORE;
    if (p->in.data[p->pos] != (gemma ? '{' : '(') ||
        !parser_begin_call(p, p->key.data, p->key.len, NULL, 0))
        return STEP_FAIL;
    p->literal = (struct literal){};
    if (gemma)
        return literal_call_to(p, LITERAL_CALL_OBJECT);
    p->pos++;
    parser_arguments(p, "{", 1);
    return literal_call_to(p, LITERAL_CALL_KEY);
}

/* Ends a call in Python's syntax, at its closing bracket or where the syntax is wrong. Consumes
 * @n_bytes bytes. */
static enum step literal_call_end(struct reply_parser *p, size_t n_bytes)
{
    parser_arguments(p, "}", 1);
    p->pos += n_bytes;
    parser_end_call(p);
    return literal_call_to(p, LITERAL_CALL_NEXT);
}

static enum step literal_call_object(struct reply_parser *p)
{
    const enum step s = literal_call_value(p);

    if (s == STEP_MORE)
        return s;
    parser_end_call(p);
    return literal_call_to(p, LITERAL_CALL_CLOSE);
}

static enum step literal_call_key(struct reply_parser *p)
{
    _cleanup_str_ struct str out = {};
    size_t n, at;
    bool whole;

    if (!parser_skip_space(p))
        return STEP_MORE;
    if (p->in.data[p->pos] == ')')
        return literal_call_end(p, 1);
    n = parser_name(p, p->pos, &whole);
    if (!whole)
        return STEP_MORE;
    for (at = p->pos + n; at < p->in.len && parser_is_space(p->in.data[at]); at++)
        ;
    if (at == p->in.len)
        return STEP_MORE;
    if (!n || p->in.data[at] != '=')
        return literal_call_end(p, 0);
    if ((p->n_arguments++ && str_putc(&out, ',') < 0) ||
        json_put_string(&out, p->in.data + p->pos, n) < 0 || str_putc(&out, ':') < 0)
        parser_fail(p, -ENOMEM);
    else
        parser_arguments(p, out.data, out.len);
    p->pos = at + 1;
    p->literal = (struct literal){};
    return literal_call_to(p, LITERAL_CALL_VALUE);
}

static enum step literal_call_comma(struct reply_parser *p)
{
    if (!parser_skip_space(p))
        return STEP_MORE;
    if (p->in.data[p->pos] != ',')
        return literal_call_end(p, p->in.data[p->pos] == ')');
    p->pos++;
    return literal_call_to(p, LITERAL_CALL_KEY);
}

static enum step literal_call_next(struct reply_parser *p)
{
    if (!parser_skip_space(p))
        return STEP_MORE;
    if (p->in.data[p->pos] == ',') {
        p->pos++;
        return literal_call_to(p, LITERAL_CALL_NAME);
    }
    p->pos += p->in.data[p->pos] == ']';
    p->mark = p->back = p->pos;
    return literal_call_to(p, LITERAL_CALL_CLOSE);
}

/* Reads the end marker. It is optional, because models sometimes leave it out. */
static enum step literal_call_close(struct reply_parser *p)
{
    const char *close = p->reply->format->marks.close;

    parser_skip_space(p);
    return close && parser_take(p, close) == MATCH_PART ? STEP_MORE : STEP_DONE;
}

enum step call_literal_step(struct reply_parser *p)
{
    enum step s;

    switch (p->step) {
    case LITERAL_CALL_OPEN:
        return literal_call_open(p);
    case LITERAL_CALL_FIRST:
        return literal_call_first(p);
    case LITERAL_CALL_NAME:
        return literal_call_name(p);
    case LITERAL_CALL_BRACKET:
        return literal_call_bracket(p);
    case LITERAL_CALL_OBJECT:
        return literal_call_object(p);
    case LITERAL_CALL_KEY:
        return literal_call_key(p);
    case LITERAL_CALL_VALUE:
        s = literal_call_value(p);
        if (s == STEP_MORE)
            return s;
        return s == STEP_FAIL ? literal_call_end(p, 0) : literal_call_to(p, LITERAL_CALL_COMMA);
    case LITERAL_CALL_COMMA:
        return literal_call_comma(p);
    case LITERAL_CALL_NEXT:
        return literal_call_next(p);
    default:
        return literal_call_close(p);
    }
}
