/* SPDX-License-Identifier: Apache-2.0 */
/* Defines filters that return numbers and single values. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chat/pystr.h"

#define FILTER(name)                                                                               \
    static struct value name(struct jinja *j UNUSED, struct value self UNUSED,                     \
                             struct value *a UNUSED, const struct args *args UNUSED)

FILTER(f_abs)
{
    if (self.kind == V_FLOAT)
        return val_float(fabs(self.u.f));
    if (!val_is_int(self))
        raise_type(j, "bad operand type for abs(): '%s'", val_type(self));
    return val_as_int(self) < 0 ? op_negate(j, self, true) : val_int(val_as_int(self));
}

FILTER(f_attr)
{
    struct value v;

    arg_str(j, a[0]);
    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    if (self.kind == V_NS || (a[0].u.s->len && a[0].u.s->data[0] == '_'))
        return op_getattr(j, self, a[0].u.s);
    return attr_find(j, self, a[0].u.s, &v) ? v : undef_of(j, self, a[0]);
}

FILTER(f_default)
{
    if (self.kind == V_UNDEF || (arg_true(j, a[1], false) && !val_truth(j, self)))
        return a[0].kind == V_MISSING ? val_cstr(j, "") : a[0];
    return self;
}

FILTER(f_length)
{
    const int64_t n = self.kind == V_LOOP ? loop_length(j, self.u.loop) : val_len(j, self);

    if (n < 0)
        raise_type(j, "object of type '%s' has no len()", val_type(self));
    return val_int(n);
}

/* Returns a copy of a number's text without surrounding space, with ASCII digits and without
 * underscores between digits. Returns NULL if an underscore is at another place, or if the text has
 * other characters that are not ASCII. */
static char *number_text(struct jinja *j, struct value s)
{
    const struct jstr *t = text_strip(j, s, MISSING, STRIP_BOTH).u.s;
    const char *p = t->data, *end = p + t->len;
    char *out = jinja_alloc(j, t->len + 1);
    size_t n = 0;

    jinja_chars(j, t->len);
    while (p < end) {
        const uint32_t cp = u8_next(&p);
        const int digit = cp_decimal(cp);

        if (cp == '_') {
            if (n == 0 || p >= end || *p == '_' || p[-2] == '_')
                return NULL;
        } else if (digit >= 0) {
            out[n++] = (char)('0' + digit);
        } else if (cp < 0x80 && cp) {
            out[n++] = (char)cp;
        } else {
            return NULL;
        }
    }
    out[n] = 0;
    return out;
}

/* Computes float(v) of a string. Returns false if Python would refuse the string. */
static bool parse_float(struct jinja *j, struct value s, double *ret)
{
    const char *t = number_text(j, s), *p = t;
    char *end;

    if (!t || !*t)
        return false;
    p += *p == '+' || *p == '-';
    /* strtod would also accept hexadecimal and nan(…). */
    if (!(*p >= '0' && *p <= '9') && *p != '.' && strcasecmp(p, "inf") != 0 &&
        strcasecmp(p, "infinity") != 0 && strcasecmp(p, "nan") != 0)
        return false;
    if (*p == '0' && (p[1] | 0x20) == 'x')
        return false;
    jinja_charge(j, COST_FLOAT);
    *ret = strtod(t, &end);
    return *end == 0 && end != t;
}

