/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the transform of spectrum-kernels.h for any CPU. */
#define SPECTRUM_WIDTH 2

#include "media/spectrum-isa.h"
#include "media/spectrum-kernels.h"

const struct spectrum_kernel spectrum_kernel_base = {SPECTRUM_WIDTH, powers};
