/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements str.format and the format specification mini-language of Python 3. percent.c converts
 * the fields of the `%` operator to such specifications.
 */
#include "chat/strformat.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

static const char *parse_count(struct jinja *j, const char *p, const char *end, int *ret)
{
    int n = 0;

    while (p < end && *p >= '0' && *p <= '9') {
        n = n * 10 + (*p++ - '0');
        if (n > FORMAT_MAX_WIDTH)
            raise_value(j, "a width or precision is too large");
    }
    *ret = n;
    return p;
}

static struct format_spec parse_spec(struct jinja *j, const struct jstr *s)
{
    struct format_spec f = {.fill = ' ', .precision = -1};
    const char *p = s->data, *end = p + s->len, *q = p;

    if (p < end) {
        const uint32_t first = u8_next(&q);

        if (q < end && strchr("<>=^", *q) && *q) {
            f.fill = first;
            f.align = *q;
            f.filled = true;
            p = q + 1;
        } else if (strchr("<>=^", *p) && *p) {
            f.align = *p++;
        }
    }
    if (p < end && strchr("+- ", *p) && *p)
        f.sign = *p++;
    if (p < end && *p == 'z')
        raise_value(j, "the 'z' option is not supported");
    if (p < end && *p == '#') {
        f.alt = true;
        p++;
    }
    if (p < end && *p == '0') {
        if (!f.filled)
            f.fill = '0';
        if (!f.align)
            f.align = '=', f.zero = true;
        p++;
    }
    p = parse_count(j, p, end, &f.width);
    if (p < end && (*p == ',' || *p == '_'))
        f.group = *p++;
    if (p < end && *p == '.') {
        q = p + 1;
        p = parse_count(j, q, end, &f.precision);
        if (p == q)
            raise_value(j, "Format specifier missing precision");
    }
    if (p < end)
        f.type = *p++;
    if (p < end)
        raise_value(j, "Invalid format specifier");
    return f;
}

/* Pads @text, which has @n characters, to the width of the field. The alignment "=" pads between
 * @sign and @text. */
static void put_padded(struct jinja *j, struct jbuf *b, const struct format_spec *f, char align,
                       const char *sign, const char *text, size_t len, size_t n)
{
    const size_t n_sign = strlen(sign), have = n_sign + n;
    const size_t pad = (size_t)f->width > have ? (size_t)f->width - have : 0;
    const size_t before = align == '>' ? pad : align == '^' ? pad / 2 : 0;

    jbuf_fill(j, b, f->fill, before);
    jbuf_puts(j, b, sign);
    if (align == '=')
        jbuf_fill(j, b, f->fill, pad);
    jbuf_add(j, b, text, len);
    if (align != '=')
        jbuf_fill(j, b, f->fill, pad - before);
}

void format_str(struct jinja *j, struct jbuf *b, struct jstr *s, const struct format_spec *f)
{
    size_t n = jstr_count(j, s), len = s->len;

    if (f->sign || f->alt || f->group || f->align == '=' || (f->type && f->type != 's')) {
        /* A "0" before the width means the alignment "=" only for numbers. For strings the "0" is
         * only a fill character. */
        if (!(f->zero && !f->sign && !f->alt && !f->group && (!f->type || f->type == 's')))
            raise_value(j, "Invalid format specifier for a string");
    }
    if (f->precision >= 0 && (size_t)f->precision < n) {
        n = (size_t)f->precision;
        len = jstr_offset(j, s, n);
    }
    put_padded(j, b, f, f->align && f->align != '=' ? f->align : '<', "", s->data, len, n);
}

/* Copies digits with a separator after every @every digits, counted from the right, and with
 * leading zeros up to @width. Returns the length. */
static size_t group_digits(char *out, size_t max, const char *digits, size_t n, char sep,
                           size_t every, size_t width)
{
    size_t len = 0, k = 0;

    /* Write backwards from the end of the buffer, then move the text to its beginning. */
    while (k < n || len < width) {
        if (k && k % every == 0) {
            if (len + 1 >= max)
                break;
            out[max - ++len] = sep;
        }
        if (len + 1 >= max)
            break;
        out[max - ++len] = k < n ? digits[n - 1 - k] : '0';
        k++;
    }
    memmove(out, out + max - len, len);
    return len;
}

