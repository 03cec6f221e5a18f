/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees disk space in short steps.
 *
 * A pass over a segment compares its records with the rows of the index. A record without a row is
 * dead, and its space is freed with a hole in the file. If the pass is to empty the segment, the
 * blocks with rows move to another segment. Their bytes are synced at the new place before the rows
 * name the new place. A reader of the old place finds the old bytes, or zeros, whose checksum does
 * not match.
 */
#include "cache/store-inner.h"

#include <errno.h>
#include <string.h>

#include "core/clock.h"

/* Limits of one step. */
#define STEP_RECORDS 64
#define STEP_BYTES   (UINT64_C(16) << 20)
/* If there are more segments than this, sparse segments are merged, because each segment takes a
 * descriptor. */
#define SEGMENTS_MANY 128
/* After space could not be freed because of an error, the next attempt waits for this time. */
#define AGAIN_USEC 5000000

/* Struct move is a block that was copied to a second place. */
struct move {
    struct row row;
    struct segment *to;
    uint64_t offset;
};

struct step {
    struct segment *from;
    struct move moves[STEP_RECORDS];
    uint32_t n;
    uint64_t bytes;
    struct row bad[STEP_RECORDS]; /* blocks whose checksum does not match */
    uint32_t n_bad;
};

static bool may_move(const struct store *s, const struct segment *seg)
{
    return seg != s->active && seg->n_writes == 0 && seg->end > STORE_PAGE;
}

/* Returns a segment in which more than 1/@part of the bytes are dead. If there are several, returns
 * the one with the fewest live bytes, because moving them costs least. NULL: there is none. */
static struct segment *compact_pick(const struct store *s, uint64_t part)
{
    struct segment *best = NULL;

    for (uint32_t i = 0; i < s->segments.n; i++) {
        struct segment *seg = s->segments.list[i];

        if (may_move(s, seg) && seg->live < seg->end / part * (part - 1) &&
            (!best || seg->live < best->live))
            best = seg;
    }
    return best;
}

static struct segment *compact_untidy(const struct store *s)
{
    for (uint32_t i = 0; i < s->segments.n; i++)
        if (s->segments.list[i]->untidy && s->segments.list[i]->n_writes == 0)
            return s->segments.list[i];
    return NULL;
}

static void pass_start(struct store *s, struct segment *seg, bool moves)
{
    s->tidy = (struct pass){
        .segment = seg->number,
        .from = STORE_PAGE,
        .end = seg->end,
        .moves = moves,
    };
    seg->untidy = false;
}

/* Returns whether an attempt to punch holes may succeed now. */
static bool compact_may_punch(const struct store *s)
{
    return s->can_punch &&
           (s->unpunched_usec == 0 || clock_usec() - s->unpunched_usec >= AGAIN_USEC);
}

/* Starts a pass if it is worthwhile for some segment. Returns false if there is nothing to do. */
static bool compact_choose(struct store *s)
{
    struct segment *seg = compact_may_punch(s) ? compact_untidy(s) : NULL;

    if (seg) {
        pass_start(s, seg, false);
        return true;
    }
    /* Without hole punching, a pass is worthwhile only if half of a file is dead. */
    if (!s->can_punch)
        seg = compact_pick(s, 2);
    else if (s->segments.n > SEGMENTS_MANY)
        seg = compact_pick(s, 4);
    if (seg)
        pass_start(s, seg, true);
    return seg != NULL;
}

static bool is_live(const struct row *row, const struct segment *seg, uint64_t offset)
{
    return row->segment == seg->number && row->offset == offset + STORE_PAGE;
}

/* Copies a record of the pass's segment to the active segment. */
static int copy_record(struct store *s, struct step *step, const struct record *record,
                       const struct row *row)
{
    _cleanup_free_ void *bytes = malloc(row->size);
    struct segment *to;
    int r;

    if (!bytes)
        return -ENOMEM;
    r = segment_read(s->io, step->from->file->fd, bytes, row->size, row->offset);
    if (r < 0 && r != -EIO && r != -ENODATA)
        return r;
    if (r < 0 || record->size != row->size || record_sum(bytes, row->size) != row->sum) {
        step->bad[step->n_bad++] = *row;
        return 0;
    }
    r = room_segment(s, record_bytes(row->size), &to);
    if (r < 0)
        return r;
    step->moves[step->n] = (struct move){*row, to, to->end + STORE_PAGE};
    to->end += record_bytes(row->size);
    to->n_writes++;
    step->n++;
    step->bytes += record_bytes(row->size);
    return segment_write_record(s->io, to->write_fd, record, bytes,
                                step->moves[step->n - 1].offset);
}

/* Frees the space of one record, keeps the record, or copies it. */
static int pass_record(struct store *s, struct step *step, const struct record *record,
                       uint64_t offset)
{
    const uint64_t bytes = record_bytes(record->size);
    struct row row;
    int r = catalog_by_name(s->catalog, record->name, &row);

    if (r < 0)
        return r;
    if (r == 0 || !is_live(&row, step->from, offset))
        return free_add(s, step->from->number, offset, bytes);
    return s->tidy.moves ? copy_record(s, step, record, &row) : 0;
}

