/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hash map from byte strings to 64-bit values
 *
 * The map uses open addressing and a 64-bit hash with a random seed per process, so that names in
 * untrusted files cannot force collisions. Keys are borrowed: they must outlive the map. Zeroed
 * memory is an empty map. One thread may write. Several threads may read a map that no thread
 * writes.
 */

#include "core/macros.h"

struct map_slot;

struct map {
    struct map_slot *slots;
    size_t n, cap;
};

/* Conditions that functions return as positive numbers. */
enum {
    MAP_EXISTS = 1, /* the key already exists; its value is unchanged */
};

/* Makes room for @n keys in all. */
int map_reserve(struct map *m, size_t n);
/* Adds a key. Returns 0, MAP_EXISTS or -ENOMEM. */
int map_put(struct map *m, const void *key, size_t len, uint64_t value);
/* Adds a key or replaces its value. Returns 0 or -ENOMEM. */
int map_set(struct map *m, const void *key, size_t len, uint64_t value);
bool map_find(const struct map *m, const void *key, size_t len, uint64_t *ret_value);
void map_done(struct map *m);