/* Groups and pads a number. @digits is its text without the sign: digits, and a rest such as
 * ".5e+10" or "%". */
static void put_number(struct jinja *j, struct jbuf *b, const struct format_spec *f, bool negative,
                       const char *prefix, const char *digits, size_t every)
{
    const size_t n_whole = strspn(digits, "0123456789abcdefABCDEF");
    const char align = f->align ? f->align : '>';
    struct jbuf text = {0};
    char sign[8];

    snprintf(sign, sizeof(sign), "%s%s",
             negative         ? "-"
             : f->sign == '+' ? "+"
             : f->sign == ' ' ? " "
                              : "",
             prefix);
    if (f->group && n_whole) {
        const size_t max = n_whole * 2 + (size_t)f->width + 8;
        char *out = jinja_alloc(j, max);
        const size_t rest = strlen(sign) + strlen(digits) - n_whole;
        const bool zeros = f->fill == '0' && align == '=';
        const size_t width = zeros && (size_t)f->width > rest ? (size_t)f->width - rest : 0;

        jbuf_add(j, &text, out, group_digits(out, max, digits, n_whole, f->group, every, width));
        jbuf_puts(j, &text, digits + n_whole);
    } else {
        jbuf_puts(j, &text, digits);
    }
    put_padded(j, b, f, align, sign, text.data, text.used, text.used);
}

void format_int(struct jinja *j, struct jbuf *b, int64_t i, const struct format_spec *f)
{
    const uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const char *prefix = "";
    char digits[80];
    size_t n = 0, every = 3;

    if (f->precision >= 0)
        raise_value(j, "Precision not allowed in integer format specifier");
    switch (f->type) {
    case 0:
    case 'd':
    case 'n':
        snprintf(digits, sizeof(digits), "%" PRIu64, u);
        break;
    case 'x':
    case 'X':
        snprintf(digits, sizeof(digits), f->type == 'x' ? "%" PRIx64 : "%" PRIX64, u);
        prefix = !f->alt ? "" : f->type == 'x' ? "0x" : "0X";
        every = 4;
        break;
    case 'o':
        snprintf(digits, sizeof(digits), "%" PRIo64, u);
        prefix = f->alt ? "0o" : "";
        every = 4;
        break;
    case 'b':
        for (int k = 63; k >= 0; k--)
            if (u >> k || k == 0)
                digits[n++] = (char)('0' + (u >> k & 1));
        digits[n] = 0;
        prefix = f->alt ? "0b" : "";
        every = 4;
        break;
    case 'c':
        if (f->sign || f->alt)
            raise_value(j, "Sign not allowed with integer format specifier 'c'");
        n = i >= 0 && i < 0x110000 ? utf8_encode((uint32_t)i, digits) : 0;
        if (!n)
            jinja_raise(j, EPROTO, "OverflowError: %%c arg not in range(0x110000)");
        put_padded(j, b, f, f->align && f->align != '=' ? f->align : '<', "", digits, n, 1);
        return;
    default:
        raise_value(j, "Unknown format code '%c' for an integer", f->type);
    }
    if (f->group == ',' && every == 4)
        raise_value(j, "Cannot specify ',' with '%c'.", f->type);
    put_number(j, b, f, i < 0, prefix, digits, every);
}

/* Writes a float for a field with a precision but without a type. The result is that of the type g,
 * with two differences: without an exponent there is always a digit after the point, and the
 * exponent is used from 10^(precision - 1) on instead of 10^precision. */
static void general_digits(char *out, size_t max, double a, int prec)
{
    char *e;
    int exp;

    snprintf(out, max, "%.*e", prec - 1, a);
    e = strchr(out, 'e');
    exp = atoi(e + 1);
    if (exp < -4 || exp >= prec - 1) {
        char *q = e;

        if (memchr(out, '.', (size_t)(e - out))) {
            while (q[-1] == '0')
                q--;
            q -= q[-1] == '.';
        }
        memmove(q, e, strlen(e) + 1);
        return;
    }
    snprintf(out, max, "%.*g", prec, a);
    if (!strchr(out, '.'))
        strcat(out, ".0");
}

