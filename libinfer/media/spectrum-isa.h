/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernels, each of a file that is built for its instruction set. */

#include "media/spectrum.h"

extern const struct spectrum_kernel spectrum_kernel_base;
extern const struct spectrum_kernel spectrum_kernel_avx2;
extern const struct spectrum_kernel spectrum_kernel_avx512;
