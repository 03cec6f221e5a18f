/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing kernels on single rows, and activations that need no speed. */
#include "backend/cpu/elem.h"

#include <math.h>

#include "core/cpu.h"

/* The first row whose flags the CPU has wins; the reference needs none and comes last. */
static const struct elem_fns *const table[] = {
#if defined(__x86_64__)
    &elem_avx512,
    &elem_avx2,
#elif defined(__aarch64__)
    &elem_neon,
#endif
    &elem_ref,
};

const struct elem_fns *elem_pick(unsigned cpu_flags)
{
    size_t i = 0;

    while ((table[i]->cpu_flags & cpu_flags) != table[i]->cpu_flags)
        i++;
    return table[i];
}

/* Hendrycks and Gimpel 2016, with the tanh approximation and exact. */
static float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static float gelu_erf(float x)
{
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
}

/* So et al. 2021. */
static float relu2(float x)
{
    return x > 0 ? x * x : isnan(x) ? x : 0;
}

void elem_glu(const struct elem_fns *fns, enum graph_act act, float *y, const float *gate,
              const float *up, uint32_t n)
{
    switch (act) {
    case GRAPH_ACT_SILU:
        fns->silu_mul(y, gate, up, n);
        break;
    case GRAPH_ACT_GELU_TANH:
        for (uint32_t i = 0; i < n; i++)
            y[i] = gelu_tanh(gate[i]) * up[i];
        break;
    case GRAPH_ACT_GELU_ERF:
        for (uint32_t i = 0; i < n; i++)
            y[i] = gelu_erf(gate[i]) * up[i];
        break;
    case GRAPH_ACT_RELU2:
        for (uint32_t i = 0; i < n; i++)
            y[i] = relu2(gate[i]) * up[i];
        break;
    }
}