/* Returns the text of |a| for the types e, f, g, %, n and for no type. */
static char *float_digits(struct jinja *j, double a, const struct format_spec *f)
{
    const size_t max = 400 + (size_t)MAX(f->precision, 0);
    char *out = jinja_alloc(j, max), repr[32];
    const int prec = f->precision < 0 ? 6 : f->precision;
    const char type = f->type == 'n' ? 'g' : f->type;

    jinja_charge(j, COST_FLOAT + (uint64_t)MAX(f->precision, 0) * COST_STEP);
    if (isnan(a) || isinf(a)) {
        snprintf(out, max, isnan(a) ? "nan" : "inf");
    } else if (type == 0 && f->precision < 0) {
        float_repr(a, repr);
        snprintf(out, max, "%s", repr);
    } else if (type == 0) {
        general_digits(out, max, a, MAX(prec, 1));
    } else if (type == 'e' || type == 'E') {
        snprintf(out, max, f->alt ? "%#.*e" : "%.*e", prec, a);
    } else if (type == 'g' || type == 'G') {
        snprintf(out, max, f->alt ? "%#.*g" : "%.*g", MAX(prec, 1), a);
    } else {
        snprintf(out, max, f->alt ? "%#.*f%s" : "%.*f%s", prec, type == '%' ? a * 100 : a,
                 type == '%' ? "%" : "");
    }
    for (char *p = out; (f->type == 'E' || f->type == 'G' || f->type == 'F') && *p; p++)
        if (*p >= 'a' && *p <= 'z')
            *p -= 32;
    return out;
}

void format_float(struct jinja *j, struct jbuf *b, double a, const struct format_spec *f)
{
    const bool negative = signbit(a) && !isnan(a);
    char *digits;

    if (f->type && !strchr("eEfFgGn%", f->type))
        raise_value(j, "Unknown format code '%c' for a float", f->type);
    digits = float_digits(j, negative ? -a : a, f);
    put_number(j, b, f, negative, "", digits, 3);
}

static void format_value(struct jinja *j, struct jbuf *b, struct value v, const struct jstr *spec)
{
    struct format_spec f;

    if (spec->len == 0) {
        val_print(j, b, v);
        return;
    }
    if (v.kind != V_STR && !val_is_num(v))
        raise_type(j, "unsupported format string passed to %s.__format__", val_type(v));
    f = parse_spec(j, spec);
    if (v.kind == V_STR)
        format_str(j, b, v.u.s, &f);
    else if (v.kind == V_FLOAT || (f.type && strchr("eEfFgG%", f.type)))
        format_float(j, b, val_as_float(v), &f);
    else
        format_int(j, b, val_as_int(v), &f);
}

/* ---- str.format ---- */

struct braces {
    struct jinja *j;
    const struct args *args;
    size_t next;
    bool automatic, manual, markup;
};

static void put_fields(struct braces *f, struct jbuf *b, const char *p, const char *end,
                       unsigned depth);

static bool all_digits(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] < '0' || p[i] > '9')
            return false;
    return true;
}

/* Parses digits. Large numbers are clamped; no argument has such an index. */
static size_t small_number(const char *p, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n = MIN(n * 10 + (size_t)(p[i] - '0'), (size_t)1 << 40);
    return n;
}

static struct value field_start(struct braces *f, const char *name, size_t len)
{
    const struct jstr key = {.data = name, .len = len, .n = SIZE_MAX};
    const struct value *v;
    size_t i = 0;

    if (len == 0) {
        if (f->manual)
            raise_value(f->j, "cannot switch from manual field specification to automatic");
        f->automatic = true;
        i = f->next++;
    } else if (all_digits(name, len)) {
        if (f->automatic)
            raise_value(f->j, "cannot switch from automatic field numbering to manual");
        f->manual = true;
        i = small_number(name, len);
    } else {
        v = f->args->kw ? jdict_get_str(f->j, f->args->kw, &key) : NULL;
        if (!v)
            jinja_raise(f->j, EPROTO, "KeyError: '%.*s'", (int)MIN(len, (size_t)80), name);
        return *v;
    }
    if (i >= f->args->n)
        jinja_raise(f->j, EPROTO, "IndexError: Replacement index %zu out of range", i);
    return f->args->v[i];
}

/* Finds the value of a field: a name, then any number of .attr and [item]. */
static struct value field_value(struct braces *f, const char *p, const char *end)
{
    const char *q = p;
    struct value v;

