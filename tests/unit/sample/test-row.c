/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares passes over a row with plain loops, at every length. The results must be the same, bit
 * for bit, on all instruction sets of this CPU.
 */
#include "lib/test.h"

#include <math.h>

#include "core/cpu.h"
#include "core/macros.h"
#include "core/rng.h"
#include "sample/row.h"
#include "sample/select.h"

#define N      2000
#define N_RUNS ((N + ROW_RUN - 1) / ROW_RUN)

static const unsigned rungs[] = {0, CPU_AVX2, CPU_AVX2 | CPU_AVX512};

static const struct row_kernels *kernels_at(size_t i)
{
    return (cpu_flags() & rungs[i]) == rungs[i] ? row_kernels_get(rungs[i]) : NULL;
}

static uint32_t next_length(uint32_t n)
{
    return n + (n < 300 ? 1 : 97);
}

static float fill(struct rng *rng, float *x, uint32_t n, float spread)
{
    float max = -INFINITY;

    for (uint32_t i = 0; i < n; i++) {
        x[i] = (float)rng_double(rng) * spread - spread / 3;
        if (rng_u32(rng) % 50 == 0)
            x[i] = i > 0 && rng_u32(rng) % 2 ? x[i - 1] : -INFINITY;
        max = MAX(max, x[i]);
    }
    if (isinf(max))
        max = x[0] = 1;
    return max;
}

TEST(peaks_are_the_largest_of_runs)
{
    static float x[N];
    float peaks[N_RUNS];
    struct rng rng;

    rng_seed(&rng, 1);
    for (size_t k = 0; k < ARRAY_SIZE(rungs) && kernels_at(k); k++)
        for (uint32_t n = 1; n < N; n = next_length(n)) {
            const float max = fill(&rng, x, n, 9);
            int32_t best = 0;

            assert_true(kernels_at(k)->peaks(x, n, peaks));
            for (uint32_t run = 0; run < row_n_runs(n); run++) {
                float want = -INFINITY;

                for (uint32_t i = run * ROW_RUN; i < MIN(n, (run + 1) * ROW_RUN); i++)
                    want = MAX(want, x[i]);
                assert_true(peaks[run] == want);
            }
            while (x[best] != max)
                best++;
            assert_int_equal(row_argmax(x, n, peaks), best);
        }
}

TEST(rows_that_are_no_numbers_are_found)
{
    static float x[N];
    float peaks[N_RUNS];

    for (size_t k = 0; k < ARRAY_SIZE(rungs) && kernels_at(k); k++)
        for (uint32_t n = 1; n < 300; n += 13)
            for (uint32_t bad = 0; bad < n; bad++) {
                memset(x, 0, sizeof(x));
                x[bad] = NAN;
                assert_false(kernels_at(k)->peaks(x, n, peaks));
                x[bad] = INFINITY;
                assert_true(kernels_at(k)->peaks(x, n, peaks));
                assert_int_equal(row_argmax(x, n, peaks), -1);
                x[bad] = -INFINITY;
                assert_true(kernels_at(k)->peaks(x, n, peaks));
                assert_int_equal(row_argmax(x, n, peaks), n == 1 ? -1 : bad == 0);
            }
}

TEST(masks_leave_out_values)
{
    static float x[N], out[N + 1];
    uint32_t mask[N / 32 + 1];
    struct rng rng;

    rng_seed(&rng, 4);
    for (size_t k = 0; k < ARRAY_SIZE(rungs) && kernels_at(k); k++)
        for (uint32_t n = 1; n < N; n = next_length(n)) {
            fill(&rng, x, n, 9);
            for (uint32_t i = 0; i < ARRAY_SIZE(mask); i++)
                mask[i] = rng_u32(&rng) % 4 == 0 ? 0 : rng_u32(&rng);
            out[n] = 5;
            kernels_at(k)->mask(x, n, mask, out);
            for (uint32_t i = 0; i < n; i++)
                assert_true(out[i] == (mask[i / 32] >> i % 32 & 1 ? x[i] : -INFINITY));
            assert_true(out[n] == 5);
        }
}

static void check_masses(const struct row_kernels *kernels, const float *x, uint32_t n, float max,
                         float scale)
{
    static float y[N_RUNS * ROW_RUN], first[N_RUNS * ROW_RUN];
    float sums[N_RUNS], first_sums[N_RUNS], again[N_RUNS];
    const uint32_t n_runs = row_n_runs(n);
    double want_sum = 0, sum = 0;

    kernels->masses(x, n, max, scale, y, sums);
    for (uint32_t i = 0; i < n; i++) {
        const double want = exp((double)((x[i] - max) * scale));

        want_sum += want;
        if (want < 1e-36)
            assert_true((double)y[i] < 1e-36 && y[i] >= 0);
        else
            assert_true(fabs((double)y[i] - want) <= 2e-7 * want);
        if (x[i] == max)
            assert_true(y[i] == 1);
    }
    for (uint32_t i = n; i < n_runs * ROW_RUN; i++)
        assert_true(y[i] == 0);
    sum = row_total(sums, n_runs);
    assert_true(fabs(sum - want_sum) <= 1e-6 * want_sum);
    /* The function also works without an output for the masses, and in place. */
    kernels->masses(x, n, max, scale, NULL, again);
    assert_memory_equal(again, sums, n_runs * sizeof(*sums));
    memcpy(first, x, n * sizeof(*x));
    kernels->masses(first, n, max, scale, first, again);
    assert_memory_equal(first, y, n * sizeof(*y));
    row_kernels_get(0)->masses(x, n, max, scale, first, first_sums);
    assert_memory_equal(first, y, n * sizeof(*y));
    assert_memory_equal(first_sums, sums, n_runs * sizeof(*sums));
}

