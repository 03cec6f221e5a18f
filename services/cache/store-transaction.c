/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes the index, and the state in memory that mirrors it, in transactions.
 *
 * If a change fails, both stay as they were: the index rolls back, and the state in memory is
 * loaded from the index again.
 */
#include "cache/store-inner.h"

#include <errno.h>
#include <string.h>

#include "cache/rank.h"
#include "core/array.h"
#include "core/clock.h"

static const uint8_t no_name[STORE_NAME_BYTES];

uint64_t store_now(const struct store *s)
{
    return s->at + (clock_usec() - s->at_usec) / 1000000;
}

int transaction_begin(struct store *s)
{
    return catalog_begin(s->catalog);
}

static int save_segments(struct store *s)
{
    int r = 0;

    for (uint32_t i = 0; i < s->segments.n && r == 0; i++) {
        struct segment *seg = s->segments.list[i];
        /* Blocks of writes under way have no rows yet. If this process ends before they have rows,
         * the next process looks for records, beginning at this offset. */
        const struct catalog_segment to = {seg->number, write_from(s, seg), seg->live, seg->blocks};

        if (!seg->unsaved)
            continue;
        r = catalog_save_segment(s->catalog, &to);
        seg->unsaved = seg->n_writes > 0;
    }
    return r;
}

/* Frees the space of removed rows. If punching a hole fails, compaction tries it again later. */
static void free_all(struct store *s)
{
    for (uint32_t i = 0; i < s->n_freed; i++) {
        const struct range *range = &s->freed[i];
        struct segment *seg = segments_find(&s->segments, range->segment);
        int r;

        if (!seg || room_drop_empty(s, seg) > 0)
            continue;
        if (!s->can_punch) {
            seg->untidy = true;
            continue;
        }
        r = segment_write_fd(&s->segments, seg);
        if (r >= 0)
            r = s->io->punch(s->io->data, r, range->offset, range->bytes);
        if (r == -EOPNOTSUPP)
            s->can_punch = false;
        if (r < 0) {
            seg->untidy = true;
            s->unpunched_usec = clock_usec();
        }
    }
    s->n_freed = 0;
}

int transaction_commit(struct store *s)
{
    int r;

    s->state.at = store_now(s);
    r = catalog_save_state(s->catalog, &s->state);
    if (r == 0)
        r = accounts_save(&s->accounts, s->catalog);
    if (r == 0)
        r = save_segments(s);
    if (r == 0)
        r = catalog_commit(s->catalog);
    if (r < 0) {
        transaction_abort(s);
        return r;
    }
    free_all(s);
    return 0;
}

static int reload_segment(void *data, const struct catalog_segment *row)
{
    struct segment *seg = segments_find(&((struct store *)data)->segments, row->number);

    if (seg) {
        seg->live = row->live;
        seg->blocks = row->blocks;
        seg->end = MAX(seg->end, row->end);
    }
    return 0;
}

static int transaction_reload(struct store *s)
{
    int r;

    for (uint32_t i = 0; i < s->segments.n; i++) {
        s->segments.list[i]->live = s->segments.list[i]->blocks = 0;
        s->segments.list[i]->unsaved = true;
    }
    accounts_done(&s->accounts);
    r = accounts_load(&s->accounts, s->catalog);
    if (r == 0)
        r = catalog_load_segments(s->catalog, reload_segment, s);
    if (r == 0)
        write_reserve_again(s);
    return r;
}

void transaction_abort(struct store *s)
{
    s->n_freed = 0;
    catalog_rollback(s->catalog);
    if (transaction_reload(s) < 0)
        store_detach(s);
}

int transaction_end(struct store *s, int r)
{
    if (r >= 0)
        return transaction_commit(s);
    transaction_abort(s);
    return r;
}

int free_add(struct store *s, uint32_t segment, uint64_t offset, uint64_t bytes)
{
    struct range *last = s->n_freed ? &s->freed[s->n_freed - 1] : NULL;

    if (last && last->segment == segment && last->offset + last->bytes == offset) {
        last->bytes += bytes;
        return 0;
    }
    if (last && last->segment == segment && offset + bytes == last->offset) {
        last->offset = offset;
        last->bytes += bytes;
        return 0;
    }
    if (ARRAY_GROW(s->freed, s->freed_cap, s->n_freed + 1u) < 0)
        return -ENOMEM;
    s->freed[s->n_freed++] = (struct range){segment, offset, bytes};
    return 0;
}

