/* SPDX-License-Identifier: Apache-2.0 */

#include "lib/test.h"

#include <math.h>

#include "core/half.h"
#include "core/rng.h"
#include "quant/block.h"
#include "quant/dtype.h"

#define N 8192

static float x[N], y[N];
static uint8_t bytes[N * 4];

static void fill_normal(float scale, float shift)
{
    struct rng rng;

    rng_seed(&rng, 11);
    for (unsigned i = 0; i < N; i++) {
        const double u = 1 - rng_double(&rng), v = rng_double(&rng);

        x[i] = (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v)) * scale + shift;
    }
}

/* Returns the squared error of a round trip, relative to the signal. */
static double round_trip(enum inf_dtype dtype)
{
    double error = 0, signal = 0;

    dtype_info(dtype)->encode(x, bytes, N);
    dtype_info(dtype)->decode(bytes, y, N);
    for (unsigned i = 0; i < N; i++) {
        error += ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
        signal += (double)x[i] * x[i];
    }
    return signal > 0 ? error / signal : error;
}

/* The error of the best public encoders on normally distributed numbers, plus a margin. */
static const double limit[INF_DTYPE_N] = {
    [INF_DTYPE_F32] = 0,          [INF_DTYPE_F16] = 1e-7,     [INF_DTYPE_BF16] = 4e-6,
    [INF_DTYPE_Q8_0] = 3e-5,      [INF_DTYPE_Q4_0] = 8e-3,    [INF_DTYPE_Q4_1] = 6e-3,
    [INF_DTYPE_Q5_0] = 2e-3,      [INF_DTYPE_Q5_1] = 1.5e-3,  [INF_DTYPE_Q4_K] = 6e-3,
    [INF_DTYPE_Q5_K] = 1.5e-3,    [INF_DTYPE_Q6_K] = 4e-4,    [INF_DTYPE_MXFP4] = 1.4e-2,
    [INF_DTYPE_TQ2_0] = 0.7,      [INF_DTYPE_TQ1_0] = 0.7,    [INF_DTYPE_Q2_K] = 9e-2,
    [INF_DTYPE_Q3_K] = 2.5e-2,    [INF_DTYPE_IQ4_NL] = 7e-3,  [INF_DTYPE_IQ4_XS] = 7e-3,
    [INF_DTYPE_NVFP4] = 1e-2,     [INF_DTYPE_Q1_0] = 0.4,     [INF_DTYPE_Q2_0] = 0.2,
    [INF_DTYPE_IQ2_XXS] = 0.117,  [INF_DTYPE_IQ2_XS] = 0.088, [INF_DTYPE_IQ2_S] = 0.061,
    [INF_DTYPE_IQ3_XXS] = 0.0345, [INF_DTYPE_IQ3_S] = 0.0182, [INF_DTYPE_IQ1_S] = 0.22,
    [INF_DTYPE_IQ1_M] = 0.19,
};

TEST(normal_numbers_come_back_within_the_error_of_the_format)
{
    fill_normal(0.02f, 0);
    for (int d = 0; d < INF_DTYPE_N; d++) {
        if (!dtype_info((enum inf_dtype)d)->encode)
            continue;
        const double e = round_trip((enum inf_dtype)d);

        if (!(e <= limit[d]))
            fail_msg("%s: %g, at most %g", dtype_info((enum inf_dtype)d)->name, e, limit[d]);
    }
}

TEST(numbers_far_from_zero_come_back)
{
    fill_normal(0.1f, 4);
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info((enum inf_dtype)d)->encode)
            assert_true(round_trip((enum inf_dtype)d) < 1e-2);
    fill_normal(0.1f, -4);
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info((enum inf_dtype)d)->encode)
            assert_true(round_trip((enum inf_dtype)d) < 1e-2);
}

TEST(zeros_come_back_as_zeros)
{
    memset(x, 0, sizeof(x));
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info((enum inf_dtype)d)->encode)
            assert_true(round_trip((enum inf_dtype)d) == 0);
}

