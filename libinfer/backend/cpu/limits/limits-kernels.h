/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Defines the loops of limits.h for one instruction set.
 *
 * The including file defines LIMIT_BYTES (the size of one load) and LIMIT_NAME(op). It passes
 * DOT(s) to LIMIT_DOTS: assembly that adds one dot product to register s. LIMIT_DOTS executes this
 * assembly n times for each of twelve registers. Twelve independent sums keep every pipeline busy,
 * and inline assembly prevents the compiler from computing the result in advance.
 */

#include <string.h>

#include "backend/cpu/limits/limits.h"

enum {
    LIMIT_LINE = 64,
    LIMIT_PIECE = 256, /* bytes that are read from one stream before the next stream is read */
    LIMIT_LOADS = LIMIT_PIECE / LIMIT_BYTES,
    LIMIT_SUMS = LIMIT_LOADS < 8 ? LIMIT_LOADS : 8,
};

typedef uint64_t limit_vec __attribute__((vector_size(LIMIT_BYTES), may_alias));

static inline __attribute__((always_inline)) uint64_t limit_read(const uint8_t *p, size_t size,
                                                                 unsigned n_streams, size_t ahead)
{
    const size_t part = size / n_streams;
    limit_vec sum[LIMIT_SUMS] = {{0}};
    uint64_t words[LIMIT_BYTES / 8], all = 0;

    for (size_t at = 0; at < part; at += LIMIT_PIECE) {
        for (unsigned s = 0; s < n_streams; s++) {
            const uint8_t *q = p + s * part + at;

            for (unsigned j = 0; ahead > 0 && j < LIMIT_PIECE; j += LIMIT_LINE)
                __builtin_prefetch(q + ahead + j);
#pragma GCC unroll 16
            for (unsigned j = 0; j < LIMIT_LOADS; j++)
                sum[j % LIMIT_SUMS] ^= *(const limit_vec *)(q + j * LIMIT_BYTES);
        }
    }
    for (unsigned j = 1; j < LIMIT_SUMS; j++)
        sum[0] ^= sum[j];
    memcpy(words, &sum[0], sizeof(words));
    for (unsigned j = 0; j < LIMIT_BYTES / 8; j++)
        all ^= words[j];
    return all;
}

static uint64_t LIMIT_NAME(limit_read)(const uint8_t *p, size_t size, unsigned n_streams,
                                       size_t ahead)
{
    if (n_streams == 1)
        return ahead > 0 ? limit_read(p, size, 1, ahead) : limit_read(p, size, 1, 0);
    return ahead > 0 ? limit_read(p, size, n_streams, ahead) : limit_read(p, size, n_streams, 0);
}

#define LIMIT_N_DOTS 12
#define LIMIT_DOTS(DOT, n)                                                                         \
    for (unsigned i_ = 0; i_ < (n); i_++) {                                                        \
        DOT(s0);                                                                                   \
        DOT(s1);                                                                                   \
        DOT(s2);                                                                                   \
        DOT(s3);                                                                                   \
        DOT(s4);                                                                                   \
        DOT(s5);                                                                                   \
        DOT(s6);                                                                                   \
        DOT(s7);                                                                                   \
        DOT(s8);                                                                                   \
        DOT(s9);                                                                                   \
        DOT(s10);                                                                                  \
        DOT(s11);                                                                                  \
    }
