/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements Markup, strings that are marked as safe for HTML as in markupsafe, and the filters
 * that create them. Chat templates are rendered without autoescape, so text is only escaped where a
 * template asks for it.
 */
#include <stdio.h>
#include <string.h>

#include "chat/pystr.h"
#include "core/utf8.h"

struct value html_escape(struct jinja *j, struct value v)
{
    struct jbuf b = {0};
    const struct jstr *s;

    if (v.kind == V_STR && v.flag & STR_MARKUP)
        return v;
    s = val_to_str(j, v).u.s;
    jinja_chars(j, s->len);
    for (size_t i = 0; i < s->len; i++) {
        const char *to = NULL;

        switch (s->data[i]) {
        case '&':
            to = "&amp;";
            break;
        case '<':
            to = "&lt;";
            break;
        case '>':
            to = "&gt;";
            break;
        case '\'':
            to = "&#39;";
            break;
        case '"':
            to = "&#34;";
            break;
        default:
            jbuf_putc(j, &b, s->data[i]);
            continue;
        }
        jbuf_puts(j, &b, to);
    }
    return val_markup(jbuf_value(j, &b), true);
}

static struct value f_escape(struct jinja *j, struct value self, struct value *a UNUSED,
                             const struct args *args UNUSED)
{
    return html_escape(j, self);
}

static struct value f_forceescape(struct jinja *j, struct value self, struct value *a UNUSED,
                                  const struct args *args UNUSED)
{
    return html_escape(j, val_to_str(j, self));
}

static struct value f_safe(struct jinja *j, struct value self, struct value *a UNUSED,
                           const struct args *args UNUSED)
{
    return val_markup(val_to_str(j, self), true);
}

/* ---- striptags ---- */

static struct value remove_tags(struct jinja *j, struct value v)
{
    static const struct jstr dashes = {.data = "-->", .len = 3, .n = 3};
    const struct jstr *s = v.u.s;
    struct jbuf b = {0};
    size_t pos = 0;

    jinja_chars(j, s->len);
    for (;;) {
        const char *p = memchr(s->data + pos, '<', s->len - pos), *end;
        const size_t at = p ? (size_t)(p - s->data) : s->len;

        if (p && s->len - at >= 4 && memcmp(p, "<!--", 4) == 0) {
            end = text_find(j, p + 4, s->data + s->len, &dashes);
            end = end ? end + 3 : NULL;
        } else {
            end = p ? memchr(p, '>', s->len - at) : NULL;
            end = end ? end + 1 : NULL;
        }
        if (!end) {
            jbuf_add(j, &b, s->data + pos, s->len - pos);
            return jbuf_value(j, &b);
        }
        jbuf_add(j, &b, s->data + pos, at - pos);
        pos = (size_t)(end - s->data);
    }
}

static struct value collapse_space(struct jinja *j, struct value v)
{
    const char *p = v.u.s->data, *end = p + v.u.s->len;
    struct jbuf b = {0};
    bool space = false;

    jinja_chars(j, v.u.s->len);
    while (p < end) {
        const uint32_t cp = u8_next(&p);

        if (cp_is_space(cp)) {
            space = true;
            continue;
        }
        if (space && b.used)
            jbuf_putc(j, &b, ' ');
        space = false;
        jbuf_cp(j, &b, cp);
    }
    return jbuf_value(j, &b);
}

/* Parses an entity ("&…;") at @p. Returns its length and sets *ret to its code point. Returns 0 if
 * there is no entity. */
