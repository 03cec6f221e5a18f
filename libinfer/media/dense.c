/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the matrix product for a CPU. */
#include "media/dense.h"

#include <stddef.h>

#include "core/cpu.h"
#include "media/dense-isa.h"

/* dense_get() returns the function of the first row whose flags the CPU supports. */
static const struct {
    dense_fn fn;
    unsigned flags;
} table[] = {
#if defined(__x86_64__)
    {dense_avx512, CPU_AVX512},
    {dense_avx2, CPU_AVX2},
#endif
    {dense_base, 0},
};

dense_fn dense_get(unsigned flags)
{
    size_t i = 0;

    while ((flags & table[i].flags) != table[i].flags)
        i++;
    return table[i].fn;
}
