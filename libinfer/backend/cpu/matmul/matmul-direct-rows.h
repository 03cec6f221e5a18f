/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compiles the kernels that multiply rows directly (matmul-direct.h, matmul-direct-avx512.h) for 1
 * to 4 prepared rows.
 */

#define DIRECT_M 4 /* maximum number of prepared rows */

/* Defines functions for each number of prepared rows. They work on a copy of the struct, so that
 * compilers keep its members in registers. */
#define DIRECT_FN(name, m, call)                                                                   \
    static __attribute__((noinline)) void name(const struct matmul_direct *direct)                 \
    {                                                                                              \
        struct matmul_direct copy = *direct, *d = &copy;                                           \
        const unsigned m_n = m;                                                                    \
                                                                                                   \
        call;                                                                                      \
    }
#define DIRECT(stem, call)                                                                         \
    DIRECT_FN(direct_##stem##_1, 1, call)                                                          \
    DIRECT_FN(direct_##stem##_2, 2, call)                                                          \
    DIRECT_FN(direct_##stem##_3, 3, call)                                                          \
    DIRECT_FN(direct_##stem##_4, 4, call)                                                          \
    static void TILE_NAME(direct_##stem)(struct matmul_direct * d)                                 \
    {                                                                                              \
        static void (*const fns[DIRECT_M])(const struct matmul_direct *) = {                       \
            direct_##stem##_1, direct_##stem##_2, direct_##stem##_3, direct_##stem##_4};           \
                                                                                                   \
        fns[d->M - 1](d);                                                                          \
    }

/* Define the kernel @kernel of a format of floats. It calls stem_m(d, m_n), which the including
 * file defines for m_n prepared rows. */
#define DIRECT_FLOAT_FN(stem, m)                                                                   \
    static __attribute__((noinline)) void stem##_##m(const struct matmul_direct *d)                \
    {                                                                                              \
        struct matmul_direct copy = *d;                                                            \
                                                                                                   \
        stem##_m(&copy, m);                                                                        \
    }
#define DIRECT_FLOAT_FNS(kernel, stem)                                                             \
    DIRECT_FLOAT_FN(stem, 1)                                                                       \
    DIRECT_FLOAT_FN(stem, 2)                                                                       \
    DIRECT_FLOAT_FN(stem, 3)                                                                       \
    DIRECT_FLOAT_FN(stem, 4)                                                                       \
    static void kernel(struct matmul_direct *d)                                                    \
    {                                                                                              \
        static void (*const fns[DIRECT_M])(const struct matmul_direct *) = {stem##_1, stem##_2,    \
                                                                            stem##_3, stem##_4};   \
                                                                                                   \
        fns[d->M - 1](d);                                                                          \
    }
