/* SPDX-License-Identifier: Apache-2.0 */
#include "draft/cost.h"

#include "core/macros.h"
#include "lib/test.h"

static struct draft_cost cost;
static struct draft_offer offers[DRAFT_MAX_SEQS];
static uint32_t taken[DRAFT_MAX_SEQS];

/* Makes @n offers of @k tokens, each of which is accepted with the probability @chance. */
static void offer(uint32_t n, uint32_t k, float chance)
{
    for (uint32_t i = 0; i < n; i++) {
        float product = 1;

        offers[i].n = k;
        for (uint32_t j = 0; j < k; j++)
            offers[i].chances[j] = product *= chance;
    }
}

/* Notes the times of steps of @n sequences: @usec, and @row_usec for each drafted token. */
static void measure(uint32_t n, uint32_t max_extra, uint64_t usec, uint64_t row_usec)
{
    cost = (struct draft_cost){0};
    for (uint32_t e = max_extra + 1; e > 0; e--)
        for (unsigned i = 0; i < 3; i++)
            draft_cost_note(&cost, n, e - 1, usec + (e - 1) * row_usec);
}

/* Notes a step with drafts twice, because the first measurement does not count. */
static void note_twice(uint32_t n, uint32_t n_extra, uint64_t usec)
{
    for (unsigned i = 0; i < 2; i++)
        draft_cost_note(&cost, n, n_extra, usec);
}

static void note_model_twice(uint32_t n, uint64_t usec)
{
    for (unsigned i = 0; i < 2; i++)
        draft_cost_note_model(&cost, n, usec);
}

TEST(the_first_step_with_drafts_may_take_long)
{
    offer(1, 4, 0.6f);
    measure(1, 0, 1000, 0);
    draft_cost_note(&cost, 1, 2, 60000);
    draft_cost_note_model(&cost, 1, 60000);
    assert_in_range(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 1, 4);
    /* The shorter one of two measurements counts. */
    draft_cost_note(&cost, 1, 2, 1200);
    draft_cost_note_model(&cost, 1, 50);
    assert_in_range(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 1, 4);
}

TEST(nothing_is_drafted_before_steps_are_measured)
{
    cost = (struct draft_cost){0};
    offer(1, 4, 1);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 0);
    draft_cost_note(&cost, 1, 0, 100);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 0);
    draft_cost_note(&cost, 1, 0, 100);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 4);
}

TEST(drafts_are_as_long_as_they_pay)
{
    /* If rows cost nothing, every token is drafted; if they cost as much as steps, no token is
     * drafted. */
    offer(1, 8, 0.7f);
    measure(1, 8, 1000, 0);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 8);
    measure(1, 8, 1000, 1000);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 0);
    measure(1, 8, 1000, 200);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 3);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 2, taken, NULL), 2);
}

TEST(a_cliff_is_avoided)
{
    offer(1, 8, 0.8f);
    measure(1, 8, 1000, 10);
    for (uint32_t e = 4; e <= 8; e++)
        for (unsigned i = 0; i < 40; i++)
            draft_cost_note(&cost, 1, e, 2500);
    draft_cost_note(&cost, 1, 0, 1000);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 3);
}

TEST(the_best_tokens_of_all_sequences_are_drafted)
{
    offer(3, 4, 0.2f);
    offers[1].chances[0] = offers[1].chances[1] = 0.9f;
    measure(3, 12, 1000, 150);
    assert_int_equal(draft_cost_choose(&cost, offers, 3, 48, taken, NULL), 2);
    assert_int_equal(taken[0], 0);
    assert_int_equal(taken[1], 2);
    assert_int_equal(taken[2], 0);
}

TEST(unknown_times_are_interpolated)
{
    measure(2, 0, 1000, 0);
    assert_true(draft_cost_time(&cost, 2, 4) > 1000);
    assert_true(draft_cost_time(&cost, 1, 0) == 0);
    note_twice(2, 4, 2000);
    assert_true(draft_cost_time(&cost, 2, 2) == 1500);
    assert_true(draft_cost_time(&cost, 2, 6) > 2000);
}

