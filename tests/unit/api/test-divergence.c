/* SPDX-License-Identifier: Apache-2.0 */
/* Compares predictions whose divergence is known (api/divergence.h). */
#include <math.h>
#include <string.h>

#include "api/divergence.h"
#include "lib/test.h"

static void assert_close(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-6 * fmax(1, fabs(b)));
}

/* Writes the logits of @n probabilities. A constant is added, which changes no probability. */
static void logits_of(const double *p, uint32_t n, float *dst)
{
    for (uint32_t i = 0; i < n; i++)
        dst[i] = (float)(log(p[i]) + 3);
}

TEST(known_probabilities_have_their_divergence)
{
    static const double p[2][3] = {{0.25, 0.5, 0.25}, {0.1, 0.2, 0.7}};
    static const double b[2][3] = {{0.5, 0.25, 0.25}, {0.2, 0.2, 0.6}};
    const double kld[2] = {0.5 * log(2) - 0.25 * log(2), 0.2 * log(2) + 0.6 * log(6.0 / 7)};
    const double mean = (kld[0] + kld[1]) / 2, base_nll = -(log(0.5) + log(0.6)) / 2;
    const double nll = -(log(0.25) + log(0.7)) / 2;
    struct inf_divergence result = {0};
    struct divergence d;

    assert_int_equal(divergence_init(&d, 2), 0);
    for (unsigned i = 0; i < 2; i++) {
        float model[3], base[3];

        logits_of(p[i], 3, model);
        logits_of(b[i], 3, base);
        assert_close(divergence_add(&d, base, model, 3, i == 0 ? 0 : 2), -log(i == 0 ? 0.25 : 0.7));
    }
    divergence_estimate(&d, &result);
    divergence_quantiles(&d, &result);
    assert_close(result.kld.value, mean);
    assert_close(result.kld.error, fabs(kld[0] - kld[1]) / 2);
    assert_close(result.base_ppl.value, exp(base_nll));
    assert_close(result.log_ratio.value, nll - base_nll);
    assert_close(result.ratio.value, exp(nll - base_nll));
    assert_close(result.difference.value, exp(nll) - exp(base_nll));
    assert_close(result.p_diff.value, (-0.25 + 0.1) / 2);
    assert_close(result.p_diff_rms.value, sqrt((0.0625 + 0.01) / 2));
    assert_close(result.same_top.value, 0.5);
    assert_close(result.correlation, 1);
    assert_close(result.kld_quantiles[0], fmin(kld[0], kld[1]));
    assert_close(result.kld_quantiles[6], mean);
    assert_close(result.kld_quantiles[INF_N_QUANTILES - 1], fmax(kld[0], kld[1]));
    assert_close(result.p_diff_quantiles[0], -0.25);
    assert_close(result.p_diff_quantiles[INF_N_QUANTILES - 1], 0.1);
    divergence_done(&d);
}

TEST(equal_predictions_do_not_diverge)
{
    static const double p[4] = {0.1, 0.2, 0.3, 0.4};
    struct inf_divergence result = {0};
    struct divergence d;
    float logits[4];

    logits_of(p, 4, logits);
    assert_int_equal(divergence_init(&d, 3), 0);
    for (int32_t i = 0; i < 3; i++)
        divergence_add(&d, logits, logits, 4, i);
    divergence_estimate(&d, &result);
    assert_true(result.kld.value == 0 && result.kld.error == 0);
    assert_true(result.ratio.value == 1 && result.ratio.error == 0);
    assert_true(result.p_diff_rms.value == 0 && result.p_diff_rms.error == 0);
    assert_true(result.same_top.value == 1);
    divergence_done(&d);
}

/* A model may exclude tokens with a logit of minus infinity. */
TEST(tokens_that_cannot_occur_do_not_count)
{
    const float logits[3] = {1, 1, -INFINITY};
    struct inf_divergence result = {0};
    struct divergence d;

    assert_int_equal(divergence_init(&d, 1), 0);
    divergence_add(&d, logits, logits, 3, 0);
    divergence_estimate(&d, &result);
    assert_true(result.kld.value == 0);
    assert_close(result.base_ppl.value, 2);
    divergence_done(&d);
}

RUN_TESTS(cmocka_unit_test(known_probabilities_have_their_divergence),
          cmocka_unit_test(equal_predictions_do_not_diverge),
          cmocka_unit_test(tokens_that_cannot_occur_do_not_count))
