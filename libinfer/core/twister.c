/* SPDX-License-Identifier: Apache-2.0 */
#include "core/twister.h"

/* The next value of a word is computed from its last value, the word after it, and the word at this
 * distance. */
#define MIDDLE 397u

void twister_seed(struct twister *t, uint32_t seed)
{
    t->words[0] = seed;
    for (uint32_t i = 1; i < TWISTER_WORDS; i++) {
        const uint32_t last = t->words[i - 1];

        t->words[i] = 1812433253u * (last ^ last >> 30) + i;
    }
    t->n_used = TWISTER_WORDS;
}

/* Computes the next value of each word of the state. */
static void twister_turn(struct twister *t)
{
    for (uint32_t i = 0; i < TWISTER_WORDS; i++) {
        const uint32_t next = t->words[(i + 1) % TWISTER_WORDS];
        const uint32_t y = (t->words[i] & 0x80000000u) | (next & 0x7fffffffu);

        t->words[i] = t->words[(i + MIDDLE) % TWISTER_WORDS] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
    t->n_used = 0;
}

uint32_t twister_u32(struct twister *t)
{
    uint32_t y;

    if (t->n_used == TWISTER_WORDS)
        twister_turn(t);
    y = t->words[t->n_used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double twister_double(struct twister *t)
{
    const double lo = twister_u32(t), hi = twister_u32(t);
    const double x = (lo + hi * 0x1p32) * 0x1p-64;

    return x < 1 ? x : 1 - 0x1p-53;
}

float twister_float(struct twister *t)
{
    const float x = (float)twister_u32(t) * 0x1p-32f;

    return x < 1 ? x : 1 - 0x1p-24f;
}
