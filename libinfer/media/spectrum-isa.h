/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the kernels of spectrum.h, one per instruction set. */

#include "media/spectrum.h"

extern const struct spectrum_kernel spectrum_kernel_base;
extern const struct spectrum_kernel spectrum_kernel_avx2;
extern const struct spectrum_kernel spectrum_kernel_avx512;
