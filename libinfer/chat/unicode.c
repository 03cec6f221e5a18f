/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives the character classes and case mappings of Python's str. General categories and simple
 * mappings come from utf8proc. unicode-tables.h has the rest, such as mappings of one letter to
 * several, and digits that are not decimal.
 */
#include <string.h>
#include <utf8proc.h>

#include "chat/jinja.h"
#include "chat/unicode-tables.h"

static utf8proc_category_t cp_category(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp);
}

/* Returns whether Python counts @cp as whitespace: characters with the property White_Space, and
 * the separators U+001C to U+001F. */
bool cp_is_space(uint32_t cp)
{
    return codepoint_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

bool cp_is_break(uint32_t cp)
{
    return (cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
           cp == 0x2029;
}

bool cp_is_alpha(uint32_t cp)
{
    if (cp < 0x80)
        return (cp | 0x20) >= 'a' && (cp | 0x20) <= 'z';
    const utf8proc_category_t c = cp_category(cp);

    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool cp_is_decimal(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= '0' && cp <= '9';
    return cp_category(cp) == UTF8PROC_CATEGORY_ND;
}

int cp_decimal(uint32_t cp)
{
    uint32_t zero = cp;

    if (cp < 0x80)
        return cp >= '0' && cp <= '9' ? (int)(cp - '0') : -1;
    if (!cp_is_decimal(cp))
        return -1;
    /* Decimal digits are in runs of ten that begin with zero. The mathematical digits (U+1D7CE…)
     * are five runs without a gap. */
    if (cp >= 0x1d7ce && cp <= 0x1d7ff)
        return (int)((cp - 0x1d7ce) % 10);
    while (cp - zero < 9 && cp_is_decimal(zero - 1))
        zero--;
    return (int)(cp - zero);
}

bool cp_is_digit(uint32_t cp)
{
    return cp_is_decimal(cp) || (cp >= 0x80 && CODEPOINT_IN(unicode_digit_not_decimal, cp));
}

bool cp_is_numeric(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= '0' && cp <= '9';
    const utf8proc_category_t c = cp_category(cp);

    return (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) ||
           CODEPOINT_IN(unicode_numeric_letter, cp);
}

bool cp_is_alnum(uint32_t cp)
{
    return cp_is_alpha(cp) || cp_is_numeric(cp);
}

bool cp_is_upper(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'A' && cp <= 'Z';
    return cp_category(cp) == UTF8PROC_CATEGORY_LU || CODEPOINT_IN(unicode_other_upper, cp);
}

bool cp_is_lower(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 'a' && cp <= 'z';
    return cp_category(cp) == UTF8PROC_CATEGORY_LL || CODEPOINT_IN(unicode_other_lower, cp);
}

bool cp_is_title(uint32_t cp)
{
    return cp >= 0x80 && cp_category(cp) == UTF8PROC_CATEGORY_LT;
}

bool cp_is_printable(uint32_t cp)
{
    if (cp < 0x80)
        return cp >= 0x20 && cp < 0x7f;
    switch (cp_category(cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
        return false;
    default:
        return true;
    }
}

bool cp_is_name(uint32_t cp, bool first)
{
    if (cp < 0x80)
        return cp == '_' || cp_is_alpha(cp) || (!first && cp >= '0' && cp <= '9');
    if (cp_is_alpha(cp) || cp_category(cp) == UTF8PROC_CATEGORY_NL)
        return true;
    if (first)
        return false;
    switch (cp_category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return cp == 0xb7 || cp == 0x387;
    }
}

static bool is_cased(uint32_t cp)
{
    return cp_is_upper(cp) || cp_is_lower(cp) || cp_is_title(cp);
}

/* Returns whether @cp has Unicode's property Case_Ignorable, which determines whether a sigma ends
 * a word. */
static bool is_case_ignorable(uint32_t cp)
{
    static const uint32_t marks[] = {0x27,   0x2e,   0x3a,   0xb7,   0x387,  0x55f,
                                     0x5f4,  0x2018, 0x2019, 0x2024, 0x2027, 0xfe13,
                                     0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};

    for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
        if (cp == marks[i])
            return true;
    switch (cp_category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return false;
    }
}

static bool is_final_sigma(const struct jstr *s, const char *at)
{
    const char *p = at;
    uint32_t cp = 0;

    while (p > s->data && is_case_ignorable(cp = u8_prev(&p)))
        cp = 0;
    if (!cp || !is_cased(cp))
        return false;
    for (p = at + 2, cp = 0; p < s->data + s->len; cp = 0)
        if (!is_case_ignorable(cp = u8_next(&p)))
            break;
    return !cp || !is_cased(cp);
}

/* Writes the letters that @cp becomes in the table @special. If the table has no row for @cp,
 * writes @simple. */
static void put_case(struct jinja *j, struct jbuf *b, const struct unicode_special *special,
                     size_t n, uint32_t cp, uint32_t simple)
{
    for (size_t i = 0; cp >= 0x80 && i < n; i++)
        if (special[i].cp == cp) {
            for (int k = 0; k < 3 && special[i].to[k]; k++)
                jbuf_cp(j, b, special[i].to[k]);
            return;
        }
    jbuf_cp(j, b, simple);
}

static void put_upper(struct jinja *j, struct jbuf *b, uint32_t cp)
{
    put_case(j, b, unicode_special_upper, ARRAY_SIZE(unicode_special_upper), cp,
             (uint32_t)utf8proc_toupper((utf8proc_int32_t)cp));
}

static void put_title(struct jinja *j, struct jbuf *b, uint32_t cp)
{
    put_case(j, b, unicode_special_title, ARRAY_SIZE(unicode_special_title), cp,
             (uint32_t)utf8proc_totitle((utf8proc_int32_t)cp));
}

static void put_lower(struct jinja *j, struct jbuf *b, const struct jstr *s, const char *at,
                      uint32_t cp)
{
    if (cp == 0x3a3) {
        jbuf_cp(j, b, is_final_sigma(s, at) ? 0x3c2 : 0x3c3);
    } else if (cp == 0x130) {
        jbuf_cp(j, b, 'i');
        jbuf_cp(j, b, 0x307);
    } else {
        jbuf_cp(j, b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
    }
}

/* Writes the case-folded form of @cp. If there is no such form, writes @cp in lower case. */
static void put_fold(struct jinja *j, struct jbuf *b, uint32_t cp)
{
    utf8proc_int32_t to[8];
    int boundary = 0;
    const utf8proc_ssize_t n = cp < 0x80 ? 0
                                         : utf8proc_decompose_char((utf8proc_int32_t)cp, to, 8,
                                                                   UTF8PROC_CASEFOLD, &boundary);

    if (n <= 0 || n > 8) {
        put_case(j, b, unicode_special_fold, ARRAY_SIZE(unicode_special_fold), cp,
                 (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
        return;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        jbuf_cp(j, b, (uint32_t)to[i]);
}

struct value text_to_case(struct jinja *j, struct value v, enum text_case how)
{
    const struct jstr *s = v.u.s;
    const char *p = s->data, *end = p + s->len;
    struct jbuf b = {0};
    bool first = true, in_word = false;
    struct value r;

    jinja_chars(j, s->len);
    while (p < end) {
        const char *at = p;
        const uint32_t cp = u8_next(&p);
        const bool upper = how == CASE_UPPER || (how == CASE_SWAP && cp_is_lower(cp));
        const bool title = (how == CASE_TITLE && !in_word) || (how == CASE_CAPITAL && first);

        if (cp >= 0x80) /* the cost of the search in the tables */
            jinja_step(j, 2);
        if (how == CASE_FOLD)
            put_fold(j, &b, cp);
        else if (upper)
            put_upper(j, &b, cp);
        else if (title)
            put_title(j, &b, cp);
        else if (how == CASE_SWAP && !cp_is_upper(cp))
            jbuf_cp(j, &b, cp);
        else
            put_lower(j, &b, s, at, cp);
        in_word = is_cased(cp);
        first = false;
    }
    r = jbuf_value(j, &b);
    r.flag = v.flag;
    return r;
}
