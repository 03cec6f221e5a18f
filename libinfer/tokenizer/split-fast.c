/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the hand-written splitters of GPT-2, Llama 3, Qwen 2, Qwen 3.5, o200k and Tekken.
 *
 * The function of a splitter tries the alternatives of its regular expression in order. Tests
 * compare its words with those of the expression itself.
 */
#include <string.h>

#include "core/utf8.h"
#include "tokenizer/split.h"

#define GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define TAIL   "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MIDDLE "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define FOLD   "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define WORD   "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"

static const struct {
    const char *pattern;
    enum split_fast fast;
} patterns[] = {
    {GPT2, SPLIT_GPT2},
    {FOLD WORD "\\p{N}{1,3}" MIDDLE, SPLIT_LLAMA3},
    {FOLD WORD "\\p{N}" MIDDLE, SPLIT_QWEN2},
    {FOLD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL,
     SPLIT_QWEN35},
};

bool split_fast_find(const char *pattern, size_t len, enum split_fast *ret, bool *ret_fold)
{
    for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
        if (strlen(patterns[i].pattern) == len && memcmp(patterns[i].pattern, pattern, len) == 0) {
            *ret = patterns[i].fast;
            *ret_fold = i > 0;
            return true;
        }
    }
    return false;
}

const char *split_fast_pattern(enum split_fast fast)
{
    for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
        if (patterns[i].fast == fast)
            return patterns[i].pattern;
    return NULL;
}

struct cursor {
    const char *s;
    size_t len;
    enum uni_version version;
};

/* Returns the class of the code point at @at, and its length; both are 0 at the end. */
static unsigned class_at(const struct cursor *c, size_t at, size_t *ret_len)
{
    uint32_t cp;

    *ret_len = 0;
    if (at >= c->len)
        return 0;
    *ret_len = utf8_decode(c->s + at, c->len - at, &cp);
    return uni_class(cp, c->version);
}

/* Returns the end of the run of code points from @at whose class is in @set, or not in @set if
 * @negated. */
static size_t match_run(const struct cursor *c, size_t at, unsigned set, bool negated)
{
    size_t n;

    for (;;) {
        const unsigned k = class_at(c, at, &n);

        if (n == 0 || ((k & set) != 0) == negated)
            return at;
        at += n;
    }
}

static char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

