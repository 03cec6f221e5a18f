/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers: bounds, multiples, enumerations
 *
 * Integers are written without a fraction. Numbers with bounds, multiples or exclusions are written
 * without an exponent; other numbers may have one. There is a limit of digits, because a model may
 * otherwise write the digits of 1/3 forever.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/schema.h"

/* The constraints on numbers, merged from all schemas that apply to one place (struct facts). */
struct bounds {
    struct range range;
    struct schema_values multiples, excluded;
    const struct schema_value *low_at, *high_at;
    bool has_far; /* bound_is_far() is true of one of the bounds */
};

/* A number without an exponent has at most DECIMAL_DIGITS (64) digits before the point, so its
 * magnitude is below this value. */
#define BOUND_FAR 1e64

static grammar_node number_signed(struct schema *s, grammar_node rest)
{
    const grammar_node parts[] = {schema_optional(s, schema_chars(s, "-")), rest};

    return schema_seq(s, parts, 2);
}

static grammar_node number_digits(struct schema *s, const char *head, uint32_t min, uint32_t max)
{
    const grammar_node parts[] = {schema_chars(s, head), grammar_repeat(s->b, s->digit, min, max)};

    return schema_seq(s, parts, 2);
}

static grammar_node number_integer(struct schema *s)
{
    const struct grammar_range first = {'1', '9'};
    const grammar_node parts[] = {grammar_class(s->b, &first, 1, false),
                                  grammar_repeat(s->b, s->digit, 0, DECIMAL_DIGITS - 1)};
    const grammar_node ways[] = {schema_chars(s, "0"), schema_seq(s, parts, 2)};

    return schema_alt(s, ways, 2);
}

static grammar_node number_exponent(struct schema *s)
{
    const grammar_node letters[] = {schema_chars(s, "e"), schema_chars(s, "E")};
    const grammar_node signs[] = {schema_chars(s, "+"), schema_chars(s, "-")};
    const grammar_node parts[] = {schema_alt(s, letters, 2),
                                  schema_optional(s, schema_alt(s, signs, 2)),
                                  grammar_repeat(s->b, s->digit, 1, 3)};

    return schema_seq(s, parts, 3);
}

grammar_node schema_number_any(struct schema *s, unsigned types)
{
    grammar_node parts[3];

    if (!(types & TYPE_FRACTION))
        return number_signed(s, number_integer(s));
    parts[0] = number_integer(s);
    parts[1] = schema_optional(s, number_digits(s, ".", 1, DECIMAL_DIGITS / 2));
    parts[2] = schema_optional(s, number_exponent(s));
    return number_signed(s, schema_seq(s, parts, 3));
}

/* Returns the node of texts that have a digit other than 0 after the decimal point. */
static grammar_node number_broken(struct schema *s)
{
    static const struct grammar_range some = {'1', '9'};
    const grammar_node digits = grammar_repeat(s->b, s->digit, 0, GRAMMAR_FOREVER);
    const grammar_node parts[] = {digits, schema_chars(s, "."), digits,
                                  grammar_class(s->b, &some, 1, false), digits};

    return number_signed(s, schema_seq(s, parts, 5));
}

/* -- constraints -- */

/* Returns whether every number that can be written without an exponent satisfies the bound @v. */
static bool bound_is_far(const struct schema_value *v, bool low)
{
    const double x = v->type == VALUE_NUMBER ? strtod(v->text, NULL) : 0;

    return low ? x <= -BOUND_FAR : x >= BOUND_FAR;
}

static bool bounds_apply(struct schema *s, struct bounds *b, const struct schema_value *v, bool low,
                         bool open)
{
    struct range *r = &b->range;
    struct decimal d;
    int order;

    if (!decimal_read(v, &d)) {
        b->has_far = bound_is_far(v, low);
        if (!b->has_far)
            schema_fail(s, EINVAL, v, "the number has more than %d digits", DECIMAL_DIGITS);
        return b->has_far;
    }
    order = low && r->has_low     ? decimal_compare(&d, &r->low)
            : !low && r->has_high ? decimal_compare(&r->high, &d)
                                  : 1;
    if (order < 0)
        return true;
    if (low) {
        r->low_open = order == 0 ? r->low_open || open : open;
        r->low = d;
        r->has_low = true;
        b->low_at = v;
    } else {
        r->high_open = order == 0 ? r->high_open || open : open;
        r->high = d;
        r->has_high = true;
        b->high_at = v;
    }
    return true;
}

static bool bounds_append(struct schema *s, struct schema_values *list,
                          const struct schema_value *v)
{
    const struct schema_value **more =
        arena_alloc(&s->arena, (list->n + (size_t)1) * sizeof(*more));

    if (!more) {
        schema_fail(s, ENOMEM, v, "out of memory");
        return false;
    }
    if (list->n > 0)
        memcpy(more, list->v, list->n * sizeof(*more));
    more[list->n] = v;
    list->v = more;
    list->n++;
    return true;
}

