/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this CPU can do, and how many CPUs we may use
 *
 * Rungs are named sets of flags, lowest first: "ref", "avx2", "avx512", "avx512fp16", "amx" (x86),
 * "neon", "dotprod" (arm64). A rung may be chosen below the best one, never above.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cpu_flags {
    CPU_AVX2 = 1 << 0, /* with FMA, F16C, BMI2 */
    CPU_AVX_VNNI = 1 << 1,
    CPU_AVX512 = 1 << 2, /* F, BW, DQ, VL, CD */
    CPU_AVX512_VNNI = 1 << 3,
    CPU_AVX512_VBMI = 1 << 4,
    CPU_AVX512_BF16 = 1 << 5,
    CPU_AVX512_FP16 = 1 << 6,
    CPU_NEON = 1 << 7,
    CPU_DOTPROD = 1 << 8,
    CPU_I8MM = 1 << 9,
    CPU_AMX_BF16 = 1 << 10, /* with tiles, which Linux lets us use */
    CPU_INTEL = 1 << 11,    /* made by Intel; no rung needs it */
};

/* What the CPU and the kernel offer; detected once. */
unsigned cpu_flags(void);
/* Flags of the rung @name, cut to what is there: 0 and *ret_flags, or -EOPNOTSUPP when the CPU
 * lacks it, -EINVAL for unknown names. NULL or "auto" is the best rung. */
int cpu_rung_flags(const char *name, unsigned *ret_flags);
/* Name of the highest rung that @flags reach; static. */
const char *cpu_rung_name(unsigned flags);
/* The i-th rung that this CPU has, lowest first; NULL past the last. For tests and benches. */
const char *cpu_rung_at(size_t i);
/* CPUs by affinity and by the quota of control groups, which may be a fraction; @root as in
 * core/cgroup.h. */
double cpu_share(const char *root);
/* The same rounded up, at least 1: threads that can have work. */
unsigned cpu_count(void);
/* The same rounded down: threads that can run all the time, so that one may spin for another. With
 * less than one CPU it is 0. */
unsigned cpu_whole_count(void);
