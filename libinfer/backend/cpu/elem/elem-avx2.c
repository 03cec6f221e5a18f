/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels on single rows for AVX2. */
#include "backend/cpu/simd/simd-avx2.h"

#include "backend/cpu/elem/elem-simd.h"
#include "core/cpu.h"

const struct elem_fns elem_avx2 = ELEM_FNS("avx2", CPU_AVX2);
