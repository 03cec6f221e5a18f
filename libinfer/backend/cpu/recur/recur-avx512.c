/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels of recurrent layers for AVX-512. */
#include "backend/cpu/simd/simd-avx512.h"

#include "backend/cpu/recur/recur-simd.h"
#include "core/cpu.h"

const struct recur_fns recur_avx512 = RECUR_FNS("avx512", CPU_AVX512 | CPU_AVX512_VNNI);
