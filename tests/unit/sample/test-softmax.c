/* SPDX-License-Identifier: Apache-2.0 */
/* Masses against exp() in double, at every length and over the whole range. */
#include "lib/test.h"

#include <math.h>

#include "core/macros.h"
#include "core/rng.h"
#include "sample/softmax.h"

static void check(const float *x, uint32_t n, float max, float temperature)
{
    static float y[2000];
    double want_sum = 0, sum;

    memcpy(y, x, n * sizeof(*x));
    sum = softmax_masses(y, n, max, temperature);
    for (uint32_t i = 0; i < n; i++) {
        const double want = exp((double)((x[i] - max) / temperature));

        want_sum += want;
        if (want < 1e-36)
            assert_true((double)y[i] < 1e-36 && y[i] >= 0);
        else
            assert_true(fabs((double)y[i] - want) <= 2e-7 * want);
    }
    assert_true(fabs(sum - want_sum) <= 1e-6 * want_sum);
}

TEST(masses_are_exponentials)
{
    static float x[2000];
    struct rng rng;

    rng_seed(&rng, 1);
    for (uint32_t n = 1; n < 2000; n += n < 40 ? 1 : 97) {
        const float spread = (float)(n % 7 + 1) * 20;
        float max = -INFINITY;

        for (uint32_t i = 0; i < n; i++) {
            x[i] = (float)rng_double(&rng) * spread - spread / 3;
            max = MAX(max, x[i]);
        }
        check(x, n, max, 1);
        check(x, n, max, 0.7f);
        check(x, n, max, 12);
    }
}

TEST(the_largest_has_mass_one_and_infinite_distance_none)
{
    float x[] = {3, -INFINITY, 3, -1e30f, 2};

    assert_true(softmax_masses(x, 5, 3, 1) > 2);
    assert_true(x[0] == 1 && x[2] == 1);
    assert_true(x[1] == 0 && x[3] == 0);
}

RUN_TESTS(cmocka_unit_test(masses_are_exponentials),
          cmocka_unit_test(the_largest_has_mass_one_and_infinite_distance_none))
