/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Converts keys, values and queries to their stored formats: rotates them where the format requires
 * it, then quantizes them. Include it after attn-row-simd.h.
 */

/* Converts @n numbers x × factor to int8. Clamps them first, so that no conversion is out of range;
 * NaN becomes the lower limit. */
static void to_int8(int8_t *q, const float *x, float factor, uint32_t n)
{
    float y[ATTN_Q8_BLOCK];

    for (uint32_t i = 0; i < n; i += VF_N) {
        const vf v = vf_round(vf_mul(vf_load(x + i), vf_set1(factor)));

        vf_store(y + i, vf_min(vf_max(v, vf_set1(-127)), vf_set1(127)));
    }
    for (uint32_t i = 0; i < n; i++)
        q[i] = (int8_t)(int32_t)y[i];
}

static void quantise(int8_t *q, float *scales, const float *x, bool half_scales, uint32_t n)
{
    for (uint32_t b = 0; b < n / ATTN_Q8_BLOCK; b++, x += ATTN_Q8_BLOCK, q += ATTN_Q8_BLOCK) {
        vf top = vf_set1(0), rest = top;
        float scale;

        for (uint32_t i = 0; i < ATTN_Q8_BLOCK; i += VF_N) {
            const vf v = vf_load(x + i);

            top = vf_max(vf_max(v, vf_sub(vf_set1(0), v)), top);
            rest = vf_fma(v, vf_set1(0), rest); /* NaN if an element is NaN or infinite */
        }
        scale = vf_top(top) / 127 + vf_sum(rest);
        if (half_scales)
            scale = f16_to_f32(f16_from_f32(scale));
        scale = isfinite(scale) ? scale : NAN;
        scales[b] = scale;
        if (scale >= ATTN_Q8_TINY)
            to_int8(q, x, 1 / scale, ATTN_Q8_BLOCK);
        else
            memset(q, 0, ATTN_Q8_BLOCK);
    }
}

/* Does one step of the rotation: replaces the elements of each of n / 2 pairs, which are @stride
 * apart, by their sum and their difference. */
ALWAYS_INLINE void rotate_far(float *x, uint32_t n, uint32_t stride)
{
    for (uint32_t i = 0; i < n; i += 2 * stride)
        for (uint32_t j = i; j < i + stride; j += VF_N) {
            const vf a = vf_load(x + j), b = vf_load(x + j + stride);

            vf_store(x + j, vf_add(a, b));
            vf_store(x + j + stride, vf_sub(a, b));
        }
}

/* Does the steps of the rotation in which the elements of a pair are at most VF_N apart, for two
 * neighboring vectors. Each step interleaves its sums and differences. In the next step, the
 * distance between the elements of a pair is halved; after the interleaving, the two elements of
 * each pair of the next step are at equal places of the two vectors. */
ALWAYS_INLINE void rotate_near(float *x, vf factor)
{
    vf a = vf_load(x), b = vf_load(x + VF_N);

#pragma GCC unroll 8
    for (uint32_t n = 2 * VF_N; n > 1; n /= 2) {
        const vf sum = vf_add(a, b), rest = vf_sub(a, b);

        vf_zip(sum, rest, &a, &b);
    }
    vf_store(x, vf_mul(a, factor));
    vf_store(x + VF_N, vf_mul(b, factor));
}

static void rotate(float *x, uint32_t n)
{
    const uint32_t run = n & -n;
    const vf factor = vf_set1((float)(1 / sqrt((double)run)));

    for (uint32_t i = 0; i < n; i += run) {
        for (uint32_t stride = run / 2; stride > VF_N; stride /= 2)
            rotate_far(x + i, run, stride);
        for (uint32_t j = i; j < i + run; j += 2 * VF_N)
            rotate_near(x + j, factor);
    }
}

/* Returns the largest magnitude of x. *ret_rest is 0, or NaN if an element is NaN or infinite. */
ALWAYS_INLINE float magnitude(const float *x, uint32_t n, float *ret_rest)
{
    vf top = vf_set1(0), rest = top;

    for (uint32_t i = 0; i < n; i += VF_N) {
        const vf v = vf_load_n(x + i, n - i < VF_N ? n - i : VF_N);

        top = vf_max(vf_max(v, vf_sub(vf_set1(0), v)), top);
        rest = vf_fma(v, vf_set1(0), rest);
    }
    *ret_rest = vf_sum(rest);
    return vf_top(top);
}

/* Returns @scale rounded to F16, as it is stored, or NaN if the rounded scale is not finite or
 * @rest is NaN. */
static float half_scale(float scale, float rest)
{
    scale = f16_to_f32(f16_from_f32(scale + rest));
    return isfinite(scale) ? scale : NAN;
}

/* Returns the index of the level of Q4_0 that is nearest to @x. The bits of magnitudes are compared
 * as integers: they have the same order as the magnitudes, and compilers vectorize integer
 * comparisons. */
ALWAYS_INLINE int32_t nearest_level(float x)
{
    const uint32_t u = half_bits_f32(x);
    const int32_t a = (int32_t)(u & 0x7fffffff);
    const int32_t n = (a > (int32_t)half_bits_f32(12.5f)) + (a > (int32_t)half_bits_f32(25.5f)) +
                      (a > (int32_t)half_bits_f32(38.5f)) + (a > (int32_t)half_bits_f32(52.5f)) +
                      (a > (int32_t)half_bits_f32(68.5f)) + (a > (int32_t)half_bits_f32(87.0f)) +
                      (a > (int32_t)half_bits_f32(110.0f));

    return (8 + n) ^ ((int32_t)u >> 31 & 15);
}

static void quantise_q4(uint8_t *q, float *scales, const float *x, uint32_t n)
{
    float y[ATTN_HEAD_MAX];

    memcpy(y, x, n * sizeof(*y));
    rotate(y, n);
    for (uint32_t b = 0; b < n / ATTN_Q8_BLOCK; b++) {
        const float *block = y + b * ATTN_Q8_BLOCK;
        uint8_t *to = q + b * ATTN_Q8_BLOCK / 2;
        int32_t level[ATTN_Q8_BLOCK];
        float rest, inverse, top = magnitude(block, ATTN_Q8_BLOCK, &rest);

        scales[b] = half_scale(top / 127, rest);
        inverse = scales[b] >= ATTN_Q8_TINY ? 1 / scales[b] : 0;
        for (uint32_t i = 0; i < ATTN_Q8_BLOCK; i++)
            level[i] = nearest_level(block[i] * inverse);
        for (uint32_t i = 0; i < ATTN_Q8_BLOCK / 2; i++)
            to[i] = (uint8_t)(level[i] | level[i + ATTN_Q8_BLOCK / 2] << 4);
    }
}

static void quantise_fp8(uint8_t *q, float *scale, const float *x, uint32_t n)
{
    float rest, inverse, top = magnitude(x, n, &rest);

    *scale = half_scale(top / 448, rest);
    inverse = *scale >= ATTN_Q8_TINY ? 1 / *scale : 0;
    for (uint32_t i = 0; i < n; i++)
        q[i] = e4m3_from_f32(x[i] * inverse);
}
