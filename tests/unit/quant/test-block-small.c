/* SPDX-License-Identifier: Apache-2.0 */

/* Encodes numbers into the formats of 1 to 4 bits whose encoders search for scales. */

#include "lib/test.h"

#include <math.h>

#include "core/rng.h"
#include "quant/block.h"
#include "quant/dtype.h"

#define N 65536

static float x[N], y[N];
static uint8_t bytes[N], again[N];

static double normal(struct rng *rng)
{
    const double u = 1 - rng_double(rng), v = rng_double(rng);

    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* Fills x with normally distributed numbers, or with numbers of Student's distribution with three
 * degrees of freedom, of which a few are much larger than the others. */
static void fill(bool heavy)
{
    struct rng rng;

    rng_seed(&rng, 22);
    for (unsigned i = 0; i < N; i++) {
        double squares = 0;

        x[i] = (float)(0.02 * normal(&rng));
        for (unsigned j = 0; heavy && j < 3; j++) {
            const double a = normal(&rng);

            squares += a * a;
        }
        if (heavy)
            x[i] /= (float)sqrt(squares / 3);
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
    return error / signal;
}

/* The squared errors of ggml_quantize_chunk() of llama.cpp (August 2026), without an importance
 * matrix, for the numbers of fill(). */
static const struct {
    enum inf_dtype dtype;
    double normal, heavy;
} theirs[] = {
    {INF_DTYPE_Q2_K, 0.0879786, 0.121663},     {INF_DTYPE_Q3_K, 0.0228398, 0.036435},
    {INF_DTYPE_IQ4_NL, 0.00578292, 0.0105143}, {INF_DTYPE_IQ4_XS, 0.00587461, 0.010735},
    {INF_DTYPE_NVFP4, 0.0106084, 0.00870747},  {INF_DTYPE_Q1_0, 0.359071, 0.58855},
    {INF_DTYPE_Q2_0, 0.519382, 0.461496},
};

TEST(errors_are_not_larger_than_those_of_llama_quantize)
{
    for (unsigned heavy = 0; heavy < 2; heavy++) {
        fill(heavy);
        for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
            const double e = round_trip(theirs[i].dtype);
            const double limit = heavy ? theirs[i].heavy : theirs[i].normal;

            if (!(e <= limit))
                fail_msg("%s: %g, at most %g", dtype_info(theirs[i].dtype)->name, e, limit);
        }
    }
}

TEST(encoding_is_deterministic)
{
    fill(true);
    for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
        const struct dtype_info *info = dtype_info(theirs[i].dtype);

        memset(bytes, 0x55, sizeof(bytes));
        memset(again, 0xaa, sizeof(again));
        info->encode(x, bytes, N);
        info->encode(x, again, N);
        assert_memory_equal(bytes, again, N / info->block_elems * info->block_bytes);
    }
}

/* Checks that numbers that a format can hold come back unchanged. */
static void check_exact(enum inf_dtype dtype, const int8_t *values, unsigned n_values, float d)
{
    for (unsigned i = 0; i < N; i++)
        x[i] = d * (float)values[i * 7 % n_values];
    if (round_trip(dtype) != 0)
        fail_msg("%s does not hold its own numbers", dtype_info(dtype)->name);
}

TEST(numbers_of_the_format_come_back_unchanged)
{
    static const int8_t signs[] = {-1, 1}, ternary[] = {-1, 0, 1}, four[] = {-1, 0, 1, 2};
    static const int8_t eight[] = {-4, -3, -2, -1, 0, 1, 2, 3};
    static const int8_t iq4[] = BLOCK_IQ4_VALUES(), fp4[] = BLOCK_FP4_VALUES;

    check_exact(INF_DTYPE_Q1_0, signs, 2, 0.25f);
    check_exact(INF_DTYPE_Q2_0, ternary, 3, 0.25f);
    check_exact(INF_DTYPE_Q2_0, four, 4, 0.25f);
    check_exact(INF_DTYPE_Q2_0, four, 4, -0.25f);
    check_exact(INF_DTYPE_Q3_K, eight, 8, 0.25f);
    check_exact(INF_DTYPE_Q3_K, eight, 8, -0.25f);
    check_exact(INF_DTYPE_IQ4_NL, iq4, 16, 0.25f);
    check_exact(INF_DTYPE_IQ4_NL, iq4, 16, -0.25f);
    check_exact(INF_DTYPE_IQ4_XS, iq4, 16, 0.25f);
    check_exact(INF_DTYPE_NVFP4, fp4, 16, 0.25f);
    check_exact(INF_DTYPE_NVFP4, fp4, 16, 0x1p-10f);
}

TEST(numbers_that_are_too_large_become_the_largest_that_fit)
{
    for (unsigned i = 0; i < N; i++)
        x[i] = i % 3 == 0 ? 1e9f : i % 3 == 1 ? -1e9f : 0;
    for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
        round_trip(theirs[i].dtype);
        for (unsigned j = 0; j < N; j++)
            assert_true(isfinite(y[j]));
    }
}

TEST(numbers_that_are_not_finite_count_as_zero)
{
    fill(false);
    for (unsigned i = 5; i < N; i += 300)
        x[i] = i % 2 ? NAN : -INFINITY;
    for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
        const struct dtype_info *info = dtype_info(theirs[i].dtype);

        info->encode(x, bytes, N);
        for (unsigned j = 0; j < N; j++)
            y[j] = isfinite(x[j]) ? x[j] : 0;
        info->encode(y, again, N);
        assert_memory_equal(bytes, again, N / info->block_elems * info->block_bytes);
    }
}

/* Returns the sum of squared errors, each times its importance. */
static double weighed_error(const float *importance)
{
    double error = 0;

    for (unsigned i = 0; i < N; i++)
        error += (double)importance[i] * ((double)y[i] - x[i]) * ((double)y[i] - x[i]);
    return error;
}

TEST(importance_lowers_the_error_of_important_numbers)
{
    static const enum inf_dtype formats[] = {INF_DTYPE_Q2_K, INF_DTYPE_Q3_K, INF_DTYPE_IQ4_NL,
                                             INF_DTYPE_IQ4_XS};
    static float importance[N];

    fill(false);
    for (unsigned i = 0; i < N; i++)
        importance[i] = i % 4 == 0 ? 25 : 1;
    for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
        const struct dtype_info *info = dtype_info(formats[i]);
        double plain;

        round_trip(formats[i]);
        plain = weighed_error(importance);
        dtype_info(formats[i])->encode_by(x, importance, again, N);
        info->decode(again, y, N);
        assert_true(weighed_error(importance) < 0.95 * plain);
        dtype_info(formats[i])->encode_by(x, NULL, again, N);
        assert_memory_equal(bytes, again, N / info->block_elems * info->block_bytes);
    }
}

RUN_TESTS(cmocka_unit_test(errors_are_not_larger_than_those_of_llama_quantize),
          cmocka_unit_test(encoding_is_deterministic),
          cmocka_unit_test(numbers_of_the_format_come_back_unchanged),
          cmocka_unit_test(numbers_that_are_too_large_become_the_largest_that_fit),
          cmocka_unit_test(numbers_that_are_not_finite_count_as_zero),
          cmocka_unit_test(importance_lowers_the_error_of_important_numbers))
