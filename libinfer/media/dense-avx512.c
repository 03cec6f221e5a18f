/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the matrix product of dense-kernels.h for AVX-512. */
#define DENSE_WIDTH 16
#define DENSE_NAME  dense_avx512

#include "media/dense-kernels.h"
