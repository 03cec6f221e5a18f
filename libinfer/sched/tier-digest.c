/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the digest of all weights: a SHA-256 of the digests of their files.
 *
 * Files whose digest the tier (tier 2 of the KV cache, tier.h) does not remember are read piece by
 * piece. While steps run, reading takes only a small share of the time of the tier's thread.
 */
#include <string.h>

#include "core/clock.h"
#include "sched/tier-impl.h"

#define HASH_BYTES (4u << 20)
/* If at most this many bytes are left to read, they are read at once, and requests wait for the
 * digest. */
#define NEAR_BYTES (64u << 20)
#define HASH_SHARE 0.04 /* share of the time that reading takes while steps run */

static void finish_digest(struct tier *t)
{
    sha256_end(&t->all, t->digest);
    atomic_store(&t->digest_state, DIGEST_KNOWN);
    t->params.news(t->params.data);
}

bool tier_files_hold(struct tier *t)
{
    const struct file_set files = {.maps = t->params.files, .n = t->params.n_files};

    if (file_set_check(&files, NULL) == 0)
        return true;
    atomic_store(&t->digest_state, DIGEST_LOST);
    return false;
}

/* Starts to read the current file. */
static void begin_file(struct tier *t)
{
    sha256_init(&t->file);
    t->offset = 0;
    atomic_store(&t->digest_state, DIGEST_HASHING);
}

/* Asks the tier for the digests of the next files, and starts to read the first file whose digest
 * the tier does not know. If the tier cannot be reached, no file is read, because without the tier
 * the digest would be useless; the tier is asked again later. */
static void recall_digests(struct tier *t)
{
    const struct inf_tier_ops *ops = t->params.impl->ops;
    uint8_t digest[SHA256_BYTES];

    for (; t->i_file < t->params.n_files; t->i_file++) {
        const struct file_map *map = t->params.files[t->i_file];
        const int r = ops->recall(t->params.impl, &map->id, digest);

        tier_pause_note(t, &t->find_pause, r < 0);
        if (r < 0) {
            atomic_store(&t->digest_state, DIGEST_NEW);
            return;
        }
        if (r == 0 || !map->settled) {
            begin_file(t);
            return;
        }
        sha256_add(&t->all, digest, sizeof(digest));
    }
    finish_digest(t);
}

static void end_file(struct tier *t)
{
    const struct file_map *map = t->params.files[t->i_file];
    uint8_t digest[SHA256_BYTES];

    sha256_end(&t->file, digest);
    /* If a file was written to while it was read, the bytes may be a mix of its old and new
     * contents. */
    if (!tier_files_hold(t))
        return;
    sha256_add(&t->all, digest, sizeof(digest));
    if (map->settled)
        t->params.impl->ops->remember(t->params.impl, &map->id, digest);
    t->i_file++;
    recall_digests(t);
}

bool tier_digest_is_near(const struct tier *t)
{
    uint64_t left = 0;

    if (atomic_load(&t->digest_state) != DIGEST_HASHING)
        return false;
    for (size_t i = t->i_file; i < t->params.n_files; i++)
        left += t->params.files[i]->size;
    return left - t->offset <= NEAR_BYTES;
}

bool tier_work_digest(struct tier *t)
{
    const uint64_t begin = clock_usec();
    const struct file_map *map;
    uint64_t n;

    if (atomic_load(&t->digest_state) == DIGEST_NEW) {
        if (t->i_file == 0)
            sha256_init(&t->all);
        recall_digests(t);
        return true;
    }
    if (begin < t->hash_usec && atomic_load_explicit(&t->busy, memory_order_relaxed) &&
        !tier_digest_is_near(t))
        return false;
    map = t->params.files[t->i_file];
    if (file_map_is_lost(map)) {
        atomic_store(&t->digest_state, DIGEST_LOST);
        return true;
    }
    n = MIN(map->size - t->offset, (uint64_t)HASH_BYTES);
    sha256_add(&t->file, map->data + t->offset, n);
    t->offset += n;
    t->hash_usec = clock_usec();
    if (atomic_load_explicit(&t->busy, memory_order_relaxed))
        t->hash_usec += (uint64_t)((double)(t->hash_usec - begin) / HASH_SHARE);
    if (t->offset == map->size)
        end_file(t);
    return true;
}
