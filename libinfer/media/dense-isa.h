/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the matrix products, one per instruction set. */

#include "media/dense.h"

void dense_base(const struct dense *d, const float *const *x, uint32_t n_cols, float *out);
void dense_avx2(const struct dense *d, const float *const *x, uint32_t n_cols, float *out);
void dense_avx512(const struct dense *d, const float *const *x, uint32_t n_cols, float *out);