/* Computes int(v, base) of a string. */
static bool parse_int(struct jinja *j, struct value s, int64_t base, int64_t *ret)
{
    const char *t = number_text(j, s), *p = t;
    const bool negative = t && *t == '-';
    int64_t n = 0;
    int prefix = 0;

    if (!t || base < 0 || base == 1 || base > 36)
        return false;
    p += *p == '+' || *p == '-';
    if (p[0] == '0' && p[1])
        prefix = (p[1] | 0x20) == 'x'   ? 16
                 : (p[1] | 0x20) == 'o' ? 8
                 : (p[1] | 0x20) == 'b' ? 2
                                        : 0;
    if (prefix && (base == 0 || base == prefix)) {
        base = prefix;
        p += 2;
    } else if (base == 0) {
        base = 10;
        if (*p == '0' && strspn(p, "0") != strlen(p))
            return false;
    }
    if (!*p)
        return false;
    for (; *p; p++) {
        const char c = (char)(*p | 0x20);
        const int d = *p >= '0' && *p <= '9' ? *p - '0' : c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;

        if (d >= base)
            return false;
        if (__builtin_mul_overflow(n, base, &n) ||
            (negative ? __builtin_sub_overflow(n, d, &n) : __builtin_add_overflow(n, d, &n)))
            jinja_raise(j, EPROTO, "OverflowError: an integer is larger than 64 bits");
    }
    *ret = n;
    return true;
}

static bool int_of_float(double f, int64_t *ret)
{
    if (!(f >= -0x1p63 && f < 0x1p63))
        return false;
    *ret = (int64_t)f;
    return true;
}

FILTER(f_int)
{
    const struct value otherwise = a[0].kind == V_MISSING ? val_int(0) : a[0];
    const int64_t base = arg_int(j, a[1], 10);
    int64_t i;
    double f;

    switch (self.kind) {
    case V_UNDEF:
        jinja_raise_undef(j, self);
    case V_BOOL:
    case V_INT:
        return val_int(val_as_int(self));
    case V_FLOAT:
        if (isnan(self.u.f))
            return otherwise;
        if (!int_of_float(self.u.f, &i))
            jinja_raise(j, EPROTO, "OverflowError: this float is not a 64-bit integer");
        return val_int(i);
    case V_STR:
        if (parse_int(j, self, base, &i))
            return val_int(i);
        if (!parse_float(j, self, &f) || isnan(f) || isinf(f))
            return otherwise;
        if (!int_of_float(f, &i))
            jinja_raise(j, EPROTO, "OverflowError: an integer is larger than 64 bits");
        return val_int(i);
    default:
        return otherwise;
    }
}

FILTER(f_float)
{
    double f;

    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    if (val_is_num(self))
        return val_float(val_as_float(self));
    if (self.kind == V_STR && parse_float(j, self, &f))
        return val_float(f);
    return a[0].kind == V_MISSING ? val_float(0) : a[0];
}

/* Rounds to @n decimals in the same way as Python's round(): the exact binary value is rounded to
 * the nearest number with @n decimals, and a value exactly in the middle between two such numbers
 * is rounded to the one whose last digit is even. */
static double round_float(struct jinja *j, double f, int64_t n)
{
    char text[512];

    jinja_charge(j, COST_FLOAT);
    if (isnan(f) || isinf(f) || n > 323)
        return f;
    if (n < -308)
        return copysign(0, f);
    if (n >= 0) {
        snprintf(text, sizeof(text), "%.*f", (int)MIN(n, 120), f);
        return n > 120 ? f : strtod(text, NULL);
    }
    /* Here @n is negative. Powers of ten up to 10^22 are exact, so for them only the division
     * rounds. */
    const double p = pow(10, (double)-n), y = f / p;
    double r = nearbyint(y);

    if (fabs(y - trunc(y)) == 0.5)
        r = 2 * nearbyint(y / 2);
    return r * p;
}

static struct value round_int(struct jinja *j, int64_t i, int64_t n)
{
    int64_t p = 1, half, q, rest;

    if (n >= 0)
        return val_int(i);
    if (n < -18)
        return val_int(0);
    while (n++ < 0)
        p *= 10;
    half = p / 2;
    q = i / p * p;
    rest = i - q;
    if (rest < 0) {
        rest += p;
        q -= p;
    }
    if (rest > half || (rest == half && (q / p) % 2 != 0))
        if (__builtin_add_overflow(q, p, &q))
            jinja_raise(j, EPROTO, "OverflowError: an integer is larger than 64 bits");
    return val_int(q);
}

