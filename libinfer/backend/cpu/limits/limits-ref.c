/* SPDX-License-Identifier: Apache-2.0 */

/* Defines the loops of limits.h in plain C: loads, and no dot instruction. */

#define LIMIT_BYTES    16
#define LIMIT_NAME(op) op##_ref

#include "backend/cpu/limits/limits-kernels.h"

const struct limits_ops limits_ref = {
    .name = "ref",
    .flags = 0,
    .read = limit_read_ref,
};
