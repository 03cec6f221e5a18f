/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the matrix product of dense-kernels.h for any CPU. */
#define DENSE_WIDTH 4
#define DENSE_NAME  dense_base

#include "media/dense-kernels.h"
