/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact decimal numbers of schemas
 *
 * A number that is not an integer and has more than 15 digits, such as 0.10000000000000001, usually
 * comes from a program that wrote a 64-bit float. It is replaced by the shortest text of the same
 * float, here 0.1.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grammar/schema.h"

enum { EXPONENT_MAX = 100000, FLOAT_DIGITS = 15 };

/* The digits of a number's text, before the exponent. */
struct digits {
    char text[4 * DECIMAL_DIGITS];
    long n, point; /* point: how many digits come before the decimal point; negative: zeros
                      come between the point and the digits; above n: zeros come between the
                      digits and the point */
};

static bool digits_read(const char *text, struct digits *d, bool *ret_negative)
{
    bool behind = false;
    long exponent = 0;

    *d = (struct digits){0};
    *ret_negative = *text == '-';
    for (text += *text == '-'; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.') {
            behind = true;
            continue;
        }
        if (d->n == 0 && *text == '0') {
            d->point -= behind;
            continue;
        }
        if (d->n >= (long)sizeof(d->text))
            return false;
        d->text[d->n++] = *text;
        d->point += !behind;
    }
    if (*text)
        exponent = strtol(text + 1, NULL, 10);
    if (exponent > EXPONENT_MAX || exponent < -EXPONENT_MAX)
        return false;
    d->point += exponent;
    while (d->n > 0 && d->text[d->n - 1] == '0')
        d->n--;
    return true;
}

/* Replaces the digits of a long fraction by the shortest ones that give the same float. */
static bool digits_shorten(const char *text, struct digits *d, bool *ret_negative)
{
    const double x = strtod(text, NULL);
    char shorter[48];

    if (d->n <= FLOAT_DIGITS || d->n <= d->point || !isfinite(x))
        return true;
    for (int n = 1; n <= 17; n++) {
        snprintf(shorter, sizeof(shorter), "%.*e", n - 1, x);
        if (strtod(shorter, NULL) == x)
            break;
    }
    return digits_read(shorter, d, ret_negative);
}

bool decimal_read(const struct schema_value *v, struct decimal *ret_decimal)
{
    struct decimal out = {0};
    struct digits d;
    long n_frac;

    if (!v || v->type != VALUE_NUMBER || !digits_read(v->text, &d, &out.negative) ||
        !digits_shorten(v->text, &d, &out.negative))
        return false;
    if (d.n == 0) {
        *ret_decimal = (struct decimal){0};
        return true;
    }
    n_frac = d.n > d.point ? d.n - d.point : 0;
    if (d.point > DECIMAL_DIGITS || n_frac > DECIMAL_DIGITS)
        return false;
    out.n_int = (uint8_t)(d.point > 0 ? d.point : 0);
    out.n_frac = (uint8_t)n_frac;
    for (long i = 0; i < out.n_int + n_frac; i++) {
        const long at = d.point > 0 ? i : i + d.point;

        out.digits[i] = at >= 0 && at < d.n ? d.text[at] : '0';
    }
    *ret_decimal = out;
    return true;
}

static int compare_magnitudes(const struct decimal *a, const struct decimal *b)
{
    if (a->n_int != b->n_int)
        return a->n_int < b->n_int ? -1 : 1;
    for (int i = 0; i < a->n_int + MAX(a->n_frac, b->n_frac); i++) {
        const char x = i < a->n_int + a->n_frac ? a->digits[i] : '0';
        const char y = i < b->n_int + b->n_frac ? b->digits[i] : '0';

        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? -compare_magnitudes(a, b) : compare_magnitudes(a, b);
}

/* Changes the magnitude of an integer by one. */
static void step_magnitude(struct decimal *d, bool up)
{
    const char from = up ? '9' : '0', to = up ? '0' : '9';
    int i = d->n_int;

    while (i > 0 && d->digits[i - 1] == from)
        d->digits[--i] = to;
    if (i > 0) {
        d->digits[i - 1] = (char)(d->digits[i - 1] + (up ? 1 : -1));
    } else {
        memmove(d->digits + 1, d->digits, d->n_int);
        d->digits[0] = '1';
        d->n_int++;
    }
    if (d->n_int > 0 && d->digits[0] == '0') {
        memmove(d->digits, d->digits + 1, --d->n_int);
    }
    d->negative = d->negative && d->n_int > 0;
}

/* The integer part may become one digit longer. There is room for the digit, because the fraction
 * is dropped. */
void decimal_to_integer(struct decimal *d, bool up, bool open)
{
    const bool whole = d->n_frac == 0;

    d->n_frac = 0;
    if (d->n_int == 0) {
        /* The number was zero or between -1 and 1. */
        const bool negative = d->negative && !whole;

        d->negative = false;
        if ((whole && open) || (!whole && up != negative)) {
            d->negative = !up;
            d->n_int = 1;
            d->digits[0] = '1';
        }
        return;
    }
    if ((whole && open) || (!whole && up != d->negative))
        step_magnitude(d, up != d->negative);
}

bool schema_count(const struct schema_value *v, uint32_t *ret_count)
{
    struct decimal d;
    uint64_t n = 0;

    if (!decimal_read(v, &d) || d.negative || d.n_frac)
        return false;
    for (int i = 0; i < d.n_int && n <= UINT32_MAX; i++)
        n = n * 10 + (uint64_t)(d.digits[i] - '0');
    *ret_count = (uint32_t)MIN(n, (uint64_t)UINT32_MAX - 1);
    return true;
}
