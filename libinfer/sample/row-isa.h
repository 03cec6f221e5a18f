/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tables of kernels, each of a file that is built for its instruction set. */

#include "sample/row.h"

extern const struct row_kernels row_kernels_base;
extern const struct row_kernels row_kernels_avx2;
extern const struct row_kernels row_kernels_avx512;
