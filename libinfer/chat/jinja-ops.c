/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements operators, undefined values, and the lookup of attributes and items. Integers have 64
 * bits. If an integer would be larger in Python, rendering fails instead of giving a wrong number.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/jinja.h"

static struct value undef_new(struct jinja *j, struct jundef u)
{
    struct jundef *p = JNEW(j, struct jundef);

    *p = u;
    return (struct value){.kind = V_UNDEF, .u.undef = p};
}

struct value undef_name(struct jinja *j, struct value name)
{
    return undef_new(j, (struct jundef){.name = name});
}

struct value undef_of(struct jinja *j, struct value obj, struct value name)
{
    return undef_new(j, (struct jundef){.obj = obj, .name = name});
}

struct value undef_hint(struct jinja *j, const char *hint)
{
    return undef_new(j, (struct jundef){.hint = hint});
}

void jinja_raise_undef(struct jinja *j, struct value undef)
{
    const struct jundef *u = undef.u.undef;
    struct jbuf b = {0};

    if (u->hint)
        jinja_raise(j, EPROTO, "%s", u->hint);
    val_repr(j, &b, u->name);
    jbuf_putc(j, &b, 0);
    if (u->obj.kind == V_MISSING)
        jinja_raise(j, EPROTO, "%.100s is undefined", b.data);
    jinja_raise(j, EPROTO, "'%s%s' has no %s %.100s",
                u->obj.kind == V_NONE ? "None" : val_type(u->obj),
                u->obj.kind == V_NONE ? "" : " object",
                u->name.kind == V_STR ? "attribute" : "element", b.data);
}

static _Noreturn void raise_overflow(struct jinja *j)
{
    jinja_raise(j, EPROTO, "OverflowError: an integer is larger than 64 bits");
}

static struct value op_repeat(struct jinja *j, struct value v, int64_t n)
{
    struct jbuf b = {0};
    struct value r;

    if (n < 0)
        n = 0;
    if (v.kind == V_STR) {
        if (v.u.s->len && n > (int64_t)(j->max_output / v.u.s->len))
            jinja_raise(j, E2BIG, "a string is larger than %zu bytes", j->max_output);
        for (int64_t i = 0; i < n && v.u.s->len; i++)
            jbuf_add(j, &b, v.u.s->data, v.u.s->len);
        r = jbuf_value(j, &b);
        r.flag = v.flag;
        return r;
    }
    if (v.u.l->n && n > (int64_t)(j->max_memory / sizeof(v) / v.u.l->n))
        jinja_raise(j, E2BIG, "a list is too large");
    r = val_list(j, v.u.l->n * (size_t)n);
    r.kind = v.kind;
    for (int64_t i = 0; v.u.l->n && i < n; i++)
        memcpy(r.u.l->v + v.u.l->n * (size_t)i, v.u.l->v, v.u.l->n * sizeof(v));
    return r;
}

/* Returns the exact quotient, rounded once, as Python does. Rounding to the 53 bits of a double
 * needs only 55 bits of the quotient and the information whether any later bit is set. */
static double int_quotient(int64_t a, int64_t b)
{
    const uint64_t n = a < 0 ? -(uint64_t)a : (uint64_t)a, d = b < 0 ? -(uint64_t)b : (uint64_t)b;
    const int bits = __builtin_clzll(d) - __builtin_clzll(n | 1) + 1; /* the quotient has this many
                                                                         bits, or one less */
    const int shift = bits < 56 ? 56 - bits : 0;
    const unsigned __int128 scaled = (unsigned __int128)n << shift;
    const uint64_t quotient = (uint64_t)(scaled / d) | (scaled % d != 0);

    return ldexp((double)quotient, -shift) * ((a < 0) != (b < 0) ? -1.0 : 1.0);
}

static struct value int_floordiv(struct jinja *j, int64_t a, int64_t b, bool mod)
{
    int64_t q, m;

    if (b == 0)
        jinja_raise(j, EPROTO, "ZeroDivisionError: integer division or modulo by zero");
    if (b == -1) { /* INT64_MIN / -1 overflows */
        if (!mod && a == INT64_MIN)
            raise_overflow(j);
        return val_int(mod ? 0 : -a);
    }
    q = a / b;
    m = a % b;
    if (m && (m < 0) != (b < 0)) {
        m += b;
        q--;
    }
    return val_int(mod ? m : q);
}