/* Returns the length of a contraction ('s 't 're 've 'm 'll 'd) at @at, or 0. */
static size_t match_contraction(const struct cursor *c, size_t at, bool any_case, bool fold)
{
    char a, b;

    if (c->s[at] != '\'' || at + 1 >= c->len)
        return 0;
    a = c->s[at + 1];
    b = at + 2 < c->len ? c->s[at + 2] : 0;
    if (fold && (unsigned char)a == 0xc5 && (unsigned char)b == 0xbf)
        return 3;
    if (any_case) {
        a = ascii_lower(a);
        b = ascii_lower(b);
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

static bool is_newline(char c)
{
    return c == '\r' || c == '\n';
}

/* Matches \s+(?!\S)|\s+ at @at, which must be white space. */
static size_t match_spaces(const struct cursor *c, size_t at)
{
    const size_t end = match_run(c, at, UNI_SPACE, false);
    size_t last = end;

    if (end == c->len)
        return end;
    do {
        last--;
    } while (((unsigned char)c->s[last] & 0xc0) == 0x80);
    return last > at ? last : end;
}

static size_t gpt2_word(const struct cursor *c, size_t at)
{
    size_t n, word = match_contraction(c, at, false, false);
    unsigned k;

    if (word)
        return at + word;
    word = at + (c->s[at] == ' ');
    k = class_at(c, word, &n);
    if (n > 0 && !(k & UNI_SPACE)) {
        if (k & (UNI_L | UNI_N))
            return match_run(c, word, k, false);
        return match_run(c, word, UNI_L | UNI_N | UNI_SPACE, true);
    }
    return match_spaces(c, at);
}

/* Returns the end of the last newline in the white space from @at on, or @at if there is no
 * newline. */
static size_t match_newlines(const struct cursor *c, size_t at)
{
    const size_t end = match_run(c, at, UNI_SPACE, false);

    for (size_t i = end; i > at; i--)
        if (is_newline(c->s[i - 1]))
            return i;
    return at;
}

static size_t llama3_word(const struct cursor *c, size_t at, size_t max_digits, unsigned letters,
                          bool fold)
{
    size_t n, next_n, word = match_contraction(c, at, true, fold);
    unsigned k = class_at(c, at, &n);
    const unsigned plain = letters | UNI_L | UNI_N | UNI_SPACE;

    if (word)
        return at + word;
    if (!is_newline(c->s[at]) && !(k & (UNI_L | UNI_N))) {
        if (class_at(c, at + n, &next_n) & letters)
            return match_run(c, at + n, letters, false);
    }
    if (k & letters)
        return match_run(c, at, letters, false);
    if (k & UNI_N) {
        for (size_t i = 0; i < max_digits && (class_at(c, at, &n) & UNI_N); i++)
            at += n;
        return at;
    }
    word = at + (c->s[at] == ' ');
    k = class_at(c, word, &n);
    if (n > 0 && !(k & plain)) {
        word = match_run(c, word, plain, true);
        while (word < c->len && is_newline(c->s[word]))
            word++;
        return word;
    }
    word = match_newlines(c, at);
    return word > at ? word : match_spaces(c, at);
}

/* Matches U*W+ or U+W* from @at, where U is any letter except a–z and W any letter except A–Z.
 * Returns @at if neither matches. */
static size_t match_cased(const struct cursor *c, size_t at, unsigned letters)
{
    size_t n, end = at, both = 0, both_end = 0;

    for (;;) {
        if (!(class_at(c, end, &n) & letters) || (c->s[end] >= 'a' && c->s[end] <= 'z'))
            break;
        if ((unsigned char)c->s[end] >= 0x80) {
            both = end;
            both_end = end + n;
        }
        end += n;
    }
    if (n > 0 && c->s[end] >= 'a' && c->s[end] <= 'z') {
        while ((class_at(c, end, &n) & letters) && !(c->s[end] >= 'A' && c->s[end] <= 'Z'))
            end += n;
        return end;
    }
    /* The expression's U* backtracks until W+ can match. W+ then matches only the last letter
     * beyond ASCII, because this letter is both a U and a W. */
    return both_end > both ? both_end : end;
}

static size_t o200k_word(const struct cursor *c, size_t at, size_t max_digits, unsigned letters,
                         bool contractions)
{
    size_t n, word, end = at;
    unsigned k = class_at(c, at, &n);

    if (!is_newline(c->s[at]) && !(k & (UNI_L | UNI_N))) {
        word = match_cased(c, at + n, letters);
        if (word > at + n)
            end = word;
    }
    if (end == at && (k & letters))
        end = match_cased(c, at, letters);
    if (end > at)
        return contractions && end < c->len ? end + match_contraction(c, end, true, false) : end;
    if (k & UNI_N) {
        for (size_t i = 0; i < max_digits && (class_at(c, at, &n) & UNI_N); i++)
            at += n;
        return at;
    }
    word = at + (c->s[at] == ' ');
    k = class_at(c, word, &n);
    if (n > 0 && !(k & (UNI_L | UNI_N | UNI_SPACE))) {
        word = match_run(c, word, UNI_L | UNI_N | UNI_SPACE, true);
        while (word < c->len && (is_newline(c->s[word]) || c->s[word] == '/'))
            word++;
        return word;
    }
    word = match_newlines(c, at);
    return word > at ? word : match_spaces(c, at);
}

size_t split_fast_word(const struct split_step *st, const char *s, size_t len, size_t at)
{
    const struct cursor c = {s, len, st->version};

    switch (st->fast) {
    case SPLIT_GPT2:
        return gpt2_word(&c, at);
    case SPLIT_LLAMA3:
        return llama3_word(&c, at, 3, UNI_L, st->fold);
    case SPLIT_QWEN2:
        return llama3_word(&c, at, 1, UNI_L, st->fold);
    case SPLIT_O200K:
        return o200k_word(&c, at, 3, UNI_L, true);
    case SPLIT_TEKKEN:
        return o200k_word(&c, at, 1, UNI_L, false);
    case SPLIT_O200K_MARKS:
        return o200k_word(&c, at, 3, UNI_L | UNI_M, true);
    default:
        return llama3_word(&c, at, 1, UNI_L | UNI_M, st->fold);
    }
}
