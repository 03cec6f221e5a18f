/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the matrix product of dense-kernels.h for AVX2. */
#define DENSE_WIDTH 8
#define DENSE_NAME  dense_avx2

#include "media/dense-kernels.h"
