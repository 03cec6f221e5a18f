/* SPDX-License-Identifier: Apache-2.0 */

/* Rounds and weighs numbers for the encoders of the small formats. */

#include "quant/block-fit.h"

#include "core/half.h"
#include "core/macros.h"

void fit_load(const float *src, float *ret_x, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        ret_x[i] = isfinite(src[i]) ? src[i] : 0.0f;
}

uint16_t fit_f16(float x)
{
    return f16_from_f32(MAX(MIN(x, 65504.0f), -65504.0f));
}

void fit_weights(const float *x, const float *importance, unsigned n, float *ret_w)
{
    float mean = 0;

    for (unsigned i = 0; i < n; i++)
        mean += x[i] * x[i];
    mean /= (float)n;
    for (unsigned i = 0; importance && i < n; i++)
        ret_w[i] = (isfinite(importance[i]) ? importance[i] : 0) * sqrtf(2 * mean + x[i] * x[i]);
    for (unsigned i = 0; !importance && i < n; i++)
        ret_w[i] = sqrtf(mean) + fabsf(x[i]);
}

float fit_extreme(const float *x, unsigned n)
{
    float extreme = 0;

    for (unsigned i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(extreme))
            extreme = x[i];
    return extreme;
}
