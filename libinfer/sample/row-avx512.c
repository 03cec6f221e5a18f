/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels of row-kernels.h for AVX-512. */
#define ROW_WIDTH 16

#include "sample/row-isa.h"
#include "sample/row-kernels.h"

const struct row_kernels row_kernels_avx512 = {row_peaks, row_masses, row_before, row_mask};
