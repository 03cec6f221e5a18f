/* SPDX-License-Identifier: Apache-2.0 */
/* Implements the operator `%` of strings and the filter |format: printf-style fields whose values
 * come from a tuple or a mapping. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/strformat.h"

struct percent {
    struct jinja *j;
    struct value arg;
    size_t next;
    bool tuple, used, markup;
};

struct field {
    bool left, zero, alt, mapped;
    char sign, type;
    int width, precision;
    struct value v;
};

static struct value next_arg(struct percent *f)
{
    if (f->tuple) {
        if (f->next < f->arg.u.l->n)
            return f->arg.u.l->v[f->next++];
    } else if (!f->used) {
        f->used = true;
        return f->arg;
    }
    raise_type(f->j, "not enough arguments for format string");
}

static const char *parse_number(struct percent *f, const char *p, const char *end, int *ret)
{
    int64_t n = 0;

    if (p < end && *p == '*') {
        const struct value v = next_arg(f);

        if (!val_is_int(v))
            raise_type(f->j, "* wants int");
        n = val_as_int(v);
        p++;
    } else {
        while (p < end && *p >= '0' && *p <= '9' && n <= FORMAT_MAX_WIDTH)
            n = n * 10 + (*p++ - '0');
    }
    if (n > FORMAT_MAX_WIDTH || n < -FORMAT_MAX_WIDTH)
        raise_value(f->j, "a width or precision is too large");
    *ret = (int)n;
    return p;
}

/* Parses "(name)" after the percent sign and looks the name up. */
static const char *parse_key(struct percent *f, const char *p, const char *end, struct field *field)
{
    const char *start = ++p;
    const struct value *v;
    struct value key;
    int depth = 1;

    for (; p < end; p++) {
        depth += *p == '(';
        depth -= *p == ')';
        if (depth == 0)
            break;
    }
    if (p >= end)
        raise_value(f->j, "incomplete format key");
    if (f->arg.kind != V_DICT)
        raise_type(f->j, "format requires a mapping");
    key = val_str(f->j, start, (size_t)(p - start));
    v = jdict_get(f->j, f->arg.u.d, key);
    if (!v)
        jinja_raise(f->j, EPROTO, "KeyError: '%.*s'", (int)MIN(p - start, 80), start);
    f->used = true;
    field->mapped = true;
    field->v = *v;
    return p + 1;
}

static const char *parse_field(struct percent *f, const char *p, const char *end,
                               struct field *field)
{
    *field = (struct field){.precision = -1};
    if (p < end && *p == '(')
        p = parse_key(f, p, end, field);
    for (; p < end && *p && strchr("-+ #0", *p); p++) {
        if (*p == '-')
            field->left = true;
        else if (*p == '0')
            field->zero = true;
        else if (*p == '#')
            field->alt = true;
        else if (*p == '+' || !field->sign)
            field->sign = *p;
    }
    p = parse_number(f, p, end, &field->width);
    if (field->width < 0) {
        field->left = true;
        field->width = -field->width;
    }
    if (p < end && *p == '.') {
        p = parse_number(f, p + 1, end, &field->precision);
        field->precision = MAX(field->precision, 0);
    }
    if (p < end && (*p == 'h' || *p == 'l' || *p == 'L'))
        p++;
    if (p >= end)
        raise_value(f->j, "incomplete format");
    field->type = *p++;
    if (field->type != '%' && !field->mapped)
        field->v = next_arg(f);
    return p;
}

static struct format_spec spec_of(const struct field *field, bool number)
{
    return (struct format_spec){
        .fill = number && field->zero && !field->left ? '0' : ' ',
        .align = field->left             ? '<'
                 : number && field->zero ? '='
                                         : '>',
        .sign = number ? field->sign : 0,
        .width = field->width,
        .precision = -1,
    };
}

static void put_text(struct percent *f, struct jbuf *b, const struct field *field)
{
    struct format_spec spec = spec_of(field, false);
    struct jbuf text = {0};
    struct value s;

    if (field->type == 's')
        val_print(f->j, &text, field->v);
    else
        val_repr(f->j, &text, field->v);
    s = jbuf_value(f->j, &text);
    if (f->markup)
        s = html_escape(f->j, val_markup(s, field->v.kind == V_STR && field->v.flag & STR_MARKUP &&
                                                field->type == 's'));
    spec.precision = field->precision;
    format_str(f->j, b, s.u.s, &spec);
}

/* Writes an integer with at least field->precision digits, which the format mini-language cannot
 * express. */
