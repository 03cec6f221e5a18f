/* SPDX-License-Identifier: Apache-2.0 */
/* Implements string operations that methods and filters share. Results keep the flag STR_MARKUP of
 * their input. */
#include "chat/pystr.h"

#include <string.h>

static bool in_set(struct jinja *j, const struct jstr *set, uint32_t cp)
{
    const char *p = set->data, *end = p + set->len;

    jinja_chars(j, set->len);
    while (p < end)
        if (u8_next(&p) == cp)
            return true;
    return false;
}

static bool is_stripped(struct jinja *j, const struct jstr *set, uint32_t cp)
{
    jinja_charge(j, COST_CHAR);
    return set ? in_set(j, set, cp) : cp_is_space(cp);
}

struct value text_strip(struct jinja *j, struct value s, struct value chars, enum strip_side side)
{
    const struct jstr *set = NULL;
    const char *start = s.u.s->data, *p = start, *end = p + s.u.s->len;

    if (chars.kind != V_MISSING && chars.kind != V_NONE)
        set = arg_str(j, chars);
    while ((side & STRIP_LEFT) && p < end) {
        const char *q = p;

        if (!is_stripped(j, set, u8_next(&q)))
            break;
        p = q;
    }
    while ((side & STRIP_RIGHT) && end > p) {
        const char *q = end;

        if (!is_stripped(j, set, u8_prev(&q)))
            break;
        end = q;
    }
    return val_sub(j, s, (size_t)(p - start), (size_t)(end - start));
}

/* The charge grows only with the number of bytes, because memmem() of the C library takes linear
 * time. */
const char *text_find(struct jinja *j, const char *p, const char *end, const struct jstr *what)
{
    const char *at = memmem(p, (size_t)(end - p), what->data, what->len);

    jinja_charge(j, ((size_t)((at ? at : end) - p) + what->len + 16) * COST_SEARCH);
    return at;
}

/* This function charges each place where @what could start, because each needs a comparison. */
const char *text_find_last(struct jinja *j, const char *p, const char *end, const struct jstr *what)
{
    const char *at;
    size_t n;

    if ((size_t)(end - p) < what->len)
        return NULL;
    for (n = (size_t)(end - p) - what->len + 1; (at = memrchr(p, what->data[0], n));
         n = (size_t)(at - p)) {
        jinja_charge(j, n - (size_t)(at - p) + what->len + COST_CHAR);
        if (memcmp(at, what->data, what->len) == 0)
            return at;
    }
    jinja_charge(j, n);
    return NULL;
}

struct value text_replace(struct jinja *j, struct value s, struct jstr *old, struct jstr *new,
                          int64_t max)
{
    const char *p = s.u.s->data, *end = p + s.u.s->len;
    struct jbuf b = {0};
    struct value v;

    if (max == 0 || (old->len && !text_find(j, p, end, old)))
        return s;
    while (max != 0) {
        const char *at = p;

        if (old->len) {
            at = text_find(j, p, end, old);
            if (!at)
                break;
            jbuf_add(j, &b, p, (size_t)(at - p));
            jbuf_add(j, &b, new->data, new->len);
            p = at + old->len;
        } else {
            jbuf_add(j, &b, new->data, new->len);
            if (p == end)
                break;
            u8_next(&p);
            jbuf_add(j, &b, at, (size_t)(p - at));
        }
        jinja_step(j, 1);
        max -= max > 0;
    }
    jbuf_add(j, &b, p, (size_t)(end - p));
    v = jbuf_value(j, &b);
    v.flag = s.flag;
    return v;
}

static void push_part(struct jinja *j, struct value list, struct value s, const char *from,
                      const char *to)
{
    jinja_step(j, 1);
    jlist_push(j, list.u.l,
               val_sub(j, s, (size_t)(from - s.u.s->data), (size_t)(to - s.u.s->data)));
}

static struct value split_space(struct jinja *j, struct value s, int64_t max)
{
    const char *p = s.u.s->data, *end = p + s.u.s->len;
    struct value list = val_list(j, 0);

    jinja_chars(j, s.u.s->len);
    for (;;) {
        const char *start, *q = p;

        while (p < end && cp_is_space(u8_next(&q)))
            p = q;
        if (p == end)
            return list;
        start = q = p;
        if (max == 0) {
            push_part(j, list, s, p, end);
            return list;
        }
        while (p < end && !cp_is_space(u8_next(&q)))
            p = q;
        push_part(j, list, s, start, p);
        max -= max > 0;
    }
}

