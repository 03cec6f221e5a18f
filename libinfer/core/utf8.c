/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validates, decodes and encodes UTF-8.
 */
#include "core/utf8.h"

/* Returns the length of a code point whose first byte is @c, or 0 if @c cannot be a first byte.
 * Sets the range of the second byte. */
static size_t lead_length(unsigned char c, unsigned char *ret_low, unsigned char *ret_high)
{
    *ret_low = 0x80;
    *ret_high = 0xbf;
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef) {
        if (c == 0xe0)
            *ret_low = 0xa0;
        if (c == 0xed)
            *ret_high = 0x9f;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (c == 0xf0)
            *ret_low = 0x90;
        if (c == 0xf4)
            *ret_high = 0x8f;
        return 4;
    }
    return 0;
}

/* Returns how many bytes at @s match the beginning of a code point. *ret_need is the length of the
 * whole code point, or 0. */
static size_t match_bytes(const char *s, size_t len, size_t *ret_need)
{
    unsigned char low, high;
    size_t n = 1;

    *ret_need = 0;
    if (len == 0)
        return 0;
    *ret_need = lead_length((unsigned char)s[0], &low, &high);
    if (*ret_need == 0)
        return 0;
    while (n < *ret_need && n < len) {
        const unsigned char c = (unsigned char)s[n];

        if (c < low || c > high)
            break;
        low = 0x80;
        high = 0xbf;
        n++;
    }
    return n;
}

size_t utf8_decode(const char *s, size_t len, uint32_t *ret_cp)
{
    static const unsigned char mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t need;
    uint32_t cp;

    if (match_bytes(s, len, &need) < need || need == 0)
        return 0;
    cp = (unsigned char)s[0] & mask[need];
    for (size_t i = 1; i < need; i++)
        cp = cp << 6 | ((unsigned char)s[i] & 0x3f);
    *ret_cp = cp;
    return need;
}

size_t utf8_encode(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        if (cp >= 0xd800 && cp <= 0xdfff)
            return 0;
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    if (cp > 0x10ffff)
        return 0;
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t utf8_valid_prefix(const char *s, size_t len)
{
    size_t i = 0;

    while (i < len) {
        size_t need;

        if ((unsigned char)s[i] < 0x80) {
            i++;
            continue;
        }
        if (match_bytes(s + i, len - i, &need) < need || need == 0)
            break;
        i += need;
    }
    return i;
}

size_t utf8_incomplete(const char *s, size_t len)
{
    size_t need;
    const size_t n = match_bytes(s, len, &need);

    return n == len && n > 0 && n < need ? need - n : 0;
}

size_t utf8_bad_length(const char *s, size_t len)
{
    size_t need;
    const size_t n = match_bytes(s, len, &need);

    return n > 0 ? n : 1;
}
