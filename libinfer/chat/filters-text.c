/* SPDX-License-Identifier: Apache-2.0 */
/* Defines filters that return text. */
#include <string.h>

#include "chat/pystr.h"
#include "chat/wordwrap.h"

#define FILTER(name)                                                                               \
    static struct value name(struct jinja *j UNUSED, struct value self, struct value *a UNUSED,    \
                             const struct args *args UNUSED)

FILTER(f_upper)
{
    return text_to_case(j, val_soft_str(j, self), CASE_UPPER);
}

FILTER(f_lower)
{
    return text_to_case(j, val_soft_str(j, self), CASE_LOWER);
}

FILTER(f_capitalize)
{
    return text_to_case(j, val_soft_str(j, self), CASE_CAPITAL);
}

/* Capitalizes words. Unlike in str.title(), words begin after spaces, hyphens and opening
 * brackets. */
FILTER(f_title)
{
    const struct value s = val_soft_str(j, self);
    const char *start = s.u.s->data, *p = start, *end = p + s.u.s->len;
    struct jbuf b = {0};

    jinja_chars(j, s.u.s->len);
    while (p < end) {
        const char *at = p, *next, *q;
        const uint32_t first = u8_next(&p);
        const bool sep =
            (first < 0x80 && first && strchr("-({[<", (int)first)) || cp_is_space(first);
        struct value v;

        for (next = q = p; next < end; next = q) {
            const uint32_t cp = u8_next(&q);
            const bool is_sep = (cp < 0x80 && cp && strchr("-({[<", (int)cp)) || cp_is_space(cp);

            if (is_sep != sep)
                break;
        }
        v = text_to_case(j, val_sub(j, s, (size_t)(at - start), (size_t)(p - start)), CASE_UPPER);
        jbuf_add(j, &b, v.u.s->data, v.u.s->len);
        v = text_to_case(j, val_sub(j, s, (size_t)(p - start), (size_t)(next - start)), CASE_LOWER);
        jbuf_add(j, &b, v.u.s->data, v.u.s->len);
        p = next;
    }
    return jbuf_value(j, &b);
}

FILTER(f_trim)
{
    return text_strip(j, val_soft_str(j, self), a[0], STRIP_BOTH);
}

FILTER(f_string)
{
    return val_soft_str(j, self);
}

FILTER(f_center)
{
    return text_center(j, val_soft_str(j, self), arg_int(j, a[0], 80), ' ');
}

FILTER(f_replace)
{
    const int64_t count = a[2].kind == V_NONE ? -1 : arg_int(j, a[2], -1);

    return text_replace(j, val_to_str(j, self), val_to_str(j, a[0]).u.s, val_to_str(j, a[1]).u.s,
                        count);
}

FILTER(f_format)
{
    struct value v;

    if (args->n && args->kw && args->kw->n)
        jinja_raise(j, EPROTO, "can't handle positional and keyword arguments at the same time");
    if (args->kw && args->kw->n)
        return format_percent(j, val_soft_str(j, self),
                              (struct value){.kind = V_DICT, .u.d = args->kw});
    v = val_tuple(j, args->n);
    if (args->n)
        memcpy(v.u.l->v, args->v, args->n * sizeof(v));
    return format_percent(j, val_soft_str(j, self), v);
}

FILTER(f_indent)
{
    const bool first = arg_true(j, a[1], false), blank = arg_true(j, a[2], false);
    struct value lines, v;
    struct jbuf b = {0};
    struct jstr *by;

    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    arg_str(j, self);
    if (a[0].kind == V_STR)
        by = a[0].u.s;
    else
        by = text_pad(j, val_cstr(j, ""), arg_int(j, a[0], 4), 0, ' ').u.s;
    if (self.flag & STR_MARKUP && a[0].kind == V_STR && !a[0].flag)
        by = html_escape(j, a[0]).u.s;
    lines = text_lines(j, val_concat(j, val_markup(self, false), val_cstr(j, "\n")), false);
    if (first)
        jbuf_add(j, &b, by->data, by->len);
    for (size_t i = 0; i < lines.u.l->n; i++) {
        const struct jstr *line = lines.u.l->v[i].u.s;

        if (i) {
            jbuf_putc(j, &b, '\n');
            if (blank || line->len)
                jbuf_add(j, &b, by->data, by->len);
        }
        jbuf_add(j, &b, line->data, line->len);
    }
    v = jbuf_value(j, &b);
    v.flag = self.flag;
    return v;
}

