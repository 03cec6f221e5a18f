/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the hand-written splitters with the regular expressions that define them, on random
 * texts. */
#include "lib/test.h"

#include <errno.h>

#include "core/rng.h"
#include "core/utf8.h"
#include "tokenizer/pre-names.h"
#include "tokenizer/split.h"

#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define FOLD "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"

static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    FOLD WORD "\\p{N}{1,3}" REST,
    FOLD WORD "\\p{N}" REST,
    FOLD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" TAIL,
};

static size_t random_text(struct rng *r, char *out)
{
    static const char *const words[] = {"'s", "'S", "'ſ", "'re", "'LL",     "'d", " ",      "  ",
                                        "\n", "\r", "\t", " \n", "a",       "Zz", "1",      "12345",
                                        "½",  "!",  "?!", "é",   "e\u0301", "你", "\u3000", "'"};
    const unsigned n = rng_u32(r) % 12;
    size_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        const char *w = words[rng_u32(r) % ARRAY_SIZE(words)];

        if (rng_u32(r) % 4 == 0) {
            len += utf8_encode(rng_u32(r) % (rng_u32(r) % 2 ? 0x3000 : 0x110000), out + len);
        } else {
            memcpy(out + len, w, strlen(w));
            len += strlen(w);
        }
    }
    return len;
}

static void split(const struct splitter *s, struct pattern_work *work, const char *text, size_t len,
                  struct text *t)
{
    struct text spare = {0};

    assert_int_equal(str_append(&t->buf, text, len), 0);
    assert_int_equal(segs_push(&t->segs, 0, len, -1), 0);
    assert_int_equal(splitter_run(s, work, t, &spare), 0);
    text_done(&spare);
}

static bool same(const struct segs *a, const struct segs *b)
{
    for (size_t i = 0; a->n == b->n && i < a->n; i++)
        if (a->v[i].start != b->v[i].start || a->v[i].len != b->v[i].len)
            return false;
    return a->n == b->n;
}

TEST(hand_written_splitters_match_their_expressions)
{
    struct pattern_work *work;
    struct rng r;

    rng_seed(&r, 11);
    assert_int_equal(pattern_work_new(&work), 0);
    for (size_t p = 0; p < ARRAY_SIZE(patterns); p++) {
        struct splitter fast = {0}, slow = {0};
        struct split_step *a = splitter_add(&fast, SPLIT_FAST);
        struct split_step *b = splitter_add(&slow, SPLIT_REGEX);
        struct inf_err err;

        assert_true(split_fast_find(patterns[p], strlen(patterns[p]), &a->fast, &a->fold));
        ASSERT_OK_ERR(pattern_compile(patterns[p], strlen(patterns[p]), UNI_16, &b->regex, &err),
                      err);
        for (int i = 0; i < 20000; i++) {
            char text[256];
            const size_t len = random_text(&r, text);
            struct text x = {0}, y = {0};

            split(&fast, work, text, len, &x);
            split(&slow, work, text, len, &y);
            if (!same(&x.segs, &y.segs))
                fail_msg("pattern %zu splits '%.*s' into %zu and %zu", p, (int)len, text, x.segs.n,
                         y.segs.n);
            text_done(&x);
            text_done(&y);
        }
        splitter_done(&fast);
        splitter_done(&slow);
    }
    pattern_work_free(work);
}

TEST(patterns_are_translated)
{
    static const struct {
        const char *pattern, *text;
        int start, end; /* -1: no match */
    } cases[] = {
        {"\\s", "a\u180eb", -1, 0},
        {"\\s",
         "a\xc2\x85"
         "b",
         1, 3},
        {"\\h+", "xyzBEEF", 3, 7},
        {"[a-z&&[^aeiou]]+", "aeibcd", 3, 6},
        {"[[a-c][x-z]]+", "mnxyab", 2, 6},
        {"[^a&&[a-c]]", "abc", 1, 2},
        {"\\p{L}{1,2}+", "abcdef", 0, 6},
        {"(?m:a.b)", "a\nb", 0, 3},
        {"a.b", "a\nb", -1, 0},
        {"^b", "a\nb", 2, 3},
        {"\\p{^L}", "ab1", 2, 3},
        {"[\\P{L}]", "ab1", 2, 3},
        {"[^\\S\\n]+", "a\n \tb", 2, 4},
        {"[]a]+", "x]a", 1, 3},
        {"\\bfoo\\b", "xfoo foo", 5, 8},
        {"[[:alpha:]]+", "12ab", 2, 4},
        {"\\u00e9", "cafe\u0301 \u00e9", 7, 9},
        {"\\p{Letter}+", "1ab", 1, 3},
    };
    struct pattern_work *work;

    assert_int_equal(pattern_work_new(&work), 0);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct pattern *p = NULL;
        struct inf_err err;
        size_t start = 0, end = 0;
        int found;

        ASSERT_OK_ERR(pattern_compile(cases[i].pattern, strlen(cases[i].pattern), UNI_16, &p, &err),
                      err);
        found = pattern_find(p, work, cases[i].text, strlen(cases[i].text), 0, &start, &end);
        if (found != (cases[i].start < 0 ? PATTERN_NONE : 0) ||
            (found == 0 && (start != (size_t)cases[i].start || end != (size_t)cases[i].end)))
            fail_msg("'%s' in '%s': %d, %zu to %zu", cases[i].pattern, cases[i].text, found, start,
                     end);
        pattern_free(p);
    }
    pattern_work_free(work);
}

TEST(runaway_patterns_end_with_an_error)
{
    struct pattern_work *work;
    struct pattern *p;
    struct inf_err err;
    char text[64];
    size_t start, end;

    memset(text, 'a', sizeof(text));
    assert_int_equal(pattern_work_new(&work), 0);
    ASSERT_OK_ERR(pattern_compile("(a*)*b|(a|aa)+$c", 16, UNI_16, &p, &err), err);
    ASSERT_ERROR(pattern_find(p, work, text, sizeof(text), 0, &start, &end), E2BIG);
    pattern_free(p);
    pattern_work_free(work);
    ASSERT_ERROR(pattern_compile("a(", 2, UNI_16, &p, &err), EINVAL);
    ASSERT_ERROR(pattern_compile("[a", 2, UNI_16, &p, &err), EINVAL);
    ASSERT_ERROR(pattern_compile("\\p{Nothing}", 11, UNI_16, &p, &err), EINVAL);
}

TEST(unknown_names_are_refused_by_name)
{
    struct splitter s = {0};
    struct inf_err err;
    unsigned flags;

    ASSERT_ERROR(pre_find("no-such", 7, &s, &flags, &err), ENOTSUP);
    ASSERT_CONTAINS(err.text, "no-such");
    ASSERT_OK_ERR(pre_find("kimi-k2", 7, &s, &flags, &err), err);
    splitter_done(&s);
}

RUN_TESTS(cmocka_unit_test(hand_written_splitters_match_their_expressions),
          cmocka_unit_test(patterns_are_translated),
          cmocka_unit_test(runaway_patterns_end_with_an_error),
          cmocka_unit_test(unknown_names_are_refused_by_name))