TEST(masses_are_exponentials)
{
    static float x[N_RUNS * ROW_RUN];
    struct rng rng;

    for (size_t k = 0; k < ARRAY_SIZE(rungs) && kernels_at(k); k++) {
        rng_seed(&rng, 1);
        for (uint32_t n = 1; n < N; n = next_length(n)) {
            const float max = fill(&rng, x, n, (float)(n % 7 + 1) * 20);

            check_masses(kernels_at(k), x, n, max, 1);
            check_masses(kernels_at(k), x, n, max, 1 / 0.7f);
            check_masses(kernels_at(k), x, n, max, 1 / 12.0f);
            check_masses(kernels_at(k), x, n, max, 1e30f);
        }
    }
}

TEST(before_sums_those_that_come_first)
{
    static float x[N], mass[N_RUNS * ROW_RUN];
    float all[N_RUNS], sums[N_RUNS], first[N_RUNS];
    struct rng rng;

    rng_seed(&rng, 5);
    for (unsigned round = 0; round < 3000; round++) {
        const size_t k = round % ARRAY_SIZE(rungs);
        const uint32_t n = 1 + rng_u32(&rng) % N, n_runs = row_n_runs(n);
        const uint32_t n_levels = 1 + rng_u32(&rng) % 20;
        const uint32_t id = rng_u32(&rng) % 10 ? rng_u32(&rng) % n : UINT32_MAX;
        float key;

        if (!kernels_at(k))
            continue;
        for (uint32_t i = 0; i < n; i++)
            x[i] = (float)(rng_u32(&rng) % n_levels) * 0.1f;
        kernels_at(k)->masses(x, n, 2, 1, mass, all);
        key = id == UINT32_MAX ? mass[rng_u32(&rng) % n] : mass[id];
        kernels_at(k)->before(x, n, 2, 1, key, id, all, sums);
        row_kernels_get(0)->before(x, n, 2, 1, key, id, all, first);
        assert_memory_equal(first, sums, n_runs * sizeof(*sums));
        for (uint32_t run = 0; run < n_runs; run++) {
            double want = 0;

            for (uint32_t i = run * ROW_RUN; i < MIN(n, (run + 1) * ROW_RUN); i++)
                if (mass[i] > key || (mass[i] == key && i < id))
                    want += (double)mass[i];
            assert_true(fabs((double)sums[run] - want) <= 1e-5 * want);
        }
    }
}

static int compare(const void *a, const void *b)
{
    return cand_before(a, b) ? -1 : 1;
}

TEST(top_agrees_with_sorting)
{
    static struct cand sorted[N], top[N];
    static float x[N];
    float peaks[N_RUNS];
    struct rng rng;

    rng_seed(&rng, 2);
    for (uint32_t round = 0; round < 600; round++) {
        const uint32_t n = 1 + rng_u32(&rng) % N;
        const uint32_t k = 1 + rng_u32(&rng) % (round % 2 ? MIN(n, 20u) : n);
        const uint32_t n_levels = 1 + rng_u32(&rng) % (round % 3 ? 100000 : 30);

        for (uint32_t i = 0; i < n; i++) {
            x[i] = (float)(rng_u32(&rng) % n_levels);
            sorted[i] = (struct cand){x[i], 0, (int32_t)i};
        }
        qsort(sorted, n, sizeof(*sorted), compare);
        row_kernels_get(cpu_flags())->peaks(x, n, peaks);
        assert_int_equal(row_top(x, n, peaks, k, top), k);
        cand_sort(top, k);
        for (uint32_t i = 0; i < k; i++)
            assert_int_equal(top[i].id, sorted[i].id);
    }
    x[3] = -INFINITY;
    row_kernels_get(0)->peaks(x, 5, peaks);
    assert_int_equal(row_top(x, 5, peaks, 5, top), 4);
    assert_int_equal(row_top(x, 5, peaks, 0, top), 0);
}

RUN_TESTS(cmocka_unit_test(masks_leave_out_values), cmocka_unit_test(peaks_are_the_largest_of_runs),
          cmocka_unit_test(rows_that_are_no_numbers_are_found),
          cmocka_unit_test(masses_are_exponentials),
          cmocka_unit_test(before_sums_those_that_come_first),
          cmocka_unit_test(top_agrees_with_sorting))
