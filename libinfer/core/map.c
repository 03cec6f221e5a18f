/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements a hash map with open addressing.
 */
#include "core/map.h"

#include <errno.h>
#include <string.h>

#include "core/hash.h"

struct map_slot {
    const void *key; /* NULL: free */
    size_t len;
    uint64_t hash, value;
};

static struct map_slot *probe_slot(const struct map *m, const void *key, size_t len, uint64_t hash)
{
    const size_t mask = m->cap - 1;

    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct map_slot *s = &m->slots[i];

        if (!s->key ||
            (s->hash == hash && s->len == len && (len == 0 || memcmp(s->key, key, len) == 0)))
            return s;
    }
}

int map_reserve(struct map *m, size_t n)
{
    struct map old = *m;
    size_t cap = m->cap ? m->cap : 16;

    if (n > SIZE_MAX / 4 / sizeof(struct map_slot))
        return -ENOMEM;
    while (cap < n + n / 2 + 1)
        cap *= 2;
    if (cap == m->cap)
        return 0;
    m->slots = NEW(struct map_slot, cap);
    if (!m->slots) {
        *m = old;
        return -ENOMEM;
    }
    m->cap = cap;
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].key)
            *probe_slot(m, old.slots[i].key, old.slots[i].len, old.slots[i].hash) = old.slots[i];
    free(old.slots);
    return 0;
}

static int put_entry(struct map *m, const void *key, size_t len, uint64_t value, bool replace)
{
    const uint64_t hash = hash_seeded(key, len);
    struct map_slot *s;
    int r;

    r = map_reserve(m, m->n + 1);
    if (r < 0)
        return r;
    s = probe_slot(m, key, len, hash);
    if (s->key) {
        if (!replace)
            return MAP_EXISTS;
        s->value = value;
        return 0;
    }
    *s = (struct map_slot){.key = key ? key : "", .len = len, .hash = hash, .value = value};
    m->n++;
    return 0;
}

int map_put(struct map *m, const void *key, size_t len, uint64_t value)
{
    return put_entry(m, key, len, value, false);
}

int map_set(struct map *m, const void *key, size_t len, uint64_t value)
{
    return put_entry(m, key, len, value, true);
}

bool map_find(const struct map *m, const void *key, size_t len, uint64_t *ret_value)
{
    const struct map_slot *s;

    if (m->n == 0)
        return false;
    s = probe_slot(m, key, len, hash_seeded(key, len));
    if (!s->key)
        return false;
    if (ret_value)
        *ret_value = s->value;
    return true;
}

void map_done(struct map *m)
{
    free(m->slots);
    *m = (struct map){0};
}
