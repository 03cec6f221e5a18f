/* SPDX-License-Identifier: Apache-2.0 */
/* Reads calls in which each argument stands between markers, and writes the arguments as JSON. */
#include <errno.h>
#include <string.h>

#include "chat/reply/arguments.h"
#include "chat/reply/parser-state.h"
#include "common/wire/json.h"

#define XML_MAX_KEY 256

enum {
    XML_OPEN, /* the opener comes next */
    XML_CALL, /* a call comes next, or the end of all calls */
    XML_NAME,
    XML_ARGUMENT, /* an argument comes next, or the end of the call */
    XML_KEY,
    XML_VALUE_OPEN,
    XML_VALUE,
    XML_TEXT, /* the rest of a string */
};

static enum step xml_to(struct reply_parser *p, int step)
{
    p->step = step;
    return STEP_AGAIN;
}

static const struct call_marks *xml_marks(const struct reply_parser *p)
{
    return &p->reply->format->marks;
}

static void xml_put(struct reply_parser *p, const char *text)
{
    parser_arguments(p, text, strlen(text));
}

static enum step xml_open(struct reply_parser *p)
{
    const struct call_marks *marks = xml_marks(p);

    if (parser_match(p, p->pos, marks->open) == MATCH_FULL)
        p->pos += strlen(marks->open);
    return xml_to(p, XML_CALL);
}

/* If a format has no marker before each call, there is one call between `open` and `call_end`. */
static enum step xml_only_call(struct reply_parser *p)
{
    return parser_skip_space(p) ? xml_to(p, XML_NAME) : STEP_MORE;
}

static enum step xml_call(struct reply_parser *p)
{
    const struct call_marks *marks = xml_marks(p);
    enum match call, close;

    if (!marks->call)
        return xml_only_call(p);
    if (!parser_skip_space(p))
        return STEP_MORE;
    call = parser_take(p, marks->call);
    if (call == MATCH_FULL)
        return xml_to(p, XML_NAME);
    close = marks->close ? parser_take(p, marks->close) : MATCH_NO;
    if (close == MATCH_FULL)
        return STEP_DONE;
    return call == MATCH_PART || close == MATCH_PART ? STEP_MORE : STEP_FAIL;
}

static enum step xml_name(struct reply_parser *p)
{
    const char *end = xml_marks(p)->name_end ? xml_marks(p)->name_end : "";
    bool whole;
    const size_t n = parser_name(p, p->pos, &whole);
    enum match m;

    if (!whole)
        return STEP_MORE;
    m = n ? parser_match(p, p->pos + n, end) : MATCH_NO;
    if (m == MATCH_PART)
        return STEP_MORE;
    if (m == MATCH_NO || !parser_begin_call(p, p->in.data + p->pos, n, NULL, 0))
        return STEP_FAIL;
    p->pos += n + strlen(end);
    xml_put(p, "{");
    return xml_to(p, XML_ARGUMENT);
}

static enum step xml_end_call(struct reply_parser *p)
{
    xml_put(p, "}");
    parser_end_call(p);
    return xml_marks(p)->close ? xml_to(p, XML_CALL) : STEP_DONE;
}

/* Reads the marker of an argument, or the end of the call. If neither of them comes, the call ends
 * here. */
static enum step xml_argument(struct reply_parser *p)
{
    const struct call_marks *marks = xml_marks(p);
    enum match key, end;

    if (!parser_skip_space(p))
        return p->ended && !p->is_cut ? xml_end_call(p) : STEP_MORE;
    key = parser_take(p, marks->key);
    if (key == MATCH_FULL)
        return xml_to(p, XML_KEY);
    end = parser_take(p, marks->call_end);
    if (end == MATCH_NO && key == MATCH_PART)
        return STEP_MORE;
    return end == MATCH_PART ? STEP_MORE : xml_end_call(p);
}

/* Finds @marker after p->pos. */
static enum step xml_find(struct reply_parser *p, const char *marker, size_t *ret_at)
{
    for (size_t i = MAX(p->scanned, p->pos); i < p->in.len; i++) {
        const enum match m = parser_match(p, i, marker);

        p->scanned = i;
        if (m == MATCH_PART)
            return STEP_MORE;
        if (m == MATCH_FULL) {
            *ret_at = i;
            return STEP_DONE;
        }
    }
    p->scanned = p->in.len;
    return STEP_MORE;
}

static void xml_begin_value(struct reply_parser *p)
{
    _cleanup_str_ struct str out = {};

    if ((p->n_arguments++ && str_putc(&out, ',') < 0) ||
        json_put_string(&out, p->key.data, p->key.len) < 0 || str_putc(&out, ':') < 0)
        parser_fail(p, -ENOMEM);
    else
        parser_arguments(p, out.data, out.len);
    p->is_streamed = p->types == VALUE_STRING;
}

/* Reads the name of an argument. With marks.typed, also reads whether the value is a string. */
static enum step xml_key(struct reply_parser *p)
{
    static const char *const kinds[] = {"true\">", "false\">"};
    const struct call_marks *marks = xml_marks(p);
    size_t end = 0, at;
    enum step s = xml_find(p, marks->key_end, &end);
    enum match m = MATCH_NO;

