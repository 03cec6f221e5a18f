/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives Unicode properties: those of utf8proc's tables, corrected by the tables of
 * codepoint-tables.h.
 */
#include "tokenizer/codepoint.h"

#include <errno.h>
#include <string.h>
#include <utf8proc.h>

#include "core/array.h"
#include "core/codepoint-range.h"

struct uni_row {
    uint32_t first, last;
    uint8_t category, since;
};
struct uni_pair {
    uint32_t from, to;
};
struct uni_script {
    uint32_t first, last;
    uint8_t script;
};

#include "tokenizer/codepoint-tables.h"

static utf8proc_category_t uni_category(uint32_t cp, enum uni_version version)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    size_t lo = 0, hi = ARRAY_SIZE(uni_new);

    if (c != UTF8PROC_CATEGORY_CN || cp < uni_new[0].first)
        return c;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (cp > uni_new[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < ARRAY_SIZE(uni_new) && cp >= uni_new[lo].first && uni_new[lo].since <= version)
        return (utf8proc_category_t)uni_new[lo].category;
    return c;
}

static unsigned class_of(utf8proc_category_t c)
{
    if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO)
        return UNI_L;
    if (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME)
        return UNI_M;
    if (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO)
        return UNI_N;
    if (c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO)
        return UNI_P;
    if (c >= UTF8PROC_CATEGORY_SM && c <= UTF8PROC_CATEGORY_SO)
        return UNI_S;
    return 0;
}

bool uni_space(uint32_t cp)
{
    return codepoint_is_space(cp);
}

unsigned uni_class(uint32_t cp, enum uni_version version)
{
    if (cp < 0x80) {
        if ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z')
            return UNI_L;
        if (cp >= '0' && cp <= '9')
            return UNI_N;
    }
    if (uni_space(cp))
        return UNI_SPACE;
    return class_of(uni_category(cp, version));
}

static bool uni_word(uint32_t cp)
{
    const utf8proc_category_t c = uni_category(cp, UNI_16);

    return (class_of(c) & (UNI_L | UNI_M)) || c == UTF8PROC_CATEGORY_ND ||
           c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC || CODEPOINT_IN(word_more, cp);
}

bool uni_word_rust(uint32_t cp)
{
    if (cp == 0x200c || cp == 0x200d)
        return true;
    if (cp >= 0xb2 && cp <= 0xbe)
        return cp == 0xb5 || cp == 0xba;
    return uni_word(cp);
}

bool uni_numeric(uint32_t cp)
{
    return (class_of(uni_category(cp, UNI_16)) & UNI_N) || CODEPOINT_IN(numeric_new, cp);
}

static bool ascii_punct(uint32_t cp)
{
    return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
           (cp >= '{' && cp <= '~');
}

bool uni_bert_punct(uint32_t cp)
{
    if (cp < 0x80)
        return ascii_punct(cp);
    if (CODEPOINT_IN(bert_punct_old, cp))
        return true;
    return (class_of(utf8proc_category((utf8proc_int32_t)cp)) & UNI_P) &&
           !CODEPOINT_IN(bert_punct_new, cp);
}

bool uni_bert_control(uint32_t cp)
{
    if (cp == '\t' || cp == '\n' || cp == '\r')
        return false;
    return uni_control(cp) && !CODEPOINT_IN(bert_control_new, cp);
}

bool uni_bert_accent(uint32_t cp)
{
    if (cp < 0x300)
        return false;
    if (utf8proc_category((utf8proc_int32_t)cp) != UTF8PROC_CATEGORY_MN)
        return CODEPOINT_IN(bert_accent_old, cp);
    return !CODEPOINT_IN(bert_accent_new, cp);
}

/* Returns whether BERT surrounds the code point with spaces. The gap below U+2B920 is also in
 * BERT's own list. */
bool uni_bert_chinese(uint32_t cp)
{
    return (cp >= 0x4e00 && cp <= 0x9fff) || (cp >= 0x3400 && cp <= 0x4dbf) ||
           (cp >= 0x20000 && cp <= 0x2a6df) || (cp >= 0x2a700 && cp <= 0x2b73f) ||
           (cp >= 0x2b740 && cp <= 0x2b81f) || (cp >= 0x2b920 && cp <= 0x2ceaf) ||
           (cp >= 0xf900 && cp <= 0xfaff) || (cp >= 0x2f800 && cp <= 0x2fa1f);
}

bool uni_mark(uint32_t cp)
{
    if (cp < 0x300)
        return false;
    if (CODEPOINT_IN(mark_old, cp))
        return true;
    return (class_of(utf8proc_category((utf8proc_int32_t)cp)) & UNI_M) &&
           !CODEPOINT_IN(mark_new, cp);
}

size_t uni_lower(uint32_t cp, uint32_t out[2])
{
    size_t lo = 0, hi = ARRAY_SIZE(lower_new);

    if (cp < 0x80) {
        out[0] = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
        return 1;
    }
    if (cp == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (cp > lower_new[mid].from)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < ARRAY_SIZE(lower_new) && lower_new[lo].from == cp)
        out[0] = lower_new[lo].to;
    else
        out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return 1;
}

bool uni_control(uint32_t cp)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO;
}

