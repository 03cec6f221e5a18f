/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes str() and repr() of values as Python does: chooses quotes, escapes characters that are not
 * printable, and writes the shortest decimal that reads back as the same float.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/jinja.h"

size_t float_repr(double f, char out[32])
{
    char digits[32];
    int exp, n, prec = 1;
    size_t len = 0;

    if (isnan(f))
        return (size_t)snprintf(out, 32, "nan");
    if (isinf(f))
        return (size_t)snprintf(out, 32, f < 0 ? "-inf" : "inf");
    /* Python prints the fewest digits that read back as the same float. The loop tries 1 digit,
     * then 2, and so on. 17 digits are always enough. */
    for (; prec < 17; prec++) {
        snprintf(digits, sizeof(digits), "%.*e", prec - 1, f);
        if (strtod(digits, NULL) == f)
            break;
    }
    snprintf(digits, sizeof(digits), "%.*e", prec - 1, f);
    exp = atoi(strchr(digits, 'e') + 1);
    if (exp < -4 || exp >= 16) {
        char *e = strchr(digits, 'e');

        return (size_t)snprintf(out, 32, "%.*se%c%02d", (int)(e - digits), digits,
                                exp < 0 ? '-' : '+', abs(exp));
    }
    n = snprintf(out, 32, "%.*f", MAX(prec - 1 - exp, 0), f);
    len = (size_t)n;
    if (!memchr(out, '.', len)) {
        memcpy(out + len, ".0", 3);
        len += 2;
    }
    return len;
}

static void repr_str(struct jinja *j, struct jbuf *b, const struct jstr *s)
{
    const bool single = memchr(s->data, '\'', s->len) && !memchr(s->data, '"', s->len);
    const char quote = single ? '"' : '\'';
    const char *p = s->data, *end = p + s->len;
    char esc[16];

    jinja_chars(j, s->len);
    jbuf_putc(j, b, quote);
    while (p < end) {
        const uint32_t cp = u8_next(&p);

        if (cp == (unsigned char)quote || cp == '\\') {
            jbuf_putc(j, b, '\\');
            jbuf_putc(j, b, (char)cp);
        } else if (cp == '\n' || cp == '\r' || cp == '\t') {
            jbuf_puts(j, b, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        } else if (cp_is_printable(cp)) {
            jbuf_cp(j, b, cp);
        } else {
            jinja_step(j, 1);
            snprintf(esc, sizeof(esc),
                     cp < 0x100     ? "\\x%02" PRIx32
                     : cp < 0x10000 ? "\\u%04" PRIx32
                                    : "\\U%08" PRIx32,
                     cp);
            jbuf_puts(j, b, esc);
        }
    }
    jbuf_putc(j, b, quote);
}

static void repr_items(struct jinja *j, struct jbuf *b, const struct jlist *l, bool tuple)
{
    jbuf_putc(j, b, tuple ? '(' : '[');
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            jbuf_puts(j, b, ", ");
        val_repr(j, b, l->v[i]);
    }
    jbuf_puts(j, b, !tuple ? "]" : l->n == 1 ? ",)" : ")");
}

static void repr_dict(struct jinja *j, struct jbuf *b, const struct jdict *d)
{
    jbuf_putc(j, b, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        if (i)
            jbuf_puts(j, b, ", ");
        val_repr(j, b, d->e[i].key);
        jbuf_puts(j, b, ": ");
        val_repr(j, b, d->e[i].val);
    }
    jbuf_putc(j, b, '}');
}

static void repr_range(struct jinja *j, struct jbuf *b, const struct jrange *r)
{
    char text[96];

    snprintf(text, sizeof(text),
             r->step == 1 ? "range(%" PRId64 ", %" PRId64 ")"
                          : "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
             r->start, r->stop, r->step);
    jbuf_puts(j, b, text);
}

static void repr_object(struct jinja *j, struct jbuf *b, struct value v)
{
    char text[64];
    const char *name;
    size_t len;

    switch (v.kind) {
    case V_UNDEF:
        jbuf_puts(j, b, "Undefined");
        return;
    case V_VIEW:
        jbuf_puts(j, b, val_type(v));
        jbuf_putc(j, b, '(');
        repr_items(j, b, val_to_list(j, v).u.l, false);
        jbuf_putc(j, b, ')');
        return;
    case V_NS:
        jbuf_puts(j, b, "<Namespace ");
        repr_dict(j, b, v.u.d);
        jbuf_putc(j, b, '>');
        return;
    case V_MACRO:
        name = macro_name(v.u.macro, &len);
        jbuf_puts(j, b, "<Macro ");
        if (name)
            repr_str(j, b, &(struct jstr){.data = name, .len = len, .n = SIZE_MAX});
        else
            jbuf_puts(j, b, "anonymous");
        jbuf_putc(j, b, '>');
        return;
    case V_LOOP:
        snprintf(text, sizeof(text), "<LoopContext %" PRId64 "/%" PRId64 ">", loop_index(v.u.loop),
                 loop_length(j, v.u.loop));
        jbuf_puts(j, b, text);
        return;
    default:
        jbuf_puts(j, b, "<");
        jbuf_puts(j, b, val_type(v));
        jbuf_puts(j, b, " object>");
    }
}

void val_repr(struct jinja *j, struct jbuf *b, struct value v)
{
    char text[32];

    jinja_step(j, 1);
    jinja_enter(j);
    switch (v.kind) {
    case V_NONE:
        jbuf_puts(j, b, "None");
        break;
    case V_BOOL:
        jbuf_puts(j, b, v.u.b ? "True" : "False");
        break;
    case V_INT:
        jbuf_add(j, b, text, (size_t)snprintf(text, sizeof(text), "%" PRId64, v.u.i));
        break;
    case V_FLOAT:
        jinja_charge(j, COST_FLOAT);
        jbuf_add(j, b, text, float_repr(v.u.f, text));
        break;
    case V_STR:
        if (v.flag & STR_MARKUP)
            jbuf_puts(j, b, "Markup(");
        repr_str(j, b, v.u.s);
        if (v.flag & STR_MARKUP)
            jbuf_putc(j, b, ')');
        break;
    case V_LIST:
    case V_TUPLE:
        repr_items(j, b, v.u.l, v.kind == V_TUPLE);
        break;
    case V_DICT:
        repr_dict(j, b, v.u.d);
        break;
    case V_RANGE:
        repr_range(j, b, v.u.range);
        break;
    default:
        repr_object(j, b, v);
        break;
    }
    jinja_leave(j);
}

void val_print(struct jinja *j, struct jbuf *b, struct value v)
{
    if (v.kind == V_STR)
        jbuf_add(j, b, v.u.s->data, v.u.s->len);
    else if (v.kind == V_BLOCK)
        jbuf_puts(j, b, "<BlockReference object>");
    else if (v.kind != V_UNDEF)
        val_repr(j, b, v);
}

struct value val_to_str(struct jinja *j, struct value v)
{
    struct jbuf b = {0};

    if (v.kind == V_STR)
        return val_markup(v, false);
    val_print(j, &b, v);
    return jbuf_value(j, &b);
}

struct value val_soft_str(struct jinja *j, struct value v)
{
    return v.kind == V_STR ? v : val_to_str(j, v);
}
