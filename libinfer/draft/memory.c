/* SPDX-License-Identifier: Apache-2.0 */
#include "draft/memory.h"

#include <errno.h>
#include <string.h>

/* If the place of a text is not known yet, only this many of its last tokens are followed. */
#define FOLLOW_TOKENS 64u

struct memory_key {
    uint8_t key[DRAFT_KEY_BYTES];
    struct suffix *texts[2]; /* the newer one, then the older one; NULL: empty */
    uint64_t versions[2];
    uint64_t used; /* time of the last use; 0: the entry is free */
};

struct draft_memory {
    struct memory_key keys[DRAFT_MEMORY_KEYS];
    uint64_t clock, next_version;
};

int draft_memory_new(struct draft_memory **ret_memory)
{
    struct draft_memory *m = NEW(struct draft_memory, 1);

    if (!m)
        return -ENOMEM;
    m->next_version = 1;
    *ret_memory = m;
    return 0;
}

static void clear_key(struct memory_key *k)
{
    suffix_free(k->texts[0]);
    suffix_free(k->texts[1]);
    *k = (struct memory_key){0};
}

struct draft_memory *draft_memory_free(struct draft_memory *m)
{
    for (unsigned i = 0; m && i < DRAFT_MEMORY_KEYS; i++)
        clear_key(&m->keys[i]);
    free(m);
    return NULL;
}

static struct memory_key *find_key(const struct draft_memory *m, const uint8_t *key)
{
    for (unsigned i = 0; i < DRAFT_MEMORY_KEYS; i++)
        if (m->keys[i].used > 0 && memcmp(m->keys[i].key, key, DRAFT_KEY_BYTES) == 0)
            return (struct memory_key *)&m->keys[i];
    return NULL;
}

/* Returns the entry of @key, or makes one in place of the entry that has been unused for the
 * longest time. */
static struct memory_key *want_key(struct draft_memory *m, const uint8_t *key)
{
    struct memory_key *k = find_key(m, key);

    if (!k) {
        k = &m->keys[0];
        for (unsigned i = 1; i < DRAFT_MEMORY_KEYS; i++)
            if (m->keys[i].used < k->used)
                k = &m->keys[i];
        clear_key(k);
        memcpy(k->key, key, DRAFT_KEY_BYTES);
    }
    k->used = ++m->clock;
    return k;
}

/* Makes room for @n tokens in the newer automaton of a key. */
static int make_room(struct draft_memory *m, struct memory_key *k, uint32_t n)
{
    struct suffix *fresh;
    int r;

    if (k->texts[0] && suffix_n_tokens(k->texts[0]) + n <= DRAFT_MEMORY_TOKENS)
        return 0;
    r = suffix_new(DRAFT_MEMORY_TOKENS, &fresh);
    if (r < 0)
        return r;
    suffix_free(k->texts[1]);
    k->texts[1] = k->texts[0];
    k->versions[1] = k->versions[0];
    k->texts[0] = fresh;
    k->versions[0] = m->next_version++;
    return 0;
}

void draft_memory_add(struct draft_memory *m, const uint8_t *key, const int32_t *tokens, uint32_t n)
{
    const uint32_t n_added = MIN(n, DRAFT_MEMORY_TOKENS / 4);
    struct memory_key *k;

    if (n_added < 2)
        return;
    k = want_key(m, key);
    if (make_room(m, k, n_added) < 0)
        return;
    for (uint32_t i = n - n_added; i < n; i++)
        suffix_add(k->texts[0], tokens[i]);
    suffix_end_text(k->texts[0]);
}

/* Updates the place of a text in one automaton with the tokens from number @from on. */
static void follow_text(const struct suffix *x, struct suffix_place *place, const int32_t *tokens,
                        uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < n; i++)
        *place = suffix_follow(x, *place, tokens[i]);
}

void draft_memory_follow(struct draft_memory *m, const uint8_t *key,
                         struct draft_memory_place *place, const int32_t *tokens, uint32_t n,
                         uint32_t n_new)
{
    struct memory_key *k = find_key(m, key);
    struct draft_memory_place now = {0};

    for (unsigned i = 0; k && i < 2; i++) {
        uint32_t from = n - MIN(n, FOLLOW_TOKENS);

        if (!k->texts[i])
            continue;
        /* The newer automaton may have become the older one since the last call. */
        for (unsigned j = 0; j < 2; j++)
            if (place->versions[j] == k->versions[i] && n_new <= n) {
                now.places[i] = place->places[j];
                from = n - n_new;
            }
        now.versions[i] = k->versions[i];
        follow_text(k->texts[i], &now.places[i], tokens, from, n);
    }
    if (k)
        k->used = ++m->clock;
    *place = now;
}

uint32_t draft_memory_draft(const struct draft_memory *m, const uint8_t *key,
                            const struct draft_memory_place *place, uint32_t n, int32_t *ret_tokens,
                            float *ret_share, uint32_t *ret_len)
{
    const struct memory_key *k = find_key(m, key);
    unsigned best = 2;

    *ret_len = 0;
    for (unsigned i = 0; k && i < 2; i++)
        if (k->texts[i] && place->versions[i] == k->versions[i] &&
            place->places[i].len > *ret_len) {
            *ret_len = place->places[i].len;
            best = i;
        }
    if (best == 2)
        return 0;
    return suffix_draft(k->texts[best], place->places[best], n, ret_tokens, ret_share);
}
