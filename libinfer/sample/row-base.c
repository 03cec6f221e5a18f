/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels of row-kernels.h for any CPU, with vectors of 128 bits. If the CPU has no
 * such vectors, the compiler makes scalar code of them. */
#define ROW_WIDTH 4

#include "sample/row-isa.h"
#include "sample/row-kernels.h"

const struct row_kernels row_kernels_base = {row_peaks, row_masses, row_before, row_mask};
