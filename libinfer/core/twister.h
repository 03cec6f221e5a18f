/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A generator of random numbers: the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998)
 *
 * Its numbers are those of std::mt19937 and of the distributions of libstdc++, so that a sampler
 * can draw the same tokens as llama.cpp. It takes 2.5 KB; rng.h is a smaller generator.
 */

#include <stdint.h>

#define TWISTER_WORDS 624

struct twister {
    uint32_t words[TWISTER_WORDS];
    uint32_t n_used; /* number of words of 32 bits that were returned already */
};

void twister_seed(struct twister *t, uint32_t seed);
uint32_t twister_u32(struct twister *t);
/* Return what std::uniform_real_distribution returns: a number in [0, 1), made from two words for a
 * double and from one word for a float. */
double twister_double(struct twister *t);
float twister_float(struct twister *t);
