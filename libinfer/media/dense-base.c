/* SPDX-License-Identifier: Apache-2.0 */
/* The product for every instruction set. */
#define DENSE_WIDTH 4
#define DENSE_NAME  dense_base

#include "media/dense-kernels.h"
