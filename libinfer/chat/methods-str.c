/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the methods of strings. On Markup these methods escape their arguments and return
 * Markup. */
#include <string.h>

#include "chat/pystr.h"

#define METHOD(name)                                                                               \
    static struct value name(struct jinja *j UNUSED, struct value self UNUSED,                     \
                             struct value *a UNUSED, const struct args *args UNUSED)

/* Returns an argument that becomes part of the result, escaped if @self is Markup. */
static struct jstr *part_arg(struct jinja *j, struct value self, struct value v)
{
    if (self.flag & STR_MARKUP && v.kind == V_STR)
        v = html_escape(j, v);
    return arg_str(j, v);
}

METHOD(m_upper)
{
    return text_to_case(j, self, CASE_UPPER);
}

METHOD(m_lower)
{
    return text_to_case(j, self, CASE_LOWER);
}

METHOD(m_title)
{
    return text_to_case(j, self, CASE_TITLE);
}

METHOD(m_capitalize)
{
    return text_to_case(j, self, CASE_CAPITAL);
}

METHOD(m_swapcase)
{
    return text_to_case(j, self, CASE_SWAP);
}

METHOD(m_casefold)
{
    return text_to_case(j, self, CASE_FOLD);
}

METHOD(m_strip)
{
    return text_strip(j, self, a[0], STRIP_BOTH);
}

METHOD(m_lstrip)
{
    return text_strip(j, self, a[0], STRIP_LEFT);
}

METHOD(m_rstrip)
{
    return text_strip(j, self, a[0], STRIP_RIGHT);
}

METHOD(m_split)
{
    return text_split(j, self, a[0], arg_int(j, a[1], -1), false);
}

METHOD(m_rsplit)
{
    return text_split(j, self, a[0], arg_int(j, a[1], -1), true);
}

METHOD(m_splitlines)
{
    return text_lines(j, self, arg_int(j, a[0], 0) != 0);
}

METHOD(m_replace)
{
    return text_replace(j, self, arg_str(j, a[0]), part_arg(j, self, a[1]), arg_int(j, a[2], -1));
}

METHOD(m_join)
{
    struct jiter *it = iter_new(j, a[0]);
    struct value item, v;
    struct jbuf b = {0};
    bool first = true;

    while (iter_next(j, it, &item)) {
        if (!first)
            jbuf_add(j, &b, self.u.s->data, self.u.s->len);
        first = false;
        if (self.flag & STR_MARKUP)
            item = html_escape(j, item);
        arg_str(j, item);
        jbuf_add(j, &b, item.u.s->data, item.u.s->len);
    }
    v = jbuf_value(j, &b);
    v.flag = self.flag;
    return v;
}

/* Converts Python's optional arguments start and end to positions in code points. The start may be
 * after the end of the text. */
static void text_bounds(struct jinja *j, struct value self, struct value *a, int64_t *ret_start,
                        int64_t *ret_end)
{
    const int64_t n = val_len(j, self);
    int64_t start = a[0].kind == V_NONE ? 0 : arg_int(j, a[0], 0);
    int64_t end = a[1].kind == V_NONE ? n : arg_int(j, a[1], n);

    end = end > n ? n : end < 0 ? MAX(end + n, 0) : end;
    if (start < 0)
        start = start < -n ? 0 : start + n;
    *ret_start = start;
    *ret_end = end;
}

static bool has_affix(struct jinja *j, struct value self, struct value affix, struct value *range,
                      bool suffix)
{
    struct jstr *x = arg_str(j, affix), *s = self.u.s;
    int64_t start, end;
    size_t from, to;

    jinja_charge(j, COST_STEP + x->len);
    text_bounds(j, self, range, &start, &end);
    if (end - start < (int64_t)jstr_count(j, x))
        return false;
    from = jstr_offset(j, s, (size_t)start);
    to = jstr_offset(j, s, (size_t)end);
    return to - from >= x->len &&
           memcmp(s->data + (suffix ? to - x->len : from), x->data, x->len) == 0;
}

static struct value has_any_affix(struct jinja *j, struct value self, struct value *a, bool suffix)
{
    bool found = false;

