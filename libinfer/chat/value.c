/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements operations on all values: truth, equality, order, hash and length. As in Python 3,
 * numbers of different types can be compared, and sequences are compared item by item.
 * Dictionaries, ranges, and views of keys or items are equal if their contents are equal. Undefined
 * values are equal. All other values are compared by identity.
 */
#include "chat/value.h"

#include <math.h>
#include <string.h>

#include "chat/jinja.h"
#include "core/hash.h"

const char *val_type(struct value v)
{
    switch (v.kind) {
    case V_MISSING:
        return "missing";
    case V_UNDEF:
        return "Undefined";
    case V_NONE:
        return "NoneType";
    case V_BOOL:
        return "bool";
    case V_INT:
        return "int";
    case V_FLOAT:
        return "float";
    case V_STR:
        return v.flag & STR_MARKUP ? "Markup" : "str";
    case V_LIST:
        return "list";
    case V_TUPLE:
        return "tuple";
    case V_DICT:
        return "dict";
    case V_VIEW:
        return v.u.view->kind == VIEW_KEYS     ? "dict_keys"
               : v.u.view->kind == VIEW_VALUES ? "dict_values"
                                               : "dict_items";
    case V_RANGE:
        return "range";
    case V_ITER:
        return v.u.it->type;
    case V_NS:
        return "Namespace";
    case V_FUNC:
        return "function";
    case V_MACRO:
        return "Macro";
    case V_LOOP:
        return "LoopContext";
    case V_CYCLER:
        return "Cycler";
    case V_JOINER:
        return "Joiner";
    case V_DICT_TYPE:
        return "type";
    case V_SELF:
        return "TemplateReference";
    default:
        return "BlockReference";
    }
}

int64_t val_len(struct jinja *j, struct value v)
{
    switch (v.kind) {
    case V_UNDEF:
        return 0;
    case V_STR:
        return (int64_t)jstr_count(j, v.u.s);
    case V_LIST:
    case V_TUPLE:
        return (int64_t)v.u.l->n;
    case V_DICT:
        return v.u.d->n;
    case V_VIEW:
        return v.u.view->d->n;
    case V_RANGE:
        return v.u.range->n;
    default:
        return -1;
    }
}

bool val_truth(struct jinja *j, struct value v)
{
    switch (v.kind) {
    case V_MISSING:
    case V_UNDEF:
    case V_NONE:
        return false;
    case V_BOOL:
        return v.u.b;
    case V_INT:
        return v.u.i != 0;
    case V_FLOAT:
        return v.u.f != 0;
    case V_STR:
        return v.u.s->len > 0;
    case V_LOOP:
        return loop_length(j, v.u.loop) > 0;
    default:
        return val_len(j, v) != 0;
    }
}

bool val_same(struct jinja *j, struct value a, struct value b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case V_NONE:
    case V_MISSING:
        return true;
    case V_BOOL:
        return a.u.b == b.u.b;
    case V_INT:
        return a.u.i == b.u.i;
    case V_FLOAT:
        return a.u.f == b.u.f;
    case V_STR:
        /* CPython interns names and single characters, so in CPython equal strings are often the
         * same object. Therefore a comparison of the texts comes closest to Python's result. */
        return a.u.s == b.u.s || (a.flag == b.flag && jstr_eq(j, a.u.s, b.u.s));
    case V_FUNC:
        return a.u.func->fn == b.u.func->fn && val_same(j, a.u.func->self, b.u.func->self);
    case V_TUPLE:
        return a.u.l == b.u.l || (a.u.l->n == 0 && b.u.l->n == 0);
    default:
        return a.u.p == b.u.p;
    }
}

/* Compares an integer with a float exactly. Returns <0, 0 or >0. @f must not be NaN. */
static int cmp_int_float(int64_t i, double f)
{
    if (f >= 0x1p63)
        return -1;
    if (f < -0x1p63)
        return 1;
    const int64_t t = (int64_t)f;

    if (i != t)
        return i < t ? -1 : 1;
    return f > (double)t ? -1 : f < (double)t;
}

static int cmp_num(struct value a, struct value b)
{
    if (val_is_int(a) && val_is_int(b)) {
        const int64_t x = val_as_int(a), y = val_as_int(b);

        return x < y ? -1 : x > y;
    }
    if (val_is_int(a))
        return cmp_int_float(val_as_int(a), b.u.f);
    if (val_is_int(b))
        return -cmp_int_float(val_as_int(b), a.u.f);
    return a.u.f < b.u.f ? -1 : a.u.f > b.u.f;
}

static bool is_nan(struct value v)
{
    return v.kind == V_FLOAT && isnan(v.u.f);
}

static bool seq_eq(struct jinja *j, const struct jlist *a, const struct jlist *b)
{
    bool eq = a->n == b->n;

    jinja_enter(j);
    for (size_t i = 0; eq && i < a->n; i++)
        eq = val_eq(j, a->v[i], b->v[i]);
    jinja_leave(j);
    return eq;
}

static bool dict_eq(struct jinja *j, const struct jdict *a, const struct jdict *b)
{
    bool eq = a->n == b->n;

    jinja_enter(j);
    for (size_t i = 0; eq && i < a->n; i++) {
        const struct value *other = jdict_get(j, b, a->e[i].key);

        eq = other && val_eq(j, a->e[i].val, *other);
    }
    jinja_leave(j);
    return eq;
}

