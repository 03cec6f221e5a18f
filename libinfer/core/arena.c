/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements arenas: an arena takes its objects from large chunks of memory.
 */
#include "core/arena.h"

#include <string.h>

struct arena_chunk {
    struct arena_chunk *next;
    size_t size, used;
    _Alignas(16) unsigned char data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
    struct arena_chunk *c = a->chunks;
    void *p;

    if (size > SIZE_MAX / 2)
        return NULL;
    size = ALIGN_UP(MAX(size, 1u), 16u);
    if (!c || c->size - c->used < size) {
        const size_t want = MAX(size, c ? MIN(c->size * 2, (size_t)1 << 20) : 1024);

        c = malloc(sizeof(*c) + want);
        if (!c)
            return NULL;
        *c = (struct arena_chunk){.next = a->chunks, .size = want};
        a->chunks = c;
    }
    p = c->data + c->used;
    c->used += size;
    a->used += size;
    return p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
    void *p = arena_alloc(a, size);

    return p ? memset(p, 0, size) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    char *p = len < SIZE_MAX ? arena_alloc(a, len + 1) : NULL;

    if (!p)
        return NULL;
    if (len)
        memcpy(p, s, len);
    p[len] = 0;
    return p;
}

void arena_done(struct arena *a)
{
    while (a->chunks) {
        struct arena_chunk *c = a->chunks;

        a->chunks = c->next;
        free(c);
    }
    a->used = 0;
}
