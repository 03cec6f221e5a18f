/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the attention kernels for NEON with sdot (Armv8.2 DotProd). */
#include "backend/cpu/simd/simd-neon.h"

#include "backend/cpu/simd/simd-dot-dotprod.h"

#include "backend/cpu/simd/simd-bf16.h"

#include "backend/cpu/attn/attn-all-simd.h"
#include "core/cpu.h"

const struct attn_fns attn_dotprod = ATTN_FNS("dotprod", CPU_NEON | CPU_DOTPROD);
