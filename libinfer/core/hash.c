/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes hashes for tables, with a random seed per process for untrusted keys.
 */
#include "core/hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Applies the finalizer of splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t mix_hash(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t hash_bytes(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = mix_hash(seed + 0x9e3779b97f4a7c15u * (len + 1)), w;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&w, p, 8);
        h = mix_hash(h ^ w) + 0x9e3779b97f4a7c15u;
    }
    if (len) {
        w = 0;
        memcpy(&w, p, len);
        h = mix_hash(h ^ w);
    }
    return h;
}

static uint64_t process_seed;

static void seed_init(void)
{
    struct timespec ts;

    if (getrandom(&process_seed, sizeof(process_seed), GRND_NONBLOCK) == sizeof(process_seed))
        return;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    process_seed = mix_hash((uint64_t)ts.tv_nsec ^ (uint64_t)(uintptr_t)&ts);
}

uint64_t hash_seed(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, seed_init);
    return process_seed;
}

uint64_t hash_seeded(const void *data, size_t len)
{
    return hash_bytes(hash_seed(), data, len);
}
