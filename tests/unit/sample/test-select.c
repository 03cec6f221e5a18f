/* SPDX-License-Identifier: Apache-2.0 */
/* Compares partial selection with full sorting. */
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

/* Makes many equal keys, so that ties matter. */
static void fill(struct rng *rng, struct cand *c, uint32_t n, uint32_t n_levels)
{
    for (uint32_t i = 0; i < n; i++)
        c[i] = (struct cand){(float)(rng_u32(rng) % n_levels) - (float)n_levels / 2, 1, (int32_t)i};
}

TEST(select_agrees_with_sorting)
{
    static struct cand sorted[N], c[N];
    struct rng rng;

    rng_seed(&rng, 2);
    for (uint32_t round = 0; round < 300; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % N, k = 1 + rng_u32(&rng) % n;

        fill(&rng, c, n, 1 + rng_u32(&rng) % 300);
        memcpy(sorted, c, sizeof(c));
        qsort(sorted, n, sizeof(*sorted), compare);

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
    static struct cand c[N], sorted[N];
    struct rng rng;

    rng_seed(&rng, 3);
    for (uint32_t round = 0; round < 100; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % N;
        const double mass = rng_double(&rng) * n * 1.1;
        const uint32_t want = mass >= n ? n : MAX((uint32_t)ceil(mass), 1);

        fill(&rng, c, n, 1000);
        memcpy(sorted, c, sizeof(c));
        qsort(sorted, n, sizeof(*sorted), compare);
        assert_int_equal(cand_prefix(c, n, mass), want);
        cand_sort(c, want);
        for (uint32_t i = 0; i < want; i++)
            assert_int_equal(c[i].id, sorted[i].id);
    }
}

RUN_TESTS(cmocka_unit_test(select_agrees_with_sorting),
          cmocka_unit_test(select_copes_with_sorted_and_equal_keys),
          cmocka_unit_test(prefix_is_the_shortest_that_weighs_enough))
