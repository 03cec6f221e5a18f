/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of row-kernels.h for any CPU: vectors of 128 bits, which compilers turn into scalar
 * code if the CPU has none. */
#define ROW_WIDTH 4

#include "sample/row-isa.h"
#include "sample/row-kernels.h"

const struct row_kernels row_kernels_base = {row_peaks, row_masses, row_before};
