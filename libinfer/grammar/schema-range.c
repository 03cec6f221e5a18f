/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes nodes of the numbers in a range, by comparing digits from the left
 *
 * A text is *tight* to a bound while all its digits so far are those of the bound. The next digit
 * of such a text may not pass the digit of the bound. Any digit may follow other texts. The nodes
 * form a tree whose size is proportional to the digits of the bounds.
 */
#include <errno.h>
#include <string.h>

#include "grammar/schema.h"

/* With at most 15 digits, different numbers are different as 64-bit floats, too. */
enum { INT_DIGITS = DECIMAL_DIGITS, FLOAT_DIGITS = 15, FRAC_MAX = 32 };

/* Bounds of numbers without sign. */
struct span {
    const struct decimal *low, *high; /* @high may be NULL */
    bool low_open, high_open, fraction;
    int n_frac; /* the largest number of digits after the point */
};

static grammar_node span_digits(struct schema *s, char first, char last)
{
    const struct grammar_range range = {(uint32_t)first, (uint32_t)last};

    return grammar_class(s->b, &range, 1, false);
}

/* Returns digit @i of the integer part of @d. The integer part of 0.5 is "0". */
static char span_digit(const struct decimal *d, int i)
{
    return d->n_int == 0 ? '0' : d->digits[i];
}

static int span_length(const struct decimal *d)
{
    return MAX(d->n_int, 1);
}

static char span_fraction_digit(const struct decimal *d, int i)
{
    return i < d->n_frac ? d->digits[d->n_int + i] : '0';
}

/* Returns whether the number may end after @i digits of the fraction. */
static bool span_may_end(const struct span *m, int i, bool tight_low, bool tight_high)
{
    if (tight_low && (i < m->low->n_frac || m->low_open))
        return false;
    return !tight_high || i < m->high->n_frac || !m->high_open;
}

/* The next part of a tree: digits from @first to @last, then what follows each of them. */
struct fork {
    char first, last;
    bool tight_low, tight_high;
};

static grammar_node span_fraction(struct schema *s, const struct span *m, int i, bool tight_low,
                                  bool tight_high);
static grammar_node span_integer(struct schema *s, const struct span *m, int length, int i,
                                 bool tight_low, bool tight_high);

static grammar_node span_branch(struct schema *s, const struct span *m, int length, int i,
                                char first, char last, bool tight_low, bool tight_high)
{
    grammar_node parts[2];

    if (first > last)
        return s->nothing;
    parts[1] = length > 0 ? span_integer(s, m, length, i + 1, tight_low, tight_high)
                          : span_fraction(s, m, i + 1, tight_low, tight_high);
    if (parts[1] == s->nothing || parts[1] == BUILDER_NONE)
        return parts[1];
    parts[0] = span_digits(s, first, last);
    return schema_seq(s, parts, 2);
}

/* Returns the node of the digits from here on. @length is 0 in the fraction. With @ends the number
 * may also end here. */
static grammar_node span_fork(struct schema *s, const struct span *m, int length, int i,
                              struct fork f, bool ends)
{
    grammar_node ways[4];
    size_t n = 0;

    if (ends)
        ways[n++] = grammar_empty(s->b);
    if (f.tight_low && f.tight_high && f.first == f.last) {
        ways[n++] = span_branch(s, m, length, i, f.first, f.first, true, true);
        return schema_alt(s, ways, n);
    }
    if (f.tight_low) {
        ways[n++] = span_branch(s, m, length, i, f.first, f.first, true, false);
        f.first++;
    }
    if (f.tight_high) {
        ways[n++] = span_branch(s, m, length, i, f.last, f.last, false, true);
        f.last--;
    }
    if (f.first <= f.last)
        ways[n++] = span_branch(s, m, length, i, f.first, f.last, false, false);
    return schema_alt(s, ways, n);
}

static grammar_node span_fraction(struct schema *s, const struct span *m, int i, bool tight_low,
                                  bool tight_high)
{
    const bool ends = span_may_end(m, i, tight_low, tight_high);
    struct fork f = {'0', '9', tight_low, tight_high};

    if (i >= m->n_frac)
        return ends ? grammar_empty(s->b) : s->nothing;
    if (!tight_low && !tight_high)
        return grammar_repeat(s->b, s->digit, 0, (uint32_t)(m->n_frac - i));
    if (tight_low)
        f.first = span_fraction_digit(m->low, i);
    if (tight_high)
        f.last = span_fraction_digit(m->high, i);
    if (f.first > f.last)
        return ends ? grammar_empty(s->b) : s->nothing;
    return span_fork(s, m, 0, i, f, ends);
}

/* Returns the node of the text after the digits of the integer part. */
static grammar_node span_tail(struct schema *s, const struct span *m, bool tight_low,
                              bool tight_high)
{
    const bool ends = span_may_end(m, 0, tight_low, tight_high);
    struct fork f = {'0', '9', tight_low, tight_high};
    grammar_node parts[2];

    if (!m->fraction)
        return ends ? grammar_empty(s->b) : s->nothing;
    if (tight_low)
        f.first = span_fraction_digit(m->low, 0);
    if (tight_high)
        f.last = span_fraction_digit(m->high, 0);
    parts[0] = schema_chars(s, ".");
    parts[1] = f.first <= f.last ? span_fork(s, m, 0, 0, f, false) : s->nothing;
    parts[0] = schema_seq(s, parts, 2);
    return ends ? schema_optional(s, parts[0]) : parts[0];
}

