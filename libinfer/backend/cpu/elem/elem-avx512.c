/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels on single rows for AVX-512. */
#include "backend/cpu/simd/simd-avx512.h"

#include "backend/cpu/elem/elem-simd.h"
#include "core/cpu.h"

const struct elem_fns elem_avx512 = ELEM_FNS("avx512", CPU_AVX512 | CPU_AVX512_VNNI);