static void reverse_list(struct jlist *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        const struct value t = l->v[i];

        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
}

static struct value rsplit_space(struct jinja *j, struct value s, int64_t max)
{
    const char *start = s.u.s->data, *end = start + s.u.s->len;
    struct value list = val_list(j, 0);

    jinja_chars(j, s.u.s->len);
    for (;;) {
        const char *p = end, *q = p;

        while (p > start && cp_is_space(u8_prev(&q)))
            p = q;
        if (p == start)
            break;
        end = q = p;
        if (max == 0) {
            push_part(j, list, s, start, p);
            break;
        }
        while (p > start && !cp_is_space(u8_prev(&q)))
            p = q;
        push_part(j, list, s, p, end);
        end = p;
        max -= max > 0;
    }
    reverse_list(list.u.l);
    return list;
}

static struct value rsplit_by(struct jinja *j, struct value s, const struct jstr *sep, int64_t max)
{
    const char *start = s.u.s->data, *end = start + s.u.s->len;
    struct value list = val_list(j, 0);

    while (max != 0) {
        const char *at = text_find_last(j, start, end, sep);

        if (!at)
            break;
        push_part(j, list, s, at + sep->len, end);
        end = at;
        max -= max > 0;
    }
    push_part(j, list, s, start, end);
    reverse_list(list.u.l);
    return list;
}

struct value text_split(struct jinja *j, struct value s, struct value sep, int64_t max, bool right)
{
    const char *p = s.u.s->data, *end = p + s.u.s->len;
    struct value list;
    struct jstr *by;

    if (sep.kind == V_MISSING || sep.kind == V_NONE)
        return right ? rsplit_space(j, s, max) : split_space(j, s, max);
    by = arg_str(j, sep);
    if (by->len == 0)
        raise_value(j, "empty separator");
    if (right)
        return rsplit_by(j, s, by, max);
    list = val_list(j, 0);
    while (max != 0) {
        const char *at = text_find(j, p, end, by);

        if (!at)
            break;
        push_part(j, list, s, p, at);
        p = at + by->len;
        max -= max > 0;
    }
    push_part(j, list, s, p, end);
    return list;
}

struct value text_lines(struct jinja *j, struct value s, bool keep_ends)
{
    const char *p = s.u.s->data, *end = p + s.u.s->len, *start = p;
    struct value list = val_list(j, 0);

    jinja_chars(j, s.u.s->len);
    while (p < end) {
        const char *at = p;
        const uint32_t cp = u8_next(&p);

        if (!cp_is_break(cp))
            continue;
        if (cp == '\r' && p < end && *p == '\n')
            p++;
        push_part(j, list, s, start, keep_ends ? p : at);
        start = p;
    }
    if (start < end)
        push_part(j, list, s, start, end);
    return list;
}

struct value text_pad(struct jinja *j, struct value s, int64_t left, int64_t right, uint32_t fill)
{
    struct jbuf b = {0};
    struct value v;

    if (left <= 0 && right <= 0)
        return s;
    if (left > (int64_t)j->max_output || right > (int64_t)j->max_output)
        jinja_raise(j, E2BIG, "a string is larger than %zu bytes", j->max_output);
    jbuf_fill(j, &b, fill, (size_t)MAX(left, 0));
    jbuf_add(j, &b, s.u.s->data, s.u.s->len);
    jbuf_fill(j, &b, fill, (size_t)MAX(right, 0));
    v = jbuf_value(j, &b);
    v.flag = s.flag;
    return v;
}

struct value text_center(struct jinja *j, struct value s, int64_t width, uint32_t fill)
{
    const int64_t pad = width - (int64_t)jstr_count(j, s.u.s);
    const int64_t left = pad / 2 + (pad & width & 1);

    return pad > 0 ? text_pad(j, s, left, pad - left, fill) : s;
}

struct value text_reverse(struct jinja *j, struct value s)
{
    const char *start = s.u.s->data, *p = start + s.u.s->len;
    struct jbuf b = {0};
    struct value v;

    jinja_chars(j, s.u.s->len);
    while (p > start)
        jbuf_cp(j, &b, u8_prev(&p));
    v = jbuf_value(j, &b);
    v.flag = s.flag;
    return v;
}
