/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the attention kernels for AVX-512 with BF16 products. */
#include "backend/cpu/simd/simd-avx512.h"

#include "backend/cpu/simd/simd-bf16-avx512.h"

#include "backend/cpu/attn/attn-all-simd.h"
#include "core/cpu.h"

const struct attn_fns attn_avx512bf16 =
    ATTN_FNS("avx512bf16", CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16);