    if (a[0].kind != V_TUPLE)
        return val_bool(has_affix(j, self, a[0], a + 1, suffix));
    for (size_t i = 0; !found && i < a[0].u.l->n; i++)
        found = has_affix(j, self, a[0].u.l->v[i], a + 1, suffix);
    return val_bool(found);
}

METHOD(m_startswith)
{
    return has_any_affix(j, self, a, false);
}

METHOD(m_endswith)
{
    return has_any_affix(j, self, a, true);
}

/* Returns the position of the text @a[0] in @self, in code points, or -1. */
static int64_t find_part(struct jinja *j, struct value self, struct value *a, bool last)
{
    struct jstr *x = arg_str(j, a[0]), *s = self.u.s;
    int64_t start, end, pos = 0;
    const char *p, *from, *to;

    text_bounds(j, self, a + 1, &start, &end);
    if (end - start < (int64_t)jstr_count(j, x))
        return -1;
    from = s->data + jstr_offset(j, s, (size_t)start);
    to = s->data + jstr_offset(j, s, (size_t)end);
    if (x->len == 0)
        p = last ? to : from;
    else
        p = last ? text_find_last(j, from, to, x) : text_find(j, from, to, x);
    if (!p)
        return -1;
    jinja_charge(j, (size_t)(p - s->data) * COST_SEARCH);
    for (const char *q = s->data; q < p; pos++)
        u8_next(&q);
    return pos;
}

METHOD(m_find)
{
    return val_int(find_part(j, self, a, false));
}

METHOD(m_rfind)
{
    return val_int(find_part(j, self, a, true));
}

static struct value found_or_raise(struct jinja *j, int64_t pos)
{
    if (pos < 0)
        raise_value(j, "substring not found");
    return val_int(pos);
}

METHOD(m_index)
{
    return found_or_raise(j, find_part(j, self, a, false));
}

METHOD(m_rindex)
{
    return found_or_raise(j, find_part(j, self, a, true));
}

METHOD(m_count)
{
    struct jstr *x = arg_str(j, a[0]), *s = self.u.s;
    int64_t start, end, n = 0;
    const char *p, *to;

    text_bounds(j, self, a + 1, &start, &end);
    if (end < start)
        return val_int(0);
    if (x->len == 0)
        return val_int(start > val_len(j, self) ? 0 : end - start + 1);
    p = s->data + jstr_offset(j, s, (size_t)start);
    to = s->data + jstr_offset(j, s, (size_t)end);
    while ((p = text_find(j, p, to, x))) {
        p += x->len;
        n++;
    }
    return val_int(n);
}

static struct value tuple_of_three(struct jinja *j, struct value x, struct value y, struct value z)
{
    struct value v = val_tuple(j, 3);

    v.u.l->v[0] = x;
    v.u.l->v[1] = y;
    v.u.l->v[2] = z;
    return v;
}

static struct value partition_text(struct jinja *j, struct value self, struct value sep, bool last)
{
    struct value empty = val_cstr(j, ""), part_of;
    const struct jstr *x = arg_str(j, sep), *s = self.u.s;
    const char *p;
    size_t at;

    if (x->len == 0)
        raise_value(j, "empty separator");
    p = (last ? text_find_last : text_find)(j, s->data, s->data + s->len, x);
    empty.flag = self.flag;
    if (!p)
        return last ? tuple_of_three(j, empty, empty, self) : tuple_of_three(j, self, empty, empty);
    at = (size_t)(p - s->data);
    part_of = val_sub(j, self, at, at + x->len);
    return tuple_of_three(j, val_sub(j, self, 0, at), part_of,
                          val_sub(j, self, at + x->len, s->len));
}

METHOD(m_partition)
{
    return partition_text(j, self, a[0], false);
}

METHOD(m_rpartition)
{
    return partition_text(j, self, a[0], true);
}

METHOD(m_removeprefix)
{
    const struct jstr *x = arg_str(j, a[0]), *s = self.u.s;

    jinja_charge(j, x->len);
    if (s->len >= x->len && memcmp(s->data, x->data, x->len) == 0)
        return val_sub(j, self, x->len, s->len);
    return self;
}