/* In draft 4 exclusiveMinimum is a boolean that makes minimum exclusive. */
static bool bounds_apply_pair(struct schema *s, struct bounds *b, const struct schema_value *v,
                              const char *plain, const char *exclusive, bool low)
{
    const struct schema_value *p = schema_get(v, plain), *e = schema_get(v, exclusive);
    const bool open = e && e->type == VALUE_BOOL && e->truth;

    if (p && !bounds_apply(s, b, p, low, open))
        return false;
    return !e || e->type != VALUE_NUMBER || bounds_apply(s, b, e, low, true);
}

static bool bounds_read(struct schema *s, struct bounds *b, const struct facts *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        const struct schema_value *v = f->v[i].v, *m = schema_get(v, "multipleOf");
        const struct schema_value *excluded = schema_get(v, " excluded");

        if (!bounds_apply_pair(s, b, v, "minimum", "exclusiveMinimum", true) ||
            !bounds_apply_pair(s, b, v, "maximum", "exclusiveMaximum", false))
            return false;
        if (m && !bounds_append(s, &b->multiples, m))
            return false;
        for (excluded = excluded ? excluded->first : NULL; excluded; excluded = excluded->next)
            if (excluded->type == VALUE_NUMBER && !bounds_append(s, &b->excluded, excluded))
                return false;
    }
    return true;
}

/* -- multiples -- */

/* Reads @v as factor × 10^-n_frac × 10^zeros. */
static bool multiple_read(struct schema *s, const struct schema_value *v, uint32_t *ret_factor,
                          uint32_t *ret_frac, uint32_t *ret_zeros)
{
    struct decimal d;
    uint64_t n = 0;
    uint32_t zeros = 0;

    if (!decimal_read(v, &d) || d.negative || d.n_int + d.n_frac == 0) {
        schema_fail(s, EINVAL, v, "multipleOf must be a number above 0");
        return false;
    }
    for (int i = 0; i < d.n_int + d.n_frac && n < MULTIPLE_STATES * 1000; i++)
        n = n * 10 + (uint64_t)(d.digits[i] - '0');
    while (d.n_frac == 0 && n % 10 == 0 && zeros < MULTIPLE_DIGITS - 1) {
        n /= 10;
        zeros++;
    }
    *ret_factor = (uint32_t)n;
    *ret_frac = d.n_frac;
    *ret_zeros = zeros;
    return true;
}

static uint32_t bound_length(const struct range *r)
{
    if (!r->has_low || !r->has_high)
        return MULTIPLE_DIGITS;
    return (uint32_t)MAX(1, MAX(r->low.n_int, r->high.n_int));
}

static grammar_node number_multiple(struct schema *s, const struct schema_value *v,
                                    const struct range *r, unsigned types)
{
    const uint32_t length = MIN(bound_length(r), (uint32_t)MULTIPLE_DIGITS);
    uint32_t factor, n_frac, zeros, n_int;
    grammar_node node, parts[2];

    if (!multiple_read(s, v, &factor, &n_frac, &zeros))
        return BUILDER_NONE;
    n_int = length > zeros ? length - zeros : 1;
    if ((uint64_t)factor * (n_int + n_frac) > MULTIPLE_STATES)
        return s->loose ? schema_number_any(s, types)
                        : schema_fail(s, EINVAL, v, "the number is too large for multipleOf");
    if (!(types & TYPE_FRACTION) && n_frac > 0) {
        /* An integer has no digits after the point, even if the value of multipleOf has
         * some. */
        grammar_node ways[] = {multiple_node(s, factor, n_int, n_frac),
                               schema_number_any(s, types)};

        return grammar_and(s->b, ways[0], ways[1]);
    }
    node = multiple_node(s, factor, n_int, n_frac);
    if (zeros == 0 || s->r < 0)
        return node;
    parts[0] = node;
    parts[1] = grammar_repeat(s->b, schema_chars(s, "0"), zeros, zeros);
    parts[1] = schema_seq(s, parts, 2);
    parts[0] = schema_chars(s, "0");
    /* "0" with more zeros after it is not a number. The intersection with all integers excludes
     * it. */
    node = schema_alt(s, parts, 2);
    return grammar_and(s->b, node, schema_number_any(s, TYPE_INTEGER));
}

/* -- texts of one number -- */

static grammar_node number_zeros(struct schema *s, const char *head)
{
    const grammar_node parts[] = {schema_chars(s, head),
                                  grammar_repeat(s->b, schema_chars(s, "0"), 0, GRAMMAR_FOREVER)};

    return schema_seq(s, parts, 2);
}

