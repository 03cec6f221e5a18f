/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels on single rows for NEON. */
#include "backend/cpu/simd/simd-neon.h"

#include "backend/cpu/elem/elem-simd.h"
#include "core/cpu.h"

const struct elem_fns elem_neon = ELEM_FNS("neon", CPU_NEON);
