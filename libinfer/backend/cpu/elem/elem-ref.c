/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the kernels on single rows in plain C. They are the reference for the fast kernels.
 *
 * Sums and functions are computed in double precision and rounded once at the end, except in
 * turn_ref(), which rounds each product and each sum to float.
 */
#include "backend/cpu/elem/elem.h"

#include <math.h>

#include "core/half.h"

static void rms_norm(float *y, const float *x, const float *w, float eps, uint32_t n)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] / sqrt(sum / n + (double)eps) * (double)w[i]);
}

static void rope_half(float *x, const float *c, const float *s, uint32_t n)
{
    const uint32_t h = n / 2;

    for (uint32_t i = 0; i < h; i++) {
        const double a = (double)x[i], b = (double)x[h + i];

        x[i] = (float)(a * (double)c[i] + b * (double)s[i]);
        x[h + i] = (float)(b * (double)c[h + i] + a * (double)s[h + i]);
    }
}

static void rope_pairs(float *x, const float *c, const float *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 2) {
        const double a = (double)x[i], b = (double)x[i + 1];

        x[i] = (float)(a * (double)c[i] + b * (double)s[i]);
        x[i + 1] = (float)(b * (double)c[i + 1] + a * (double)s[i + 1]);
    }
}

static void silu_mul(float *y, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i]);
}

static void layer_norm(float *y, const float *x, const float *w, const float *b, float eps,
                       uint32_t n)
{
    double mean = 0, var = 0;

    for (uint32_t i = 0; i < n; i++)
        mean += (double)x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) / sqrt(var + (double)eps) * (double)w[i] +
                       (b ? (double)b[i] : 0));
}

static void level(float *y, const float *x, const float *like, float least, uint32_t n)
{
    double own = 0, other = 0;

    for (uint32_t i = 0; i < n; i++) {
        own += (double)x[i] * (double)x[i] / n;
        other += (double)like[i] * (double)like[i] / n;
    }
    own = own < (double)least ? (double)least : own;
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] * sqrt(other) / sqrt(own));
}

static void peaks(float *y, const float *x, float f, uint32_t n)
{
    double mean = 0, var = 0;

    for (uint32_t i = 0; i < n; i++)
        mean += (double)x[i] / n;
    for (uint32_t i = 0; i < n; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / n;
    for (uint32_t i = 0; i < n; i++) {
        const double above = (double)x[i] - mean - (double)f * sqrt(var);

        y[i] = (float)(above < 0 ? 0 : above);
    }
}

/* Computes GELU (Hendrycks and Gimpel 2016) exactly. gelu_tanh() below computes its approximation
 * with tanh. */
static void gelu_erf(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)(0.5 * (double)x[i] * erfc(-(double)x[i] * 0.70710678118654752440));
}

static void gelu_tanh(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const double a = (double)x[i];
        const double u = 0.79788456080286535588 * (a + 0.044715 * a * a * a);

        y[i] = (float)(a / (1 + exp(-2 * u)));
    }
}

static void sigmoid(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)(1 / (1 + exp(-(double)x[i])));
}

static void silu(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)x[i] / (1 + exp(-(double)x[i])));
}

static void cap_ref(float *y, const float *x, float c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)c * tanh((double)x[i] / (double)c));
}

/* Returns @x limited to @min … @max; NaN stays NaN. */
static double limited(double x, double min, double max)
{
    return x < min ? min : x > max ? max : x;
}

static void swiglu_limited(float *y, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const double g = limited((double)gate[i], -INFINITY, 7), u = limited((double)up[i], -7, 7);

        y[i] = (float)(g / (1 + exp(-1.702 * g)) * (u + 1));
    }
}

static void mul_ref(float *y, const float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static void add_ref(float *y, const float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
}

static void scale_ref(float *y, const float *a, float f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = a[i] * f;
}

static void add_scaled_ref(float *y, const float *a, float f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)((double)y[i] + (double)a[i] * (double)f);
}

static void f16_store(uint16_t *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = f16_from_f32(x[i]);
}

static void bf16_store(uint16_t *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = bf16_from_f32(x[i]);
}

static void turn_ref(const struct turn_args *a)
{
    for (uint32_t row = 0; row < a->n_rows; row++)
        for (uint32_t g = a->begin; g < a->end; g++)
            elem_turn_group(a, g, row);
}

static void f16_load(float *y, const uint16_t *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = f16_to_f32(x[i]);
}

static void bf16_load(float *y, const uint16_t *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = bf16_to_f32(x[i]);
}

const struct elem_fns elem_ref = {
    .name = "ref",
    .rms_norm = rms_norm,
    .rope_half = rope_half,
    .rope_pairs = rope_pairs,
    .silu_mul = silu_mul,
    .layer_norm = layer_norm,
    .level = level,
    .peaks = peaks,
    .gelu_erf = gelu_erf,
    .gelu_tanh = gelu_tanh,
    .sigmoid = sigmoid,
    .silu = silu,
    .cap = cap_ref,
    .swiglu_limited = swiglu_limited,
    .mul = mul_ref,
    .add = add_ref,
    .scale = scale_ref,
    .add_scaled = add_scaled_ref,
    .turn = turn_ref,
    .f16_store = f16_store,
    .bf16_store = bf16_store,
    .f16_load = f16_load,
    .bf16_load = bf16_load,
};