static struct value float_floordiv(struct jinja *j, double a, double b, bool mod)
{
    double m, q;

    if (b == 0)
        jinja_raise(j, EPROTO, "ZeroDivisionError: float floor division by zero");
    m = fmod(a, b);
    q = (a - m) / b;
    if (m) {
        if ((b < 0) != (m < 0)) {
            m += b;
            q -= 1;
        }
    } else {
        m = copysign(0, b);
    }
    if (mod)
        return val_float(m);
    if (q == 0)
        return val_float(copysign(0, a / b));
    const double whole = floor(q);

    return val_float(q - whole > 0.5 ? whole + 1 : whole);
}

static struct value op_power(struct jinja *j, struct value a, struct value b)
{
    if (val_is_int(a) && val_is_int(b) && val_as_int(b) >= 0) {
        int64_t base = val_as_int(a), e = val_as_int(b), r = 1;

        while (e) {
            if ((e & 1) && __builtin_mul_overflow(r, base, &r))
                raise_overflow(j);
            e >>= 1;
            if (e && __builtin_mul_overflow(base, base, &base))
                raise_overflow(j);
        }
        return val_int(r);
    }
    const double x = val_as_float(a), y = val_as_float(b);

    if (x == 0 && y < 0)
        jinja_raise(j, EPROTO, "ZeroDivisionError: 0.0 cannot be raised to a negative power");
    if (x < 0 && isfinite(x) && isfinite(y) && y != floor(y))
        raise_type(j, "complex numbers are not supported");
    const double r = pow(x, y);

    if (isinf(r) && isfinite(x) && isfinite(y))
        jinja_raise(j, EPROTO, "OverflowError: numerical result out of range");
    return val_float(r);
}

static struct value op_arithmetic(struct jinja *j, enum binop op, struct value a, struct value b)
{
    const bool ints = val_is_int(a) && val_is_int(b);
    const double x = val_as_float(a), y = val_as_float(b);
    int64_t r = 0;
    bool over = false;

    switch (op) {
    case OP_ADD:
        if (!ints)
            return val_float(x + y);
        over = __builtin_add_overflow(val_as_int(a), val_as_int(b), &r);
        break;
    case OP_SUB:
        if (!ints)
            return val_float(x - y);
        over = __builtin_sub_overflow(val_as_int(a), val_as_int(b), &r);
        break;
    case OP_MUL:
        if (!ints)
            return val_float(x * y);
        over = __builtin_mul_overflow(val_as_int(a), val_as_int(b), &r);
        break;
    case OP_DIV:
        if (y == 0)
            jinja_raise(j, EPROTO, "ZeroDivisionError: division by zero");
        return val_float(ints ? int_quotient(val_as_int(a), val_as_int(b)) : x / y);
    case OP_FLOORDIV:
    case OP_MOD:
        return ints ? int_floordiv(j, val_as_int(a), val_as_int(b), op == OP_MOD)
                    : float_floordiv(j, x, y, op == OP_MOD);
    default:
        return op_power(j, a, b);
    }
    if (over)
        raise_overflow(j);
    return val_int(r);
}

static struct value add_str(struct jinja *j, struct value a, struct value b)
{
    const bool markup = (a.flag | b.flag) & STR_MARKUP;

    if (markup && !a.flag)
        a = html_escape(j, a);
    if (markup && !b.flag)
        b = html_escape(j, b);
    return val_markup(val_concat(j, val_markup(a, false), val_markup(b, false)), markup);
}

struct value op_binary(struct jinja *j, enum binop op, struct value a, struct value b)
{
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "**"};

    if (val_is_num(a) && val_is_num(b))
        return op_arithmetic(j, op, a, b);
    if (op == OP_MOD && a.kind == V_STR)
        return format_percent(j, a, b);
    if (a.kind == V_UNDEF)
        jinja_raise_undef(j, a);
    if (b.kind == V_UNDEF)
        jinja_raise_undef(j, b);
    if (op == OP_ADD && a.kind == V_STR && b.kind == V_STR)
        return add_str(j, a, b);
    if (op == OP_ADD && val_is_seq(a) && a.kind == b.kind)
        return jlist_concat(j, a, b);
    if (op == OP_MUL && val_is_int(b) && (a.kind == V_STR || val_is_seq(a)))
        return op_repeat(j, a, val_as_int(b));
    if (op == OP_MUL && val_is_int(a) && (b.kind == V_STR || val_is_seq(b)))
        return op_repeat(j, b, val_as_int(a));
    if (op == OP_SUB && (a.kind == V_VIEW || b.kind == V_VIEW))
        raise_type(j, "sets are not supported in chat templates");
    raise_type(j, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op], val_type(a),
               val_type(b));
}

