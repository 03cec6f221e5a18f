/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how norms of queries and keys are balanced. */
#include <math.h>

#include "lib/test.h"
#include "model/arch.h"

enum { HEAD = 8 };

static const struct rope_params halves = {.style = ROPE_HALF, .n_dims = HEAD};

/* Returns the expected square of the error of q · k: see balance.c. */
static double error_of(const float *q, const float *k, const int8_t *exponents)
{
    double q_sum = 0, k_sum = 0;

    for (int d = 0; d < HEAD; d++) {
        q_sum += pow((double)ldexpf(q[d], -exponents[d]), 2);
        k_sum += pow((double)ldexpf(k[d], exponents[d]), 2);
    }
    return q_sum * k_sum;
}

TEST(large_keys_become_smaller)
{
    const float q[HEAD] = {1, 1, 1, 4, 1, 1, 1, 4};
    const float k[HEAD] = {64, 1, 1, 1, 64, 1, 1, 1};
    const int8_t expected[HEAD] = {-3, 0, 0, 1, -3, 0, 0, 1}, zeros[HEAD] = {0};
    int8_t e[HEAD];

    assert_true(balance_exponents(q, k, &halves, HEAD, e));
    assert_memory_equal(e, expected, sizeof(e));
    assert_true(error_of(q, k, e) < error_of(q, k, zeros) / 4);
}

TEST(elements_of_a_pair_have_one_factor)
{
    const float q[HEAD] = {1, 1, 1, 1, 1, 1, 1, 1}, k[HEAD] = {64, 1, 1, 1, 1, 1, 1, 64};
    const struct rope_params pairs = {.style = ROPE_PAIRS, .n_dims = HEAD};
    const struct rope_params part = {.style = ROPE_HALF, .n_dims = 4};
    int8_t e[HEAD];

    assert_true(balance_exponents(q, k, &halves, HEAD, e));
    for (int d = 0; d < HEAD / 2; d++)
        assert_int_equal(e[d], e[d + HEAD / 2]);
    assert_true(balance_exponents(q, k, &pairs, HEAD, e));
    for (int d = 0; d < HEAD; d += 2)
        assert_int_equal(e[d], e[d + 1]);
    assert_true(balance_exponents(q, k, &part, HEAD, e));
    assert_int_equal(e[0], e[2]);
    assert_int_equal(e[6], 0);
    assert_int_equal(e[7], -3);
}

TEST(odd_norms_stay_as_they_are)
{
    const float ones[HEAD] = {1, 1, 1, 1, 1, 1, 1, 1}, zeros[HEAD] = {0};
    const float odd[HEAD] = {NAN, 1, 1, 1, 1, 1, 1, 1}, huge[HEAD] = {1e6f, 1, 1, 1, 1, 1, 1, 1};
    const int8_t expected[HEAD] = {0};
    int8_t e[HEAD];

    assert_true(balance_exponents(ones, zeros, &halves, HEAD, e));
    assert_memory_equal(e, expected, sizeof(e));
    assert_true(balance_exponents(zeros, ones, &halves, HEAD, e));
    assert_memory_equal(e, expected, sizeof(e));
    assert_false(balance_exponents(ones, odd, &halves, HEAD, e));
    assert_false(balance_exponents(ones, huge, &halves, HEAD, e));
}

RUN_TESTS(cmocka_unit_test(large_keys_become_smaller),
          cmocka_unit_test(elements_of_a_pair_have_one_factor),
          cmocka_unit_test(odd_norms_stay_as_they_are))
