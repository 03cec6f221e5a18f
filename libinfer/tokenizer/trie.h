/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Prefix search in a set of strings
 *
 * A sorted array, searched byte by byte: as fast as a trie for the few bytes that pieces have,
 * and there is nothing to build but the order. Texts are borrowed.
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
    uint32_t first[257]; /* where the items with a first byte start; set by trie_seal() */
};

int trie_add(struct trie *t, const char *text, uint32_t len, int32_t id);
/* Sorts. Of equal texts the one added last stays. */
void trie_seal(struct trie *t);
void trie_done(struct trie *t);

/* Walks over all items that are prefixes of a text, shortest first. */
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

/* Goes on with byte @c: false when no item goes on so. *ret_id is the item that ends here, or
 * -1. */
bool trie_step(const struct trie *t, struct trie_walk *w, unsigned char c, int32_t *ret_id);
/* The longest item that is a prefix of @text: its length, or 0. */
size_t trie_longest(const struct trie *t, const char *text, size_t len, int32_t *ret_id);
