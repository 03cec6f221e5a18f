/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the suffix automaton with a search through the texts. */
#include "draft/suffix.h"

#include <string.h>

#include "core/rng.h"
#include "draft/memory.h"
#include "lib/test.h"

#define MAX_TEXT 400u

/* Returns how many tokens the ends of @a [n_a] and @b [n_b] have in common. */
static uint32_t common_end(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b)
{
    uint32_t n = 0;

    while (n < n_a && n < n_b && a[n_a - 1 - n] == b[n_b - 1 - n])
        n++;
    return n;
}

static uint32_t longest_repeated(const int32_t *text, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t end = 1; end < n; end++)
        best = MAX(best, common_end(text, n, text, end));
    return best;
}

TEST(repetitions_have_the_right_length)
{
    int32_t text[MAX_TEXT], drafted[8];
    struct rng rng;

    rng_seed(&rng, 1);
    for (uint32_t n_letters = 1; n_letters < 6; n_letters++) {
        struct suffix *x;

        ASSERT_OK(suffix_new(MAX_TEXT, &x));
        for (uint32_t n = 0; n < MAX_TEXT; n++) {
            struct suffix_place place;
            float share = -1;
            uint32_t k;

            text[n] = (int32_t)(rng_u32(&rng) % n_letters);
            assert_true(suffix_add(x, text[n]));
            place = suffix_repeated(x);
            assert_int_equal(place.len, longest_repeated(text, n + 1));
            k = suffix_draft(x, place, 8, drafted, &share);
            assert_true(k == 8 || place.len == 0 || n < 20);
            assert_true(k == 0 || (share >= 0 && share <= 1));
        }
        assert_int_equal(suffix_n_tokens(x), MAX_TEXT);
        assert_false(suffix_add(x, 0));
        suffix_clear(x);
        assert_int_equal(suffix_repeated(x).len, 0);
        assert_true(suffix_add(x, 7));
        suffix_free(x);
    }
}

TEST(another_text_is_followed)
{
    int32_t known[MAX_TEXT], text[MAX_TEXT];
    struct suffix_place place = {0};
    struct suffix *x;
    struct rng rng;

    rng_seed(&rng, 2);
    ASSERT_OK(suffix_new(MAX_TEXT, &x));
    for (uint32_t n = 0; n < MAX_TEXT; n++) {
        uint32_t best = 0;

        /* The automaton grows while the other text is followed. */
        known[n] = (int32_t)(rng_u32(&rng) % 3);
        text[n] = (int32_t)(rng_u32(&rng) % 3);
        place = suffix_follow(x, place, text[n]);
        for (uint32_t end = 1; end <= n; end++)
            best = MAX(best, common_end(text, n + 1, known, end));
        assert_true(place.len <= best);
        /* A place that was found before the automaton grew may be shorter than the best one. */
        assert_true(place.len + 1 >= best || place.len > 0);
        assert_true(suffix_add(x, known[n]));
    }
    place = (struct suffix_place){0};
    for (uint32_t n = 0; n < MAX_TEXT; n++) {
        uint32_t best = 0;

        place = suffix_follow(x, place, text[n]);
        for (uint32_t end = 1; end <= MAX_TEXT; end++)
            best = MAX(best, common_end(text, n + 1, known, end));
        assert_int_equal(place.len, best);
    }
    suffix_free(x);
}

TEST(the_most_frequent_token_is_drafted)
{
    static const int32_t text[] = {1, 2, 3, 9, 1, 2, 4, 9, 1, 2, 3, 8, 1, 2};
    int32_t drafted[3];
    float share;
    struct suffix *x;

    ASSERT_OK(suffix_new(64, &x));
    for (unsigned i = 0; i < ARRAY_SIZE(text); i++)
        assert_true(suffix_add(x, text[i]));
    assert_int_equal(suffix_repeated(x).len, 2);
    assert_int_equal(suffix_draft(x, suffix_repeated(x), 3, drafted, &share), 3);
    assert_int_equal(drafted[0], 3);
    assert_int_equal(drafted[1], 8);
    assert_int_equal(drafted[2], 1);
    assert_true(share > 0.4f && share < 0.7f);
    suffix_free(x);
}

TEST(answers_are_remembered_by_key)
{
    static const uint8_t one[DRAFT_KEY_BYTES] = {1}, two[DRAFT_KEY_BYTES] = {2};
    static const int32_t answer[] = {5, 6, 7, 8}, text[] = {9, 5, 6};
    struct draft_memory_place place = {0};
    struct draft_memory *m;
    int32_t drafted[4];
    uint32_t len;
    float share;

    ASSERT_OK(draft_memory_new(&m));
    draft_memory_follow(m, one, &place, text, 3, 3);
    assert_int_equal(draft_memory_draft(m, one, &place, 4, drafted, &share, &len), 0);
    draft_memory_add(m, one, answer, 4);
    draft_memory_follow(m, one, &place, text, 3, 0);
    assert_int_equal(draft_memory_draft(m, one, &place, 4, drafted, &share, &len), 2);
    assert_int_equal(len, 2);
    assert_true(drafted[0] == 7 && drafted[1] == 8);
    draft_memory_follow(m, two, &place, text, 3, 0);
    assert_int_equal(draft_memory_draft(m, two, &place, 4, drafted, &share, &len), 0);
    draft_memory_free(m);
}

TEST(old_answers_and_keys_are_forgotten)
{
    uint8_t key[DRAFT_KEY_BYTES] = {0};
    struct draft_memory_place place = {0};
    struct draft_memory *m;
    int32_t answer[1024], drafted[4];
    uint32_t len;
    float share;

    ASSERT_OK(draft_memory_new(&m));
    for (int32_t a = 0; a < 64; a++) {
        for (int32_t i = 0; i < 1024; i++)
            answer[i] = a * 1024 + i;
        draft_memory_add(m, key, answer, 1024);
    }
    /* The memory has the last answers, but not the first ones. */
    draft_memory_follow(m, key, &place, answer, 1000, 1000);
    assert_int_equal(draft_memory_draft(m, key, &place, 4, drafted, &share, &len), 4);
    for (int32_t i = 0; i < 1024; i++)
        answer[i] = i;
    place = (struct draft_memory_place){0};
    draft_memory_follow(m, key, &place, answer, 1000, 1000);
    assert_int_equal(draft_memory_draft(m, key, &place, 4, drafted, &share, &len), 0);
    for (unsigned i = 1; i <= DRAFT_MEMORY_KEYS; i++) {
        key[0] = (uint8_t)i;
        draft_memory_add(m, key, answer, 8);
    }
    key[0] = 0;
    draft_memory_follow(m, key, &place, answer, 8, 8);
    assert_int_equal(draft_memory_draft(m, key, &place, 4, drafted, &share, &len), 0);
    draft_memory_free(m);
}

RUN_TESTS(cmocka_unit_test(repetitions_have_the_right_length),
          cmocka_unit_test(another_text_is_followed),
          cmocka_unit_test(the_most_frequent_token_is_drafted),
          cmocka_unit_test(answers_are_remembered_by_key),
          cmocka_unit_test(old_answers_and_keys_are_forgotten))
