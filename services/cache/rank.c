/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the cache policy with a store (see rank.h). */
#include "cache/rank.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/rank-rules.h"

#define FILE_NAME "policy"
#define FILE_NEW  "policy.new"
#define FILE_MAX  (UINT64_C(64) << 20)
/* Assumed size of a block in bytes until BLOCKS_FEW blocks are stored. */
#define BLOCK_GUESS (UINT64_C(1) << 20)
#define BLOCKS_FEW  16

/* Returns how many blocks of the mean size fit into the store. */
static uint64_t rank_capacity(const struct store *s)
{
    const uint64_t blocks = s->accounts.blocks;
    const uint64_t mean = blocks < BLOCKS_FEW ? BLOCK_GUESS : s->accounts.bytes / blocks;
    uint64_t bytes = s->limits.max_bytes, unused = 0;

    if (bytes == 0) {
        s->io->space(s->io->data, s->segments_dir, &unused);
        bytes = s->accounts.bytes + unused;
    }
    return MAX(bytes / MAX(mean, STORE_PAGE), 1);
}

/* Reads what the previous process saved. NULL: there is nothing to read, which is not an error. */
static char *rank_load(const struct store *s, size_t *ret_size)
{
    _cleanup_close_ int fd = openat(s->dir, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    char *bytes;

    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 || (uint64_t)st.st_size > FILE_MAX)
        return NULL;
    bytes = malloc((size_t)st.st_size);
    if (!bytes || segment_read(&store_io_system, fd, bytes, (uint64_t)st.st_size, 0) < 0) {
        free(bytes);
        return NULL;
    }
    *ret_size = (size_t)st.st_size;
    return bytes;
}

int rank_open(struct store *s)
{
    size_t size = 0;
    _cleanup_free_ char *saved = rank_load(s, &size);

    s->capacity = rank_capacity(s);
    return cache_policy_new(s->capacity, saved, size, &s->policy);
}

void rank_close(struct store *s)
{
    _cleanup_free_ void *saved = NULL;
    _cleanup_close_ int fd = -1;
    size_t size;

    if (!s->policy)
        return;
    if (cache_policy_save(s->policy, &saved, &size) == 0)
        fd = openat(s->dir, FILE_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && (segment_write(&store_io_system, fd, saved, size, 0) < 0 ||
                    renameat(s->dir, FILE_NEW, s->dir, FILE_NAME) < 0))
        unlinkat(s->dir, FILE_NEW, 0);
    s->policy = cache_policy_free(s->policy);
}

static uint64_t number_of(const uint8_t name[STORE_NAME_BYTES])
{
    uint64_t number;

    memcpy(&number, name, sizeof(number));
    return number;
}

uint64_t rank_of(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t index,
                 uint32_t length, uint64_t seq, uint64_t has)
{
    const struct cache_policy_use use = {
        .seq = seq,
        .rank = has,
        .name = number_of(name),
        .index = index,
        .length = length,
        .kept = has > 0,
    };

    return cache_policy_rank(s->policy, &use);
}

void rank_missed(struct store *s, const uint8_t name[STORE_NAME_BYTES], uint32_t after)
{
    cache_policy_missed(s->policy, number_of(name), after);
}

void rank_resize(struct store *s)
{
    const uint64_t now = rank_capacity(s);

    if (now > s->capacity - s->capacity / 10 && now < s->capacity + s->capacity / 10)
        return;
    /* If there is no memory for the new capacity, the policy keeps the old capacity. */
    if (cache_policy_resize(s->policy, now) == 0)
        s->capacity = now;
}
