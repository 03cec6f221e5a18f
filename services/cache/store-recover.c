/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings the index up to date with the segments when the store is opened.
 *
 * The index knows each segment up to the end of its last committed row. When the store is opened,
 * records beyond that are added. If the index is missing, too old or damaged, a new empty index is
 * made, and the same code adds all records to it.
 */
#include "cache/store-inner.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "cache/rank.h"
#include "core/clock.h"
#include "core/err.h"

/* Maximum number of records that one transaction adds. */
#define BATCH 4096
/* Interval between attempts to open the index. */
#define AGAIN_USEC 5000000
/* The store's time is at most this many seconds later than the last write to the index, even if the
 * wall clock shows a later time. */
#define AHEAD_MAX ((uint64_t)366 * 86400)
/* When records get rows, only the checksums of the last records are verified: CHECK_MAX bytes of
 * records at most. */
#define CHECK_MAX (UINT64_C(2) << 30)
/* Bytes that a segment file may take on disk beyond its blocks with rows. */
#define DISK_SLACK (4 * STORE_PAGE)

static void set_clock(struct store *s)
{
    const uint64_t now = s->clock ? s->clock(s->clock_data) : (uint64_t)time(NULL);

    s->at_usec = clock_usec();
    s->at = now;
    if (s->state.at > 0)
        s->at = MAX(s->state.at, MIN(now, s->state.at + AHEAD_MAX));
}

static int refuse_newer(struct store *s, struct segment *seg, struct inf_err *reterr)
{
    uint8_t page[STORE_PAGE];
    const int fd = segment_fd(&s->segments, seg);
    int r;

    if (fd < 0)
        return fd;
    r = segment_read(s->io, fd, page, sizeof(page), 0);
    /* A segment whose first page cannot be read is still used, because each record has its own
     * version. */
    if (r < 0 || record_file_version(page) <= RECORD_FILE_VERSION)
        return 0;
    return err_set(reterr, EPROTONOSUPPORT,
                   "segment %08u.kv was written by a newer version of sconce; update sconce, or "
                   "remove the directory",
                   seg->number);
}

/* Adds a segment for an existing file, or updates a known one. The end of a known segment is kept
 * if it is beyond the file's present size, because a write up to there may be under way. */
static int see_file(void *data, uint32_t number, uint64_t size, uint64_t disk)
{
    struct store *s = data;
    struct segment *seg = segments_find(&s->segments, number);
    int r = seg ? 0 : segments_add(&s->segments, number, &seg);

    if (r < 0)
        return r;
    seg->end = MAX(seg->end, ALIGN_UP(size, STORE_PAGE));
    seg->live = seg->blocks = 0;
    seg->disk = disk;
    seg->known = STORE_PAGE;
    s->state.next_segment = MAX(s->state.next_segment, number + 1);
    return 0;
}

static int see_row(void *data, const struct catalog_segment *row)
{
    struct store *s = data;
    struct segment *seg = segments_find(&s->segments, row->number);

    s->sum_blocks += row->blocks;
    s->sum_bytes += row->live;
    if (!seg) {
        s->lost_segments = true;
        return 0;
    }
    seg->live = row->live;
    seg->blocks = row->blocks;
    seg->known = MAX(row->end, STORE_PAGE);
    seg->end = MAX(seg->end, row->end);
    return 0;
}

/* Returns whether the bytes of a record match its checksum. */
static bool is_whole(struct store *s, struct segment *seg, const struct record *record,
                     uint64_t offset)
{
    void *bytes = malloc(record->size);
    const int fd = segment_fd(&s->segments, seg);
    const bool ok = bytes && fd >= 0 &&
                    segment_read(s->io, fd, bytes, record->size, offset + STORE_PAGE) == 0 &&
                    record_sum(bytes, record->size) == record->sum;

    free(bytes);
    return ok;
}