    while (q < end && *q != '.' && *q != '[')
        q++;
    v = field_start(f, p, (size_t)(q - p));
    while (q < end) {
        const char c = *q++, *start = q;
        struct value key;

        if (c != '.' && c != '[')
            raise_value(f->j, "Only '.' or '[' may follow ']' in format field specifier");
        while (q < end && (c == '.' ? *q != '.' && *q != '[' : *q != ']'))
            q++;
        if (q == start || (c == '[' && q == end))
            raise_value(f->j, "Empty attribute in format string");
        key = val_str(f->j, start, (size_t)(q - start));
        if (c == '.') {
            v = op_getattr(f->j, v, key.u.s);
            continue;
        }
        if (all_digits(start, (size_t)(q - start)))
            key = val_int((int64_t)small_number(start, (size_t)(q - start)));
        v = op_getitem(f->j, v, key);
        q++;
    }
    return v;
}

static void put_field(struct braces *f, struct jbuf *b, const char *p, const char *end,
                      unsigned depth)
{
    const char *name_end = p, *spec = end;
    struct jbuf spec_text = {0}, text = {0};
    char conversion = 0;
    struct value v, s;
    int brackets = 0;

    for (; name_end < end; name_end++) {
        brackets += *name_end == '[';
        brackets -= *name_end == ']' && brackets > 0;
        if (!brackets && (*name_end == '!' || *name_end == ':'))
            break;
        if (*name_end == '{' || *name_end == '}')
            raise_value(f->j, "unexpected '%c' in field name", *name_end);
    }
    v = field_value(f, p, name_end);
    spec = name_end;
    if (spec < end && *spec == '!') {
        if (spec + 1 >= end || (spec + 2 < end && spec[2] != ':'))
            raise_value(f->j, "expected ':' after conversion specifier");
        conversion = spec[1];
        spec += 2;
    }
    if (spec < end)
        put_fields(f, &spec_text, spec + 1, end, depth + 1);
    if (conversion == 'r' || conversion == 'a') {
        val_repr(f->j, &text, v);
        v = jbuf_value(f->j, &text);
    } else if (conversion == 's') {
        v = val_to_str(f->j, v);
    } else if (conversion) {
        raise_value(f->j, "Unknown conversion specifier '%c'", conversion);
    }
    s = jbuf_value(f->j, &spec_text);
    if (!f->markup || depth) {
        format_value(f->j, b, v, s.u.s);
        return;
    }
    if (v.kind == V_STR && v.flag & STR_MARKUP && s.u.s->len)
        raise_value(f->j, "Unsupported format specification for Markup.");
    format_value(f->j, &text, v, s.u.s);
    s = jbuf_value(f->j, &text);
    s = html_escape(f->j, val_markup(s, v.kind == V_STR && v.flag & STR_MARKUP));
    jbuf_add(f->j, b, s.u.s->data, s.u.s->len);
}

static void put_fields(struct braces *f, struct jbuf *b, const char *p, const char *end,
                       unsigned depth)
{
    if (depth > 1)
        raise_value(f->j, "Max string recursion exceeded");
    while (p < end) {
        const char c = *p, *q = p + 1;
        unsigned nested = 1;

        if (c != '{' && c != '}') {
            jbuf_putc(f->j, b, c);
            p++;
            continue;
        }
        if (q < end && *q == c && depth == 0) {
            jbuf_putc(f->j, b, c);
            p += 2;
            continue;
        }
        if (c == '}')
            raise_value(f->j, "Single '}' encountered in format string");
        for (; q < end; q++) {
            nested += *q == '{';
            nested -= *q == '}';
            if (nested == 0)
                break;
        }
        if (q >= end)
            raise_value(f->j, "a '{' is not closed in a format string");
        put_field(f, b, p + 1, q, depth);
        p = q + 1;
    }
}

struct value format_braces(struct jinja *j, struct value format, const struct args *args)
{
    struct braces f = {.j = j, .args = args, .markup = format.flag & STR_MARKUP};
    struct jbuf b = {0};
    const struct jstr *s = format.u.s;
    struct value v;

    jinja_chars(j, 3 * s->len);
    put_fields(&f, &b, s->data, s->data + s->len, 0);
    v = jbuf_value(j, &b);
    v.flag = format.flag;
    return v;
}