FILTER(f_round)
{
    const int64_t n = a[0].kind == V_NONE ? 0 : arg_int(j, a[0], 0);
    const bool common = a[1].kind == V_MISSING || val_str_is(a[1], "common");
    const bool ceiling = val_str_is(a[1], "ceil");
    struct value scale, r;
    int64_t whole;
    double f;

    if (!common && !ceiling && !val_str_is(a[1], "floor"))
        jinja_raise(j, EPROTO, "method must be common, ceil or floor");
    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    if (!val_is_num(self))
        raise_type(j, "type %s doesn't define __round__ method", val_type(self));
    if (common && a[0].kind == V_NONE) { /* round(x, None) gives an integer */
        if (self.kind != V_FLOAT)
            return val_int(val_as_int(self));
        f = nearbyint(self.u.f);
        if (!int_of_float(f, &whole))
            jinja_raise(j, EPROTO, "OverflowError: this float is not a 64-bit integer");
        return val_int(whole);
    }
    if (common)
        return self.kind == V_FLOAT ? val_float(round_float(j, self.u.f, n))
                                    : round_int(j, val_as_int(self), n);
    scale = op_binary(j, OP_POW, val_int(10), val_int(n));
    r = op_binary(j, OP_MUL, self, scale);
    if (r.kind == V_FLOAT) {
        if (!int_of_float(ceiling ? ceil(r.u.f) : floor(r.u.f), &whole))
            jinja_raise(j, EPROTO, "OverflowError: this float is not a 64-bit integer");
        r = val_int(whole);
    }
    return op_binary(j, OP_DIV, r, scale);
}

FILTER(f_filesizeformat)
{
    static const char *const prefixes[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    const bool binary = arg_true(j, a[0], false);
    const double base = binary ? 1024 : 1000;
    double bytes = 0, unit = base;
    char text[64];
    size_t i = 0;

    jinja_charge(j, COST_FLOAT);
    if (self.kind == V_UNDEF)
        jinja_raise_undef(j, self);
    if (val_is_num(self))
        bytes = val_as_float(self);
    else if (self.kind != V_STR)
        raise_type(j, "float() argument must be a string or a number");
    else if (!parse_float(j, self, &bytes))
        raise_value(j, "could not convert string to float");
    if (bytes == 1)
        return val_cstr(j, "1 Byte");
    if (bytes < base) {
        if (isinf(bytes))
            jinja_raise(j, EPROTO, "OverflowError: cannot convert float infinity to integer");
        snprintf(text, sizeof(text), "%.0f Bytes", trunc(bytes) + 0.0);
        return val_str(j, text, strlen(text));
    }
    for (; i < ARRAY_SIZE(prefixes); i++) {
        unit *= base;
        if (bytes < unit || i + 1 == ARRAY_SIZE(prefixes))
            break;
    }
    snprintf(text, sizeof(text), "%.1f %c%sB", base * bytes / unit,
             binary && i == 0 ? 'K' : prefixes[i][0], binary ? "i" : "");
    return val_str(j, text, strlen(text));
}

FILTER(f_pprint)
{
    struct jbuf b = {0};

    /* Python's pprint breaks and sorts values that are longer than a line. Only shorter values are
     * supported. */
    val_repr(j, &b, self);
    if (b.used > 78)
        jinja_raise(j, EPROTO, "pprint of a long value is not supported");
    return jbuf_value(j, &b);
}

FILTER(f_random)
{
    jinja_raise(j, EPROTO, "the filter 'random' is not supported in prompts");
}

const struct builtin filters_value[] = {
    {"default", "default_value? boolean?", f_default},
    {"d", "default_value? boolean?", f_default},
    {"length", "", f_length},
    {"count", "", f_length},
    {"int", "default? base?", f_int},
    {"float", "default?", f_float},
    {"abs", "", f_abs},
    {"attr", "name", f_attr},
    {"round", "precision? method?", f_round},
    {"filesizeformat", "binary?", f_filesizeformat},
    {"pprint", "", f_pprint},
    {"random", "*", f_random},
    {0},
};
