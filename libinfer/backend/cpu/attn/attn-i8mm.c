/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the attention kernels for NEON with usdot (Armv8.6 I8MM). */
#include "backend/cpu/simd/simd-neon.h"

#include "backend/cpu/simd/simd-dot-i8mm.h"

#include "backend/cpu/simd/simd-bf16.h"

#include "backend/cpu/attn/attn-all-simd.h"
#include "core/cpu.h"

const struct attn_fns attn_i8mm = ATTN_FNS("i8mm", CPU_NEON | CPU_DOTPROD | CPU_I8MM);
