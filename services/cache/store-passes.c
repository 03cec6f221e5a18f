/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes over all blocks in short steps, to purge or to verify them.
 *
 * A purge removes the blocks that a filter matches. A verification reads blocks, compares their
 * checksums, and removes damaged blocks. The cursor is the number of the next row, so blocks may be
 * added and removed between steps.
 */
#include "cache/store-inner.h"

#include <errno.h>
#include <string.h>

/* Limits of one step: rows that are examined, and bytes that are read. */
#define STEP_ROWS  4096
#define STEP_BYTES (UINT64_C(64) << 20)

static bool text_fits(const char *want, const char *have)
{
    return !want || (have && strcmp(want, have) == 0);
}

static bool filter_takes(const struct store *s, const struct store_filter *f, const struct row *row)
{
    const struct origin *o;

    if (f->older_than && row->at + f->older_than > store_now(s))
        return false;
    if (!f->model && !f->tenant && !f->session)
        return true;
    if (!accounts_has(&s->accounts, row->origin))
        return false;
    o = &s->accounts.origins[row->origin];
    return text_fits(f->model, o->model) && text_fits(f->session, o->session) &&
           text_fits(f->tenant, s->accounts.tenants[o->tenant].name);
}

/* Reads rows, beginning at the cursor, and stores those that match @f in @ret_rows. Returns their
 * number. *ret_more says whether further rows follow. */
static int filter_collect(struct store *s, const struct store_filter *f,
                          struct store_cursor *cursor, struct row *ret_rows, bool *ret_more)
{
    struct row row;
    uint32_t n = 0, seen = 0;
    int r = catalog_from(s->catalog, (int64_t)cursor->at, &row);

    for (; r > 0 && seen < STEP_ROWS; seen++) {
        if (filter_takes(s, f, &row))
            ret_rows[n++] = row;
        cursor->at = (uint64_t)row.id + 1;
        r = catalog_next(s->catalog, &row);
    }
    cursor->seen += seen;
    *ret_more = r > 0;
    return r < 0 ? r : (int)n;
}

/* Removes @rows [n] in one transaction. */
static int remove_rows(struct store *s, const struct row *rows, uint32_t n,
                       struct store_cursor *cursor)
{
    uint64_t bytes = 0;
    int r = n ? transaction_begin(s) : 0;

    if (r < 0 || n == 0)
        return r;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        bytes += record_bytes(rows[i].size);
        r = transaction_remove(s, &rows[i]);
    }
    r = transaction_end(s, r);
    if (r == 0) {
        cursor->blocks += n;
        cursor->bytes += bytes;
    }
    return r;
}

/* Returns 1 if the checksum of a block matches. Returns 0 if it does not match, or if the block
 * cannot be read from the disk. For other errors returns a negative errno. */
static int is_good(struct store *s, const struct row *row, void *buffer)
{
    struct segment *seg = segments_find(&s->segments, row->segment);
    int r;

    if (!seg)
        return 0;
    r = segment_fd(&s->segments, seg);
    if (r >= 0)
        r = segment_read(s->io, r, buffer, row->size, row->offset);
    if (r == -EIO || r == -ENODATA || r == -ENOENT)
        return 0;
    return r < 0 ? r : record_sum(buffer, row->size) == row->sum;
}

/* Reads blocks, beginning at the cursor, and stores the rows of damaged blocks in @ret_rows.
 * Returns their number. *ret_more says whether further blocks follow. */
static int read_blocks(struct store *s, struct store_cursor *cursor, struct row *ret_rows,
                       bool *ret_more)
{
    _cleanup_free_ uint8_t *buffer = NULL;
    uint64_t cap = 0, bytes = 0;
    struct row row;
    uint32_t n = 0;
    int r = catalog_from(s->catalog, (int64_t)cursor->at, &row);

    while (r > 0 && n < STEP_ROWS && bytes < STEP_BYTES) {
        if (row.size > cap) {
            free(buffer);
            buffer = malloc(row.size);
            if (!buffer)
                return -ENOMEM;
            cap = row.size;
        }
        r = is_good(s, &row, buffer);
        if (r < 0)
            return r;
        if (r == 0)
            ret_rows[n++] = row;
        bytes += record_bytes(row.size);
        cursor->at = (uint64_t)row.id + 1;
        cursor->seen++;
        r = catalog_next(s->catalog, &row);
    }
    *ret_more = r > 0;
    return r < 0 ? r : (int)n;
}

static bool filter_takes_all(const struct store_filter *f)
{
    return f && !f->model && !f->tenant && !f->session && !f->older_than;
}

/* Struct search says which blocks a step searches for and removes. */
struct search {
    const struct store_filter *filter; /* NULL: blocks whose checksum does not match */
    uint64_t *count;                   /* the counter of removed blocks in the statistics */
};

static int pass_step(struct store *s, const struct search *search, struct store_cursor *cursor)
{
    _cleanup_free_ struct row *rows = NEW(struct row, STEP_ROWS);
    bool more = false;
    int n, r;

    if (!rows)
        return -ENOMEM;
    if (cursor->at == 0)
        cursor->total = s->accounts.blocks;
    /* Pending uses are written first, because without them the last use of a block would seem
     * longer ago. */
    r = search->filter ? transaction_write_touches(s, TOUCHES_MAX) : 0;
    if (r == 0 && cursor->at == 0 && filter_takes_all(search->filter))
        r = catalog_forget(s->catalog);
    if (r < 0)
        return r;
    n = search->filter ? filter_collect(s, search->filter, cursor, rows, &more)
                       : read_blocks(s, cursor, rows, &more);
    catalog_rest(s->catalog);
    if (n < 0)
        return n;
    r = remove_rows(s, rows, (uint32_t)n, cursor);
    if (r < 0)
        return r;
    *search->count += (uint32_t)n;
    return more;
}

static int step_or_start_again(struct store *s, const struct search *search,
                               struct store_cursor *cursor)
{
    int r = store_ready(s);

    if (r == 0)
        r = pass_step(s, search, cursor);
    /* Rows have different numbers in the rebuilt index. */
    if (store_settle(s, r)) {
        cursor->at = 0;
        r = 1;
    }
    return r;
}

int store_purge(struct store *s, const struct store_filter *filter, struct store_cursor *cursor)
{
    return step_or_start_again(s, &(struct search){filter, &s->stats.purged}, cursor);
}

int store_verify(struct store *s, struct store_cursor *cursor)
{
    return step_or_start_again(s, &(struct search){NULL, &s->stats.rejected}, cursor);
}
