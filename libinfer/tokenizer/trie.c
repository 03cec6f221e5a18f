/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches a sorted array of strings for prefixes of a text.
 */
#include "tokenizer/trie.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"

int trie_add(struct trie *t, const char *text, uint32_t len, int32_t id)
{
    if (len == 0)
        return 0;
    if (ARRAY_GROW(t->items, t->cap, t->n + 1u) < 0)
        return -ENOMEM;
    t->items[t->n++] = (struct trie_item){text, len, id};
    return 0;
}

static int compare_texts(const struct trie_item *a, const struct trie_item *b)
{
    const int r = memcmp(a->text, b->text, MIN(a->len, b->len));

    return r != 0 ? r : (a->len > b->len) - (a->len < b->len);
}

static int compare_items(const void *a, const void *b)
{
    const struct trie_item *x = a, *y = b;
    const int r = compare_texts(x, y);

    return r != 0 ? r : (x->id > y->id) - (x->id < y->id);
}

void trie_seal(struct trie *t)
{
    uint32_t n = 0, c = 0;

    if (t->n)
        qsort(t->items, t->n, sizeof(*t->items), compare_items);
    for (uint32_t i = 0; i < t->n; i++) {
        if (n > 0 && compare_texts(&t->items[n - 1], &t->items[i]) == 0)
            n--;
        t->items[n++] = t->items[i];
    }
    t->n = n;
    for (uint32_t i = 0; i < n; i++)
        while (c <= (unsigned char)t->items[i].text[0])
            t->first[c++] = i;
    while (c <= 256)
        t->first[c++] = n;
}

void trie_done(struct trie *t)
{
    free(t->items);
    *t = (struct trie){0};
}

/* Returns the first item in [lo, hi) whose byte at @depth is at least @c. All these items must have
 * a byte at @depth. */
static uint32_t lower_bound(const struct trie *t, uint32_t lo, uint32_t hi, uint32_t depth,
                            unsigned c)
{
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;

        if ((unsigned char)t->items[mid].text[depth] < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool trie_step(const struct trie *t, struct trie_walk *w, unsigned char c, int32_t *ret_id)
{
    if (w->depth == 0) {
        w->lo = t->first[c];
        w->hi = t->first[c + 1];
    } else {
        /* The item that ended with the previous byte comes first. It has no byte at this depth. */
        if (w->lo < w->hi && t->items[w->lo].len == w->depth)
            w->lo++;
        w->lo = lower_bound(t, w->lo, w->hi, w->depth, c);
        w->hi = lower_bound(t, w->lo, w->hi, w->depth, c + 1u);
    }
    if (w->lo >= w->hi)
        return false;
    w->depth++;
    *ret_id = t->items[w->lo].len == w->depth ? t->items[w->lo].id : -1;
    return true;
}

size_t trie_longest(const struct trie *t, const char *text, size_t len, int32_t *ret_id)
{
    struct trie_walk w = trie_start(t);
    size_t best = 0;
    int32_t id;

    for (size_t i = 0; i < len && trie_step(t, &w, (unsigned char)text[i], &id); i++) {
        if (id >= 0) {
            best = i + 1;
            *ret_id = id;
        }
    }
    return best;
}
