/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the methods of all types except strings. Methods that would change a list or a dict are
 * in the tables, but have no function, because jinja2's sandbox refuses them.
 */
#include <math.h>
#include <string.h>

#include "chat/jinja.h"

#define METHOD(name)                                                                               \
    static struct value name(struct jinja *j UNUSED, struct value self UNUSED,                     \
                             struct value *a UNUSED, const struct args *args UNUSED)

METHOD(m_index)
{
    const int64_t n = val_len(j, self);
    int64_t from = arg_int(j, a[1], 0), to = arg_int(j, a[2], n);
    struct value item;

    from = from < 0 ? MAX(from + n, 0) : from;
    to = to < 0 ? to + n : MIN(to, n);
    for (int64_t i = from; i < to; i++) {
        item = op_getitem(j, self, val_int(i));
        if (val_same(j, item, a[0]) || val_eq(j, item, a[0]))
            return val_int(i);
    }
    raise_value(j, "the value is not in the %s", val_type(self));
}

METHOD(m_count)
{
    struct jiter *it = iter_new(j, self);
    struct value item;
    int64_t n = 0;

    while (iter_next(j, it, &item))
        n += val_same(j, item, a[0]) || val_eq(j, item, a[0]);
    return val_int(n);
}

METHOD(m_list_copy)
{
    return val_to_list(j, self);
}

const struct builtin list_methods[] = {
    {"index", "/value start? stop?", m_index},
    {"count", "/value", m_count},
    {"copy", "/", m_list_copy},
    {"append", "*", NULL},
    {"clear", "*", NULL},
    {"pop", "*", NULL},
    {"reverse", "*", NULL},
    {"insert", "*", NULL},
    {"sort", "*", NULL},
    {"extend", "*", NULL},
    {"remove", "*", NULL},
    {0},
};

const struct builtin tuple_methods[] = {
    {"index", "/value start? stop?", m_index},
    {"count", "/value", m_count},
    {0},
};

const struct builtin range_methods[] = {
    {"index", "/value", m_index},
    {"count", "/value", m_count},
    {0},
};

METHOD(m_get)
{
    const struct value *v = jdict_get(j, self.u.d, a[0]);

    if (v)
        return *v;
    return a[1].kind == V_MISSING ? NONE : a[1];
}

static struct value view_of(struct jinja *j, struct value self, enum view_kind kind)
{
    struct jview *view = JNEW(j, struct jview);

    *view = (struct jview){.d = self.u.d, .kind = kind};
    return (struct value){.kind = V_VIEW, .u.view = view};
}

METHOD(m_items)
{
    return view_of(j, self, VIEW_ITEMS);
}

METHOD(m_keys)
{
    return view_of(j, self, VIEW_KEYS);
}

METHOD(m_values)
{
    return view_of(j, self, VIEW_VALUES);
}

static void dict_update(struct jinja *j, struct jdict *d, const struct jdict *from)
{
    for (uint32_t i = 0; i < from->n; i++)
        jdict_set(j, d, from->e[i].key, from->e[i].val);
}

METHOD(m_dict_copy)
{
    struct value d = val_dict(j);

    dict_update(j, d.u.d, self.u.d);
    return d;
}

METHOD(m_fromkeys)
{
    struct jiter *it = iter_new(j, a[0]);
    struct value d = val_dict(j), key;

    while (iter_next(j, it, &key))
        jdict_set(j, d.u.d, key, a[1].kind == V_MISSING ? NONE : a[1]);
    return d;
}

const struct builtin dict_methods[] = {
    {"get", "/key default?", m_get},
    {"items", "/", m_items},
    {"keys", "/", m_keys},
    {"values", "/", m_values},
    {"copy", "/", m_dict_copy},
    {"fromkeys", "/iterable value?", m_fromkeys},
    {"clear", "*", NULL},
    {"pop", "*", NULL},
    {"popitem", "*", NULL},
    {"setdefault", "*", NULL},
    {"update", "*", NULL},
    {0},
};