FILTER(f_truncate)
{
    const int64_t length = arg_int(j, a[0], 255);
    const bool kill = arg_true(j, a[1], false);
    const struct value end = a[2].kind == V_MISSING ? val_cstr(j, "...") : a[2];
    const int64_t leeway = a[3].kind == V_MISSING || a[3].kind == V_NONE ? 5 : arg_int(j, a[3], 5);
    const int64_t n_end = val_len(j, end), n = val_len(j, self);
    struct value s, parts;

    if (n_end < 0 || n < 0)
        raise_type(j, "object of type '%s' has no len()", val_type(n < 0 ? self : end));
    if (length < n_end || leeway < 0)
        jinja_raise(j, EPROTO, "AssertionError: the length of truncate is too small");
    if (n <= length + leeway)
        return self;
    s = op_slice(j, self, NONE, val_int(length - n_end), NONE);
    arg_str(j, s);
    arg_str(j, end);
    if (!kill) {
        parts = text_split(j, s, val_cstr(j, " "), 1, true);
        s = parts.u.l->v[0];
    }
    return op_binary(j, OP_ADD, s, end);
}

FILTER(f_wordcount)
{
    const struct jstr *s = val_soft_str(j, self).u.s;
    const char *p = s->data, *end = p + s->len;
    bool in_word = false;
    int64_t n = 0;

    jinja_chars(j, s->len);
    while (p < end) {
        const uint32_t cp = u8_next(&p);
        const bool word = cp == '_' || cp_is_alnum(cp);

        n += word && !in_word;
        in_word = word;
    }
    return val_int(n);
}

FILTER(f_wordwrap)
{
    const int64_t width = arg_int(j, a[0], 79);
    const bool break_long = arg_true(j, a[1], true), hyphens = arg_true(j, a[3], true);
    struct value lines, wrap = a[2], part;
    struct jbuf b = {0};

    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    arg_str(j, self);
    if (wrap.kind == V_MISSING || wrap.kind == V_NONE)
        wrap = val_cstr(j, "\n");
    arg_str(j, wrap);
    lines = text_lines(j, self, false);
    for (size_t i = 0; i < lines.u.l->n; i++) {
        if (i)
            jbuf_add(j, &b, wrap.u.s->data, wrap.u.s->len);
        part = wordwrap(j, lines.u.l->v[i].u.s, width, break_long, hyphens);
        for (size_t k = 0; k < part.u.l->n; k++) {
            if (k)
                jbuf_add(j, &b, wrap.u.s->data, wrap.u.s->len);
            jbuf_add(j, &b, part.u.l->v[k].u.s->data, part.u.l->v[k].u.s->len);
        }
    }
    return jbuf_value(j, &b);
}

static struct value json_sep(struct jinja *j, struct value pair, size_t i)
{
    struct value v;

    if (!val_is_seq(pair) || pair.u.l->n != 2)
        raise_value(j, "separators must be two strings");
    v = pair.u.l->v[i];
    arg_str(j, v);
    return v;
}

/* Implements tojson as transformers does, which replaces jinja2's filter by json.dumps. */
FILTER(f_tojson)
{
    struct json_style style = {
        .ascii = arg_true(j, a[0], false),
        .pretty = a[1].kind != V_MISSING && a[1].kind != V_NONE,
        .sort = arg_true(j, a[3], false),
    };
    struct jbuf b = {0};

    if (style.pretty)
        style.indent = a[1].kind == V_STR
                           ? a[1].u.s
                           : text_pad(j, val_cstr(j, ""), arg_int(j, a[1], 0), 0, ' ').u.s;
    if (a[2].kind == V_MISSING || a[2].kind == V_NONE) {
        style.item_sep = val_cstr(j, style.pretty ? "," : ", ").u.s;
        style.key_sep = val_cstr(j, ": ").u.s;
    } else {
        style.item_sep = json_sep(j, a[2], 0).u.s;
        style.key_sep = json_sep(j, a[2], 1).u.s;
    }
    val_json(j, &b, self, &style);
    return jbuf_value(j, &b);
}

const struct builtin filters_text[] = {
    {"tojson", "ensure_ascii? indent? separators? sort_keys?", f_tojson},
    {"trim", "chars?", f_trim},
    {"string", "", f_string},
    {"upper", "", f_upper},
    {"lower", "", f_lower},
    {"capitalize", "", f_capitalize},
    {"title", "", f_title},
    {"replace", "old new count?", f_replace},
    {"indent", "width? first? blank?", f_indent},
    {"center", "width?", f_center},
    {"format", "*", f_format},
    {"truncate", "length? killwords? end? leeway?", f_truncate},
    {"wordcount", "", f_wordcount},
    {"wordwrap", "width? break_long_words? wrapstring? break_on_hyphens?", f_wordwrap},
    {0},
};
