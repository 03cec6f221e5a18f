/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/plan.h"

#include "core/rng.h"
#include "lib/test.h"

static void assert_apart(const struct plan_span *s, size_t n, uint64_t size)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(s[i].offset % 64, 0);
        assert_true(s[i].offset + s[i].size <= size);
        for (size_t j = 0; j < i; j++) {
            const bool same_time = s[i].first <= s[j].last && s[j].first <= s[i].last;
            const bool same_place =
                s[i].offset < s[j].offset + s[j].size && s[j].offset < s[i].offset + s[i].size;

            assert_false(same_time && same_place);
        }
    }
}

TEST(values_of_the_same_time_lie_apart)
{
    struct rng rng;

    rng_seed(&rng, 5);
    for (int round = 0; round < 300; round++) {
        struct plan_span s[40];
        const size_t n = rng_u32(&rng) % 41;
        uint64_t size;

        for (size_t i = 0; i < n; i++) {
            s[i].first = rng_u32(&rng) % 30;
            s[i].last = s[i].first + rng_u32(&rng) % 6;
            s[i].size = rng_u32(&rng) % 1000;
        }
        ASSERT_OK(plan_place(s, n, &size));
        assert_apart(s, n, size);
    }
}

TEST(values_of_different_times_share_a_place)
{
    struct plan_span s[] = {{0, 1, 640, 9}, {2, 3, 640, 9}, {4, 9, 640, 9}};
    uint64_t size;

    ASSERT_OK(plan_place(s, 3, &size));
    assert_int_equal(size, 640);
    assert_int_equal(s[2].offset, 0);
}

TEST(sizes_that_overflow_are_refused)
{
    struct plan_span s[] = {{0, 1, UINT64_MAX - 100, 0}, {1, 2, 200, 0}};
    uint64_t size;

    ASSERT_ERROR(plan_place(s, 2, &size), EOVERFLOW);
}

RUN_TESTS(cmocka_unit_test(values_of_the_same_time_lie_apart),
          cmocka_unit_test(values_of_different_times_share_a_place),
          cmocka_unit_test(sizes_that_overflow_are_refused))