uint32_t uni_lower_simple(uint32_t cp)
{
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

int uni_script(uint32_t cp)
{
    size_t lo = 0, hi = ARRAY_SIZE(scripts);

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (cp > scripts[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < ARRAY_SIZE(scripts) && cp >= scripts[lo].first ? scripts[lo].script : -1;
}

/* A code point with its combining class and its position in the input. */
struct mark {
    uint32_t cp, order;
    uint16_t ccc;
    bool zero;
};

static uint16_t combining_class(uint32_t cp)
{
    if (cp < 0x300 || CODEPOINT_IN(mark_new, cp))
        return 0;
    return (uint16_t)utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
}

static int mark_compare(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;

    if (x->ccc != y->ccc)
        return x->ccc < y->ccc ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Puts marks in canonical order (Unicode 3.11, D109). Each run of marks is sorted with qsort(), so
 * that a long run, which only an attacker writes, does not take quadratic time. */
static void order_marks(struct mark *m, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        bool sorted = true;

        while (end < n && m[end].ccc != 0) {
            if (end > i && m[end].ccc < m[end - 1].ccc)
                sorted = false;
            end++;
        }
        if (!sorted)
            qsort(m + i, end - i, sizeof(*m), mark_compare);
        i = MAX(end, i + 1);
    }
}

/* Returns the primary composite of two code points, or 0. utf8proc composes them, because it knows
 * Unicode's exclusions and Hangul. */
static uint32_t compose_pair(uint32_t a, uint32_t b)
{
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};

    /* The second part of a composite can only be a mark or a medial or final letter of Hangul. */
    if (b < 0x300 ||
        !((b >= 0x1160 && b <= 0x11ff) || (class_of(utf8proc_category(pair[1])) & UNI_M)))
        return 0;
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1)
        return 0;
    return CODEPOINT_IN(compat_new, (uint32_t)pair[0]) ? 0 : (uint32_t)pair[0];
}

/* Composes each mark with its starter, unless a mark of the same or a higher class is between them
 * (D117). */
static size_t compose_marks(struct mark *m, size_t n)
{
    size_t starter = SIZE_MAX, out = 0;
    int last_ccc = -1;

    for (size_t i = 0; i < n; i++) {
        uint32_t c = 0;

        if (starter != SIZE_MAX && last_ccc < (int)m[i].ccc)
            c = compose_pair(m[starter].cp, m[i].cp);
        if (c) {
            m[starter].cp = c;
            continue;
        }
        if (m[i].ccc == 0) {
            starter = out;
            last_ccc = -1;
        } else {
            last_ccc = m[i].ccc;
        }
        m[out++] = m[i];
    }
    return out;
}

int uni_normalize(enum uni_form form, const uint32_t *in, size_t n, size_t zero, uint32_t **ret_out,
                  size_t *ret_n, size_t *ret_zero)
{
    const bool compat = form == UNI_NFKC || form == UNI_NFKD;
    const utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
    size_t cap = n + n / 2 + 32, len = 0, zero_out = 0;
    _cleanup_free_ struct mark *m = NEW(struct mark, cap);
    uint32_t *out;

    if (!m)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        utf8proc_int32_t d[32];
        int boundary = 0;
        utf8proc_ssize_t k = 1;

        d[0] = (utf8proc_int32_t)in[i];
        if (in[i] >= 0x80 && !CODEPOINT_IN(compat_new, in[i])) {
            k = utf8proc_decompose_char((utf8proc_int32_t)in[i], d, ARRAY_SIZE(d), options,
                                        &boundary);
            if (k < 1 || k > (utf8proc_ssize_t)ARRAY_SIZE(d)) {
                d[0] = (utf8proc_int32_t)in[i];
                k = 1;
            }
        }
        if (ARRAY_GROW(m, cap, len + (size_t)k) < 0)
            return -ENOMEM;
        for (utf8proc_ssize_t j = 0; j < k; j++, len++)
            m[len] = (struct mark){(uint32_t)d[j], (uint32_t)len, combining_class((uint32_t)d[j]),
                                   i < zero};
    }
    order_marks(m, len);
    if (form == UNI_NFC || form == UNI_NFKC)
        len = compose_marks(m, len);
    out = NEW(uint32_t, len);
    if (!out)
        return -ENOMEM;
    for (size_t i = 0; i < len; i++) {
        out[i] = m[i].cp;
        if (m[i].zero && zero_out == i)
            zero_out++;
    }
    *ret_out = out;
    *ret_n = len;
    *ret_zero = zero_out;
    return 0;
}

static const char *const category_names[] = {
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};

bool uni_new_range(const char *name, enum uni_version version, size_t *i, uint32_t *ret_first,
                   uint32_t *ret_last)
{
    for (; *i < ARRAY_SIZE(uni_new); (*i)++) {
        const char *c = category_names[uni_new[*i].category];

        if (uni_new[*i].since > version || c[0] != name[0] || (name[1] && c[1] != name[1]))
            continue;
        *ret_first = uni_new[*i].first;
        *ret_last = uni_new[*i].last;
        (*i)++;
        return true;
    }
    return false;
}

bool uni_word_range(size_t i, uint32_t *ret_first, uint32_t *ret_last)
{
    if (i >= ARRAY_SIZE(word_more))
        return false;
    *ret_first = word_more[i].first;
    *ret_last = word_more[i].last;
    return true;
}
