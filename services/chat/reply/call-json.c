/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads calls whose arguments are JSON: objects {"name": …, "arguments": {…}}, arrays of such
 * objects, and names that are followed by an object with the arguments.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/reply/parser-state.h"
#include "core/text.h"

enum {
    CALL_OPEN, /* the opener comes next */
    CALL_FIRST,
    CALL_NAMED, /* the marker of a call comes next, or the end of all calls */
    CALL_NAME,
    CALL_NAME_END,
    CALL_NAMED_ARGUMENTS,
    CALL_NAMED_END,
    CALL_OBJECT, /* an object with name and arguments comes next */
    CALL_OBJECT_ARGUMENTS,
    CALL_OBJECT_REST,
    CALL_CLOSE,
};

static enum step call_to(struct reply_parser *p, int step)
{
    p->step = step;
    return STEP_AGAIN;
}

/* Reads one more character of JSON, and keeps track of strings and of the depth. Returns whether
 * the character ends an object or an array. */
static bool json_closes(struct reply_parser *p, char c)
{
    const bool closes = c == '}' || c == ']';

    if (p->escaped) {
        p->escaped = false;
        return false;
    }
    if (p->in_string) {
        p->escaped = c == '\\';
        p->in_string = c != '"';
        return false;
    }
    p->in_string = c == '"';
    if (c == '{' || c == '[')
        p->depth++;
    if (closes)
        p->depth--;
    return closes;
}

enum step parser_json(struct reply_parser *p)
{
    size_t i = p->pos;
    bool whole = false;

    for (; i < p->in.len && !whole; i++) {
        const char c = p->in.data[i];

        if (p->in_string && (unsigned char)c < 0x20) {
            /* Models write control characters, for example line feeds, into strings. JSON does not
             * permit them, so they are escaped. */
            char escape[8];

            parser_arguments(p, p->in.data + p->pos, i - p->pos);
            snprintf(escape, sizeof(escape), c == '\n' ? "\\n" : "\\u%04x", (unsigned)c);
            parser_arguments(p, escape + p->escaped, strlen(escape) - p->escaped);
            p->escaped = false;
            p->pos = i + 1;
        } else {
            whole = json_closes(p, c) && p->depth <= 0;
        }
    }
    parser_arguments(p, p->in.data + p->pos, i - p->pos);
    p->pos = i;
    return whole ? STEP_DONE : STEP_MORE;
}

/* The members that were found in an object, as byte positions in the parser's text. */
struct call_head {
    size_t at; /* the next byte */
    size_t name, name_len, arguments, arguments_end;
};

static size_t head_space(const struct reply_parser *p, size_t at)
{
    while (at < p->in.len && parser_is_space(p->in.data[at]))
        at++;
    return at;
}

/* Finds the end of the string that begins at h->at. */
static enum step head_string(const struct reply_parser *p, struct call_head *h)
{
    if (h->at >= p->in.len)
        return STEP_MORE;
    if (p->in.data[h->at] != '"')
        return STEP_FAIL;
    for (size_t i = h->at + 1; i < p->in.len; i++) {
        if (p->in.data[i] == '\\') {
            i++;
        } else if (p->in.data[i] == '"') {
            h->at = i + 1;
            return STEP_DONE;
        }
    }
    return STEP_MORE;
}

/* Finds the end of any value that begins at h->at. */
static enum step head_value(const struct reply_parser *p, struct call_head *h)
{
    int depth = 0;

    while (h->at < p->in.len) {
        const char c = p->in.data[h->at];

        if (c == '"') {
            const enum step s = head_string(p, h);

            if (s != STEP_DONE || !depth)
                return s;
            continue;
        }
        if (!depth && (c == ',' || c == '}' || c == ']' || parser_is_space(c)))
            return STEP_DONE;
        h->at++;
        if (c == '{' || c == '[')
            depth++;
        if ((c == '}' || c == ']') && --depth == 0)
            return STEP_DONE;
    }
    return STEP_MORE;
}

static bool head_is(const struct reply_parser *p, size_t at, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(p->in.data + at, text, len) == 0;
}

/* Reads one member of an object. STEP_DONE: the arguments begin at h->at, and the name is known. */
static enum step head_member(const struct reply_parser *p, struct call_head *h)
{
    size_t key = h->at + 1, key_len, value;
    enum step s = head_string(p, h);
    bool is_name, is_arguments;

