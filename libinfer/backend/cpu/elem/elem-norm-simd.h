/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the kernels that compute rows from their means of squares or their variances. elem-simd.h
 * includes this file, and defines what this file uses.
 */

static inline float mean_square(const float *x, uint32_t n)
{
    vf sum0 = vf_set1(0), sum1 = vf_set1(0);
    uint32_t i = 0;

    for (; i + 2 * VF_N <= n; i += 2 * VF_N) {
        const vf a = vf_load(x + i), b = vf_load(x + i + VF_N);

        sum0 = vf_fma(a, a, sum0);
        sum1 = vf_fma(b, b, sum1);
    }
    for (; i < n; i += VF_N) {
        const vf a = vf_load_n(x + i, n - i < VF_N ? n - i : VF_N);

        sum0 = vf_fma(a, a, sum0);
    }
    return vf_sum(vf_add(sum0, sum1)) / (float)n;
}

static void rms_norm(float *y, const float *x, const float *w, float eps, uint32_t n)
{
    const float scale = 1.0f / sqrtf(mean_square(x, n) + eps);
    const vf f = vf_set1(scale);

    FOR_VECTORS(j, k, n)
    vf_store_n(y + j, vf_mul(vf_mul(vf_load_n(x + j, k), f), vf_load_n(w + j, k)), k);
}

/* Returns the variance, and the mean in *@ret_mean. */
static inline float variance(const float *x, uint32_t n, float *ret_mean)
{
    const uint32_t whole = n / VF_N * VF_N;
    vf sum = vf_set1(0), squares = vf_set1(0);
    float mean, var;

    for (uint32_t i = 0; i < n; i += VF_N)
        sum = vf_add(sum, vf_load_n(x + i, n - i < VF_N ? n - i : VF_N));
    mean = vf_sum(sum) / (float)n;
    for (uint32_t i = 0; i < whole; i += VF_N) {
        const vf d = vf_sub(vf_load(x + i), vf_set1(mean));

        squares = vf_fma(d, d, squares);
    }
    var = vf_sum(squares);
    for (uint32_t i = whole; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean);
    *ret_mean = mean;
    return var / (float)n;
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, float eps,
                       uint32_t n)
{
    float mean, scale;

    scale = 1.0f / sqrtf(variance(x, n, &mean) + eps);

    FOR_VECTORS(i, k, n)
    {
        const vf d = vf_mul(vf_sub(vf_load_n(x + i, k), vf_set1(mean)), vf_set1(scale));

        vf_store_n(y + i, vf_fma(d, vf_load_n(w + i, k), b ? vf_load_n(b + i, k) : vf_set1(0)), k);
    }
}

static void level(float *y, const float *x, const float *like, float least, uint32_t n)
{
    const float own = mean_square(x, n);
    const vf f = vf_set1(sqrtf(mean_square(like, n)) / sqrtf(own < least ? least : own));

    FOR_VECTORS(i, k, n)
    vf_store_n(y + i, vf_mul(vf_load_n(x + i, k), f), k);
}

/* A NaN stays NaN: vf_max() returns its second operand if that is NaN. */
static void peaks(float *y, const float *x, float f, uint32_t n)
{
    float mean, deviation;

    deviation = sqrtf(variance(x, n, &mean));

    const vf cut = vf_set1(mean + f * deviation), zero = vf_set1(0);

    FOR_VECTORS(i, k, n)
    vf_store_n(y + i, vf_max(zero, vf_sub(vf_load_n(x + i, k), cut)), k);
}
