/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the normalizer steps of tokenizer.json and SentencePiece.
 */
#include "tokenizer/normalize.h"

#include <errno.h>
#include <string.h>
#include <utf8proc.h>

#include "core/utf8.h"

#define SPACE_SYMBOL     "\xe2\x96\x81" /* U+2581 */
#define SPACE_SYMBOL_LEN 3

struct norm_step *normalizer_add(struct normalizer *n, enum norm_kind kind)
{
    struct norm_step *p;

    if (n->n == NORM_MAX_STEPS)
        return NULL;
    p = realloc(n->steps, (n->n + 1) * sizeof(*p));
    if (!p)
        return NULL;
    n->steps = p;
    p[n->n] = (struct norm_step){.kind = kind};
    return &p[n->n++];
}

void normalizer_done(struct normalizer *n)
{
    for (size_t i = 0; i < n->n; i++) {
        pattern_free(n->steps[i].regex);
        charsmap_done(&n->steps[i].map);
    }
    free(n->steps);
    *n = (struct normalizer){0};
}

uint32_t byte_char(unsigned char c)
{
    if ((c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c != 0xad))
        return c;
    if (c < 0x21)
        return 256u + c;
    if (c <= 0xa0)
        return 256u + 33 + (c - 0x7fu);
    return 256u + 67;
}

int char_byte(uint32_t cp)
{
    if ((cp >= 0x21 && cp <= 0x7e) || (cp >= 0xa1 && cp <= 0xff && cp != 0xad))
        return (int)cp;
    if (cp >= 256 && cp < 256 + 33)
        return (int)cp - 256;
    if (cp >= 256 + 33 && cp < 256 + 67)
        return (int)cp - 256 - 33 + 0x7f;
    return cp == 256 + 67 ? 0xad : -1;
}

int str_put_cp(struct str *s, uint32_t cp)
{
    char buf[4];
    const size_t n = utf8_encode(cp, buf);

    return str_append(s, buf, n);
}

static bool is_plain_ascii(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] >= 0x80)
            return false;
    return true;
}

static int normal_form(enum uni_form form, const char *s, size_t len, struct str *out, size_t *zero)
{
    _cleanup_free_ uint32_t *cps = NULL, *result = NULL;
    size_t n = 0, n_zero = 0, n_out, zero_out, zero_bytes = 0;
    int r;

    if (is_plain_ascii(s, len))
        return str_append(out, s, len);
    cps = NEW(uint32_t, len);
    if (!cps)
        return -ENOMEM;
    for (size_t i = 0; i < len;) {
        n_zero += i < *zero;
        i += utf8_decode(s + i, len - i, &cps[n++]);
    }
    r = uni_normalize(form, cps, n, n_zero, &result, &n_out, &zero_out);
    for (size_t i = 0; r == 0 && i < n_out; i++) {
        r = str_put_cp(out, result[i]);
        if (i < zero_out)
            zero_bytes = out->len;
    }
    *zero = zero_bytes;
    return r;
}

static int norm_strip(const struct norm_step *st, const char *s, size_t len, struct str *out,
                      size_t *zero)
{
    size_t start = 0, end = len, n;
    uint32_t cp;

    while (st->left && start < len && (n = utf8_decode(s + start, len - start, &cp)) > 0 &&
           uni_space(cp))
        start += n;
    while (st->right && end > start) {
        n = 1;
        while (((unsigned char)s[end - n] & 0xc0) == 0x80)
            n++;
        utf8_decode(s + end - n, n, &cp);
        if (!uni_space(cp))
            break;
        end -= n;
    }
    *zero = *zero > start ? MIN(*zero, end) - start : 0;
    return str_append(out, s + start, end - start);
}

static int norm_replace(const struct norm_step *st, struct pattern_work *work, const char *s,
                        size_t len, struct str *out, size_t *zero)
{
    struct pattern_walk walk = {0};
    size_t done = 0, zero_out = 0;
    int r = 0;

    if (!st->regex && st->needle_len == 0)
        return str_append(out, s, len);
    for (;;) {
        size_t start, end;

        if (st->regex) {
            r = pattern_next(st->regex, work, s, len, &walk, &start, &end);
            if (r < 0)
                return r;
            if (r == PATTERN_NONE)
                break;
        } else {
            const char *p = memmem(s + done, len - done, st->needle, st->needle_len);

            if (!p)
                break;
            start = (size_t)(p - s);
            end = start + st->needle_len;
        }
        r = str_append(out, s + done, start - done);
        if (done < *zero)
            zero_out = out->len - (start > *zero ? start - *zero : 0);
        if (r == 0)
            r = str_append(out, st->content, st->content_len);
        if (r < 0)
            return r;
        if (end == 0 || end - 1 < *zero)
            zero_out = out->len;
        done = end;
    }
    if (done < *zero)
        zero_out = out->len + (*zero - done);
    *zero = zero_out;
    return str_append(out, s + done, len - done);
}

