/* SPDX-License-Identifier: Apache-2.0 */
/* Defines the tests of the operator `is`. */
#include <math.h>

#include "chat/jinja.h"

#define TESTFN(name)                                                                               \
    static struct value name(struct jinja *j UNUSED, struct value self, struct value *a UNUSED,    \
                             const struct args *args UNUSED)
#define SIMPLE_TEST(name, expr)                                                                    \
    TESTFN(name)                                                                                   \
    {                                                                                              \
        return val_bool(expr);                                                                     \
    }

static bool remainder_is(struct jinja *j, struct value v, struct value by, int64_t want)
{
    if (v.kind == V_UNDEF)
        jinja_raise_undef(j, v);
    /* If the value is a string, the operator % formats the string, and the result is a string,
     * which equals no number. */
    return val_eq(j, op_binary(j, OP_MOD, v, by), val_int(want));
}

static bool is_sequence(struct value v)
{
    switch (v.kind) {
    case V_STR:
    case V_LIST:
    case V_TUPLE:
    case V_DICT:
    case V_RANGE:
        return true;
    default:
        return false;
    }
}

static bool is_callable(struct value v)
{
    switch (v.kind) {
    case V_FUNC:
    case V_MACRO:
    case V_LOOP:
    case V_JOINER:
    case V_DICT_TYPE:
    case V_BLOCK:
    case V_UNDEF:
        return true;
    default:
        return false;
    }
}

static bool is_cased(struct jinja *j, struct value v, const char *method)
{
    const struct value s = val_to_str(j, v);

    return call_value(j, op_getattr(j, s, val_cstr(j, method).u.s), &(struct args){0}).u.b;
}

static bool is_less(struct jinja *j, struct value a, struct value b, bool or_equal)
{
    bool nan;
    const int c = val_cmp(j, a, b, &nan);

    return !nan && (c < 0 || (or_equal && c == 0));
}

static bool is_named(struct jinja *j, struct value v, bool test)
{
    if (!val_hashable(j, v))
        raise_type(j, "unhashable type: '%s'", val_type(v));
    return v.kind == V_STR && (test ? test_find(v.u.s) : filter_find(v.u.s));
}

SIMPLE_TEST(t_defined, self.kind != V_UNDEF)
SIMPLE_TEST(t_undefined, self.kind == V_UNDEF)
SIMPLE_TEST(t_none, self.kind == V_NONE)
SIMPLE_TEST(t_boolean, self.kind == V_BOOL)
SIMPLE_TEST(t_false, self.kind == V_BOOL && !self.u.b)
SIMPLE_TEST(t_true, self.kind == V_BOOL && self.u.b)
SIMPLE_TEST(t_integer, self.kind == V_INT)
SIMPLE_TEST(t_float, self.kind == V_FLOAT)
SIMPLE_TEST(t_number, val_is_num(self))
SIMPLE_TEST(t_string, self.kind == V_STR)
SIMPLE_TEST(t_mapping, self.kind == V_DICT)
SIMPLE_TEST(t_sequence, is_sequence(self) || self.kind == V_UNDEF)
SIMPLE_TEST(t_iterable, self.kind == V_LOOP || iter_try(j, self) != NULL)
SIMPLE_TEST(t_callable, is_callable(self))
SIMPLE_TEST(t_escaped, self.kind == V_STR && self.flag & STR_MARKUP)
SIMPLE_TEST(t_sameas, val_same(j, self, a[0]))
SIMPLE_TEST(t_even, remainder_is(j, self, val_int(2), 0))
SIMPLE_TEST(t_odd, remainder_is(j, self, val_int(2), 1))
SIMPLE_TEST(t_divisibleby, remainder_is(j, self, a[0], 0))
SIMPLE_TEST(t_lower, is_cased(j, self, "islower"))
SIMPLE_TEST(t_upper, is_cased(j, self, "isupper"))
SIMPLE_TEST(t_in, val_contains(j, a[0], self))
SIMPLE_TEST(t_eq, val_eq(j, self, a[0]))
SIMPLE_TEST(t_ne, !val_eq(j, self, a[0]))
SIMPLE_TEST(t_lt, is_less(j, self, a[0], false))
SIMPLE_TEST(t_le, is_less(j, self, a[0], true))
SIMPLE_TEST(t_gt, is_less(j, a[0], self, false))
SIMPLE_TEST(t_ge, is_less(j, a[0], self, true))
SIMPLE_TEST(t_filter, is_named(j, self, false))
SIMPLE_TEST(t_test, is_named(j, self, true))

const struct builtin tests_all[] = {
    {"defined", "", t_defined},
    {"undefined", "", t_undefined},
    {"none", "", t_none},
    {"string", "", t_string},
    {"mapping", "", t_mapping},
    {"iterable", "", t_iterable},
    {"sequence", "", t_sequence},
    {"boolean", "", t_boolean},
    {"true", "", t_true},
    {"false", "", t_false},
    {"integer", "", t_integer},
    {"float", "", t_float},
    {"number", "", t_number},
    {"in", "seq", t_in},
    {"eq", "/b", t_eq},
    {"equalto", "/b", t_eq},
    {"==", "/b", t_eq},
    {"ne", "/b", t_ne},
    {"!=", "/b", t_ne},
    {"lt", "/b", t_lt},
    {"lessthan", "/b", t_lt},
    {"<", "/b", t_lt},
    {"le", "/b", t_le},
    {"<=", "/b", t_le},
    {"gt", "/b", t_gt},
    {"greaterthan", "/b", t_gt},
    {">", "/b", t_gt},
    {"ge", "/b", t_ge},
    {">=", "/b", t_ge},
    {"odd", "", t_odd},
    {"even", "", t_even},
    {"divisibleby", "num", t_divisibleby},
    {"sameas", "other", t_sameas},
    {"lower", "", t_lower},
    {"upper", "", t_upper},
    {"callable", "", t_callable},
    {"escaped", "", t_escaped},
    {"filter", "", t_filter},
    {"test", "", t_test},
    {0},
};