int transaction_remove(struct store *s, const struct row *row)
{
    struct segment *seg = segments_find(&s->segments, row->segment);
    const uint64_t bytes = record_bytes(row->size);
    int r;

    /* The sums in memory must match the rows, because otherwise limits could be exceeded. */
    if (seg && (!segment_has(seg, row->offset, row->size) || bytes > seg->live || !seg->blocks))
        return -EUCLEAN;
    r = catalog_delete(s->catalog, row->id);
    if (r == 0 && row->parent)
        r = catalog_add_children(s->catalog, row->parent, -1);
    if (r < 0)
        return r;
    accounts_change(&s->accounts, row->origin, bytes, -1);
    if (!seg)
        return 0;
    seg->live -= bytes;
    seg->blocks--;
    seg->unsaved = true;
    return free_add(s, row->segment, row->offset - STORE_PAGE, bytes);
}

int transaction_add(struct store *s, struct row *row, const uint8_t parent[STORE_NAME_BYTES])
{
    struct segment *seg = segments_find(&s->segments, row->segment);
    const uint64_t bytes = record_bytes(row->size);
    struct row above;
    int r = 0;

    assert(seg);
    if (memcmp(parent, no_name, sizeof(no_name)) != 0)
        r = catalog_by_name(s->catalog, parent, &above);
    row->parent = r > 0 ? above.id : 0;
    if (r > 0)
        r = catalog_add_children(s->catalog, above.id, 1);
    if (r < 0)
        return r;
    row->id = s->state.next_id++;
    row->tenant = s->accounts.origins[row->origin].tenant;
    r = catalog_insert(s->catalog, row);
    if (r < 0)
        return r;
    accounts_change(&s->accounts, row->origin, bytes, 1);
    s->accounts.origins[row->origin].at = MAX(s->accounts.origins[row->origin].at, row->at);
    seg->live += bytes;
    seg->blocks++;
    seg->unsaved = true;
    return 0;
}

static int write_touch(struct store *s, const struct touch *t)
{
    int r = catalog_touch(s->catalog, t->id, t->rank, t->used, t->at);

    if (r < 0 || t->parent == t->old_parent)
        return r;
    r = catalog_set_parent(s->catalog, t->id, t->old_parent, t->parent);
    if (r <= 0)
        return r;
    r = catalog_add_children(s->catalog, t->parent, 1);
    if (r == 0 && t->old_parent)
        r = catalog_add_children(s->catalog, t->old_parent, -1);
    return r;
}

int transaction_touches(struct store *s, uint32_t most)
{
    const uint32_t n = MIN(most, s->n_touches);
    int r = 0;

    for (uint32_t i = 0; i < n && r == 0; i++)
        r = write_touch(s, &s->touches[i]);
    /* The touches that could not be written are dropped, too. Losing a touch does little harm. */
    s->n_touches -= n;
    memmove(s->touches, s->touches + n, s->n_touches * sizeof(*s->touches));
    return r;
}

int transaction_write_touches(struct store *s, uint32_t most)
{
    const int r = transaction_begin(s);

    return r < 0 ? r : transaction_end(s, transaction_touches(s, most));
}

void touch_add(struct store *s, const struct row *row, int64_t parent, uint32_t length)
{
    struct touch *t;

    if (s->n_touches == TOUCHES_MAX) {
        s->n_touches /= 2;
        memmove(s->touches, s->touches + s->n_touches, s->n_touches * sizeof(*s->touches));
    }
    t = &s->touches[s->n_touches++];
    *t = (struct touch){
        .id = row->id,
        .parent = parent ? parent : row->parent,
        .old_parent = row->parent,
        .used = ++s->state.seq,
        .at = store_now(s),
    };
    t->rank = rank_of(s, row->name, row->index, length, t->used, MAX(row->rank, 1));
    if (accounts_has(&s->accounts, row->origin))
        s->accounts.origins[row->origin].at = t->at;
}
