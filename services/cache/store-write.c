/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes blocks in three steps: it plans places, writes and syncs bytes, and adds rows.
 *
 * The second step may run in another thread. It uses only the struct store_write and its
 * descriptors, which stay open until the third step.
 */
#include "cache/store-inner.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cache/rank.h"

/* Struct plan is a block to be written. */
struct plan {
    struct store_block block;
    struct segment *segment;
    int fd;
    uint64_t offset; /* offset of the block's bytes */
    uint64_t rank, used;
    int result;
};

struct store_write {
    const struct store_io *io;
    struct store_write *next; /* the next element of the store's list of writes */
    struct record record;     /* fields that all blocks share */
    struct plan *plans;
    uint32_t n_plans;
    int32_t *given; /* [n_given] index of each block's plan; -1: the block is already stored or was
                       declined */
    uint32_t n_given, n;
    uint64_t bytes; /* bytes that are reserved for the write */
};

static struct store_write *write_free(struct store_write *w)
{
    if (w) {
        free(w->plans);
        free(w->given);
        free(w);
    }
    return NULL;
}
DEFINE_CLEANUP(struct store_write *, write_free)

static int write_new(struct store *s, const struct store_origin *origin, uint32_t n,
                     struct store_write **ret_write)
{
    _cleanup_(write_freep) struct store_write *w = NEW(struct store_write, 1);
    int r;

    if (!w)
        return -ENOMEM;
    w->io = s->io;
    w->n = n;
    w->plans = NEW(struct plan, n);
    w->given = NEW(int32_t, n);
    if (!w->plans || !w->given)
        return -ENOMEM;
    w->record.at = store_now(s);
    r = record_set_origin(&w->record, origin);
    if (r < 0)
        return r;
    *ret_write = STEAL(w);
    return 0;
}

/* Returns whether the write @w contains a child of the block @name. */
static bool write_is_parent(const struct store_write *w, const uint8_t name[STORE_NAME_BYTES])
{
    for (uint32_t i = w->n_plans; i-- > 0;)
        if (memcmp(w->plans[i].block.parent, name, STORE_NAME_BYTES) == 0)
            return true;
    return false;
}

static bool write_brings(const struct store_write *w, const uint8_t name[STORE_NAME_BYTES])
{
    for (uint32_t i = w->n_plans; i-- > 0;)
        if (memcmp(w->plans[i].block.name, name, STORE_NAME_BYTES) == 0)
            return true;
    return false;
}

bool write_continues(const struct store *s, const struct store_write *more,
                     const uint8_t name[STORE_NAME_BYTES])
{
    for (const struct store_write *w = s->writes; w; w = w->next)
        if (write_is_parent(w, name))
            return true;
    return more && write_is_parent(more, name);
}

/* Returns 1 if the parent of a block is stored or being written, else 0 or an error. Lookups would
 * not find a block whose parent is missing. */
static int has_parent(struct store *s, const struct store_write *w, const struct store_block *block)
{
    static const uint8_t none[STORE_NAME_BYTES];
    struct row row;

    if (memcmp(block->parent, none, sizeof(none)) == 0 || write_brings(w, block->parent))
        return 1;
    for (const struct store_write *other = s->writes; other; other = other->next)
        if (write_brings(other, block->parent))
            return 1;
    return catalog_by_name(s->catalog, block->parent, &row);
}

/* Evicts blocks for @p if @p is worth more than they are. Returns 1: @p fits; 0: @p is declined; or
 * an error. */
static int plan_admit(struct store *s, struct room *room, const struct store_write *w,
                      const struct plan *p)
{
    int r;

    if (!room->is_open && room_fits(s, room->tenant, w->bytes))
        return 1;
    r = room_begin(s, room);
    if (r == 0)
        r = has_parent(s, w, &p->block);
    return r > 0 ? room_clear(s, room, w->bytes, p->rank) : r;
}

/* Plans to write a block that is not stored, unless stored blocks are worth more. A declined block
 * is not an error for the engine. @length is the length of the block's chain. */
static int plan_block(struct store *s, struct room *room, struct store_write *w,
                      const struct store_block *block, uint32_t length)
{
    struct plan *p = &w->plans[w->n_plans++];
    int r;

    *p = (struct plan){.block = *block, .fd = -1, .result = -ECANCELED, .used = ++s->state.seq};
    p->rank = rank_of(s, block->name, block->index, length, p->used, 0);
    w->bytes += record_bytes(block->size);
    r = plan_admit(s, room, w, p);
    if (r <= 0) {
        w->n_plans--;
        w->bytes -= record_bytes(block->size);
        s->stats.declined += r == 0;
    }
    return MIN(r, 0);
}

