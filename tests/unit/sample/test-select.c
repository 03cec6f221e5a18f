/* SPDX-License-Identifier: Apache-2.0 */
/* Partial selection against sorting everything. */
#include "lib/test.h"

#include <math.h>

#include "core/macros.h"
#include "core/rng.h"
#include "sample/select.h"

#define N 1000

static int compare(const void *a, const void *b)
{
    return cand_before(a, b) ? -1 : 1;
}

/* Many equal keys, so that ties matter. */
static void fill(struct rng *rng, struct cand *c, float *x, uint32_t n, uint32_t n_levels)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = (float)(rng_u32(rng) % n_levels) - (float)n_levels / 2;
        c[i] = (struct cand){x[i], 1, (int32_t)i};
    }
}

TEST(argmax_takes_the_lowest_of_equals)
{
    struct rng rng;
    float x[N];

    rng_seed(&rng, 1);
    for (uint32_t round = 0; round < 500; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % 70;
        int32_t best = 0;

        for (uint32_t i = 0; i < n; i++)
            x[i] = (float)(rng_u32(&rng) % 5) - 7;
        for (uint32_t i = 0; i < n; i++)
            if (x[i] > x[best])
                best = (int32_t)i;
        assert_int_equal(row_argmax(x, n), best);
    }
}

TEST(argmax_refuses_rows_that_are_no_numbers)
{
    for (uint32_t n = 1; n < 40; n++)
        for (uint32_t bad = 0; bad < n; bad++) {
            float x[40] = {0};

            x[bad] = NAN;
            assert_int_equal(row_argmax(x, n), -1);
            x[bad] = INFINITY;
            assert_int_equal(row_argmax(x, n), -1);
            x[bad] = -INFINITY;
            assert_int_equal(row_argmax(x, n), n == 1 ? -1 : bad == 0);
        }
}

TEST(top_and_select_agree_with_sorting)
{
    static struct cand sorted[N], c[N], top[N];
    static float x[N];
    struct rng rng;

    rng_seed(&rng, 2);
    for (uint32_t round = 0; round < 300; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % N, k = 1 + rng_u32(&rng) % n;

        fill(&rng, c, x, n, 1 + rng_u32(&rng) % 300);
        memcpy(sorted, c, sizeof(c));
        qsort(sorted, n, sizeof(*sorted), compare);

        assert_int_equal(row_top(x, n, k, top), k);
        for (uint32_t i = 0; i < k; i++)
            assert_int_equal(top[i].id, sorted[i].id);

        cand_select(c, n, k);
        cand_sort(c, k);
        for (uint32_t i = 0; i < k; i++)
            assert_int_equal(c[i].id, sorted[i].id);
    }
}

TEST(select_copes_with_sorted_and_equal_keys)
{
    static struct cand c[N];

    for (unsigned kind = 0; kind < 3; kind++)
        for (uint32_t k = 0; k <= N; k += 37) {
            for (uint32_t i = 0; i < N; i++)
                c[i] = (struct cand){kind == 0   ? 1
                                     : kind == 1 ? (float)i
                                                 : -(float)i,
                                     1, (int32_t)i};
            cand_select(c, N, k);
            for (uint32_t i = 0; i < k; i++)
                assert_true(kind == 1 ? c[i].id >= (int32_t)(N - k) : c[i].id < (int32_t)k);
        }
}

TEST(prefix_is_the_shortest_that_weighs_enough)
{
    static struct cand c[N];
    static float x[N];
    struct rng rng;

    rng_seed(&rng, 3);
    for (uint32_t round = 0; round < 100; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % N;
        const double mass = rng_double(&rng) * n * 1.1;
        const uint32_t want = mass >= n ? n : MAX((uint32_t)ceil(mass), 1);

        fill(&rng, c, x, n, 1000);
        assert_int_equal(cand_prefix(c, n, mass), want);
        for (uint32_t i = 1; i < want; i++)
            assert_true(cand_before(&c[i - 1], &c[i]));
    }
}

RUN_TESTS(cmocka_unit_test(argmax_takes_the_lowest_of_equals),
          cmocka_unit_test(argmax_refuses_rows_that_are_no_numbers),
          cmocka_unit_test(top_and_select_agree_with_sorting),
          cmocka_unit_test(select_copes_with_sorted_and_equal_keys),
          cmocka_unit_test(prefix_is_the_shortest_that_weighs_enough))