    /* The marker cannot begin before p->scanned. */
    if (s != STEP_DONE && p->scanned - p->pos <= XML_MAX_KEY)
        return STEP_MORE;
    if (s != STEP_DONE || end - p->pos > XML_MAX_KEY) {
        p->scanned = p->pos;
        return xml_end_call(p);
    }
    at = end + strlen(marks->key_end);
    str_clear(&p->key);
    if (str_append(&p->key, p->in.data + p->pos, end - p->pos) < 0 || str_puts(&p->key, "") < 0)
        parser_fail(p, -ENOMEM);
    p->types = p->tool->is_custom
                   ? VALUE_STRING
                   : arguments_types(p->tool->parameters, p->key.data ? p->key.data : "");
    for (size_t i = 0; marks->typed && m == MATCH_NO && i < ARRAY_SIZE(kinds); i++) {
        m = parser_match(p, at, kinds[i]);
        if (m == MATCH_FULL) {
            at += strlen(kinds[i]);
            p->types = i == 0 ? VALUE_STRING : VALUE_ANY & ~VALUE_STRING;
        }
    }
    if (m == MATCH_PART)
        return STEP_MORE;
    xml_begin_value(p);
    p->pos = p->scanned = at;
    return xml_to(p, marks->value ? XML_VALUE_OPEN : XML_VALUE);
}

static enum step xml_value_open(struct reply_parser *p)
{
    enum match m;

    if (!parser_skip_space(p))
        return STEP_MORE;
    m = parser_take(p, xml_marks(p)->value);
    p->scanned = p->pos;
    if (m == MATCH_PART)
        return STEP_MORE;
    return xml_to(p, XML_VALUE);
}

static enum step xml_value(struct reply_parser *p)
{
    const struct call_marks *marks = xml_marks(p);
    _cleanup_str_ struct str out = {};
    size_t end = 0, len;

    if (p->pos == p->in.len)
        return STEP_MORE;
    if (p->is_streamed) {
        p->pos += marks->trims && p->in.data[p->pos] == '\n';
        p->scanned = p->pos;
        xml_put(p, "\"");
        return xml_to(p, XML_TEXT);
    }
    if (xml_find(p, marks->value_end, &end) != STEP_DONE)
        return STEP_MORE;
    len = end - p->pos;
    if (marks->trims && len && p->in.data[p->pos] == '\n') {
        p->pos++;
        len--;
    }
    len -= marks->trims && len && p->in.data[p->pos + len - 1] == '\n';
    if (arguments_put_value(p->types, p->in.data + p->pos, len, &out) < 0)
        parser_fail(p, -ENOMEM);
    else
        parser_arguments(p, out.data, out.len);
    p->pos = p->scanned = end + strlen(marks->value_end);
    return xml_to(p, XML_ARGUMENT);
}

/* Gives the sink the next @len bytes of a string. */
static void xml_put_text(struct reply_parser *p, size_t len)
{
    _cleanup_str_ struct str out = {};
    size_t n = 0;

    /* The text may end within a code point. Therefore each byte is escaped alone, so that the
     * joined pieces do not depend on how the text was divided into parts. */
    for (size_t i = 0; i < len && n == 0; i++) {
        const unsigned char c = (unsigned char)p->in.data[p->pos + i];
        int r;

        if (c == '"' || c == '\\')
            r = str_printf(&out, "\\%c", c);
        else if (c == '\n')
            r = str_puts(&out, "\\n");
        else
            r = c < 0x20 ? str_printf(&out, "\\u%04x", c) : str_putc(&out, (char)c);
        n = r < 0;
    }
    if (n)
        parser_fail(p, -ENOMEM);
    else
        parser_arguments(p, out.data, out.len);
    p->pos += len;
}

static enum step xml_text(struct reply_parser *p)
{
    const struct call_marks *marks = xml_marks(p);
    size_t end = 0, len;
    const bool whole = xml_find(p, marks->value_end, &end) == STEP_DONE;

    if (!whole)
        end = p->scanned;
    len = end - p->pos;
    len -= marks->trims && len && p->in.data[end - 1] == '\n';
    xml_put_text(p, len);
    if (!whole && !(p->ended && !p->is_cut))
        return STEP_MORE;
    xml_put(p, "\"");
    p->pos = p->scanned = whole ? end + strlen(marks->value_end) : p->in.len;
    return xml_to(p, XML_ARGUMENT);
}

enum step call_xml_step(struct reply_parser *p)
{
    switch (p->step) {
    case XML_OPEN:
        return xml_open(p);
    case XML_CALL:
        return xml_call(p);
    case XML_NAME:
        return xml_name(p);
    case XML_ARGUMENT:
        return xml_argument(p);
    case XML_KEY:
        return xml_key(p);
    case XML_VALUE_OPEN:
        return xml_value_open(p);
    case XML_VALUE:
        return xml_value(p);
    default:
        return xml_text(p);
    }
}
