/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the kernels of recurrent layers for a CPU. */
#include "backend/cpu/recur/recur.h"

#include "core/cpu.h"

/* recur_pick() returns the first kernels whose flags the CPU supports. The reference requires no
 * flags, so it comes last. */
static const struct recur_fns *const table[] = {
#if defined(__x86_64__)
    &recur_avx512,
    &recur_avx2,
#elif defined(__aarch64__)
    &recur_neon,
#endif
    &recur_ref,
};

const struct recur_fns *recur_pick(unsigned cpu_flags)
{
    size_t i = 0;

    while ((table[i]->cpu_flags & cpu_flags) != table[i]->cpu_flags)
        i++;
    return table[i];
}