/* Decides which blocks to write, within the limit of bytes for one write. */
static int write_choose(struct store *s, struct room *room, struct store_write *w,
                        const struct store_block *blocks)
{
    const uint64_t most = room_most(s);
    int r = 0;

    for (; w->n_given < w->n; w->n_given++) {
        const struct store_block *b = &blocks[w->n_given];
        const int32_t i = (int32_t)w->n_plans;
        struct row row;

        if (b->size == 0 || b->size > STORE_BLOCK_MAX)
            return -EINVAL;
        r = catalog_by_name(s->catalog, b->name, &row);
        if (r == 0 && w->bytes + record_bytes(b->size) > most)
            r = -ENOSPC;
        if (r == 0)
            r = plan_block(s, room, w, b, b->index + w->n - w->n_given);
        if (r < 0)
            break;
        w->given[w->n_given] = (int32_t)w->n_plans > i ? i : -1;
    }
    /* If a block does not fit, the blocks before it are still written. */
    return w->n_given > 0 && (r == -ENOSPC || r == -EDQUOT) ? 0 : MIN(r, 0);
}

static int write_place(struct store *s, struct store_write *w)
{
    for (uint32_t i = 0; i < w->n_plans; i++) {
        struct plan *p = &w->plans[i];
        const uint64_t bytes = record_bytes(p->block.size);
        int r = room_segment(s, bytes, &p->segment);

        if (r < 0)
            return r;
        p->fd = p->segment->write_fd;
        p->offset = p->segment->end + STORE_PAGE;
        p->segment->end += bytes;
        p->segment->n_writes++;
    }
    return 0;
}

static void write_unplace(struct store_write *w)
{
    for (uint32_t i = 0; i < w->n_plans; i++)
        if (w->plans[i].segment) {
            w->plans[i].segment->n_writes--;
            w->plans[i].segment->untidy = true;
        }
}

static void write_reserve(struct store *s, const struct store_write *w)
{
    const uint32_t tenant = accounts_find_tenant(&s->accounts, w->record.texts[RECORD_TENANT]);

    s->reserved += w->bytes;
    if (tenant)
        s->accounts.tenants[tenant].reserved += w->bytes;
}

/* Ends the reservation of a write. If the index was rebuilt during the write, the tenant may have
 * fewer reserved bytes than the write, because the new index did not know the tenant when the
 * reservations were counted again. */
static void write_unreserve(struct store *s, const struct store_write *w)
{
    const uint32_t tenant = accounts_find_tenant(&s->accounts, w->record.texts[RECORD_TENANT]);

    s->reserved -= w->bytes;
    if (tenant)
        s->accounts.tenants[tenant].reserved -= MIN(s->accounts.tenants[tenant].reserved, w->bytes);
}

