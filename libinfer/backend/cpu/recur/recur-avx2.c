/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels of recurrent layers for AVX2. */
#include "backend/cpu/simd/simd-avx2.h"

#include "backend/cpu/recur/recur-simd.h"
#include "core/cpu.h"

const struct recur_fns recur_avx2 = RECUR_FNS("avx2", CPU_AVX2);
