/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels of row-kernels.h for AVX2. */
#define ROW_WIDTH 8

#include "sample/row-isa.h"
#include "sample/row-kernels.h"

const struct row_kernels row_kernels_avx2 = {row_peaks, row_masses, row_before, row_mask};