struct value op_negate(struct jinja *j, struct value a, bool negative)
{
    if (a.kind == V_FLOAT)
        return val_float(negative ? -a.u.f : a.u.f);
    if (val_is_int(a)) {
        if (negative && val_as_int(a) == INT64_MIN)
            raise_overflow(j);
        return val_int(negative ? -val_as_int(a) : val_as_int(a));
    }
    if (a.kind == V_UNDEF)
        jinja_raise_undef(j, a);
    raise_type(j, "bad operand type for unary %s: '%s'", negative ? "-" : "+", val_type(a));
}

/* ---- attributes and items ---- */

/* Returns whether the type of @obj does not support obj[arg]. */
static bool no_items(struct value obj)
{
    return obj.kind != V_STR && !val_is_seq(obj) && obj.kind != V_DICT && obj.kind != V_RANGE;
}

/* Evaluates obj[arg]. Returns false if Python would raise TypeError or LookupError. */
static bool find_item(struct jinja *j, struct value obj, struct value arg, struct value *ret)
{
    int64_t i, n;

    if (obj.kind == V_SELF && arg.kind == V_STR) {
        *ret = self_block(j, obj, arg.u.s);
        return ret->kind != V_MISSING;
    }
    if (no_items(obj))
        return false;
    if (obj.kind == V_DICT) {
        const struct value *v = val_hashable(j, arg) ? jdict_get(j, obj.u.d, arg) : NULL;

        if (v)
            *ret = *v;
        return v != NULL;
    }
    if (!val_is_int(arg))
        return false;
    i = val_as_int(arg);
    n = val_len(j, obj);
    if (i < 0)
        i += n;
    if (i < 0 || i >= n)
        return false;
    if (obj.kind == V_RANGE) {
        *ret = val_int(obj.u.range->start + obj.u.range->step * i);
    } else if (obj.kind == V_STR) {
        const size_t start = jstr_offset(j, obj.u.s, (size_t)i);
        const char *p = obj.u.s->data + start;

        u8_next(&p);
        *ret = val_sub(j, obj, start, (size_t)(p - obj.u.s->data));
    } else {
        *ret = obj.u.l->v[i];
    }
    return true;
}

/* Returns whether @name is an internal attribute of Python objects, which jinja2's sandbox
 * hides. */
static bool is_internal(const struct jstr *name)
{
    static const char *const all[] = {
        "__class__",   "__delattr__",   "__dir__",          "__doc__",
        "__eq__",      "__format__",    "__ge__",           "__getattribute__",
        "__gt__",      "__hash__",      "__init__",         "__init_subclass__",
        "__le__",      "__lt__",        "__ne__",           "__new__",
        "__reduce__",  "__reduce_ex__", "__repr__",         "__setattr__",
        "__sizeof__",  "__str__",       "__subclasshook__", "__len__",
        "__getitem__", "__contains__",  "__iter__",         "__add__",
        "__mul__",     "__rmul__",
    };

    for (size_t i = 0; name->len > 4 && name->data[0] == '_' && i < ARRAY_SIZE(all); i++)
        if (jstr_is(name, all[i]))
            return true;
    return false;
}

struct value op_getattr(struct jinja *j, struct value obj, struct jstr *name)
{
    struct value v;

    jinja_step(j, 1);
    if (obj.kind == V_UNDEF && !is_internal(name))
        jinja_raise_undef(j, obj);
    if (obj.kind == V_NS) {
        const struct value *at = jdict_get_str(j, obj.u.d, name);

        return at ? *at : undef_of(j, obj, val_of_jstr(name));
    }
    if (is_internal(name))
        return undef_hint(j, "access to an internal attribute is unsafe.");
    if (attr_find(j, obj, name, &v) || find_item(j, obj, val_of_jstr(name), &v))
        return v;
    return undef_of(j, obj, val_of_jstr(name));
}

struct value op_getitem(struct jinja *j, struct value obj, struct value arg)
{
    struct value v;

