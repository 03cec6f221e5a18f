/* SPDX-License-Identifier: Apache-2.0 */
/* The product for AVX-512. */
#define DENSE_WIDTH 16
#define DENSE_NAME  dense_avx512

#include "media/dense-kernels.h"