/* Adds a row for the record at @offset, unless its block already has one. */
static int take_in(struct store *s, struct segment *seg, const struct record *record,
                   uint64_t offset)
{
    struct store_origin origin;
    struct row row;
    int r = catalog_by_name(s->catalog, record->name, &row);

    if (r != 0) {
        seg->untidy = true;
        return r < 0 ? r : 0;
    }
    row = (struct row){
        .index = record->index,
        .segment = seg->number,
        .offset = offset + STORE_PAGE,
        .size = record->size,
        .sum = record->sum,
        .used = ++s->state.seq,
        .at = MIN(record->at, store_now(s)),
    };
    row.rank = rank_of(s, record->name, record->index, record->index + 1, row.used, 0);
    memcpy(row.name, record->name, sizeof(row.name));
    record_origin(record, &origin);
    r = accounts_origin(&s->accounts, &origin, &row.origin);
    if (r == -EDQUOT) {
        seg->untidy = true;
        return 0;
    }
    return r < 0 ? r : transaction_add(s, &row, record->parent);
}

/* Returns whether to verify the checksum of a record. Bytes that were being written when the last
 * process ended may be incomplete. They are among the last bytes, so only the last bytes are
 * verified here; readers verify all bytes. */
static bool must_check(struct store *s, uint64_t size)
{
    if (s->to_trust < size)
        return true;
    s->to_trust -= size;
    return false;
}

static void choose_trust(struct store *s)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < s->segments.n; i++)
        bytes +=
            s->segments.list[i]->end - MIN(s->segments.list[i]->known, s->segments.list[i]->end);
    s->to_trust = bytes > CHECK_MAX ? bytes - CHECK_MAX : 0;
}

/* Adds a row for the first record at or after *from. Returns 1; 0: there is no record; or an
 * error. */
static int take_next(struct store *s, struct segment *seg, uint64_t *from)
{
    struct record record;
    uint64_t offset = *from;
    int r = segment_next_record(&s->segments, seg, *from, seg->end, &record, &offset);

    /* An unreadable page is skipped, because later records may be readable. */
    if (r == -EIO) {
        *from = offset + STORE_PAGE;
        return *from < seg->end;
    }
    if (r <= 0)
        return r;
    *from = offset + record_bytes(record.size);
    if (must_check(s, record.size) && !is_whole(s, seg, &record, offset)) {
        seg->untidy = true;
        return 1;
    }
    r = take_in(s, seg, &record, offset);
    return r < 0 ? r : 1;
}

/* Adds rows for at most BATCH records. 1: there may be more records at or after *from. */
static int take_batch(struct store *s, struct segment *seg, uint64_t *from)
{
    int r = 1;

    for (uint32_t i = 0; i < BATCH && r > 0; i++)
        r = take_next(s, seg, from);
    return r;
}

/* Adds rows for the records of @seg that the index does not know. */
static int take_segment(struct store *s, struct segment *seg)
{
    uint64_t from = seg->known;
    int r = 1;

    while (r > 0) {
        r = transaction_begin(s);
        if (r < 0)
            return r;
        r = take_batch(s, seg, &from);
        seg->unsaved = true;
        if (r < 0) {
            transaction_abort(s);
            return r;
        }
        const int end = transaction_commit(s);

        if (end < 0)
            return end;
    }
    return r;
}

static bool is_lost(const struct store *s, const struct row *row, uint32_t segment)
{
    return segment ? row->segment == segment : !segments_find(&s->segments, row->segment);
}

int recover_drop_rows(struct store *s, uint32_t segment)
{
    struct row row;
    int64_t from = 0;
    int r;

    while ((r = catalog_from(s->catalog, from, &row)) > 0) {
        while (r > 0 && !is_lost(s, &row, segment)) {
            from = row.id + 1;
            r = catalog_next(s->catalog, &row);
        }
        if (r <= 0)
            break;
        r = transaction_begin(s);
        if (r == 0)
            r = transaction_end(s, transaction_remove(s, &row));
        if (r < 0)
            return r;
    }
    catalog_rest(s->catalog);
    return r;
}