    jinja_step(j, 1);
    if (obj.kind == V_UNDEF)
        jinja_raise_undef(j, obj);
    if (find_item(j, obj, arg, &v))
        return v;
    if (arg.kind == V_STR) {
        if (obj.kind == V_NS) {
            const struct value *at = jdict_get_str(j, obj.u.d, arg.u.s);

            if (at)
                return *at;
        } else if (is_internal(arg.u.s)) {
            return undef_hint(j, "access to an internal attribute is unsafe.");
        } else if (attr_find(j, obj, arg.u.s, &v)) {
            return v;
        }
    }
    return undef_of(j, obj, arg);
}

static int64_t slice_index(struct jinja *j, struct value v)
{
    if (!val_is_int(v))
        raise_type(j, "slice indices must be integers or None");
    return val_as_int(v);
}

/* Converts the bounds of a slice, None or integers, to indices within the sequence. Raises a
 * TypeError for other types. */
static void slice_bounds(struct jinja *j, struct value start, struct value stop, int64_t step,
                         int64_t n, int64_t *ret_start, int64_t *ret_stop)
{
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    struct value in[2] = {start, stop};
    int64_t out[2] = {step < 0 ? high : low, step < 0 ? low : high};

    for (int k = 0; k < 2; k++) {
        int64_t i;

        if (in[k].kind == V_NONE || in[k].kind == V_MISSING)
            continue;
        i = slice_index(j, in[k]);
        if (i < 0)
            i = i < -n ? low : MAX(i + n, low);
        out[k] = MIN(i, high);
    }
    *ret_start = out[0];
    *ret_stop = out[1];
}

static struct value slice_str(struct jinja *j, struct value s, int64_t a, int64_t step, int64_t n)
{
    struct jbuf b = {0};
    struct value v;

    if (step == 1)
        return val_sub(j, s, jstr_offset(j, s.u.s, (size_t)a),
                       jstr_offset(j, s.u.s, (size_t)(a + n)));
    jinja_chars(j, s.u.s->len);
    if (n > 0) {
        const char *p = s.u.s->data + jstr_offset(j, s.u.s, (size_t)a), *q = p;

        for (int64_t i = 0;; i++) {
            q = p;
            jbuf_cp(j, &b, u8_next(&q));
            if (i + 1 == n)
                break;
            for (int64_t k = 0; k < (step < 0 ? -step : step); k++) {
                if (step < 0)
                    u8_prev(&p);
                else
                    u8_next(&p);
            }
        }
    }
    v = jbuf_value(j, &b);
    v.flag = s.flag;
    return v;
}

static struct value slice_range(struct jinja *j, const struct jrange *r, int64_t a, int64_t b,
                                int64_t step, int64_t n)
{
    struct jrange *out = JNEW(j, struct jrange);

    *out = (struct jrange){.start = r->start + a * r->step,
                           .stop = r->start + b * r->step,
                           .step = r->step * step,
                           .n = n};
    return (struct value){.kind = V_RANGE, .u.range = out};
}

struct value op_slice(struct jinja *j, struct value obj, struct value start, struct value stop,
                      struct value step)
{
    const int64_t by = step.kind == V_NONE ? 1 : slice_index(j, step);
    int64_t a, b, n;
    struct value v;

    if (obj.kind == V_UNDEF)
        jinja_raise_undef(j, obj);
    if (obj.kind == V_DICT)
        raise_type(j, "unhashable type: 'slice'");
    if (no_items(obj))
        raise_type(j, "'%s' object is not subscriptable", val_type(obj));
    if (by == 0)
        raise_value(j, "slice step cannot be zero");
    slice_bounds(j, start, stop, by, val_len(j, obj), &a, &b);
    if (by > 0)
        n = b > a ? (b - a - 1) / by + 1 : 0;
    else
        n = a > b ? (int64_t)(((uint64_t)a - (uint64_t)b - 1) / (0 - (uint64_t)by)) + 1 : 0;
    if (obj.kind == V_STR)
        return slice_str(j, obj, n ? a : 0, by, n);
    if (obj.kind == V_RANGE)
        return slice_range(j, obj.u.range, a, b, n > 1 ? by : by < 0 ? -1 : 1, n);
    v = val_list(j, (size_t)n);
    v.kind = obj.kind;
    for (int64_t i = 0; i < n; i++)
        v.u.l->v[i] = obj.u.l->v[a + i * by];
    return v;
}
