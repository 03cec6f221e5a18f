/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines inf_version() and the names of number formats.
 */
#include <infer/types.h>

#include "quant/dtype.h"

const char *inf_version(void)
{
    return SCONCE_VERSION;
}

const char *inf_dtype_name(enum inf_dtype dtype)
{
    return (unsigned)dtype < INF_DTYPE_N ? dtype_info(dtype)->name : NULL;
}