static void list_remove(struct store *s, struct store_write *w)
{
    struct store_write **at = &s->writes;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

static int put_begin(struct store *s, const struct store_origin *origin,
                     const struct store_block *blocks, uint32_t n, struct store_write **ret_write)
{
    _cleanup_(write_freep) struct store_write *w = NULL;
    struct room room;
    uint32_t id;
    int r = write_new(s, origin, n, &w);

    if (r == 0)
        r = accounts_origin(&s->accounts, origin, &id);
    if (r < 0)
        return r;
    rank_resize(s);
    room = (struct room){.write = w, .tenant = s->accounts.origins[id].tenant};
    r = write_choose(s, &room, w, blocks);
    r = room_end(s, &room, w->bytes, r);
    if (r == 0)
        r = write_place(s, w);
    if (r < 0) {
        write_unplace(w);
        return r;
    }
    write_reserve(s, w);
    w->next = s->writes;
    s->writes = w;
    *ret_write = STEAL(w);
    return 0;
}

int store_put_begin(struct store *s, const struct store_origin *origin,
                    const struct store_block *blocks, uint32_t n, struct store_write **ret_write)
{
    int r = store_ready(s);

    *ret_write = NULL;
    if (r == 0)
        r = put_begin(s, origin, blocks, n, ret_write);
    if (store_settle(s, r))
        r = put_begin(s, origin, blocks, n, ret_write);
    return r;
}

/* Verifies and writes one block, whose bytes are at @bytes. */
static int write_block(const struct store_write *w, const struct plan *p, const uint8_t *bytes)
{
    struct record record = w->record;

    if (record_sum(bytes, p->block.size) != p->block.sum)
        return -EBADMSG;
    memcpy(record.name, p->block.name, sizeof(record.name));
    memcpy(record.parent, p->block.parent, sizeof(record.parent));
    record.index = p->block.index;
    record.size = p->block.size;
    record.sum = p->block.sum;
    return segment_write_record(w->io, p->fd, &record, bytes, p->offset);
}

static int write_blocks(struct store_write *w, const uint8_t *bytes, uint64_t size)
{
    int r = 0;

    for (uint32_t i = 0; i < w->n_plans; i++) {
        struct plan *p = &w->plans[i];

        if (r == 0 && (p->block.offset > size || p->block.size > size - p->block.offset))
            r = -EINVAL;
        if (r == 0)
            r = write_block(w, p, bytes + p->block.offset);
        p->result = r;
    }
    return r;
}

/* Syncs the segments of the write. Blocks in a segment that cannot be synced count as not
 * written. */
static int sync_segments(struct store_write *w)
{
    int r = 0;

    for (uint32_t i = 0; i < w->n_plans; i++) {
        struct plan *p = &w->plans[i];

        if (i == 0 || p->fd != w->plans[i - 1].fd)
            r = w->io->sync(w->io->data, p->fd);
        if (p->result == 0)
            p->result = r;
    }
    return r;
}

static int fail_all(struct store_write *w, int error)
{
    for (uint32_t i = 0; i < w->n_plans; i++)
        w->plans[i].result = error;
    return error;
}

int store_write_run(struct store_write *w, int fd)
{
    struct stat st;
    void *bytes;
    int r, synced;

    if (w->n_plans == 0)
        return 0;
    if (fstat(fd, &st) < 0)
        return fail_all(w, -errno);
    if (st.st_size <= 0)
        return fail_all(w, -EINVAL);
    bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        return fail_all(w, -errno);
    r = write_blocks(w, bytes, (uint64_t)st.st_size);
    munmap(bytes, (size_t)st.st_size);
    synced = sync_segments(w);
    return r < 0 ? r : synced;
}

/* Adds the row of a written block, unless another write has added a row for the block in the
 * meantime. */
static int add_block(struct store *s, const struct store_write *w, const struct plan *p,
                     uint32_t origin)
{
    struct row row, other;
    int r = catalog_by_name(s->catalog, p->block.name, &other);

    if (r < 0)
        return r;
    if (r > 0) {
        if (other.segment == p->segment->number && other.offset == p->offset)
            return 0;
        return free_add(s, p->segment->number, p->offset - STORE_PAGE, record_bytes(p->block.size));
    }
    row = (struct row){
        .origin = origin,
        .index = p->block.index,
        .segment = p->segment->number,
        .offset = p->offset,
        .size = p->block.size,
        .sum = p->block.sum,
        .rank = p->rank,
        .used = p->used,
        .at = w->record.at,
    };
    memcpy(row.name, p->block.name, sizeof(row.name));
    return transaction_add(s, &row, p->block.parent);
}

static int add_blocks(struct store *s, const struct store_write *w)
{
    struct store_origin origin;
    uint32_t id;
    int r;

    record_origin(&w->record, &origin);
    r = accounts_origin(&s->accounts, &origin, &id);
    if (r == 0)
        r = transaction_touches(s, TOUCHES_STEP);
    for (uint32_t i = 0; i < w->n_plans && r == 0; i++) {
        const struct plan *p = &w->plans[i];

        if (p->result == 0)
            r = add_block(s, w, p, id);
        else
            r = free_add(s, p->segment->number, p->offset - STORE_PAGE,
                         record_bytes(p->block.size));
    }
    return r;
}

static int put_end(struct store *s, struct store_write *w)
{
    int r = transaction_begin(s);

    return r < 0 ? r : transaction_end(s, add_blocks(s, w));
}

/* Returns how many of the blocks, counted from the first, are stored or were declined. If the
 * first block failed, returns its error. */
static int result_of(const struct store_write *w)
{
    for (uint32_t i = 0; i < w->n_given; i++)
        if (w->given[i] >= 0 && w->plans[w->given[i]].result < 0)
            return i > 0 ? (int)i : w->plans[w->given[i]].result;
    return (int)w->n_given;
}

static void write_count(struct store *s, const struct store_write *w)
{
    for (uint32_t i = 0; i < w->n_plans; i++)
        if (w->plans[i].result == 0) {
            s->stats.puts++;
            s->stats.bytes_put += w->plans[i].block.size;
        }
}

int store_put_end(struct store *s, struct store_write *w)
{
    int r;

    if (!w)
        return 0;
    list_remove(s, w);
    write_unreserve(s, w);
    r = store_ready(s);
    if (r == 0 && w->n_plans > 0)
        r = put_end(s, w);
    if (store_settle(s, r))
        r = put_end(s, w);
    for (uint32_t i = 0; i < w->n_plans; i++) {
        w->plans[i].segment->n_writes--;
        w->plans[i].segment->untidy |= r < 0;
    }
    if (r == 0)
        write_count(s, w);
    r = r < 0 ? r : result_of(w);
    write_free(w);
    return r;
}

int store_put(struct store *s, const struct store_origin *origin, int fd,
              const struct store_block *blocks, uint32_t n)
{
    struct store_write *w = NULL;
    int r = store_put_begin(s, origin, blocks, n, &w);

    if (r < 0)
        return r;
    store_write_run(w, fd);
    return store_put_end(s, w);
}

uint64_t write_from(const struct store *s, const struct segment *seg)
{
    uint64_t from = seg->end;

    if (seg->n_writes == 0)
        return from;
    for (const struct store_write *w = s->writes; w; w = w->next)
        for (uint32_t i = 0; i < w->n_plans; i++)
            if (w->plans[i].segment == seg)
                from = MIN(from, w->plans[i].offset - STORE_PAGE);
    return from;
}

void write_reserve_again(struct store *s)
{
    s->reserved = 0;
    for (struct store_write *w = s->writes; w; w = w->next)
        write_reserve(s, w);
}