static grammar_node span_integer(struct schema *s, const struct span *m, int length, int i,
                                 bool tight_low, bool tight_high)
{
    struct fork f = {i == 0 && length > 1 ? '1' : '0', '9', tight_low, tight_high};

    if (i == length)
        return span_tail(s, m, tight_low, tight_high);
    if (!tight_low && !tight_high && i > 0) {
        const grammar_node parts[] = {
            grammar_repeat(s->b, s->digit, (uint32_t)(length - i), (uint32_t)(length - i)),
            span_tail(s, m, false, false)};

        return schema_seq(s, parts, 2);
    }
    if (tight_low)
        f.first = span_digit(m->low, i);
    if (tight_high)
        f.last = span_digit(m->high, i);
    return f.first > f.last ? s->nothing : span_fork(s, m, length, i, f, false);
}

/* Returns the node of the numbers whose integer part has between @from and @to digits. @from is at
 * least 2. */
static grammar_node span_lengths(struct schema *s, const struct span *m, int from, int to)
{
    grammar_node parts[3];

    if (from > to)
        return s->nothing;
    parts[0] = span_digits(s, '1', '9');
    parts[1] = grammar_repeat(s->b, s->digit, (uint32_t)from - 1, (uint32_t)to - 1);
    parts[2] = span_tail(s, m, false, false);
    return schema_seq(s, parts, 3);
}

static grammar_node span_node(struct schema *s, const struct span *m)
{
    const int low = span_length(m->low), high = m->high ? span_length(m->high) : INT_DIGITS + 1;
    grammar_node ways[3];

    if (low > INT_DIGITS)
        return s->nothing;
    ways[0] = span_integer(s, m, low, 0, true, low == high);
    ways[1] = span_lengths(s, m, low + 1, high - 1);
    ways[2] = m->high && high > low ? span_integer(s, m, high, 0, false, true) : s->nothing;
    return schema_alt(s, ways, 3);
}

static bool range_is_empty(const struct range *r)
{
    int order;

    if (!r->has_low || !r->has_high)
        return false;
    order = decimal_compare(&r->low, &r->high);
    return order > 0 || (order == 0 && (r->low_open || r->high_open));
}

static const struct decimal zero;

static int range_digits(const struct range *r)
{
    const int room = FLOAT_DIGITS - MAX(r->low.n_int, r->high.n_int);

    return MAX(MAX(room, 2), MAX(r->low.n_frac, r->high.n_frac));
}

/* Returns the node of the numbers of a range that have a minus sign. */
static grammar_node range_negative(struct schema *s, const struct range *r, bool fraction)
{
    struct decimal low = r->high, high = r->low;
    /* Zero has a negative spelling among the numbers with a fraction: -0.0. */
    const bool above = !r->has_high || decimal_compare(&r->high, &zero) > 0;
    const bool zero_ok = above || (decimal_compare(&r->high, &zero) == 0 && !r->high_open);
    const bool to_zero = above || decimal_compare(&r->high, &zero) == 0;
    struct span m = {.low = to_zero ? &zero : &low,
                     .high = r->has_low ? &high : NULL,
                     .low_open = to_zero ? !zero_ok || !fraction : r->high_open,
                     .high_open = r->low_open,
                     .fraction = fraction,
                     .n_frac = range_digits(r)};
    const struct decimal one = {.n_int = 1, .digits = "1"};
    grammar_node parts[2];

    if (r->has_low && (!r->low.negative))
        return s->nothing;
    low.negative = high.negative = false;
    if (!fraction && to_zero) {
        m.low = &one;
        m.low_open = false;
    }
    parts[0] = schema_chars(s, "-");
    parts[1] = span_node(s, &m);
    return schema_seq(s, parts, 2);
}

static grammar_node range_positive(struct schema *s, const struct range *r, bool fraction)
{
    const bool from_zero = !r->has_low || r->low.negative;
    const struct span m = {.low = from_zero ? &zero : &r->low,
                           .high = r->has_high ? &r->high : NULL,
                           .low_open = !from_zero && r->low_open,
                           .high_open = r->high_open,
                           .fraction = fraction,
                           .n_frac = range_digits(r)};

    if (r->has_high && (r->high.negative || (r->high_open && !decimal_compare(&r->high, &zero))))
        return s->nothing;
    return span_node(s, &m);
}

grammar_node range_node(struct schema *s, const struct range *range, bool fraction)
{
    struct range r = *range;
    grammar_node ways[2];

    if (!fraction) {
        if (r.has_low)
            decimal_to_integer(&r.low, true, r.low_open);
        if (r.has_high)
            decimal_to_integer(&r.high, false, r.high_open);
        r.low_open = r.high_open = false;
    }
    if (range_is_empty(&r))
        return s->nothing;
    if (r.low.n_frac >= FRAC_MAX || r.high.n_frac >= FRAC_MAX)
        return schema_fail(s, EINVAL, s->root, "a bound has more than %d digits after the point",
                           FRAC_MAX - 1);
    ways[0] = range_negative(s, &r, fraction);
    ways[1] = range_positive(s, &r, fraction);
    return schema_alt(s, ways, 2);
}
