/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the kernel tables, one per instruction set. */

#include "sample/row.h"

extern const struct row_kernels row_kernels_base;
extern const struct row_kernels row_kernels_avx2;
extern const struct row_kernels row_kernels_avx512;