/* Frees the bytes before the next record, whose page is at @offset. Returns @more, or an error. */
static int pass_gap(struct store *s, const struct step *step, uint64_t offset, int more)
{
    const int r = offset > s->tidy.from
                      ? free_add(s, step->from->number, s->tidy.from, offset - s->tidy.from)
                      : 0;

    return r < 0 ? r : more;
}

/* Handles the records of one step. 1: there are more. */
static int pass_records(struct store *s, struct step *step)
{
    struct record record;
    uint64_t offset = s->tidy.end;
    int r = 1;

    for (int i = 0; i < STEP_RECORDS && step->bytes < STEP_BYTES && r > 0; i++) {
        r = segment_next_record(&s->segments, step->from, s->tidy.from, s->tidy.end, &record,
                                &offset);
        if (r == 0)
            offset = s->tidy.end;
        if (r >= 0)
            r = pass_gap(s, step, offset, r);
        if (r <= 0)
            break;
        r = pass_record(s, step, &record, offset);
        s->tidy.from = offset + record_bytes(record.size);
        r = r < 0 ? r : 1;
    }
    return r;
}

static int sync_moves(struct store *s, const struct step *step)
{
    int r = 0;

    for (uint32_t i = 0; i < step->n && r == 0; i++)
        if (i == 0 || step->moves[i].to != step->moves[i - 1].to)
            r = s->io->sync(s->io->data, step->moves[i].to->write_fd);
    return r;
}

static int write_move(struct store *s, const struct move *m)
{
    struct segment *from = segments_find(&s->segments, m->row.segment);
    const uint64_t bytes = record_bytes(m->row.size);
    int r = catalog_move(s->catalog, m->row.id, m->to->number, m->offset);

    if (r < 0)
        return r;
    from->live -= MIN(from->live, bytes);
    from->blocks -= MIN(from->blocks, 1);
    m->to->live += bytes;
    m->to->blocks++;
    from->unsaved = m->to->unsaved = true;
    s->stats.moved += bytes;
    return free_add(s, m->row.segment, m->row.offset - STORE_PAGE, bytes);
}

/* Updates the rows of a step in one transaction, whose end frees the dead space. */
static int write_step(struct store *s, const struct step *step)
{
    int r = transaction_begin(s);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < step->n && r == 0; i++)
        r = write_move(s, &step->moves[i]);
    for (uint32_t i = 0; i < step->n_bad && r == 0; i++)
        r = transaction_remove(s, &step->bad[i]);
    return transaction_end(s, r);
}

/* Ends a pass. If the pass moved the blocks of the segment, some rows may still name the segment
 * although it has no record for them; these rows are removed. */
static int pass_end(struct store *s)
{
    const struct pass pass = s->tidy;
    const struct segment *seg = segments_find(&s->segments, pass.segment);
    int r;

    s->tidy = (struct pass){0};
    if (!pass.moves || !seg || seg->blocks == 0)
        return 0;
    r = recover_drop_rows(s, pass.segment);
    if (r < 0)
        return r;
    /* The segment has no rows any more, so its count of blocks must be 0. */
    seg = segments_find(&s->segments, pass.segment);
    return seg && seg->blocks > 0 ? -EUCLEAN : 0;
}

/* Ends a pass that failed with @r. If memory was short, the pass is repeated later. After other
 * errors it is not repeated, because the error may persist and passes over other segments would
 * never start. */
static int pass_fail(struct store *s, int r)
{
    struct segment *seg = segments_find(&s->segments, s->tidy.segment);

    s->tidy = (struct pass){0};
    if (seg && r == -ENOMEM)
        seg->untidy = true;
    return r;
}

static int pass_step(struct store *s, struct segment *seg)
{
    _cleanup_free_ struct step *step = NEW(struct step, 1);
    int r, written;

    if (!step)
        return -ENOMEM;
    step->from = seg;
    s->n_freed = 0;
    r = pass_records(s, step);
    written = sync_moves(s, step);
    for (uint32_t i = 0; i < step->n; i++)
        step->moves[i].to->n_writes--;
    if (r < 0 || written < 0) {
        for (uint32_t i = 0; i < step->n; i++)
            step->moves[i].to->untidy = true;
        s->n_freed = 0;
        return pass_fail(s, r < 0 ? r : written);
    }
    written = write_step(s, step);
    if (written < 0)
        return pass_fail(s, written);
    if (r == 0)
        r = pass_end(s);
    return r < 0 ? r : 1;
}

int compact_step(struct store *s)
{
    struct segment *seg;

    if (s->tidy.segment == 0 && !compact_choose(s))
        return 0;
    seg = segments_find(&s->segments, s->tidy.segment);
    if (!seg || (s->tidy.moves && !may_move(s, seg))) {
        s->tidy = (struct pass){0};
        return 1;
    }
    return pass_step(s, seg);
}

int compact_one(struct store *s)
{
    struct segment *seg = compact_pick(s, 8);
    int r = 1;

    if (!seg)
        return 0;
    pass_start(s, seg, true);
    while (r > 0 && s->tidy.segment)
        r = compact_step(s);
    return r < 0 ? r : 1;
}