TEST(plain_steps_are_measured_again)
{
    uint32_t n = 0;

    measure(1, 4, 1000, 10);
    offer(1, 4, 0.9f);
    for (unsigned i = 0; i < 1000; i++) {
        const uint32_t e = draft_cost_choose(&cost, offers, 1, 48, taken, NULL);

        n += e == 0;
        draft_cost_note(&cost, 1, e, 1000 + 10 * e);
    }
    assert_in_range(n, 4, 9);
}

TEST(a_disturbed_first_measurement_is_corrected_soon)
{
    uint32_t n_drafted = 0;

    measure(1, 4, 1000, 300);
    cost.times[1][0].usec = 100000;
    cost.times[1][0].n = DRAFT_MEASURE;
    offer(1, 4, 0.1f);
    for (unsigned i = 0; i < 1000; i++) {
        const uint32_t e = draft_cost_choose(&cost, offers, 1, 48, taken, NULL);

        n_drafted += e > 0;
        draft_cost_note(&cost, 1, e, 1000 + 300 * e);
    }
    assert_in_range(n_drafted, 1, 20);
}

TEST(steps_of_a_draft_model_are_paid_for)
{
    double gain;

    measure(1, 8, 1000, 10);
    offer(1, 8, 0.7f);
    offers[0].by_model = true;
    /* A step that was not measured is assumed to be short. */
    assert_true(draft_cost_choose(&cost, offers, 1, 48, taken, &gain) > 1);
    assert_true(gain > 1.5);
    note_model_twice(1, 800);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, &gain), 0);
    assert_true(gain == 1);
    offers[0].by_model = false;
    assert_true(draft_cost_choose(&cost, offers, 1, 48, taken, &gain) > 4);
    offers[0].by_model = true;
    for (unsigned i = 0; i < 40; i++)
        note_model_twice(1, 200);
    assert_in_range(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 1, 4);
    offers[0].by_model = false;
}

TEST(one_step_of_a_draft_model_serves_all_sequences)
{
    measure(8, 48, 1000, 10);
    offer(8, 4, 0.5f);
    for (unsigned i = 0; i < 8; i++)
        offers[i].by_model = true;
    note_model_twice(1, 300);
    note_model_twice(8, 320);
    assert_true(draft_cost_choose(&cost, offers, 8, 48, taken, NULL) >= 8);
    /* For one of the sequences alone, a draft does not pay. */
    for (unsigned i = 1; i < 8; i++)
        offers[i].n = 0;
    assert_int_equal(draft_cost_choose(&cost, offers, 8, 48, taken, NULL), 0);
    assert_true(draft_cost_model_time(&cost, 4) > 300 && draft_cost_model_time(&cost, 4) < 320);
    assert_true(draft_cost_model_time(&cost, 0) == 0);
    for (unsigned i = 0; i < 8; i++)
        offers[i].by_model = false;
}

TEST(a_step_that_drafts_all_tokens_is_paid_for_once)
{
    measure(1, 8, 1000, 10);
    offer(1, 8, 0.7f);
    offers[0].by_model = true;
    note_model_twice(1, 800);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 0);
    cost.at_once = true;
    assert_true(draft_cost_choose(&cost, offers, 1, 48, taken, NULL) > 1);
    assert_true(draft_cost_alone_time(&cost, 4) == 800);
    /* Further tokens in the step are not free. */
    note_model_twice(8, 4000);
    assert_int_equal(draft_cost_choose(&cost, offers, 1, 48, taken, NULL), 0);
    assert_true(draft_cost_alone_time(&cost, 4) > 800 && draft_cost_alone_time(&cost, 4) < 4000);
    cost.at_once = false;
    assert_true(draft_cost_alone_time(&cost, 4) == 3200);
    offers[0].by_model = false;
}

