/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Features of this CPU, and the number of usable CPUs
 *
 * A rung is a named instruction set level, which is a set of flags. The rungs are, from the lowest,
 * "ref", "avx2", "avxvnni", "avx512", "avx512fp16" and "amx" on x86-64, and "ref", "neon",
 * "dotprod" and "i8mm" on arm64. Users may select a lower rung than the best one, but not a higher
 * one.
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
    CPU_AMX_BF16 = 1 << 10, /* with tiles, if Linux allows this process to use them */
    CPU_AMX_INT8 = 1 << 11, /* as CPU_AMX_BF16 */
};

/* Returns the flags that the CPU and the kernel support; they are detected once. */
unsigned cpu_flags(void);
/* Finds the flags that the rung @name may use and the CPU supports. Returns 0 and sets *ret_flags;
 * -EOPNOTSUPP: the CPU does not support the rung; -EINVAL: unknown name. NULL or "auto" gives all
 * flags of cpu_flags(). */
int cpu_rung_flags(const char *name, unsigned *ret_flags);
/* Returns the name of the highest rung whose flags are all in @flags; static. */
const char *cpu_rung_name(unsigned flags);
/* Returns the i-th rung that this CPU supports, lowest first; NULL past the last. Tests and
 * benchmarks use this function. */
const char *cpu_rung_at(size_t i);
/* Returns the number of CPUs that affinity and the quota of control groups allow, which may be a
 * fraction; @root as in core/cgroup.h. */
double cpu_share(const char *root);
/* Returns cpu_share() rounded up, at least 1: the number of threads that can have work. */
unsigned cpu_count(void);
/* Returns cpu_share() rounded down: the number of threads that can run all the time, so that one
 * thread may spin while it waits for another. The result is 0 if the share is less than one CPU. */
unsigned cpu_whole_count(void);
