/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the table of sampling parameters and the order of their sources. */
#include <math.h>

#include "common/models/sampling.h"
#include "lib/test.h"

TEST(nothing_is_set_at_first)
{
    struct inf_sampling s;

    sampling_clear(&s);
    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++) {
        assert_false(sampling_is_set(&s, i));
        assert_int_equal(sampling_find(sampling_rows[i].name), i);
    }
    assert_int_equal(sampling_find("none"), -1);
}

TEST(values_mean_what_they_mean_in_the_apis)
{
    struct inf_sampling s;

    sampling_clear(&s);
    assert_true(sampling_set(&s, SAMPLING_TOP_P, 0));
    assert_true(s.top_p > 0 && s.top_p < 1e-6f);
    assert_true(sampling_set(&s, SAMPLING_TOP_K, -1));
    assert_int_equal(s.top_k, 0);
    assert_true(sampling_set(&s, SAMPLING_REPEAT_LAST_N, -1));
    assert_int_equal(s.penalty_last_n, INT32_MAX);
    assert_true(sampling_set(&s, SAMPLING_REPEAT_LAST_N, 0));
    assert_int_equal(s.penalty_last_n, 0);
    assert_true(sampling_is_set(&s, SAMPLING_REPEAT_LAST_N));
    assert_true(sampling_set(&s, SAMPLING_DRY_PENALTY_LAST_N, -1));
    assert_int_equal(s.dry_last_n, 0);
    assert_true(sampling_set(&s, SAMPLING_DRY_PENALTY_LAST_N, 0));
    assert_int_equal(s.dry_last_n, 1);
}

TEST(values_out_of_range_are_refused)
{
    struct inf_sampling s;

    sampling_clear(&s);
    assert_false(sampling_set(&s, SAMPLING_TOP_P, 1.5));
    assert_false(sampling_set(&s, SAMPLING_TEMPERATURE, NAN));
    assert_false(sampling_set(&s, SAMPLING_TOP_K, 2.5));
    assert_false(sampling_set_text(&s, SAMPLING_TOP_K, "4x"));
    assert_false(sampling_set_text(&s, SAMPLING_TOP_K, ""));
    assert_true(sampling_set_text(&s, SAMPLING_TOP_K, "4"));
    assert_int_equal(s.top_k, 4);
}

TEST(the_first_source_wins)
{
    enum sampling_source sources[N_SAMPLING_KEYS] = {SAMPLING_OF_REQUEST};
    struct inf_sampling s, manifest, model;

    sampling_clear(&s);
    sampling_clear(&manifest);
    sampling_clear(&model);
    sampling_set(&manifest, SAMPLING_TEMPERATURE, 0.5);
    sampling_set(&model, SAMPLING_TEMPERATURE, 0.25);
    sampling_set(&model, SAMPLING_TOP_K, 7);
    sampling_set(&s, SAMPLING_MIN_P, 0);
    sampling_fill(&s, &manifest, SAMPLING_OF_MANIFEST, sources);
    sampling_fill(&s, &model, SAMPLING_OF_MODEL, sources);
    sampling_fill(&s, &sampling_llama, SAMPLING_OF_API, sources);
    assert_true(s.temperature == 0.5f && s.top_k == 7 && s.min_p == 0);
    assert_int_equal(sources[SAMPLING_TEMPERATURE], SAMPLING_OF_MANIFEST);
    assert_int_equal(sources[SAMPLING_TOP_K], SAMPLING_OF_MODEL);
    assert_int_equal(sources[SAMPLING_MIN_P], SAMPLING_OF_REQUEST);
    for (unsigned i = 0; i < N_SAMPLING_KEYS; i++)
        assert_true(sampling_is_set(&s, i));
}

RUN_TESTS(cmocka_unit_test(nothing_is_set_at_first),
          cmocka_unit_test(values_mean_what_they_mean_in_the_apis),
          cmocka_unit_test(values_out_of_range_are_refused),
          cmocka_unit_test(the_first_source_wins))