    if (s != STEP_DONE)
        return s;
    key_len = h->at - 1 - key;
    h->at = head_space(p, h->at);
    if (h->at == p->in.len)
        return STEP_MORE;
    if (p->in.data[h->at] != ':')
        return STEP_FAIL;
    h->at = head_space(p, h->at + 1);
    if (h->at == p->in.len)
        return STEP_MORE;
    value = h->at;
    is_name = head_is(p, key, key_len, "name");
    is_arguments = head_is(p, key, key_len, "arguments") || head_is(p, key, key_len, "parameters");
    if ((is_name && p->in.data[value] != '"') || (is_arguments && p->in.data[value] != '{'))
        return STEP_FAIL;
    if (is_arguments)
        h->arguments = value;
    if (is_arguments && h->name)
        return STEP_DONE;
    s = head_value(p, h);
    if (s != STEP_DONE)
        return s;
    if (is_name) {
        h->name = value + 1;
        h->name_len = h->at - value - 2;
    } else if (is_arguments) {
        h->arguments_end = h->at;
    }
    return STEP_AGAIN;
}

/* Reads an object up to its arguments if the name comes before them. Otherwise reads the whole
 * object. */
static enum step head_read(const struct reply_parser *p, struct call_head *h)
{
    enum step s;

    h->at = p->pos + 1;
    for (;;) {
        h->at = head_space(p, h->at);
        s = head_member(p, h);
        if (s != STEP_AGAIN)
            return s;
        h->at = head_space(p, h->at);
        if (h->at == p->in.len)
            return STEP_MORE;
        if (p->in.data[h->at] == '}') {
            h->at++;
            return h->name ? STEP_DONE : STEP_FAIL;
        }
        if (p->in.data[h->at++] != ',')
            return STEP_FAIL;
    }
}

/* Gives the sink the arguments that came before the name, or an empty object if there are
 * none. */
static void call_whole_object(struct reply_parser *p, const struct call_head *h)
{
    p->pos = h->arguments;
    if (h->arguments_end)
        parser_json(p);
    else
        parser_arguments(p, "{}", 2);
    p->pos = h->at;
}

static enum step call_object(struct reply_parser *p)
{
    struct call_head h = {};
    enum step s;

    if (!parser_skip_space(p))
        return STEP_MORE;
    if (p->is_array && p->in.data[p->pos] == ']') {
        p->mark = p->back = ++p->pos;
        return call_to(p, CALL_CLOSE);
    }
    if (p->is_array && p->in.data[p->pos] == ',') {
        p->pos++;
        return STEP_AGAIN;
    }
    if (p->in.data[p->pos] != '{')
        return STEP_FAIL;
    s = head_read(p, &h);
    if (s != STEP_DONE)
        return s;
    if (h.at - p->mark > PARSER_MAX_HEAD ||
        !parser_begin_call(p, p->in.data + h.name, h.name_len, NULL, 0))
        return STEP_FAIL;
    if (h.arguments && !h.arguments_end) {
        p->pos = h.arguments;
        return call_to(p, CALL_OBJECT_ARGUMENTS);
    }
    call_whole_object(p, &h);
    parser_end_call(p);
    return call_to(p, p->is_array ? CALL_OBJECT : CALL_CLOSE);
}

/* Skips the members after the arguments. */
static enum step call_object_rest(struct reply_parser *p)
{
    for (; p->pos < p->in.len; p->pos++) {
        if (json_closes(p, p->in.data[p->pos]) && p->depth < 0) {
            p->pos++;
            parser_end_call(p);
            return call_to(p, p->is_array ? CALL_OBJECT : CALL_CLOSE);
        }
    }
    return STEP_MORE;
}

/* Reads the end marker. It is optional, because models sometimes leave it out. */
static enum step call_close(struct reply_parser *p)
{
    const struct reply_format *f = p->reply->format;
    const bool more = parser_skip_space(p);
    enum match m = MATCH_NO;

    if (f->bare && more && p->in.data[p->pos] == ';') {
        p->pos++;
        p->mark = p->pos;
        return call_to(p, CALL_OBJECT);
    }
    if (f->marks.close)
        m = parser_take(p, f->marks.close);
    return m == MATCH_PART || (f->bare && !more && !p->ended) ? STEP_MORE : STEP_DONE;
}

static enum step call_open(struct reply_parser *p)
{
    const struct reply_format *f = p->reply->format;

    p->is_array = false;
    for (size_t i = 0; i < ARRAY_SIZE(f->openers) && f->openers[i]; i++)
        if (f->openers[i] != f->marks.call && parser_take(p, f->openers[i]) == MATCH_FULL)
            break;
    return call_to(p, f->marks.call ? CALL_NAMED : CALL_FIRST);
}

