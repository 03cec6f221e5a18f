/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the tables of the transform, and selects its kernel. */
#include "media/spectrum.h"

#include <math.h>
#include <stddef.h>

#include "core/cpu.h"
#include "media/spectrum-isa.h"

/* spectrum_kernel_get() returns the kernel of the first row whose flags the CPU supports. */
static const struct {
    const struct spectrum_kernel *kernel;
    unsigned flags;
} table[] = {
#if defined(__x86_64__)
    {&spectrum_kernel_avx512, CPU_AVX512},
    {&spectrum_kernel_avx2, CPU_AVX2},
#endif
    {&spectrum_kernel_base, 0},
};

const struct spectrum_kernel *spectrum_kernel_get(unsigned flags)
{
    size_t i = 0;

    while ((flags & table[i].flags) != table[i].flags)
        i++;
    return table[i].kernel;
}

static struct spectrum_turn spectrum_turn_of(uint32_t i, uint32_t n)
{
    const double angle = -2 * M_PI * (double)i / (double)n;

    return (struct spectrum_turn){cos(angle), sin(angle)};
}

void spectrum_plan_init(struct spectrum_plan *plan)
{
    static const uint32_t radices[SPECTRUM_STAGES] = {5, 5, 4, 2};
    uint32_t left = SPECTRUM_HALF, stride = 1;

    for (uint32_t i = 0; i < SPECTRUM_STAGES; i++) {
        struct spectrum_stage *stage = &plan->stages[i];

        stage->radix = radices[i];
        stage->m = left / radices[i];
        stage->stride = stride;
        for (uint32_t p = 0; p < stage->m; p++)
            for (uint32_t j = 0; j < stage->radix; j++)
                stage->turns[p * stage->radix + j] = spectrum_turn_of(p * j, left);
        left = stage->m;
        stride *= stage->radix;
    }
    for (uint32_t k = 0; k < SPECTRUM_BINS; k++)
        plan->turns[k] = spectrum_turn_of(k, SPECTRUM_N);
}