static int norm_nmt(uint32_t cp, struct str *out)
{
    if ((cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f ||
        cp == 0x8f || cp == 0x9f)
        return 0;
    if (cp == 9 || cp == 0xa || cp == 0xc || cp == 0xd || cp == 0x1680 ||
        (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
        cp == 0xfeff || cp == 0xfffd)
        cp = ' ';
    return str_put_cp(out, cp);
}

static int norm_lower(uint32_t cp, struct str *out)
{
    uint32_t to[2];
    const size_t n = uni_lower(cp, to);
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = str_put_cp(out, to[i]);
    return r;
}

static int bert_clean(const struct norm_step *st, uint32_t cp, struct str *out)
{
    if (st->clean) {
        if (cp == 0 || cp == 0xfffd || uni_bert_control(cp))
            return 0;
        if (uni_space(cp))
            cp = ' ';
    }
    if (st->chinese && uni_bert_chinese(cp)) {
        int r = str_putc(out, ' ');

        if (r == 0)
            r = str_put_cp(out, cp);
        return r < 0 ? r : str_putc(out, ' ');
    }
    return str_put_cp(out, cp);
}

static int put_bytes(const char *s, size_t len, struct str *out)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < len; i++)
        r = str_put_cp(out, byte_char((unsigned char)s[i]));
    return r;
}

/* Runs a step that processes one code point at a time. */
static int by_code_point(const struct norm_step *st, const char *s, size_t len, struct str *out,
                         size_t *zero)
{
    size_t zero_out = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < len;) {
        uint32_t cp;
        const size_t n = utf8_decode(s + i, len - i, &cp);

        switch (st->kind) {
        case NORM_LOWERCASE:
            r = st->simple ? str_put_cp(out, uni_lower_simple(cp)) : norm_lower(cp, out);
            break;
        case NORM_STRIP_ACCENTS:
            r = uni_mark(cp) ? 0 : str_put_cp(out, cp);
            break;
        case NORM_NMT:
            r = norm_nmt(cp, out);
            break;
        case NORM_BYTES:
            r = put_bytes(s + i, n, out);
            break;
        default:
            r = bert_clean(st, cp, out);
        }
        if (i < *zero)
            zero_out = out->len;
        i += n;
    }
    *zero = zero_out;
    return r;
}

/* Removes code points of the category Mn. @s is in the form NFD. */
static int bert_accents(const char *s, size_t len, struct str *out, size_t *zero)
{
    size_t zero_out = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < len;) {
        uint32_t cp;
        const size_t n = utf8_decode(s + i, len - i, &cp);

        if (!uni_bert_accent(cp))
            r = str_append(out, s + i, n);
        if (i < *zero)
            zero_out = out->len;
        i += n;
    }
    *zero = zero_out;
    return r;
}

static int norm_bert(const struct norm_step *st, const char *s, size_t len, struct str *out,
                     size_t *zero)
{
    const struct norm_step lowercase = {.kind = NORM_LOWERCASE};
    _cleanup_str_ struct str a = {0}, b = {0};
    int r;

    r = by_code_point(st, s, len, &a, zero);
    if (r == 0 && st->accents) {
        r = normal_form(UNI_NFD, a.data ? a.data : "", a.len, &b, zero);
        str_clear(&a);
        if (r == 0)
            r = bert_accents(b.data ? b.data : "", b.len, &a, zero);
    }
    if (r < 0)
        return r;
    if (st->lower)
        return by_code_point(&lowercase, a.data ? a.data : "", a.len, out, zero);
    return str_append(out, a.data, a.len);
}

/* Replaces one grapheme cluster, or each of its code points if no rule matches the cluster. As in
 * Hugging Face's tokenizers, only clusters of fewer than 6 bytes are looked up, and the shortest
 * rule wins. */
static int charsmap_grapheme(const struct charsmap *m, const char *s, size_t len, struct str *out)
{
    const char *to;
    size_t to_len;
    int r = 0;

    if (len < 6 && charsmap_match(m, s, len, false, &to, &to_len))
        return str_append(out, to, to_len);
    for (size_t i = 0; r == 0 && i < len;) {
        uint32_t cp;
        const size_t n = utf8_decode(s + i, len - i, &cp);

        if (charsmap_match(m, s + i, n, false, &to, &to_len))
            r = str_append(out, to, to_len);
        else
            r = str_append(out, s + i, n);
        i += n;
    }
    return r;
}

static int by_grapheme(const struct charsmap *m, const char *s, size_t len, struct str *out,
                       size_t *zero)
{
    size_t start = 0, i = 0, zero_out = 0;
    utf8proc_int32_t previous = -1, state = 0;
    int r = 0;

    while (r == 0 && i < len) {
        uint32_t cp;
        const size_t n = utf8_decode(s + i, len - i, &cp);

        if (previous >= 0 &&
            utf8proc_grapheme_break_stateful(previous, (utf8proc_int32_t)cp, &state)) {
            r = charsmap_grapheme(m, s + start, i - start, out);
            if (start < *zero)
                zero_out = out->len;
            start = i;
        }
        previous = (utf8proc_int32_t)cp;
        i += n;
    }
    if (r == 0 && len > start)
        r = charsmap_grapheme(m, s + start, len - start, out);
    if (start < *zero)
        zero_out = out->len;
    /* If the start of the text was deleted, the first remaining character counts as the first of
     * the text, because Hugging Face's tokenizers do not record such deletions. */
    if (r == 0 && *zero > 0 && zero_out == 0 && out->len > 0) {
        uint32_t cp;

        zero_out = utf8_decode(out->data, out->len, &cp);
    }
    *zero = zero_out;
    return r;
}

