/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lets the calling thread compute with zero instead of denormal numbers, which are those below
 * 1.2e-38. Most CPUs need a hundred cycles or more for an operation with a denormal number.
 */

#include <stdint.h>

/* Returns the mode to pass to denormals_restore(). */
static inline uint64_t denormals_to_zero(void)
{
#if defined(__x86_64__)
    const uint32_t mode = __builtin_ia32_stmxcsr();

    __builtin_ia32_ldmxcsr(mode | 1u << 15 | 1u << 6); /* results; operands */
    return mode;
#elif defined(__aarch64__)
    uint64_t mode;

    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode | UINT64_C(1) << 24));
    return mode;
#else
    return 0;
#endif
}

static inline void denormals_restore(uint64_t mode)
{
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr((uint32_t)mode);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#else
    (void)mode;
#endif
}
