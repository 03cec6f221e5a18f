/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enforces the limits of disk space, and evicts blocks.
 *
 * The space of a block is counted when its place is planned, so the limits hold at any time. Only a
 * block that no other block continues may be evicted, so chains are evicted from their ends.
 */
#include "cache/store-inner.h"

#include <errno.h>
#include <string.h>

#include "cache/rank-rules.h"

/* The approximate number of segments of a full store. Each segment takes a descriptor. */
#define SEGMENTS        64
#define SEGMENT_MIN     (UINT64_C(64) << 20)
#define SEGMENT_MAX     (UINT64_C(4) << 30)
#define SEGMENT_DEFAULT (UINT64_C(1) << 30)

/* Returns the bytes on disk that count towards the limit of all bytes, including the bytes of
 * writes under way. */
static uint64_t room_taken(const struct store *s)
{
    /* A file has a first page, and the file system may need one more page of metadata. */
    uint64_t bytes = s->reserved + (uint64_t)s->segments.n * 2 * STORE_PAGE;

    if (s->can_punch)
        return bytes + s->accounts.bytes;
    /* Without hole punching, space is freed only when a whole file is removed. */
    bytes = 0;
    for (uint32_t i = 0; i < s->segments.n; i++)
        bytes += s->segments.list[i]->end;
    return bytes;
}

static uint64_t segment_max(const struct store *s)
{
    const uint64_t most = s->limits.max_bytes;
    uint64_t bytes = s->limits.segment_bytes;

    if (bytes == 0)
        bytes = most ? MIN(MAX(most / SEGMENTS, SEGMENT_MIN), SEGMENT_MAX) : SEGMENT_DEFAULT;
    return most ? MIN(bytes, most / 8) : bytes;
}

/* Returns the bytes that blocks may take. Without hole punching, the space of one segment stays
 * unused, because blocks move to a new segment before the old one is removed. */
static uint64_t max_bytes(const struct store *s)
{
    if (s->limits.max_bytes == 0)
        return UINT64_MAX / 2;
    return s->limits.max_bytes - (s->can_punch ? 0 : segment_max(s));
}

uint64_t room_most(const struct store *s)
{
    uint64_t most = max_bytes(s);

    if (!s->can_punch)
        most = most / 4 * 3;
    if (s->limits.max_tenant_bytes > 0)
        most = MIN(most, s->limits.max_tenant_bytes);
    /* The overhead of files counts too. */
    return most - MIN(most, (uint64_t)32 * STORE_PAGE);
}

int room_drop_empty(struct store *s, struct segment *seg)
{
    const uint32_t number = seg->number;
    int r;

    if (seg->blocks > 0 || seg->n_writes > 0 || seg == s->active)
        return 0;
    r = segments_remove(&s->segments, seg);
    if (r < 0)
        return r;
    /* If the segment's row cannot be deleted now, it is deleted when the store is opened next. */
    catalog_delete_segment(s->catalog, number);
    return 1;
}

/* Stops appending to the active segment. Returns false if there is no active segment, or if it has
 * no records. */
static bool room_retire(struct store *s)
{
    struct segment *seg = s->active;

    if (!seg || seg->end == STORE_PAGE)
        return false;
    s->active = NULL;
    if (room_drop_empty(s, seg) == 0 && seg->n_writes == 0 && seg->write_fd >= 0) {
        close(seg->write_fd);
        seg->write_fd = -1;
    }
    return true;
}

int room_segment(struct store *s, uint64_t bytes, struct segment **ret_segment)
{
    struct segment *seg = s->active;
    int r;

    if (seg && seg->end + bytes > segment_max(s) && room_retire(s))
        seg = NULL;
    if (!seg) {
        r = segments_create(&s->segments, s->state.next_segment, &seg);
        if (r == -EEXIST)
            s->state.next_segment++;
        if (r < 0)
            return r;
        s->state.next_segment++;
        s->active = seg;
    }
    r = segment_write_fd(&s->segments, seg);
    if (r < 0)
        return r;
    *ret_segment = seg;
    return 0;
}

static bool tenant_is_over(const struct store *s, uint32_t id, uint64_t need)
{
    const struct tenant *t = &s->accounts.tenants[id];

    return s->limits.max_tenant_bytes > 0 &&
           t->bytes + t->reserved + need > s->limits.max_tenant_bytes;
}

static bool all_is_over(const struct store *s, uint64_t need)
{
    return room_taken(s) + need > max_bytes(s);
}