/* Normalizes the start of @s as SentencePiece's NormalizePrefix() does. Returns the length of the
 * prefix; *ret_text is its normalized form. */
static size_t spm_prefix(const struct norm_step *st, const char *s, size_t len,
                         const char **ret_text, size_t *ret_len)
{
    size_t n = 0;
    int32_t id;
    uint32_t cp;

    *ret_text = s;
    if (st->keep && trie_any(st->keep, (unsigned char)s[0]))
        n = trie_longest(st->keep, s, len, &id);
    if (n < len && ((unsigned char)s[n] & 0xc0) == 0x80)
        n = 0;
    if (n == 0 && st->map.n_units > 0) {
        n = charsmap_match(&st->map, s, len, true, ret_text, ret_len);
        if (n > 0)
            return n;
    }
    if (n == 0)
        n = utf8_decode(s, len, &cp);
    *ret_len = n;
    return n;
}

static int put_space(const struct norm_step *st, struct str *out)
{
    return st->escape ? str_append(out, SPACE_SYMBOL, SPACE_SYMBOL_LEN) : str_putc(out, ' ');
}

static int norm_spm(const struct norm_step *st, const char *s, size_t len, struct str *out,
                    size_t *zero)
{
    const size_t space_len = st->escape ? SPACE_SYMBOL_LEN : 1, begin = out->len;
    bool after_space = st->merge_spaces, prefixed = !st->prefix;
    size_t i = 0, n, to_len, zero_out = 0;
    const char *to;
    int r = 0;

    while (st->merge_spaces && i < len) {
        n = spm_prefix(st, s + i, len - i, &to, &to_len);
        if (to_len != 1 || *to != ' ')
            break;
        i += n;
    }
    if (i == len)
        return 0;
    if (!prefixed && !st->lazy_prefix) {
        r = put_space(st, out);
        prefixed = true;
    }
    for (; r == 0 && i < len; i += n) {
        n = spm_prefix(st, s + i, len - i, &to, &to_len);
        while (after_space && to_len > 0 && *to == ' ') {
            to++;
            to_len--;
        }
        for (size_t k = 0; r == 0 && k < to_len; k++) {
            if (!prefixed && to[k] != ' ') {
                r = put_space(st, out);
                prefixed = true;
            }
            if (r == 0)
                r = to[k] == ' ' ? put_space(st, out) : str_putc(out, to[k]);
        }
        if (to_len > 0)
            after_space = to[to_len - 1] == ' ';
        if (!st->merge_spaces)
            after_space = false;
        if (i < *zero)
            zero_out = out->len - begin;
    }
    while (r == 0 && st->merge_spaces && out->len - begin >= space_len &&
           memcmp(out->data + out->len - space_len, st->escape ? SPACE_SYMBOL : " ", space_len) ==
               0)
        out->data[out->len -= space_len] = 0;
    if (r == 0 && st->suffix)
        r = put_space(st, out);
    *zero = zero_out;
    return r;
}

static int run_step(const struct norm_step *st, struct pattern_work *work, const char *s,
                    size_t len, struct str *out, size_t *zero)
{
    int r;

    switch (st->kind) {
    case NORM_NFC:
        return normal_form(UNI_NFC, s, len, out, zero);
    case NORM_NFD:
        return normal_form(UNI_NFD, s, len, out, zero);
    case NORM_NFKC:
        return normal_form(UNI_NFKC, s, len, out, zero);
    case NORM_NFKD:
        return normal_form(UNI_NFKD, s, len, out, zero);
    case NORM_STRIP:
        return norm_strip(st, s, len, out, zero);
    case NORM_REPLACE:
        return norm_replace(st, work, s, len, out, zero);
    case NORM_PREPEND:
        if (len == 0)
            return 0;
        r = str_append(out, st->content, st->content_len);
        if (*zero > 0)
            *zero += st->content_len;
        return r < 0 ? r : str_append(out, s, len);
    case NORM_BERT:
        return norm_bert(st, s, len, out, zero);
    case NORM_CHARSMAP:
        return by_grapheme(&st->map, s, len, out, zero);
    case NORM_SPM:
        return norm_spm(st, s, len, out, zero);
    default:
        return by_code_point(st, s, len, out, zero);
    }
}

int normalizer_run(const struct normalizer *n, struct pattern_work *work, struct str *text,
                   struct str *spare, size_t *zero)
{
    for (size_t i = 0; i < n->n; i++) {
        struct str swap;
        int r;

        str_clear(spare);
        r = run_step(&n->steps[i], work, text->data ? text->data : "", text->len, spare, zero);
        if (r < 0)
            return r;
        swap = *text;
        *text = *spare;
        *spare = swap;
    }
    return 0;
}