static size_t parse_entity(const char *p, const char *end, uint32_t *ret)
{
    static const struct {
        const char *name;
        uint32_t cp;
    } known[] = {{"&amp;", '&'},    {"&lt;", '<'},       {"&gt;", '>'},       {"&quot;", '"'},
                 {"&apos;", '\''},  {"&nbsp;", 0xa0},    {"&copy;", 0xa9},    {"&raquo;", 0xbb},
                 {"&laquo;", 0xab}, {"&mdash;", 0x2014}, {"&ndash;", 0x2013}, {"&hellip;", 0x2026}};
    const size_t left = (size_t)(end - p);
    const bool hex = left > 2 && (p[2] == 'x' || p[2] == 'X');
    uint32_t cp = 0;
    size_t i;

    for (i = 0; i < ARRAY_SIZE(known); i++)
        if (strlen(known[i].name) <= left && memcmp(p, known[i].name, strlen(known[i].name)) == 0) {
            *ret = known[i].cp;
            return strlen(known[i].name);
        }
    if (left < 3 || p[1] != '#')
        return 0;
    for (i = hex ? 3 : 2; i < left && cp < 0x110000; i++) {
        const char c = p[i] | 0x20;

        if (p[i] >= '0' && p[i] <= '9')
            cp = cp * (hex ? 16 : 10) + (uint32_t)(p[i] - '0');
        else if (hex && c >= 'a' && c <= 'f')
            cp = cp * 16 + (uint32_t)(c - 'a' + 10);
        else
            break;
    }
    if (i == (hex ? 3u : 2u) || cp == 0 || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        return 0;
    *ret = cp;
    return i < left && p[i] == ';' ? i + 1 : i;
}

static struct value f_striptags(struct jinja *j, struct value self, struct value *a UNUSED,
                                const struct args *args UNUSED)
{
    const struct value v = collapse_space(j, remove_tags(j, val_to_str(j, self)));
    const char *p = v.u.s->data, *end = p + v.u.s->len;
    struct jbuf b = {0};

    jinja_chars(j, v.u.s->len);
    while (p < end) {
        uint32_t cp;
        const size_t n = *p == '&' ? parse_entity(p, end, &cp) : 0;

        if (n)
            jbuf_cp(j, &b, cp);
        else
            jbuf_putc(j, &b, *p);
        p += n ? n : 1;
    }
    return jbuf_value(j, &b);
}

/* ---- urlencode, xmlattr ---- */

static void put_quoted(struct jinja *j, struct jbuf *b, struct value v, bool query)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~";
    static const char digits[] = "0123456789ABCDEF";
    const struct jstr *s = val_to_str(j, v).u.s;

    jinja_chars(j, s->len);
    for (size_t i = 0; i < s->len; i++) {
        const char c = s->data[i];

        if ((c && strchr(safe, c)) || (c == '/' && !query)) {
            jbuf_putc(j, b, c);
        } else if (c == ' ' && query) {
            jbuf_putc(j, b, '+');
        } else {
            jbuf_putc(j, b, '%');
            jbuf_putc(j, b, digits[(unsigned char)c >> 4]);
            jbuf_putc(j, b, digits[c & 15]);
        }
    }
}

static struct value f_urlencode(struct jinja *j, struct value self, struct value *a UNUSED,
                                const struct args *args UNUSED)
{
    struct jbuf b = {0};
    struct jiter *it;
    struct value pair;
    bool first = true;

    if (self.kind == V_DICT) {
        struct jview *view = JNEW(j, struct jview);

        *view = (struct jview){.d = self.u.d, .kind = VIEW_ITEMS};
        self = (struct value){.kind = V_VIEW, .u.view = view};
    }
    it = self.kind == V_STR ? NULL : iter_try(j, self);
    if (!it) {
        put_quoted(j, &b, self, false);
        return jbuf_value(j, &b);
    }
    while (iter_next(j, it, &pair)) {
        const struct value l = val_to_list(j, pair);

        if (l.u.l->n != 2)
            raise_value(j, "expected pairs of a key and a value");
        if (!first)
            jbuf_putc(j, &b, '&');
        first = false;
        put_quoted(j, &b, l.u.l->v[0], true);
        jbuf_putc(j, &b, '=');
        put_quoted(j, &b, l.u.l->v[1], true);
    }
    return jbuf_value(j, &b);
}

static struct value f_xmlattr(struct jinja *j, struct value self, struct value *a,
                              const struct args *args UNUSED)
{
    struct jbuf b = {0};

    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    if (self.kind != V_DICT)
        raise_type(j, "xmlattr needs a mapping, not '%s'", val_type(self));
    for (uint32_t i = 0; i < self.u.d->n; i++) {
        const struct jdict_entry *e = &self.u.d->e[i];
        const struct jstr *key;
        struct value v;

        jinja_step(j, 1);
        if (e->val.kind == V_NONE || e->val.kind == V_UNDEF)
            continue;
        key = arg_str(j, e->key);
        jinja_chars(j, key->len);
        for (size_t k = 0; k < key->len; k++)
            if (key->data[k] && strchr(" \t\n\r\f\v/>=", key->data[k]))
                raise_value(j, "Invalid character in attribute name");
        if (b.used || arg_true(j, a[0], true))
            jbuf_putc(j, &b, ' ');
        v = html_escape(j, e->key);
        jbuf_add(j, &b, v.u.s->data, v.u.s->len);
        jbuf_puts(j, &b, "=\"");
        v = html_escape(j, e->val);
        jbuf_add(j, &b, v.u.s->data, v.u.s->len);
        jbuf_putc(j, &b, '"');
    }
    return jbuf_value(j, &b);
}

static struct value f_urlize(struct jinja *j, struct value self UNUSED, struct value *a UNUSED,
                             const struct args *args UNUSED)
{
    jinja_raise(j, EPROTO, "the filter 'urlize' is not supported in chat templates");
}

const struct builtin filters_html[] = {
    {"e", "", f_escape},
    {"escape", "", f_escape},
    {"forceescape", "", f_forceescape},
    {"safe", "", f_safe},
    {"striptags", "", f_striptags},
    {"urlencode", "", f_urlencode},
    {"urlize", "*", f_urlize},
    {"xmlattr", "autospace?", f_xmlattr},
    {0},
};
