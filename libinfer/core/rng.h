/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A generator of random numbers: PCG32 (O'Neill 2014, pcg-random.org, XSH-RR 64/32). The generator
 * is small, can be seeded, and is good enough for sampling. */

#include <stdint.h>

struct rng {
    uint64_t state, inc;
};

static inline uint32_t rng_u32(struct rng *r)
{
    const uint64_t old = r->state;
    const uint32_t xored = (uint32_t)(((old >> 18) ^ old) >> 27);
    const uint32_t rot = (uint32_t)(old >> 59);

    r->state = old * 6364136223846793005u + r->inc;
    return xored >> rot | xored << (-rot & 31);
}

static inline void rng_seed(struct rng *r, uint64_t seed)
{
    r->state = 0;
    r->inc = 0xda3e39cb94b95bdbu | 1;
    rng_u32(r);
    r->state += seed;
    rng_u32(r);
}

/* Returns a uniformly distributed number in [0, 1) of 53 random bits. */
static inline double rng_double(struct rng *r)
{
    const uint64_t hi = rng_u32(r), lo = rng_u32(r);

    return (double)((hi << 32 | lo) >> 11) * 0x1p-53;
}