METHOD(m_removesuffix)
{
    const struct jstr *x = arg_str(j, a[0]), *s = self.u.s;

    jinja_charge(j, x->len);
    if (s->len >= x->len && memcmp(s->data + s->len - x->len, x->data, x->len) == 0)
        return val_sub(j, self, 0, s->len - x->len);
    return self;
}

static uint32_t fill_of(struct jinja *j, struct value self, struct value v)
{
    struct jstr *s;
    const char *p;

    if (v.kind == V_MISSING)
        return ' ';
    s = part_arg(j, self, v);
    if (jstr_count(j, s) != 1)
        raise_type(j, "The fill character must be exactly one character long");
    p = s->data;
    return u8_next(&p);
}

METHOD(m_center)
{
    return text_center(j, self, arg_int(j, a[0], 0), fill_of(j, self, a[1]));
}

METHOD(m_ljust)
{
    const uint32_t fill = fill_of(j, self, a[1]);

    return text_pad(j, self, 0, arg_int(j, a[0], 0) - val_len(j, self), fill);
}

METHOD(m_rjust)
{
    const uint32_t fill = fill_of(j, self, a[1]);

    return text_pad(j, self, arg_int(j, a[0], 0) - val_len(j, self), 0, fill);
}

METHOD(m_zfill)
{
    const struct jstr *s = self.u.s;
    const int64_t pad = arg_int(j, a[0], 0) - val_len(j, self);
    const bool sign = s->len && (s->data[0] == '-' || s->data[0] == '+');
    struct value rest;

    if (pad <= 0)
        return self;
    rest = text_pad(j, val_sub(j, self, sign, s->len), pad, 0, '0');
    if (!sign)
        return rest;
    return val_markup(
        val_concat(j, val_markup(val_sub(j, self, 0, 1), false), val_markup(rest, false)),
        self.flag);
}

METHOD(m_expandtabs)
{
    const int64_t size = arg_int(j, a[0], 8);
    const char *p = self.u.s->data, *end = p + self.u.s->len;
    struct jbuf b = {0};
    int64_t column = 0;
    struct value v;

    jinja_chars(j, self.u.s->len);
    while (p < end) {
        const uint32_t cp = u8_next(&p);

        if (cp != '\t') {
            jbuf_cp(j, &b, cp);
            column = cp == '\n' || cp == '\r' ? 0 : column + 1;
            continue;
        }
        const int64_t n = size > 0 ? size - column % size : 0;

        if (n > (int64_t)j->max_output)
            jinja_raise(j, E2BIG, "a string is larger than %zu bytes", j->max_output);
        jbuf_fill(j, &b, ' ', (size_t)n);
        column += n;
    }
    v = jbuf_value(j, &b);
    v.flag = self.flag;
    return v;
}

static struct value all_are(struct jinja *j, struct value self, bool (*is)(uint32_t cp))
{
    const char *p = self.u.s->data, *end = p + self.u.s->len;

    jinja_chars(j, self.u.s->len);
    if (p == end)
        return val_bool(false);
    while (p < end)
        if (!is(u8_next(&p)))
            return val_bool(false);
    return val_bool(true);
}

METHOD(m_isalpha)
{
    return all_are(j, self, cp_is_alpha);
}

METHOD(m_isalnum)
{
    return all_are(j, self, cp_is_alnum);
}

METHOD(m_isdigit)
{
    return all_are(j, self, cp_is_digit);
}

METHOD(m_isdecimal)
{
    return all_are(j, self, cp_is_decimal);
}

METHOD(m_isnumeric)
{
    return all_are(j, self, cp_is_numeric);
}

METHOD(m_isspace)
{
    return all_are(j, self, cp_is_space);
}

METHOD(m_isprintable)
{
    return val_bool(self.u.s->len == 0 || all_are(j, self, cp_is_printable).u.b);
}

METHOD(m_isascii)
{
    return val_bool(jstr_count(j, self.u.s) == self.u.s->len);
}

METHOD(m_isidentifier)
{
    const char *p = self.u.s->data, *end = p + self.u.s->len;

    jinja_chars(j, self.u.s->len);
    for (bool first = true; p < end; first = false)
        if (!cp_is_name(u8_next(&p), first))
            return val_bool(false);
    return val_bool(self.u.s->len > 0);
}