/* Implements dict(mapping or pairs, **more); namespace() uses it as well. */
METHOD(m_dict)
{
    struct value d = val_dict(j), pair;

    if (args->n > 1)
        raise_type(j, "dict expected at most 1 argument, got %zu", args->n);
    if (args->n && args->v[0].kind == V_DICT) {
        dict_update(j, d.u.d, args->v[0].u.d);
    } else if (args->n) {
        struct jiter *it = iter_new(j, args->v[0]);

        while (iter_next(j, it, &pair)) {
            const struct value l = val_to_list(j, pair);

            if (l.u.l->n != 2)
                raise_value(j, "dictionary update sequence element has length %zu; 2 is required",
                            l.u.l->n);
            jdict_set(j, d.u.d, l.u.l->v[0], l.u.l->v[1]);
        }
    }
    if (args->kw)
        dict_update(j, d.u.d, args->kw);
    return d;
}

const struct builtin dict_type_methods[] = {
    {"dict", "*", m_dict}, /* the call dict(…); the methods of dict follow */
    {"fromkeys", "/iterable value?", m_fromkeys},
    {0},
};

METHOD(m_isdisjoint)
{
    struct jiter *it = iter_new(j, a[0]);
    struct value item;

    while (iter_next(j, it, &item))
        if (val_contains(j, self, item))
            return val_bool(false);
    return val_bool(true);
}

const struct builtin view_methods[] = {
    {"isdisjoint", "/other", m_isdisjoint},
    {0},
};

METHOD(m_bit_length)
{
    const int64_t i = val_as_int(self);
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int64_t n = 0;

    for (; u; u >>= 1)
        n++;
    return val_int(n);
}

METHOD(m_bit_count)
{
    const int64_t i = val_as_int(self);

    return val_int(__builtin_popcountll(i < 0 ? 0 - (uint64_t)i : (uint64_t)i));
}

METHOD(m_conjugate)
{
    return self.kind == V_BOOL ? val_int(self.u.b) : self;
}

METHOD(m_ratio)
{
    double f = self.u.f;
    int64_t den = 1;

    if (self.kind != V_FLOAT)
        return val_pair(j, val_int(val_as_int(self)), val_int(1));
    if (isnan(f) || isinf(f))
        raise_value(j, "cannot convert NaN or infinity to an integer ratio");
    while (f != floor(f) && den < (int64_t)1 << 62) {
        f *= 2;
        den *= 2;
    }
    if (f != floor(f) || f >= 0x1p63 || f < -0x1p63)
        jinja_raise(j, EPROTO, "OverflowError: an integer is larger than 64 bits");
    return val_pair(j, val_int((int64_t)f), val_int(den));
}

const struct builtin int_methods[] = {
    {"bit_length", "/", m_bit_length},
    {"bit_count", "/", m_bit_count},
    {"conjugate", "/", m_conjugate},
    {"as_integer_ratio", "/", m_ratio},
    {0},
};

METHOD(m_is_integer)
{
    return val_bool(!isinf(self.u.f) && self.u.f == floor(self.u.f));
}

const struct builtin float_methods[] = {
    {"is_integer", "/", m_is_integer},
    {"conjugate", "/", m_conjugate},
    {"as_integer_ratio", "/", m_ratio},
    {0},
};

METHOD(m_cycle)
{
    if (args->kw)
        raise_type(j, "cycle() takes no keyword arguments");
    if (args->n == 0)
        raise_type(j, "no items for cycling given");
    return args->v[(size_t)(loop_index(self.u.loop) - 1) % args->n];
}

METHOD(m_changed)
{
    struct value now = val_tuple(j, args->n), *last = loop_changed(self.u.loop);

    if (args->kw)
        raise_type(j, "changed() takes no keyword arguments");
    if (args->n)
        memcpy(now.u.l->v, args->v, args->n * sizeof(now));
    if (last->kind != V_MISSING && val_eq(j, *last, now))
        return val_bool(false);
    *last = now;
    return val_bool(true);
}

const struct builtin loop_methods[] = {
    {"cycle", "*", m_cycle},
    {"changed", "*", m_changed},
    {0},
};

METHOD(m_next)
{
    struct jcycler *c = self.u.cycler;
    const struct value v = c->items->v[c->pos];

    c->pos = (c->pos + 1) % c->items->n;
    return v;
}

METHOD(m_reset)
{
    self.u.cycler->pos = 0;
    return NONE;
}

const struct builtin cycler_methods[] = {
    {"next", "/", m_next},
    {"reset", "/", m_reset},
    {0},
};
