/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the transform of spectrum-kernels.h for AVX-512. */
#define SPECTRUM_WIDTH 8

#include "media/spectrum-isa.h"
#include "media/spectrum-kernels.h"

const struct spectrum_kernel spectrum_kernel_avx512 = {SPECTRUM_WIDTH, powers};