/* Returns the node of all ways to write a number without an exponent. */
static grammar_node number_spellings(struct schema *s, const struct schema_value *v)
{
    struct decimal d;
    grammar_node parts[6];
    size_t n = 0;

    if (!decimal_read(v, &d))
        return schema_fail(s, EINVAL, v, "the number has more than %d digits", DECIMAL_DIGITS);
    if (d.negative || d.n_int + d.n_frac == 0)
        parts[n++] = d.negative ? schema_chars(s, "-") : schema_optional(s, schema_chars(s, "-"));
    parts[n++] = d.n_int ? grammar_bytes(s->b, d.digits, d.n_int) : schema_chars(s, "0");
    if (d.n_frac) {
        parts[n++] = schema_chars(s, ".");
        parts[n] = grammar_bytes(s->b, d.digits + d.n_int, d.n_frac);
        parts[n + 1] = number_zeros(s, "");
        parts[n] = schema_seq(s, parts + n, 2);
        n++;
    } else {
        parts[n++] = schema_optional(s, number_zeros(s, ".0"));
    }
    return schema_seq(s, parts, n);
}

/* Returns the node of a number of an enum. The number is written without an exponent, or as in the
 * schema if it has too many digits. */
static grammar_node number_constant(struct schema *s, const struct schema_value *v)
{
    struct decimal d;
    grammar_node parts[4];
    size_t n = 0;

    if (!decimal_read(v, &d))
        return grammar_bytes(s->b, v->text, v->len);
    if (d.negative)
        parts[n++] = schema_chars(s, "-");
    parts[n++] = d.n_int ? grammar_bytes(s->b, d.digits, d.n_int) : schema_chars(s, "0");
    if (d.n_frac) {
        parts[n++] = schema_chars(s, ".");
        parts[n++] = grammar_bytes(s->b, d.digits + d.n_int, d.n_frac);
    } else if (memchr(v->text, '.', v->len)) {
        parts[n++] = schema_optional(s, schema_chars(s, ".0"));
    }
    return schema_seq(s, parts, n);
}

/* Returns the node of the numbers of an enum that have one of the types. */
static grammar_node number_values(struct schema *s, const struct schema_values *values,
                                  unsigned types)
{
    _cleanup_free_ grammar_node *ways = NEW(grammar_node, values->n + (size_t)1);
    struct decimal d;
    size_t n = 0;

    if (!ways)
        return schema_fail(s, ENOMEM, s->root, "out of memory");
    for (uint32_t i = 0; i < values->n; i++) {
        const struct schema_value *v = values->v[i];

        if (v->type != VALUE_NUMBER || !schema_step(s, v, 1))
            continue;
        if (decimal_read(v, &d) && !(types & (d.n_frac ? TYPE_FRACTION : TYPE_INTEGER)))
            continue;
        ways[n++] = number_constant(s, v);
    }
    return s->r < 0 ? BUILDER_NONE : schema_alt(s, ways, n);
}

static grammar_node number_and(struct schema *s, grammar_node a, grammar_node b)
{
    if (a == BUILDER_NONE || b == BUILDER_NONE)
        return BUILDER_NONE;
    if (a == s->nothing || b == s->nothing)
        return s->nothing;
    return a == b ? a : grammar_and(s->b, a, b);
}

static grammar_node number_restrict(struct schema *s, grammar_node node, const struct bounds *b,
                                    unsigned types)
{
    const struct range *r = &b->range;

    for (uint32_t i = 0; i < b->multiples.n && node != BUILDER_NONE; i++)
        node = number_and(s, node, number_multiple(s, b->multiples.v[i], r, types));
    for (uint32_t i = 0; i < b->excluded.n && node != BUILDER_NONE; i++)
        node = number_and(s, node, grammar_not(s->b, number_spellings(s, b->excluded.v[i])));
    if (types == TYPE_FRACTION)
        node = number_and(s, node, number_broken(s));
    return node;
}

grammar_node schema_number(struct schema *s, const struct facts *f, unsigned types)
{
    struct bounds b = {0};
    struct schema_values values;
    bool has_values, bounded;
    grammar_node node;

    if (!bounds_read(s, &b, f) || !schema_enum_values(s, f, &values, &has_values))
        return BUILDER_NONE;
    bounded = b.range.has_low || b.range.has_high || b.has_far;
    if (bounded || b.multiples.n > 0 || b.excluded.n > 0 || types == TYPE_FRACTION) {
        node = range_node(s, &b.range, types & TYPE_FRACTION);
        if (node == s->nothing)
            return schema_conflict(s, b.low_at ? b.low_at : b.high_at, "no number fits the bounds");
        node = number_restrict(s, node, &b, types);
        return has_values ? number_and(s, node, number_values(s, &values, types)) : node;
    }
    return has_values ? number_values(s, &values, types) : schema_number_any(s, types);
}
