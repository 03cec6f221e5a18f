/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the kernels of recurrent layers for NEON. */
#include "backend/cpu/simd/simd-neon.h"

#include "backend/cpu/recur/recur-simd.h"
#include "core/cpu.h"

const struct recur_fns recur_neon = RECUR_FNS("neon", CPU_NEON);
