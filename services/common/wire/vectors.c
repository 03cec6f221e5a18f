/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes vectors in JSON.
 *
 * Nine decimal digits distinguish any two floats. They are computed in double precision, whose
 * error is far less than half the distance between two floats. printf() would be too slow, because
 * an answer has hundreds of thousands of numbers.
 */
#include "common/wire/vectors.h"

#include <math.h>
#include <stdio.h>

enum {
    DIGITS = 9,
    FLOAT_TEXT = 32, /* large enough for any float */
};

/* Numbers from PLAIN_MIN up to half of PLAIN_MAX are written without an exponent, with at most nine
 * digits: zeros at the end of a fraction are left out. A number below 1 has "0." and perhaps some
 * zeros before its digits. A larger number has the point, if any, between its digits. */
#define PLAIN_MIN 1e-5
#define PLAIN_MAX 1e9

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors are sent as they lie in memory");

/* Returns 10^@n exactly, for @n from 0 to 14. */
static double power_of_ten(int n)
{
    static const double table[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};

    return table[n];
}

/* Returns the n of the largest 10^n that is not above @value. */
static int exponent_of(double value)
{
    int n = 0;

    while (value >= power_of_ten(n + 1))
        n++;
    while (n <= 0 && value * power_of_ten(-n) < 1)
        n--;
    return n;
}

/* Writes @value, which is between PLAIN_MIN and PLAIN_MAX, and returns the end of the text. */
static char *put_plain(char *at, double value)
{
    int exponent = exponent_of(value);
    uint32_t scaled = (uint32_t)(value * power_of_ten(DIGITS - 1 - exponent) + 0.5);
    char digits[DIGITS];
    int n = DIGITS;

    if (scaled >= 1000000000u) {
        scaled /= 10;
        exponent++;
    }
    for (int i = DIGITS - 1; i >= 0; i--) {
        digits[i] = (char)('0' + scaled % 10);
        scaled /= 10;
    }
    while (n > 1 && n - 1 > exponent && digits[n - 1] == '0')
        n--;
    if (exponent < 0)
        *at++ = '0';
    for (int i = 0; i <= exponent; i++)
        *at++ = digits[i];
    if (n - 1 > exponent)
        *at++ = '.';
    for (int i = -1; i > exponent; i--)
        *at++ = '0';
    for (int i = MAX(exponent + 1, 0); i < n; i++)
        *at++ = digits[i];
    return at;
}

static char *put_float(char *at, float value)
{
    if (!isfinite(value))
        return at + sprintf(at, "null");
    if (signbit(value))
        *at++ = '-';
    value = fabsf(value);
    if (value == 0) {
        *at++ = '0';
        return at;
    }
    if ((double)value >= PLAIN_MIN && (double)value < PLAIN_MAX / 2)
        return put_plain(at, (double)value);
    return at + sprintf(at, "%.9g", (double)value);
}

int vectors_put_float(struct str *out, float value)
{
    const int r = str_reserve(out, FLOAT_TEXT);

    if (r < 0)
        return r;
    out->len = (size_t)(put_float(out->data + out->len, value) - out->data);
    out->data[out->len] = 0;
    return 0;
}

int vectors_put_array(struct str *out, const float *vector, size_t n)
{
    int r = str_reserve(out, n * FLOAT_TEXT + 3);
    char *at;

    if (r < 0)
        return r;
    at = out->data + out->len;
    *at++ = '[';
    for (size_t i = 0; i < n; i++) {
        if (i)
            *at++ = ',';
        at = put_float(at, vector[i]);
    }
    *at++ = ']';
    *at = 0;
    out->len = (size_t)(at - out->data);
    return 0;
}

int vectors_put_base64(struct str *out, const float *vector, size_t n)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)vector;
    const size_t size = n * sizeof(float);
    const int r = str_reserve(out, DIV_UP(size, 3) * 4 + 3);
    char *at;

    if (r < 0)
        return r;
    at = out->data + out->len;
    *at++ = '"';
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const unsigned group = (unsigned)bytes[i] << 16 |
                               (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? bytes[i + 2] : 0u);

        *at++ = letters[group >> 18];
        *at++ = letters[group >> 12 & 63];
        *at++ = left > 1 ? letters[group >> 6 & 63] : '=';
        *at++ = left > 2 ? letters[group & 63] : '=';
    }
    *at++ = '"';
    *at = 0;
    out->len = (size_t)(at - out->data);
    return 0;
}
