/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the attention kernels for NEON. */
#include "backend/cpu/simd/simd-neon.h"

#include "backend/cpu/simd/simd-dot-neon.h"

#include "backend/cpu/simd/simd-bf16.h"

#include "backend/cpu/attn/attn-all-simd.h"
#include "core/cpu.h"

const struct attn_fns attn_neon = ATTN_FNS("neon", CPU_NEON);
