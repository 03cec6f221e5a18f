/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the loop of limits.h that reads memory, in plain C. There is no loop of dot products,
 * because plain C has no dot instruction. */

#define LIMIT_BYTES    16
#define LIMIT_NAME(op) op##_ref

#include "backend/cpu/limits/limits-kernels.h"

const struct limits_ops limits_ref = {
    .name = "ref",
    .flags = 0,
    .read = limit_read_ref,
};
