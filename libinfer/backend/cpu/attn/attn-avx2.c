/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the attention kernels for AVX2. */
#include "backend/cpu/simd/simd-avx2.h"

#include "backend/cpu/simd/simd-bf16.h"

#include "backend/cpu/attn/attn-all-simd.h"
#include "core/cpu.h"

const struct attn_fns attn_avx2 = ATTN_FNS("avx2", CPU_AVX2);
