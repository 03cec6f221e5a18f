/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix product of dense-kernels.h for every instruction set. */
#define DENSE_WIDTH 4
#define DENSE_NAME  dense_base

#include "media/dense-kernels.h"
