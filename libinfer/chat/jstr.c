/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements strings: immutable UTF-8 in the arena, whose code points are counted only when needed.
 *
 * The last string in a buffer with free space can be extended in place, so that a loop of `text =
 * text + part` copies only the appended bytes. The old string keeps its length, so the appended
 * bytes are not part of it.
 */
#include "chat/value.h"

#include <string.h>

#include "chat/jinja.h"
#include "core/utf8.h"

struct jstr *jstr_wrap(struct jinja *j, const char *s, size_t len)
{
    struct jstr *p = JNEW(j, struct jstr);

    *p = (struct jstr){.data = s, .len = len, .n = SIZE_MAX};
    return p;
}

struct jstr *jstr_new(struct jinja *j, const char *s, size_t len)
{
    char *copy = jinja_alloc(j, len);

    if (len)
        memcpy(copy, s, len);
    return jstr_wrap(j, copy, len);
}

struct value val_of_jstr(struct jstr *s)
{
    return (struct value){.kind = V_STR, .u.s = s};
}

struct value val_str(struct jinja *j, const char *s, size_t len)
{
    return val_of_jstr(jstr_new(j, s, len));
}

struct value val_cstr(struct jinja *j, const char *s)
{
    return val_of_jstr(jstr_wrap(j, s, strlen(s)));
}

struct value val_markup(struct value s, bool markup)
{
    s.flag = markup ? STR_MARKUP : 0;
    return s;
}

struct value val_sub(struct jinja *j, struct value from, size_t start, size_t end)
{
    struct jstr *s = from.u.s;
    struct value v;

    if (start == 0 && end == s->len)
        return from;
    v = val_of_jstr(jstr_wrap(j, s->data + start, end - start));
    if (s->n == s->len)
        v.u.s->n = v.u.s->len;
    v.flag = from.flag;
    return v;
}

size_t jstr_count(struct jinja *j, struct jstr *s)
{
    if (s->n == SIZE_MAX) {
        size_t n = 0;

        jinja_charge(j, s->len);

        for (size_t i = 0; i < s->len; i++)
            n += ((unsigned char)s->data[i] & 0xc0) != 0x80;
        s->n = n;
    }
    return s->n;
}

size_t jstr_offset(struct jinja *j, struct jstr *s, size_t i)
{
    const char *p = s->data;

    if (jstr_count(j, s) == s->len)
        return i;
    if (i == s->n)
        return s->len;
    jinja_charge(j, i * COST_SEARCH);
    while (i-- > 0)
        u8_next(&p);
    return (size_t)(p - s->data);
}

bool jstr_eq(struct jinja *j, const struct jstr *a, const struct jstr *b)
{
    if (a->len != b->len || a->data == b->data)
        return a->len == b->len;
    jinja_charge(j, a->len);
    return memcmp(a->data, b->data, a->len) == 0;
}

bool jstr_is(const struct jstr *s, const char *text)
{
    return s->len == strlen(text) && memcmp(s->data, text, s->len) == 0;
}

bool val_str_is(struct value v, const char *text)
{
    return v.kind == V_STR && jstr_is(v.u.s, text);
}

void jbuf_add(struct jinja *j, struct jbuf *b, const void *data, size_t len)
{
    if (b->cap - b->used < len) {
        size_t cap = MAX(b->cap * 2, (size_t)64);
        char *grown;

        if (len > j->max_output || b->used > j->max_output - len)
            jinja_raise(j, E2BIG, "the output is larger than %zu bytes", j->max_output);
        cap = MAX(cap, b->used + len);
        grown = jinja_alloc(j, cap);
        if (b->used)
            memcpy(grown, b->data, b->used);
        b->data = grown;
        b->cap = cap;
    }
    jinja_charge(j, len + COST_CHAR);
    if (len)
        memcpy(b->data + b->used, data, len);
    b->used += len;
}

void jbuf_puts(struct jinja *j, struct jbuf *b, const char *s)
{
    jbuf_add(j, b, s, strlen(s));
}

void jbuf_putc(struct jinja *j, struct jbuf *b, char c)
{
    if (b->used < b->cap)
        b->data[b->used++] = c;
    else
        jbuf_add(j, b, &c, 1);
}

void jbuf_cp(struct jinja *j, struct jbuf *b, uint32_t cp)
{
    char c[4];

    if (cp < 0x80)
        jbuf_putc(j, b, (char)cp);
    else
        jbuf_add(j, b, c, utf8_encode(cp, c));
}

void jbuf_fill(struct jinja *j, struct jbuf *b, uint32_t cp, size_t n)
{
    jinja_chars(j, n);
    while (n-- > 0)
        jbuf_cp(j, b, cp);
}

struct value jbuf_value(struct jinja *j, struct jbuf *b)
{
    struct value v = val_of_jstr(jstr_wrap(j, b->used ? b->data : "", b->used));

    if (b->used) {
        struct jbuf *own = JNEW(j, struct jbuf);

        *own = *b;
        v.u.s->buf = own;
    }
    *b = (struct jbuf){0};
    return v;
}

struct value val_concat(struct jinja *j, struct value a, struct value b)
{
    struct jstr *x = a.u.s, *y = b.u.s, *s;
    struct jbuf *buf = x->buf;

    if (x->len == 0 && !a.flag)
        return (struct value){.kind = V_STR, .u.s = y};
    if (y->len == 0)
        return (struct value){.kind = V_STR, .u.s = x};
    if (!buf || x->data + x->len != buf->data + buf->used || buf->cap - buf->used < y->len) {
        buf = JNEW(j, struct jbuf);
        buf->cap = x->len + y->len;
        if (buf->cap > 256)
            buf->cap *= 2;
        buf->data = jinja_alloc(j, buf->cap);
        jbuf_add(j, buf, x->data, x->len);
    }
    s = jstr_wrap(j, buf->data + buf->used - x->len, x->len + y->len);
    jbuf_add(j, buf, y->data, y->len);
    s->buf = buf;
    if (x->n != SIZE_MAX && y->n != SIZE_MAX)
        s->n = x->n + y->n;
    return val_of_jstr(s);
}
