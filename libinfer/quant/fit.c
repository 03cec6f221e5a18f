/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the version of the functions that find scales and offsets. */
#include "quant/fit.h"

#include "core/cpu.h"
#include "core/macros.h"

#ifdef __x86_64__
static const struct fit_ops *const versions[] = {&fit_avx512, &fit_avx2, &fit_ref};
#else
static const struct fit_ops *const versions[] = {&fit_ref};
#endif

const struct fit_ops *fit_at(size_t i)
{
    for (size_t v = 0; v < ARRAY_SIZE(versions); v++)
        if ((versions[v]->flags & ~cpu_flags()) == 0 && i-- == 0)
            return versions[v];
    return NULL;
}

const struct fit_ops *fit_best(void)
{
    return fit_at(0);
}
