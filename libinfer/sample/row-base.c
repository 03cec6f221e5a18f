/* SPDX-License-Identifier: Apache-2.0 */
/* The passes over a row for any CPU: vectors of 128 bits, which are plain arithmetic where there
 * are none. */
#define ROW_WIDTH 4

#include "sample/row-isa.h"
#include "sample/row-kernels.h"

const struct row_kernels row_kernels_base = {row_peaks, row_masses, row_before};