TEST(too_many_sequences_draft_nothing)
{
    offer(DRAFT_MAX_SEQS, 4, 1);
    draft_cost_note(&cost, DRAFT_MAX_SEQS + 1, 0, 1000);
    assert_int_equal(draft_cost_choose(&cost, offers, DRAFT_MAX_SEQS, 48, taken, NULL), 0);
}

TEST(chances_follow_what_was_accepted)
{
    static const uint8_t classes[] = {3, 3, 3, 3};
    struct draft_rates all = {0};
    struct draft_own_rates good[DRAFT_SOURCES] = {0}, bad[DRAFT_SOURCES] = {0};
    float chances[4];

    draft_rates_chances(&all, good, classes, 4, chances);
    assert_true(chances[0] == 0.5f && chances[3] < chances[2]);
    for (unsigned i = 0; i < 100; i++) {
        draft_rates_note(&all, good, 3, 0, true);
        draft_rates_note(&all, bad, 3, 0, false);
    }
    draft_rates_chances(&all, good, classes, 1, &chances[0]);
    draft_rates_chances(&all, bad, classes, 1, &chances[1]);
    assert_true(chances[0] > 0.8f && chances[1] < 0.2f);
    /* A new sequence gets the mean chance of all sequences. */
    draft_rates_chances(&all, (struct draft_own_rates[DRAFT_SOURCES]){0}, classes, 1, &chances[2]);
    assert_true(chances[2] > 0.4f && chances[2] < 0.6f);
}

TEST(tokens_of_a_draft_may_have_several_classes)
{
    static const uint8_t classes[] = {DRAFT_FORCED, DRAFT_BYTES,  DRAFT_FORCED,
                                      DRAFT_BYTES,  DRAFT_LIKELY, 3};
    struct draft_rates all = {0};
    struct draft_own_rates own[DRAFT_SOURCES] = {0};
    float chances[6];

    draft_rates_chances(&all, own, classes, 6, chances);
    assert_true(chances[0] == 1 && chances[1] == chances[2] && chances[1] > 0.8f);
    assert_true(chances[3] < chances[2] && chances[5] < chances[4]);
    /* The position of a token that follows from a grammar does not matter. */
    for (unsigned i = 0; i < 100; i++)
        draft_rates_note(&all, own, DRAFT_BYTES, 7, false);
    draft_rates_chances(&all, own, classes, 6, chances);
    assert_true(chances[0] == 1 && chances[1] < 0.1f);
    /* Other sources have counts of their own. */
    draft_rates_chances(&all, own, classes + 5, 1, chances);
    assert_true(chances[0] == 0.5f);
}

TEST(classes_are_in_order)
{
    assert_int_equal(draft_class(0, 0), 0);
    assert_int_equal(draft_class(1, 1), 1);
    assert_int_equal(draft_class(2, 0), 2);
    assert_int_equal(draft_class(1000, 1), DRAFT_FORCED - 1);
    assert_int_equal(draft_class(UINT32_MAX, 1), DRAFT_FORCED - 1);
}

RUN_TESTS(cmocka_unit_test(the_first_step_with_drafts_may_take_long),
          cmocka_unit_test(nothing_is_drafted_before_steps_are_measured),
          cmocka_unit_test(drafts_are_as_long_as_they_pay), cmocka_unit_test(a_cliff_is_avoided),
          cmocka_unit_test(the_best_tokens_of_all_sequences_are_drafted),
          cmocka_unit_test(unknown_times_are_interpolated),
          cmocka_unit_test(plain_steps_are_measured_again),
          cmocka_unit_test(a_disturbed_first_measurement_is_corrected_soon),
          cmocka_unit_test(steps_of_a_draft_model_are_paid_for),
          cmocka_unit_test(one_step_of_a_draft_model_serves_all_sequences),
          cmocka_unit_test(a_step_that_drafts_all_tokens_is_paid_for_once),
          cmocka_unit_test(too_many_sequences_draft_nothing),
          cmocka_unit_test(chances_follow_what_was_accepted),
          cmocka_unit_test(tokens_of_a_draft_may_have_several_classes),
          cmocka_unit_test(classes_are_in_order))
