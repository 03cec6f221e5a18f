/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON text as Python's json.dumps does. As in Python, values of types that JSON does not
 * have raise an error, but NaN and infinity are written as NaN and Infinity. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/jinja.h"

struct json_out {
    struct jinja *j;
    struct jbuf *b;
    const struct json_style *style;
};

static void put_escaped(struct json_out *o, uint32_t cp)
{
    char esc[16];

    jinja_step(o->j, 1);
    if (cp < 0x10000)
        snprintf(esc, sizeof(esc), "\\u%04" PRIx32, cp);
    else
        snprintf(esc, sizeof(esc), "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (cp >> 10),
                 0xdc00 + (cp & 0x3ff));
    jbuf_puts(o->j, o->b, esc);
}

static void put_string(struct json_out *o, const struct jstr *s)
{
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *p = s->data, *end = p + s->len, *plain = p;

    jinja_chars(o->j, s->len);
    jbuf_putc(o->j, o->b, '"');
    while (p < end) {
        const char *at = p;
        const uint32_t cp = u8_next(&p);
        const char *known = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;

        if (!known && cp >= 0x20 && (cp < 0x7f || !o->style->ascii))
            continue;
        jbuf_add(o->j, o->b, plain, (size_t)(at - plain));
        plain = p;
        if (known) {
            jbuf_putc(o->j, o->b, '\\');
            jbuf_putc(o->j, o->b, to[known - from]);
        } else {
            put_escaped(o, cp);
        }
    }
    jbuf_add(o->j, o->b, plain, (size_t)(end - plain));
    jbuf_putc(o->j, o->b, '"');
}

static void put_scalar(struct json_out *o, struct value v)
{
    switch (v.kind) {
    case V_NONE:
        jbuf_puts(o->j, o->b, "null");
        return;
    case V_BOOL:
        jbuf_puts(o->j, o->b, v.u.b ? "true" : "false");
        return;
    case V_FLOAT:
        if (isnan(v.u.f) || isinf(v.u.f))
            jbuf_puts(o->j, o->b, isnan(v.u.f) ? "NaN" : v.u.f < 0 ? "-Infinity" : "Infinity");
        else
            val_repr(o->j, o->b, v);
        return;
    default:
        val_repr(o->j, o->b, v);
    }
}

static void put_break(struct json_out *o, unsigned level)
{
    if (!o->style->pretty)
        return;
    jbuf_putc(o->j, o->b, '\n');
    for (unsigned i = 0; i < level; i++)
        jbuf_add(o->j, o->b, o->style->indent->data, o->style->indent->len);
}

static void put_value(struct json_out *o, struct value v, unsigned level);

static void put_list(struct json_out *o, const struct jlist *l, unsigned level)
{
    jbuf_putc(o->j, o->b, '[');
    for (size_t i = 0; i < l->n; i++) {
        if (i)
            jbuf_add(o->j, o->b, o->style->item_sep->data, o->style->item_sep->len);
        put_break(o, level + 1);
        put_value(o, l->v[i], level + 1);
    }
    if (l->n)
        put_break(o, level);
    jbuf_putc(o->j, o->b, ']');
}

static void put_key(struct json_out *o, struct value key)
{
    if (key.kind == V_STR) {
        put_string(o, key.u.s);
        return;
    }
    if (!val_is_num(key) && key.kind != V_NONE)
        raise_type(o->j, "keys must be str, int, float, bool or None, not %s", val_type(key));
    jbuf_putc(o->j, o->b, '"');
    put_scalar(o, key);
    jbuf_putc(o->j, o->b, '"');
}

/* Sorts the keys of a dict with binary insertion sort: there are few keys, and a comparison may
 * raise an error. */
static uint32_t *sorted_keys(struct jinja *j, const struct jdict *d)
{
    uint32_t *order = JARRAY(j, uint32_t, d->n);

    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t lo = 0, hi = i;

        while (lo < hi) {
            const uint32_t mid = lo + (hi - lo) / 2;

            if (val_lt(j, d->e[i].key, d->e[order[mid]].key))
                hi = mid;
            else
                lo = mid + 1;
        }
        memmove(order + lo + 1, order + lo, (i - lo) * sizeof(*order));
        order[lo] = i;
        jinja_charge(j, (i - lo) * sizeof(*order));
    }
    return order;
}

static void put_dict(struct json_out *o, const struct jdict *d, unsigned level)
{
    const uint32_t *order = o->style->sort ? sorted_keys(o->j, d) : NULL;

    jbuf_putc(o->j, o->b, '{');
    for (uint32_t i = 0; i < d->n; i++) {
        const struct jdict_entry *e = &d->e[order ? order[i] : i];

        if (i)
            jbuf_add(o->j, o->b, o->style->item_sep->data, o->style->item_sep->len);
        put_break(o, level + 1);
        put_key(o, e->key);
        jbuf_add(o->j, o->b, o->style->key_sep->data, o->style->key_sep->len);
        put_value(o, e->val, level + 1);
    }
    if (d->n)
        put_break(o, level);
    jbuf_putc(o->j, o->b, '}');
}

static void put_value(struct json_out *o, struct value v, unsigned level)
{
    jinja_step(o->j, 1);
    jinja_enter(o->j);
    if (v.kind == V_STR)
        put_string(o, v.u.s);
    else if (v.kind == V_NONE || val_is_num(v))
        put_scalar(o, v);
    else if (val_is_seq(v))
        put_list(o, v.u.l, level);
    else if (v.kind == V_DICT)
        put_dict(o, v.u.d, level);
    else
        raise_type(o->j, "Object of type %s is not JSON serializable", val_type(v));
    jinja_leave(o->j);
}

void val_json(struct jinja *j, struct jbuf *b, struct value v, const struct json_style *style)
{
    struct json_out o = {.j = j, .b = b, .style = style};

    put_value(&o, v, 0);
}