static enum step call_first(struct reply_parser *p)
{
    if (!parser_skip_space(p))
        return STEP_MORE;
    if (p->in.data[p->pos] == '[') {
        p->pos++;
        p->is_array = true;
        return call_to(p, CALL_OBJECT);
    }
    if (p->in.data[p->pos] == '{')
        return call_to(p, CALL_OBJECT);
    return p->reply->format->marks.name_end ? call_to(p, CALL_NAME) : STEP_FAIL;
}

static enum step call_named(struct reply_parser *p)
{
    const struct call_marks *marks = &p->reply->format->marks;
    enum match call, close;

    if (!parser_skip_space(p))
        return STEP_MORE;
    call = parser_take(p, marks->call);
    if (call == MATCH_FULL)
        return call_to(p, CALL_NAME);
    close = marks->close ? parser_take(p, marks->close) : MATCH_NO;
    if (close == MATCH_FULL)
        return STEP_DONE;
    return call == MATCH_PART || close == MATCH_PART ? STEP_MORE : STEP_FAIL;
}

static enum step call_name(struct reply_parser *p)
{
    bool whole;
    size_t n;

    if (!parser_skip_space(p))
        return STEP_MORE;
    n = parser_name(p, p->pos, &whole);
    if (!whole)
        return STEP_MORE;
    if (!n)
        return STEP_FAIL;
    str_clear(&p->key);
    if (str_append(&p->key, p->in.data + p->pos, n) < 0)
        parser_fail(p, -ENOMEM);
    p->pos += n;
    return call_to(p, CALL_NAME_END);
}

static enum step call_name_end(struct reply_parser *p)
{
    static const char call_id[] = "[CALL_ID]";
    const enum match id = parser_match(p, p->pos, call_id);
    const size_t begin = p->pos;
    enum match m;
    bool whole;

    if (id == MATCH_FULL) {
        const size_t n = parser_name(p, p->pos + strlen(call_id), &whole);

        if (!whole)
            return STEP_MORE;
        p->pos += strlen(call_id) + n;
    }
    m = parser_skip_space(p) ? parser_take(p, p->reply->format->marks.name_end) : MATCH_PART;
    if (m == MATCH_FULL)
        return call_to(p, CALL_NAMED_ARGUMENTS);
    if (m != MATCH_PART && id != MATCH_PART)
        return STEP_FAIL;
    /* The id is read again with the next bytes, so that no second id is accepted after it. */
    p->pos = begin;
    return STEP_MORE;
}

/* Begins a call. Finds the tool's name in the name that the model wrote: Kimi writes
 * functions.NAME:3. */
static bool call_begin_named(struct reply_parser *p)
{
    const char *written = p->key.data, *name = written, *colon;
    size_t len = p->key.len;

    if (p->reply->format->ids == ID_KIMI && text_starts_with(name, "functions.")) {
        name += strlen("functions.");
        colon = strrchr(name, ':');
        len = colon ? (size_t)(colon - name) : strlen(name);
    }
    return parser_begin_call(p, name, len, written, p->key.len);
}

static enum step call_named_arguments(struct reply_parser *p)
{
    if (!p->in_call) {
        if (!parser_skip_space(p))
            return STEP_MORE;
        if (p->in.data[p->pos] != '{' || !call_begin_named(p))
            return STEP_FAIL;
    }
    return parser_json(p) == STEP_DONE ? call_to(p, CALL_NAMED_END) : STEP_MORE;
}

static enum step call_named_end(struct reply_parser *p)
{
    const struct call_marks *marks = &p->reply->format->marks;

    parser_skip_space(p);
    if (marks->call_end && parser_take(p, marks->call_end) == MATCH_PART)
        return STEP_MORE;
    parser_end_call(p);
    return marks->call ? call_to(p, CALL_NAMED) : STEP_DONE;
}

enum step call_json_step(struct reply_parser *p)
{
    switch (p->step) {
    case CALL_OPEN:
        return call_open(p);
    case CALL_FIRST:
        return call_first(p);
    case CALL_NAMED:
        return call_named(p);
    case CALL_NAME:
        return call_name(p);
    case CALL_NAME_END:
        return call_name_end(p);
    case CALL_NAMED_ARGUMENTS:
        return call_named_arguments(p);
    case CALL_NAMED_END:
        return call_named_end(p);
    case CALL_OBJECT:
        return call_object(p);
    case CALL_OBJECT_ARGUMENTS:
        return parser_json(p) == STEP_DONE ? call_to(p, CALL_OBJECT_REST) : STEP_MORE;
    case CALL_OBJECT_REST:
        return call_object_rest(p);
    default:
        return call_close(p);
    }
}
