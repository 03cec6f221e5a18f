/* SPDX-License-Identifier: Apache-2.0 */

/* Compares the versions of the functions that find scales and offsets, bit for bit. */

#include "lib/test.h"

#include <math.h>

#include "core/rng.h"
#include "quant/fit.h"

#define GROUPS 37u

static float x[GROUPS * 32], importance[GROUPS * 32];

/* Holds the results of one version of the functions. */
struct found {
    float d[GROUPS], m[GROUPS], sc[GROUPS], mn[GROUPS], values[GROUPS], largest;
    uint8_t q[32];
};

static void fill(unsigned seed)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-42f, 0, -0.0f, 1};
    struct rng rng;

    rng_seed(&rng, seed);
    for (unsigned i = 0; i < GROUPS * 32; i++) {
        x[i] = (float)((rng_double(&rng) - 0.5) * (rng_double(&rng) - 0.5));
        if (seed % 4 == 3 && rng_double(&rng) < 0.2)
            x[i] = odd[rng_u32(&rng) % 9];
        importance[i] = (float)rng_double(&rng);
    }
    for (unsigned i = 0; i < 32; i++)
        x[7 * 32 + i] = seed % 2 ? 0 : 0.25f;
}

/* Finds scales for values of both signs, which are closer to each other at one end. */
static void find_values(const struct fit_ops *fit, unsigned n_groups, float *ret_d)
{
    static float finite[GROUPS * 32];
    struct fit_table table;

    for (unsigned i = 0; i < GROUPS * 32; i++)
        finite[i] = isfinite(x[i]) ? x[i] : 0;
    for (unsigned i = 0; i < 16; i++)
        table.value[i] = (float)((int)(i * i / 8) - 9);
    for (unsigned i = 0; i < 15; i++)
        table.middle[i] = 0.5f * (table.value[i] + table.value[i + 1]);
    fit->values(finite, importance, &table, n_groups, ret_d);
}

static struct found find(const struct fit_ops *fit, unsigned n, unsigned n_groups, bool weighted,
                         enum fit_weights weights)
{
    const float *imp = weighted ? importance : NULL;
    float step_d[GROUPS], step_m[GROUPS];
    struct found f;

    memset(&f, 0, sizeof(f));
    fit->scales(x, imp, n, n_groups, -8, 7, f.sc);
    fit->offsets(x, imp, weights, n, n_groups, 15, f.d, f.m);
    for (unsigned g = 0; g < n_groups; g++) {
        step_d[g] = f.d[g] / 40;
        step_m[g] = f.m[g] / 50;
        f.sc[g] = 39;
        f.mn[g] = g % 2 ? 50 : 0;
    }
    fit->refine(x, imp, weights, n, n_groups, 15, step_d, step_m, f.sc, f.mn);
    fit->round(x, 32, f.d[0], f.m[0], 0, 15, f.q);
    find_values(fit, n_groups, f.values);
    f.largest = fit->largest(x, 32 * n_groups / 2);
    return f;
}

TEST(all_versions_give_the_same_bits)
{
    const struct fit_ops *fit;

    assert_non_null(fit_best());
    for (unsigned seed = 0; seed < 40; seed++) {
        const unsigned n = seed % 3 ? 32 : 16, n_groups = seed < 20 ? GROUPS : 1 + seed % 20;

        fill(seed);
        const struct found want =
            find(&fit_ref, n, n_groups, seed % 5 == 0, seed % 2 ? FIT_EQUAL : FIT_BY_SIZE);

        for (size_t i = 0; (fit = fit_at(i)); i++) {
            const struct found got =
                find(fit, n, n_groups, seed % 5 == 0, seed % 2 ? FIT_EQUAL : FIT_BY_SIZE);

            if (memcmp(&got, &want, sizeof(got)) != 0)
                fail_msg("%s differs from the reference (seed %u)", fit->name, seed);
        }
    }
}

TEST(exact_steps_are_found)
{
    float d[1], m[1];

    for (unsigned i = 0; i < 32; i++)
        x[i] = 0.5f * (float)(i % 16) - 3;
    fit_best()->offsets(x, NULL, FIT_BY_SIZE, 32, 1, 15, d, m);
    assert_true(fabsf(d[0] - 0.5f) < 1e-5f && fabsf(m[0] - 3) < 1e-4f);
    for (unsigned i = 0; i < 32; i++)
        x[i] = 0.25f * ((float)(i % 16) - 8);
    fit_best()->scales(x, NULL, 32, 1, -8, 7, d);
    assert_true(fabsf(d[0] - 0.25f) < 1e-5f);
}

TEST(importance_makes_important_numbers_exact)
{
    double plain = 0, weighted = 0;
    float d[GROUPS];

    fill(0);
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned i = 0; i < GROUPS * 32; i++)
            importance[i] = i % 8 == 0 ? 1 : 1e-3f;
        fit_best()->scales(x, pass ? importance : NULL, 32, GROUPS, -8, 7, d);
        for (unsigned i = 0; i < GROUPS * 32; i += 8) {
            const float q = fminf(fmaxf(rintf(x[i] / d[i / 32]), -8), 7);
            const double e = (double)(d[i / 32] != 0 ? d[i / 32] * q : 0) - (double)x[i];

            *(pass ? &weighted : &plain) += e * e;
        }
    }
    assert_true(weighted < 0.7 * plain);
}

RUN_TESTS(cmocka_unit_test(all_versions_give_the_same_bits),
          cmocka_unit_test(exact_steps_are_found),
          cmocka_unit_test(importance_makes_important_numbers_exact))