static struct value only_case(struct jinja *j, struct value self, bool (*is)(uint32_t),
                              bool (*other)(uint32_t))
{
    const char *p = self.u.s->data, *end = p + self.u.s->len;
    bool any = false;

    jinja_chars(j, self.u.s->len);
    while (p < end) {
        const uint32_t cp = u8_next(&p);

        if (other(cp) || cp_is_title(cp))
            return val_bool(false);
        any = any || is(cp);
    }
    return val_bool(any);
}

METHOD(m_isupper)
{
    return only_case(j, self, cp_is_upper, cp_is_lower);
}

METHOD(m_islower)
{
    return only_case(j, self, cp_is_lower, cp_is_upper);
}

METHOD(m_istitle)
{
    const char *p = self.u.s->data, *end = p + self.u.s->len;
    bool any = false, in_word = false;

    jinja_chars(j, self.u.s->len);
    while (p < end) {
        const uint32_t cp = u8_next(&p);
        const bool upper = cp_is_upper(cp) || cp_is_title(cp), lower = cp_is_lower(cp);

        if ((upper && in_word) || (lower && !in_word))
            return val_bool(false);
        in_word = upper || lower;
        any = any || in_word;
    }
    return val_bool(any);
}

METHOD(m_format)
{
    return format_braces(j, self, args);
}

METHOD(m_format_map)
{
    struct args by_name = {0};

    if (a[0].kind != V_DICT)
        raise_type(j, "format_map() needs a dict");
    by_name.kw = a[0].u.d;
    return format_braces(j, self, &by_name);
}

METHOD(m_encode)
{
    jinja_raise(j, EPROTO, "bytes are not supported in chat templates");
}

const struct builtin str_methods[] = {
    {"split", "sep? maxsplit?", m_split},
    {"strip", "/chars?", m_strip},
    {"lstrip", "/chars?", m_lstrip},
    {"rstrip", "/chars?", m_rstrip},
    {"startswith", "/prefix start? end?", m_startswith},
    {"endswith", "/suffix start? end?", m_endswith},
    {"replace", "/old new count?", m_replace},
    {"join", "/iterable", m_join},
    {"upper", "/", m_upper},
    {"lower", "/", m_lower},
    {"title", "/", m_title},
    {"capitalize", "/", m_capitalize},
    {"swapcase", "/", m_swapcase},
    {"casefold", "/", m_casefold},
    {"rsplit", "sep? maxsplit?", m_rsplit},
    {"splitlines", "keepends?", m_splitlines},
    {"find", "/sub start? end?", m_find},
    {"rfind", "/sub start? end?", m_rfind},
    {"index", "/sub start? end?", m_index},
    {"rindex", "/sub start? end?", m_rindex},
    {"count", "/sub start? end?", m_count},
    {"partition", "/sep", m_partition},
    {"rpartition", "/sep", m_rpartition},
    {"removeprefix", "/prefix", m_removeprefix},
    {"removesuffix", "/suffix", m_removesuffix},
    {"center", "/width fillchar?", m_center},
    {"ljust", "/width fillchar?", m_ljust},
    {"rjust", "/width fillchar?", m_rjust},
    {"zfill", "/width", m_zfill},
    {"expandtabs", "tabsize?", m_expandtabs},
    {0},
};

const struct builtin str_test_methods[] = {
    {"isalpha", "/", m_isalpha},
    {"isalnum", "/", m_isalnum},
    {"isdigit", "/", m_isdigit},
    {"isdecimal", "/", m_isdecimal},
    {"isnumeric", "/", m_isnumeric},
    {"isspace", "/", m_isspace},
    {"isprintable", "/", m_isprintable},
    {"isascii", "/", m_isascii},
    {"isidentifier", "/", m_isidentifier},
    {"isupper", "/", m_isupper},
    {"islower", "/", m_islower},
    {"istitle", "/", m_istitle},
    {0},
};

const struct builtin str_format_methods[] = {
    {"format", "*", m_format},
    {"format_map", "/mapping", m_format_map},
    {"encode", "*", m_encode},
    {0},
};