static void put_precise(struct percent *f, struct jbuf *b, const struct field *field, int64_t i)
{
    struct format_spec spec = spec_of(field, true);
    struct jbuf digits = {0}, out = {0};
    const char c = field->type;
    const bool alt = field->alt && c != 'd';
    size_t n;

    spec.type = c;
    spec.width = 0;
    spec.sign = 0;
    spec.fill = ' ';
    spec.align = '>';
    format_int(f->j, &digits, i < 0 ? -i : i, &spec);
    n = digits.used;
    if (i < 0)
        jbuf_putc(f->j, &out, '-');
    else if (field->sign)
        jbuf_putc(f->j, &out, field->sign);
    if (alt) {
        jbuf_putc(f->j, &out, '0');
        jbuf_putc(f->j, &out, c);
    }
    if (field->precision > 0 && (size_t)field->precision > n)
        jbuf_fill(f->j, &out, '0', (size_t)field->precision - n);
    if (field->zero && !field->left && (size_t)field->width > out.used + n)
        jbuf_fill(f->j, &out, '0', (size_t)field->width - out.used - n);
    jbuf_add(f->j, &out, digits.data, n);
    spec = spec_of(field, false);
    format_str(f->j, b, jbuf_value(f->j, &out).u.s, &spec);
}

static void put_int(struct percent *f, struct jbuf *b, struct field *field)
{
    int64_t i;

    if (field->v.kind == V_UNDEF)
        jinja_raise_undef(f->j, field->v);
    if (!val_is_num(field->v) || (field->v.kind == V_FLOAT && !strchr("diu", field->type)))
        raise_type(f->j, "%%%c format: a number is required, not %s", field->type,
                   val_type(field->v));
    if (field->v.kind == V_FLOAT) {
        if (!(field->v.u.f > -0x1p63 && field->v.u.f < 0x1p63))
            raise_value(f->j, "cannot convert this float to an integer");
        i = (int64_t)field->v.u.f;
    } else {
        i = val_as_int(field->v);
    }
    if (i == INT64_MIN)
        jinja_raise(f->j, EPROTO, "OverflowError: an integer is too large");
    if (field->type == 'i' || field->type == 'u')
        field->type = 'd';
    put_precise(f, b, field, i);
}

static void put_float(struct percent *f, struct jbuf *b, const struct field *field)
{
    struct format_spec spec = spec_of(field, true);

    if (field->v.kind == V_UNDEF)
        jinja_raise_undef(f->j, field->v);
    if (!val_is_num(field->v))
        raise_type(f->j, "must be real number, not %s", val_type(field->v));
    spec.type = field->type;
    spec.precision = field->precision;
    spec.alt = field->alt;
    format_float(f->j, b, val_as_float(field->v), &spec);
}

static void put_char(struct percent *f, struct jbuf *b, const struct field *field)
{
    struct format_spec spec = spec_of(field, false);
    struct jbuf text = {0};

    if (field->v.kind == V_STR && jstr_count(f->j, field->v.u.s) == 1) {
        format_str(f->j, b, field->v.u.s, &spec);
        return;
    }
    if (!val_is_int(field->v))
        raise_type(f->j, "%%c requires int or char");
    if (val_as_int(field->v) < 0 || val_as_int(field->v) > 0x10ffff)
        jinja_raise(f->j, EPROTO, "OverflowError: %%c arg not in range(0x110000)");
    jbuf_cp(f->j, &text, (uint32_t)val_as_int(field->v));
    format_str(f->j, b, jbuf_value(f->j, &text).u.s, &spec);
}

static void put_field(struct percent *f, struct jbuf *b, struct field *field)
{
    switch (field->type) {
    case '%':
        jbuf_putc(f->j, b, '%');
        return;
    case 's':
    case 'r':
    case 'a':
        put_text(f, b, field);
        return;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        put_int(f, b, field);
        return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        put_float(f, b, field);
        return;
    case 'c':
        put_char(f, b, field);
        return;
    default:
        raise_value(f->j, "unsupported format character");
    }
}

struct value format_percent(struct jinja *j, struct value format, struct value arg)
{
    struct percent f = {
        .j = j, .arg = arg, .tuple = arg.kind == V_TUPLE, .markup = format.flag & STR_MARKUP};
    const char *p = format.u.s->data, *end = p + format.u.s->len;
    struct jbuf b = {0};
    struct field field;
    struct value v;

    jinja_chars(j, format.u.s->len);
    while (p < end) {
        const char *q = memchr(p, '%', (size_t)(end - p));

        if (!q)
            q = end;
        jbuf_add(j, &b, p, (size_t)(q - p));
        if (q == end)
            break;
        jinja_step(j, 1);
        p = parse_field(&f, q + 1, end, &field);
        put_field(&f, &b, &field);
    }
    /* A mapping may have items that are not used. Arguments of a tuple must all be used. */
    if (f.tuple ? f.next < arg.u.l->n
                : !f.used && arg.kind != V_DICT && arg.kind != V_LIST && arg.kind != V_RANGE &&
                      arg.kind != V_UNDEF)
        raise_type(j, "not all arguments converted during string formatting");
    v = jbuf_value(j, &b);
    v.flag = format.flag;
    return v;
}
