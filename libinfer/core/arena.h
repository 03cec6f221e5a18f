/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An arena: many small objects with one lifetime
 *
 * Zeroed memory is an empty arena. Objects are aligned to 16 bytes and freed together.
 */

#include "core/macros.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks;
    size_t used; /* bytes handed out so far, for limits */
};

/* Returns memory that is not initialized; NULL if memory is short. */
void *arena_alloc(struct arena *a, size_t size);
/* Like arena_alloc(), but the memory is zeroed. */
void *arena_zalloc(struct arena *a, size_t size);
/* Returns a copy of @s with a NUL appended; NULL if memory is short. */
char *arena_strndup(struct arena *a, const char *s, size_t len);
void arena_done(struct arena *a);
