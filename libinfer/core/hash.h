/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Computes hashes for tables. Digests that identify content are in sha256.h. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns a hash of 64 bits, which mixes words of 8 bytes as splitmix64 does. The hash is the same
 * in all processes and on all machines with the same byte order. */
uint64_t hash_bytes(uint64_t seed, const void *data, size_t len);
/* Like hash_bytes(), with a random seed of this process, for tables with untrusted keys. */
uint64_t hash_seeded(const void *data, size_t len);
/* Returns the random seed of this process. */
uint64_t hash_seed(void);

/* Returns the upper half of the product of 128 bits, XOR its lower half. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 p = (unsigned __int128)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline uint64_t hash_load(const unsigned char *p, size_t n)
{
    uint64_t w = 0;

    memcpy(&w, p, n);
    return w;
}

/* Returns a hash that is fast for many short texts, such as vocabularies: a text of up to 16 bytes
 * takes two multiplications of 64 bits. The hash depends on the byte order of the machine. @seed is
 * the result of hash_seed(). */
static inline uint32_t hash_text(uint64_t seed, const void *data, size_t len)
{
    const uint64_t k = 0x9e3779b97f4a7c15u;
    const unsigned char *p = data;
    uint64_t a = 0, b = 0, h = seed ^ len * k;

    for (; len > 16; p += 16, len -= 16)
        h = hash_fold(hash_load(p, 8) ^ h, hash_load(p + 8, 8) ^ seed) + k;
    if (len >= 8) {
        a = hash_load(p, 8);
        b = hash_load(p + len - 8, 8);
    } else if (len >= 4) {
        a = hash_load(p, 4);
        b = hash_load(p + len - 4, 4);
    } else if (len > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[len / 2] << 8 | p[len - 1];
    }
    h = hash_fold(a ^ h, b ^ seed ^ k);
    return (uint32_t)(hash_fold(h, k ^ seed) >> 16);
}
