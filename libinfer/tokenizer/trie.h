/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Searches a set of strings for prefixes of a text.
 *
 * The set is a sorted array that is searched byte by byte. Because pieces have few bytes, the
 * search is as fast as in a trie, and the set is built by sorting alone. The strings are borrowed.
 */

#include "core/macros.h"

struct trie_item {
    const char *text;
    uint32_t len;
    int32_t id;
};

struct trie {
    struct trie_item *items;
    uint32_t n, cap;
    uint32_t first[257]; /* index of the first item with each first byte; set by trie_seal() */
};

int trie_add(struct trie *t, const char *text, uint32_t len, int32_t id);
/* Sorts the items. If texts are equal, the item with the highest id is kept. */
void trie_seal(struct trie *t);
void trie_done(struct trie *t);

/* State of a walk over all items that are prefixes of a text, shortest first. */
struct trie_walk {
    uint32_t lo, hi, depth;
};

static inline bool trie_any(const struct trie *t, unsigned char c)
{
    return t->first[c] < t->first[c + 1];
}

static inline struct trie_walk trie_start(const struct trie *t)
{
    return (struct trie_walk){0, t->n, 0};
}

/* Continues with byte @c. Returns false if no item continues with @c. *ret_id is the id of the item
 * that ends with this byte, or -1. */
bool trie_step(const struct trie *t, struct trie_walk *w, unsigned char c, int32_t *ret_id);
/* Finds the longest item that is a prefix of @text. Returns its length, or 0. */
size_t trie_longest(const struct trie *t, const char *text, size_t len, int32_t *ret_id);
