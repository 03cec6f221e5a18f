/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores blocks in the tier (tier 2 of the KV cache, tier.h).
 *
 * Copies of blocks are sent to the tier in memfds, which are sealed against writing before they are
 * sent. The tier's thread creates each memfd in advance, with all pages allocated unless blocks are
 * large, so that the engine thread only has to copy bytes into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sched/tier-impl.h"

#define BATCH_BYTES (16u << 20)
#define SEALS       (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static double cpu_usec(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec * 1e-3;
}

static int map_batch(struct tier_batch *b, size_t size)
{
    void *p;

    b->fd = memfd_create("sconce-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (b->fd < 0)
        return -errno;
    if (ftruncate(b->fd, (off_t)size) < 0)
        return -errno;
    /* Large blocks are rare, so their memory is allocated only when they are written. */
    p = mmap(NULL, size, PROT_READ | PROT_WRITE,
             MAP_SHARED | (size <= BATCH_BYTES ? MAP_POPULATE : 0), b->fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    b->data = p;
    return 0;
}

struct tier_batch *tier_batch_new(const struct tier *t)
{
    struct tier_batch *b = NEW(struct tier_batch, 1);
    uint64_t largest = 0, smallest = UINT64_MAX;

    if (!b)
        return NULL;
    for (uint32_t g = 0; g < t->params.layout->n_groups; g++) {
        largest = MAX(largest, t->params.sizes[g]);
        smallest = MIN(smallest, t->params.sizes[g]);
    }
    b->fd = -1;
    b->max_blocks =
        (uint32_t)MIN(MAX(BATCH_BYTES / smallest, UINT64_C(1)), (uint64_t)INF_TIER_MAX_BLOCKS);
    b->map_bytes = MAX(MIN(b->max_blocks * smallest, (uint64_t)BATCH_BYTES), largest);
    b->blocks = NEW(struct tier_kept, b->max_blocks);
    if (!b->blocks || map_batch(b, b->map_bytes) < 0)
        return tier_batch_free(b);
    return b;
}

static void unmap_batch(struct tier_batch *b)
{
    if (b->data)
        munmap(b->data, b->map_bytes);
    b->data = NULL;
}

struct tier_batch *tier_batch_free(struct tier_batch *b)
{
    if (!b)
        return NULL;
    for (uint32_t i = 0; i < b->n_blocks; i++)
        tier_owner_unref(b->blocks[i].owner);
    unmap_batch(b);
    if (b->fd >= 0)
        close(b->fd);
    free(b->blocks);
    free(b);
    return NULL;
}

struct tier_batch *tier_take_batch(struct tier *t)
{
    struct tier_batch *b;

    if (atomic_load(&t->digest_state) != DIGEST_KNOWN)
        return NULL;
    loop_thread_lock(&t->thread);
    b = t->spare;
    t->spare = NULL;
    if (b)
        t->n_batches++;
    else if (!t->want_spare) {
        t->want_spare = true;
        loop_thread_wake(&t->thread);
    }
    loop_thread_unlock(&t->thread);
    return b;
}

void tier_put_batch(struct tier *t, struct tier_batch *b)
{
    loop_thread_lock(&t->thread);
    *t->batches_end = b;
    t->batches_end = &b->next;
    loop_thread_wake(&t->thread);
    loop_thread_unlock(&t->thread);
}

struct tier_batch *tier_over_batch(struct tier *t)
{
    struct tier_batch *b;

    loop_thread_lock(&t->thread);
    b = t->over;
    if (b) {
        t->over = b->next;
        b->next = NULL;
        t->n_batches--;
        loop_thread_wake(&t->thread);
    }
    loop_thread_unlock(&t->thread);
    return b;
}

bool tier_is_keeping(struct tier *t)
{
    bool keeping;

    loop_thread_lock(&t->thread);
    keeping = t->n_batches > 0;
    loop_thread_unlock(&t->thread);
    return keeping;
}

void tier_rest(struct tier *t)
{
    struct tier_batch *b;

    loop_thread_lock(&t->thread);
    b = t->spare;
    t->spare = NULL;
    t->want_spare = false;
    loop_thread_unlock(&t->thread);
    tier_batch_free(b);
}

static void describe_block(const struct tier *t, const struct tier_batch *b, uint32_t i,
                           struct inf_tier_block *ret_block)
{
    const struct tier_kept *k = &b->blocks[i];
    struct kv_name name, parent = {0};

    tier_name(t, &k->name, k->i_group, &name);
    if (k->index > 0)
        tier_name(t, &k->parent, k->i_parent, &parent);
    *ret_block = (struct inf_tier_block){
        .index = k->index,
        .offset = k->offset,
        .size = k->size,
        .sum = sum_bytes(b->data + k->offset, k->size),
    };
    memcpy(ret_block->name, name.bytes, sizeof(name.bytes));
    memcpy(ret_block->parent, parent.bytes, sizeof(parent.bytes));
}

static int seal_batch(struct tier_batch *b, uint64_t size)
{
    unmap_batch(b);
    if (ftruncate(b->fd, (off_t)size) < 0)
        return -errno;
    return fcntl(b->fd, F_ADD_SEALS, SEALS) < 0 ? -errno : 0;
}

/* Stores the blocks from @first on that have the same owner, and sets *ret_n to their number.
 * Returns 0; -ENOSPC if the tier did not take all of them; or the error of the tier. */
static int put_run(struct tier *t, struct tier_batch *b, const struct inf_tier_block *blocks,
                   uint32_t first, uint32_t *ret_n)
{
    const struct inf_tier_origin origin = tier_origin(t, b->blocks[first].owner);
    uint32_t n = 1;
    int r;

    while (first + n < b->n_blocks && b->blocks[first + n].owner == b->blocks[first].owner)
        n++;
    *ret_n = n;
    r = t->params.impl->ops->put(t->params.impl, &origin, b->fd, blocks + first, n);
    for (uint32_t i = 0; r > 0 && i < MIN((uint32_t)r, n); i++)
        b->blocks[first + i].taken = true;
    return r < 0 ? r : (uint32_t)r < n ? -ENOSPC : 0;
}

static void put_all(struct tier *t, struct tier_batch *b)
{
    struct inf_tier_block blocks[INF_TIER_MAX_BLOCKS];
    uint32_t n;
    int r;

    /* The blocks are already computed, so only changes of the files until now can affect them. */
    if (!tier_files_hold(t))
        return;
    for (uint32_t i = 0; i < b->n_blocks; i++)
        describe_block(t, b, i, &blocks[i]);
    r = seal_batch(b, b->used_bytes);
    for (uint32_t i = 0; r == 0 && i < b->n_blocks; i += n)
        r = put_run(t, b, blocks, i, &n);
    tier_pause_note(t, &t->put_pause, r < 0);
}

void tier_work_batch(struct tier *t, struct tier_batch *b)
{
    const double begin = cpu_usec();
    uint64_t taken_bytes = 0;
    uint32_t n_taken = 0;

    put_all(t, b);
    for (uint32_t i = 0; i < b->n_blocks; i++) {
        n_taken += b->blocks[i].taken;
        taken_bytes += b->blocks[i].taken ? b->blocks[i].size : 0;
    }
    loop_thread_lock(&t->thread);
    b->next = t->over;
    t->over = b;
    t->counts.n_kept += n_taken;
    t->counts.kept_bytes += taken_bytes;
    tier_pace_add(&t->keeping, b->n_blocks, cpu_usec() - begin);
    loop_thread_unlock(&t->thread);
    t->params.news(t->params.data);
}
