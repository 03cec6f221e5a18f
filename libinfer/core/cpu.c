/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects features of the CPU, instruction sets, and usable CPUs.
 */
#include "core/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "core/cgroup.h"
#include "core/macros.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static unsigned detected;

#if defined(__x86_64__)
static uint64_t xcr0(void)
{
    uint32_t a, d;

    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    return (uint64_t)d << 32 | a;
}

/*
 * A process must request the state of AMX tiles before it first uses them (Linux
 * Documentation/arch/x86/xstate.rst). This file requests the state when the program is loaded,
 * because the filters of system calls in services forbid the call later.
 */
static bool have_tiles;

__attribute__((constructor)) static void ask_for_tiles(void)
{
    enum { REQ_XCOMP_PERM = 0x1023, XTILE_DATA = 18 };
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27) || (xcr0() >> 17 & 3) != 3)
        return;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & 1u << 22) && (d & 1u << 24))
        have_tiles = syscall(SYS_arch_prctl, REQ_XCOMP_PERM, XTILE_DATA) == 0;
}

/* Bits as in Intel SDM vol. 2A, CPUID leaves 1 and 7. */
static void detect_cpu(void)
{
    unsigned a, b, c, d, a7 = 0, b7, c7, d7, f = 0;
    uint64_t x;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 27))
        return;
    x = xcr0();
    if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7))
        return;
    if ((x & 6) == 6 && (c & 1u << 28) && (c & 1u << 12) && (c & 1u << 29) && (b7 & 1u << 5) &&
        (b7 & 1u << 8))
        f |= CPU_AVX2;
    if ((f & CPU_AVX2) && (x & 0xe6) == 0xe6 && (b7 & 1u << 16) && (b7 & 1u << 17) &&
        (b7 & 1u << 28) && (b7 & 1u << 30) && (b7 & 1u << 31)) {
        f |= CPU_AVX512;
        if (c7 & 1u << 11)
            f |= CPU_AVX512_VNNI;
        if (c7 & 1u << 1)
            f |= CPU_AVX512_VBMI;
        if (d7 & 1u << 23)
            f |= CPU_AVX512_FP16;
    }
    if (a7 >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        if ((f & CPU_AVX2) && (a & 1u << 4))
            f |= CPU_AVX_VNNI;
        if ((f & CPU_AVX512) && (a & 1u << 5))
            f |= CPU_AVX512_BF16 | (have_tiles ? CPU_AMX_BF16 : 0);
    }
    if ((f & CPU_AMX_BF16) && (d7 & 1u << 25))
        f |= CPU_AMX_INT8;
    detected = f;
}
#elif defined(__aarch64__)
static void detect_cpu(void)
{
    const unsigned long cap = getauxval(AT_HWCAP), cap2 = getauxval(AT_HWCAP2);

    detected = CPU_NEON;
    if (cap & 1ul << 20)
        detected |= CPU_DOTPROD;
    if (cap2 & 1ul << 13)
        detected |= CPU_I8MM;
}
#else
static void detect_cpu(void)
{
}
#endif

unsigned cpu_flags(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, detect_cpu);
    return detected;
}

/* The named instruction sets. Each needs the flags in `need`, and uses those of `with` that the CPU
 * has. */
static const struct rung {
    const char *name;
    unsigned need, with;
} rungs[] = {
    {"ref", 0, 0},
    {"avx2", CPU_AVX2, CPU_AVX2},
    {"avxvnni", CPU_AVX2 | CPU_AVX_VNNI, CPU_AVX2 | CPU_AVX_VNNI},
    {"avx512", CPU_AVX512 | CPU_AVX512_VNNI,
     CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_VBMI | CPU_AVX512_BF16},
    {"avx512fp16", CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AVX512_FP16,
     CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_VBMI | CPU_AVX512_BF16 |
         CPU_AVX512_FP16},
    {"amx",
     CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_BF16 | CPU_AVX512_FP16 | CPU_AMX_BF16 | CPU_AMX_INT8,
     CPU_AVX2 | CPU_AVX_VNNI | CPU_AVX512 | CPU_AVX512_VNNI | CPU_AVX512_VBMI | CPU_AVX512_BF16 |
         CPU_AVX512_FP16 | CPU_AMX_BF16 | CPU_AMX_INT8},
    {"neon", CPU_NEON, CPU_NEON},
    {"dotprod", CPU_NEON | CPU_DOTPROD, CPU_NEON | CPU_DOTPROD},
    {"i8mm", CPU_NEON | CPU_DOTPROD | CPU_I8MM, CPU_NEON | CPU_DOTPROD | CPU_I8MM},
};

int cpu_rung_flags(const char *name, unsigned *ret_flags)
{
    const unsigned have = cpu_flags();

    if (!name || strcmp(name, "auto") == 0) {
        *ret_flags = have;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(rungs); i++) {
        if (strcmp(name, rungs[i].name) != 0)
            continue;
        if ((have & rungs[i].need) != rungs[i].need)
            return -EOPNOTSUPP;
        *ret_flags = have & rungs[i].with;
        return 0;
    }
    return -EINVAL;
}

const char *cpu_rung_name(unsigned flags)
{
    const char *best = "ref";

    for (size_t i = 0; i < ARRAY_SIZE(rungs); i++)
        if ((flags & rungs[i].need) == rungs[i].need)
            best = rungs[i].name;
    return best;
}

const char *cpu_rung_at(size_t i)
{
    const unsigned have = cpu_flags();

    for (size_t j = 0; j < ARRAY_SIZE(rungs); j++)
        if ((have & rungs[j].need) == rungs[j].need && i-- == 0)
            return rungs[j].name;
    return NULL;
}

/* Returns the number of CPUs that the kernel may schedule this process on. The kernel refuses a set
 * of CPUs that is too small, so larger and larger sets are tried. */
static unsigned affinity_count(void)
{
    for (int n = CPU_SETSIZE; n <= 1 << 20; n *= 4) {
        const size_t size = CPU_ALLOC_SIZE(n);
        cpu_set_t *set = CPU_ALLOC(n);
        unsigned count = 0;

        if (!set)
            return 1;
        if (sched_getaffinity(0, size, set) == 0)
            count = (unsigned)CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    return 1;
}

double cpu_share(const char *root)
{
    const double all = affinity_count(), quota = cgroup_cpus(root);

    return quota > 0 ? MIN(all, quota) : all;
}

unsigned cpu_count(void)
{
    const double share = cpu_share("");

    return (unsigned)share + (share > (unsigned)share);
}

unsigned cpu_whole_count(void)
{
    return (unsigned)cpu_share("");
}