static int forget_lost(void *data, const struct catalog_segment *row)
{
    struct store *s = data;

    if (segments_find(&s->segments, row->number))
        return 0;
    return catalog_delete_segment(s->catalog, row->number);
}

static int take_all(struct store *s, struct inf_err *reterr)
{
    int r = 0;

    choose_trust(s);
    for (uint32_t i = 0; i < s->segments.n && r == 0; i++) {
        struct segment *seg = s->segments.list[i];

        r = refuse_newer(s, seg, reterr);
        if (r == 0 && seg->known < seg->end)
            r = take_segment(s, seg);
        /* The last process may have ended after it removed rows and before it freed their space. */
        seg->untidy |= seg->disk > seg->live + DISK_SLACK;
    }
    if (r == 0 && s->lost_segments)
        r = recover_drop_rows(s, 0);
    if (r == 0 && s->lost_segments)
        r = catalog_load_segments(s->catalog, forget_lost, s);
    s->lost_segments = false;
    return r;
}

/* Loads all state in memory from the index and the directory. */
static int recover_load(struct store *s, struct inf_err *reterr)
{
    struct catalog_state state;
    int r = catalog_load_state(s->catalog, &state);

    if (r < 0)
        return r;
    /* The index may be older than the state in memory. Numbers that were assigned since then are
     * not assigned again. */
    s->state.seq = MAX(s->state.seq, state.seq);
    s->state.next_id = MAX(s->state.next_id, state.next_id);
    s->state.next_segment = MAX(s->state.next_segment, state.next_segment);
    s->state.at = MAX(s->state.at, state.at);
    set_clock(s);
    accounts_done(&s->accounts);
    /* An error is ignored: then unused tenants remain in the index, which does no harm. */
    catalog_prune_tenants(s->catalog);
    r = accounts_load(&s->accounts, s->catalog);
    if (r == 0 && !s->policy)
        r = rank_open(s);
    if (r == 0)
        r = segments_scan(&s->segments, see_file, s);
    s->sum_blocks = s->sum_bytes = 0;
    if (r == 0)
        r = catalog_load_segments(s->catalog, see_row, s);
    /* Both sums count the same blocks, so a difference means damage. */
    if (r == 0 && (s->sum_blocks != s->accounts.blocks || s->sum_bytes != s->accounts.bytes))
        r = -EUCLEAN;
    if (r == 0)
        write_reserve_again(s);
    return r < 0 ? r : take_all(s, reterr);
}

void store_detach(struct store *s)
{
    s->catalog = catalog_close(s->catalog);
    s->n_touches = s->n_freed = 0;
    s->tried_usec = clock_usec();
}

static int open_index(struct store *s, struct inf_err *reterr)
{
    int r = catalog_open(s->index_path, s->vfs, &s->catalog, reterr);

    if (r < 0)
        return r;
    r = recover_load(s, reterr);
    if (r < 0)
        store_detach(s);
    return r;
}

int store_attach(struct store *s, struct inf_err *reterr)
{
    int r = open_index(s, reterr);
    int aside;

    if (r != -EUCLEAN && r != -ESTALE)
        return r;
    aside = r == -ESTALE ? catalog_remove(s->index_path) : catalog_set_aside(s->index_path);
    if (aside < 0)
        return err_set(reterr, -aside, "%s is damaged and cannot be moved away", s->index_path);
    s->stats.rebuilds++;
    return open_index(s, reterr);
}

int store_ready(struct store *s)
{
    if (s->catalog)
        return 0;
    if (clock_usec() - s->tried_usec < AGAIN_USEC)
        return -EIO;
    s->tried_usec = clock_usec();
    return store_attach(s, NULL);
}

bool store_settle(struct store *s, int r)
{
    if (r != -EUCLEAN)
        return false;
    if (s->catalog)
        store_detach(s);
    if (catalog_set_aside(s->index_path) < 0)
        return false;
    s->stats.rebuilds++;
    return store_attach(s, NULL) == 0;
}