static bool view_eq(struct jinja *j, const struct jview *a, const struct jview *b)
{
    if (a->kind == VIEW_VALUES || b->kind == VIEW_VALUES || a->kind != b->kind)
        return a == b;
    if (a->kind == VIEW_ITEMS)
        return dict_eq(j, a->d, b->d);
    if (a->d->n != b->d->n)
        return false;
    for (size_t i = 0; i < a->d->n; i++)
        if (!jdict_get(j, b->d, a->d->e[i].key))
            return false;
    return true;
}

bool val_eq(struct jinja *j, struct value a, struct value b)
{
    jinja_step(j, 1);
    if (val_is_num(a) && val_is_num(b))
        return !is_nan(a) && !is_nan(b) && cmp_num(a, b) == 0;
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case V_UNDEF:
        return true;
    case V_STR:
        return jstr_eq(j, a.u.s, b.u.s);
    case V_LIST:
    case V_TUPLE:
        return a.u.l == b.u.l || seq_eq(j, a.u.l, b.u.l);
    case V_DICT:
        return a.u.d == b.u.d || dict_eq(j, a.u.d, b.u.d);
    case V_VIEW:
        return view_eq(j, a.u.view, b.u.view);
    case V_RANGE: {
        const struct jrange *x = a.u.range, *y = b.u.range;

        return x->n == y->n && (x->n == 0 || x->start == y->start) &&
               (x->n < 2 || x->step == y->step);
    }
    default:
        return val_same(j, a, b);
    }
}

static int cmp_str(struct jinja *j, const struct jstr *a, const struct jstr *b)
{
    const size_t len = MIN(a->len, b->len);
    int c;

    jinja_charge(j, len);
    c = memcmp(a->data, b->data, len); /* UTF-8 sorts in the order of its code points */

    return c ? c : a->len < b->len ? -1 : a->len > b->len;
}

int val_cmp(struct jinja *j, struct value a, struct value b, bool *ret_nan)
{
    jinja_step(j, 1);
    *ret_nan = false;
    if (val_is_num(a) && val_is_num(b)) {
        *ret_nan = is_nan(a) || is_nan(b);
        return *ret_nan ? 0 : cmp_num(a, b);
    }
    if (a.kind == V_UNDEF)
        jinja_raise_undef(j, a);
    if (b.kind == V_UNDEF)
        jinja_raise_undef(j, b);
    if (a.kind == V_STR && b.kind == V_STR)
        return cmp_str(j, a.u.s, b.u.s);
    if (a.kind == b.kind && val_is_seq(a)) {
        const struct jlist *x = a.u.l, *y = b.u.l;
        int c = x->n < y->n ? -1 : x->n > y->n;

        jinja_enter(j);
        for (size_t i = 0; i < MIN(x->n, y->n); i++)
            if (!val_eq(j, x->v[i], y->v[i]) && !val_same(j, x->v[i], y->v[i])) {
                c = val_cmp(j, x->v[i], y->v[i], ret_nan);
                break;
            }
        jinja_leave(j);
        return c;
    }
    if (a.kind == V_VIEW && b.kind == V_VIEW)
        raise_type(j, "comparing dict views is not supported");
    raise_type(j, "no order between '%s' and '%s'", val_type(a), val_type(b));
}

bool val_lt(struct jinja *j, struct value a, struct value b)
{
    bool nan;
    const int c = val_cmp(j, a, b, &nan);

    return !nan && c < 0;
}

static bool seq_hashable(struct jinja *j, const struct jlist *l)
{
    bool hashable = true;

    jinja_enter(j);
    for (size_t i = 0; hashable && i < l->n; i++)
        hashable = val_hashable(j, l->v[i]);
    jinja_leave(j);
    return hashable;
}

bool val_hashable(struct jinja *j, struct value v)
{
    jinja_charge(j, COST_CHAR);
    if (v.kind == V_TUPLE)
        return seq_hashable(j, v.u.l);
    if (v.kind == V_VIEW)
        return v.u.view->kind == VIEW_VALUES;
    return v.kind != V_LIST && v.kind != V_DICT;
}

uint64_t val_hash(struct jinja *j, struct value v)
{
    uint64_t h = v.kind;

    jinja_charge(j, COST_CHAR);
    switch (v.kind) {
    case V_STR:
        jinja_charge(j, v.u.s->len);
        return hash_seeded(v.u.s->data, v.u.s->len);
    case V_BOOL:
    case V_INT:
        return hash_bytes(0, &(int64_t){val_as_int(v)}, 8);
    case V_FLOAT:
        if (v.u.f >= -0x1p63 && v.u.f < 0x1p63 && v.u.f == (double)(int64_t)v.u.f)
            return hash_bytes(0, &(int64_t){(int64_t)v.u.f}, 8);
        return hash_bytes(1, &v.u.f, 8);
    case V_TUPLE:
        jinja_enter(j);
        for (size_t i = 0; i < v.u.l->n; i++)
            h = hash_bytes(h, &(uint64_t){val_hash(j, v.u.l->v[i])}, 8);
        jinja_leave(j);
        return h;
    case V_NONE:
    case V_UNDEF:
    case V_FUNC:
    case V_RANGE:
        return h;
    default:
        if (!val_hashable(j, v))
            raise_type(j, "unhashable type: '%s'", val_type(v));
        return hash_bytes(2, &v.u.p, sizeof(v.u.p));
    }
}