/* Returns the bytes that must be freed so that the file system keeps min_free_bytes after @need
 * more bytes are written. */
static uint64_t disk_lacks(const struct store *s, uint64_t need)
{
    const uint64_t want = s->limits.min_free_bytes + s->reserved + need;
    uint64_t have;

    if (s->io->space(s->io->data, s->segments_dir, &have) < 0)
        return 0;
    return want > have ? want - have : 0;
}

/* Returns the bytes that belong to no block and that the file system will get back. With hole
 * punching these are the @freed bytes, which the end of the transaction frees. Otherwise they are
 * the dead bytes of files, which are freed when the remaining blocks are moved. */
static uint64_t dead_bytes(const struct store *s, uint64_t freed)
{
    const uint64_t has = s->accounts.bytes + s->reserved, taken = room_taken(s);

    if (s->can_punch)
        return freed;
    return taken > has ? taken - has : 0;
}

/* Returns whether blocks must be evicted before @need more bytes fit. */
static bool is_full(const struct store *s, uint64_t need, uint64_t freed)
{
    if (disk_lacks(s, need) > dead_bytes(s, freed))
        return true;
    if (!all_is_over(s, need))
        return false;
    /* Without hole punching, eviction leaves dead bytes in the files. A quarter of the limit is
     * kept for them, so that compaction is worthwhile. */
    return s->can_punch || s->accounts.bytes + s->reserved + need > max_bytes(s) / 4 * 3;
}

bool room_fits(const struct store *s, uint32_t tenant, uint64_t need)
{
    return !(tenant && tenant_is_over(s, tenant, need)) && !is_full(s, need, 0);
}

int room_begin(struct store *s, struct room *room)
{
    int r;

    if (room->is_open)
        return 0;
    r = transaction_begin(s);
    if (r < 0)
        return r;
    room->is_open = true;
    return transaction_touches(s, TOUCHES_MAX);
}

int room_clear(struct store *s, struct room *room, uint64_t need, uint64_t rank)
{
    for (;;) {
        const bool of_tenant = room->tenant && tenant_is_over(s, room->tenant, need);
        struct row row;
        int r;

        if (!of_tenant && !is_full(s, need, room->freed))
            return 1;
        r = catalog_lowest(s->catalog, of_tenant ? room->tenant : 0, &row);
        if (r < 0)
            return r;
        if (r == 0 && of_tenant)
            return -EDQUOT;
        /* There are blocks but no leaves, so the index is damaged. */
        if (r == 0)
            return s->accounts.blocks > 0 ? -EUCLEAN : -ENOSPC;
        /* A block is never worth more than an earlier block of its chain, because lookups reach the
         * block only through the earlier one. */
        if (!cache_policy_admits(rank, row.rank) || write_continues(s, room->write, row.name))
            return 0;
        r = transaction_remove(s, &row);
        if (r < 0)
            return r;
        room->freed += record_bytes(row.size);
        s->stats.evictions++;
        s->stats.bytes_evicted += record_bytes(row.size);
    }
}

/* Moves the remaining blocks of segments together until @need more bytes fit. */
static int make_by_moving(struct store *s, uint64_t need)
{
    while (all_is_over(s, need) || disk_lacks(s, need) > 0) {
        const uint64_t before = room_taken(s);
        const int r = compact_one(s);

        if (r < 0)
            return r;
        /* Stops if moving freed no space, or if there is nothing to move any more. */
        if (r > 0 ? room_taken(s) >= before : !room_retire(s))
            return -ENOSPC;
    }
    return 0;
}

int room_end(struct store *s, struct room *room, uint64_t need, int r)
{
    /* Evictions are committed even if they did not free enough space, because the limits were
     * exceeded or nearly reached. */
    const bool in_vain = r == -ENOSPC || r == -EDQUOT;
    const int end = room->is_open ? transaction_end(s, in_vain ? 0 : r) : 0;

    if (end < 0 || r < 0)
        return end < 0 ? end : r;
    /* If no block of a write was worth storing, the write needs no space. */
    return s->can_punch || (room->write && need == 0) ? 0 : make_by_moving(s, need);
}

int room_make(struct store *s)
{
    struct room room = {0};
    int r = 0;

    if (!room_fits(s, 0, 0)) {
        r = room_begin(s, &room);
        if (r == 0)
            r = room_clear(s, &room, 0, UINT64_MAX);
    }
    return room_end(s, &room, 0, MIN(r, 0));
}
