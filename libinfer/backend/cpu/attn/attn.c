/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the attention kernels for a CPU. */
#include "backend/cpu/attn/attn.h"

/* attn_pick() returns the first kernels whose flags the CPU supports. The reference needs no flags,
 * so it comes last. */
static const struct attn_fns *const table[] = {
#if defined(__x86_64__)
    &attn_amx, &attn_avx512bf16, &attn_avx512, &attn_avx2,
#elif defined(__aarch64__)
    &attn_i8mm,
    &attn_dotprod,
    &attn_neon,
#endif
    &attn_ref,
};

const struct attn_fns *attn_pick(unsigned cpu_flags)
{
    size_t i = 0;

    while ((table[i]->cpu_flags & cpu_flags) != table[i]->cpu_flags)
        i++;
    return table[i];
}
