/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the kernels on single rows for a CPU, and computes activations that need not be fast. */
#include "backend/cpu/elem/elem.h"

#include <math.h>
#include <string.h>

#include "core/cpu.h"
#include "core/macros.h"

/* elem_pick() returns the first kernels whose flags the CPU supports. The reference requires no
 * flags, so it comes last. */
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

/* Computes the squared ReLU (So et al. 2021). */
static float relu2(float x)
{
    return x > 0 ? x * x : isnan(x) ? x : 0;
}

void elem_act(const struct elem_fns *fns, enum graph_act act, float *y, const float *x, uint32_t n)
{
    switch (act) {
    case GRAPH_ACT_SILU:
        fns->silu(y, x, n);
        break;
    case GRAPH_ACT_GELU_TANH:
        fns->gelu_tanh(y, x, n);
        break;
    case GRAPH_ACT_GELU_ERF:
        fns->gelu_erf(y, x, n);
        break;
    case GRAPH_ACT_RELU2:
        for (uint32_t i = 0; i < n; i++)
            y[i] = relu2(x[i]);
        break;
    case GRAPH_ACT_TANH:
        for (uint32_t i = 0; i < n; i++)
            y[i] = tanhf(x[i]);
        break;
    case GRAPH_ACT_SIGMOID:
        fns->sigmoid(y, x, n);
        break;
    case GRAPH_ACT_LINEAR:
        memmove(y, x, n * sizeof(*y));
        break;
    case GRAPH_ACT_SWIGLU_LIMITED:
        assert(false);
    }
}

void elem_turn_group(const struct turn_args *args, uint32_t i_group, uint32_t row)
{
    const struct turn_params *p = args->params;
    const uint32_t first = i_group * p->group;
    const uint8_t *pairs = p->pairs + first;
    const float *x = args->x + row * args->ld_x, *turns = p->turns + first;
    float *y = args->y + row * args->ld_y + first;

    for (uint32_t k = 0; k < p->group; k++)
        y[k] = x[p->order ? p->order[first + k] : first + k] *
               (p->factors ? p->factors[first + k] : 1);
    for (uint32_t i = 0; i < p->n_rounds; i++, pairs += p->width, turns += p->width)
        for (uint32_t k = 0; k < p->group; k += 2) {
            const float a = y[pairs[k]], b = y[pairs[k + 1]], c = turns[k], s = turns[k + 1];

            y[pairs[k]] = a * c + b * s;
            y[pairs[k + 1]] = b * c - a * s;
        }
}

/* Elements per step of elem_glu(). They stay in the first-level cache between two kernels. */
#define GLU_STEP 256u

void elem_glu(const struct elem_fns *fns, enum graph_act act, float *y, const float *gate,
              const float *up, uint32_t n)
{
    float activated[GLU_STEP];

    if (act == GRAPH_ACT_SILU) {
        fns->silu_mul(y, gate, up, n);
        return;
    }
    if (act == GRAPH_ACT_SWIGLU_LIMITED) {
        fns->swiglu_limited(y, gate, up, n);
        return;
    }
    for (uint32_t i = 0; i < n; i += GLU_STEP) {
        const uint32_t k = MIN(n - i, GLU_STEP);

        elem_act(fns, act, activated, gate + i, k);
        fns->mul(y + i, activated, up + i, k);
    }
}

void elem_glu_one(const struct elem_fns *fns, enum graph_act act, float *y, const float *gate,
                  const float *up, uint32_t n)
{
    float gates[GLU_STEP];

    for (uint32_t i = 0; i < MIN(n, GLU_STEP); i++)
        gates[i] = *gate;
    for (uint32_t i = 0; i < n; i += GLU_STEP)
        elem_glu(fns, act, y + i, gates, up + i, MIN(n - i, GLU_STEP));
}