TEST(odd_numbers_do_no_harm)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f, 0, -0.0f, 65504};

    for (unsigned i = 0; i < N; i++)
        x[i] = odd[i * 7 % 9 * (i / 300 % 2)];
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info((enum inf_dtype)d)->encode)
            round_trip((enum inf_dtype)d);
    for (unsigned i = 0; i < N; i++)
        x[i] = i % 32 == 5 ? 1e-42f : 0;
    for (int d = 0; d < INF_DTYPE_N; d++)
        if (dtype_info((enum inf_dtype)d)->encode)
            assert_true(round_trip((enum inf_dtype)d) < 1.5);
}

TEST(decoded_blocks_encode_to_nearly_the_same_numbers)
{
    fill_normal(1, 0);
    for (int d = 0; d < INF_DTYPE_N; d++) {
        if (!dtype_info((enum inf_dtype)d)->encode)
            continue;
        round_trip((enum inf_dtype)d);
        memcpy(x, y, sizeof(x));
        assert_true(round_trip((enum inf_dtype)d) < limit[d] + 1e-12);
        fill_normal(1, 0);
    }
}

/* Encodes with importance, and returns the squared error of each eighth number. */
static double eighth_error(enum inf_dtype dtype, const float *importance)
{
    double error = 0;

    dtype_info(dtype)->encode_by(x, importance, bytes, N);
    dtype_info(dtype)->decode(bytes, y, N);
    for (unsigned i = 0; i < N; i += 8)
        error += ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
    return error;
}

TEST(important_numbers_have_smaller_errors)
{
    static float importance[N];

    fill_normal(0.02f, 0);
    for (unsigned i = 0; i < N; i++)
        importance[i] = i % 8 == 0 ? 100 : 1;
    for (int i = 0; i < INF_DTYPE_N; i++) {
        const enum inf_dtype d = (enum inf_dtype)i;

        if (!dtype_info(d)->encode_by)
            continue;
        assert_true(eighth_error(d, importance) < 0.9 * eighth_error(d, NULL));
    }
}

/* Encodes the numbers of a record of tests/golden/quant-encoded.bin, and compares the bytes. */
static void check_encoded(FILE *f, enum inf_dtype dtype, const char *name)
{
    const struct dtype_info *info = dtype_info(dtype);
    uint8_t want[1024];
    char found[8];
    uint32_t n_bytes, n_elems;

    assert_int_equal(fread(found, sizeof(found), 1, f), 1);
    assert_string_equal(found, name);
    assert_int_equal(fread(&n_bytes, sizeof(n_bytes), 1, f), 1);
    assert_int_equal(fread(&n_elems, sizeof(n_elems), 1, f), 1);
    assert_true(n_bytes <= sizeof(want) && n_elems <= N);
    assert_int_equal(fread(want, 1, n_bytes, f), n_bytes);
    assert_int_equal(fread(x, sizeof(float), n_elems, f), n_elems);
    info->encode(x, bytes, n_elems);
    for (uint32_t i = 0; i < n_bytes; i++)
        if (bytes[i] != want[i])
            fail_msg("%s: byte %u is %u, expected %u", name, i, bytes[i], want[i]);
}

TEST(numbers_are_encoded_to_the_bits_of_the_gguf_package)
{
    FILE *f = fopen(test_golden("quant-encoded.bin"), "rb");

    assert_non_null(f);
    check_encoded(f, INF_DTYPE_MXFP4, "mxfp4");
    check_encoded(f, INF_DTYPE_TQ2_0, "tq2_0");
    check_encoded(f, INF_DTYPE_TQ1_0, "tq1_0");
    fclose(f);
}

RUN_TESTS(cmocka_unit_test(normal_numbers_come_back_within_the_error_of_the_format),
          cmocka_unit_test(numbers_far_from_zero_come_back),
          cmocka_unit_test(zeros_come_back_as_zeros), cmocka_unit_test(odd_numbers_do_no_harm),
          cmocka_unit_test(decoded_blocks_encode_to_nearly_the_same_numbers),
          cmocka_unit_test(important_numbers_have_smaller_errors),
          cmocka_unit_test(numbers_are_encoded_to_the_bits_of_the_gguf_package))
