/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the parts of the store share
 *
 * What memory knows of the index (accounts, bytes of segments, counts) is changed together with it
 * in a transaction, and read again from it when that fails. Space is given back after the
 * transaction that took the rows away.
 */

#include "cache/accounts.h"
#include "cache/segment.h"

/* A use that is not written down yet. */
struct touch {
    int64_t id;
    int64_t parent, old_parent; /* 0: as they are */
    uint64_t rank, used, at;
};

/* Space on disk that no row names any more. */
struct range {
    uint32_t segment;
    uint64_t offset, bytes;
};

/* A pass over the records of a segment. */
struct pass {
    uint32_t segment; /* 0: none is under way */
    uint64_t from, end;
    bool moves; /* what is left goes elsewhere */
};

struct store {
    struct store_limits limits;
    const struct store_io *io;
    char *vfs, *index_path;
    uint64_t (*clock)(void *data);
    void *clock_data;
    int dir, segments_dir, lock;

    struct catalog *catalog; /* NULL: it could not be opened, which is tried again */
    uint64_t tried_usec;
    struct catalog_state state;
    uint64_t at, at_usec; /* the time when the clock was looked at, and the monotonic one then */
    struct accounts accounts;

    struct segments segments;
    struct segment *active; /* where records go; NULL: a new one */
    bool can_punch;
    /* while the index is opened: what segments have by it, and whether one is not there */
    uint64_t sum_blocks, sum_bytes;
    uint64_t to_trust; /* bytes of segments that are taken in without being looked at */
    bool lost_segments;

    struct cache_policy *policy;
    uint64_t capacity; /* blocks that fit, as the policy was told */

    struct touch *touches;
    uint32_t n_touches;
    struct range *freed;
    uint32_t n_freed, freed_cap;

    struct pass tidy;
    uint64_t tended_usec;

    struct store_write *writes; /* under way */
    uint64_t reserved;          /* bytes of these */

    struct store_stats stats; /* the counts alone */
};

/* Uses that are kept in memory, and that are written down on the way of others. */
#define TOUCHES_MAX  8192
#define TOUCHES_STEP 1024

/* store-recover.c: the index, opened, made again, let go of */

/* Opens the index, makes it if need be, and takes in what segments hold that it does not know. */
int attach(struct store *s, struct inf_err *reterr);
void detach(struct store *s);
/* 0 if there is an index; opens one that could not be opened before, now and then. */
int store_ready(struct store *s);
/* Whether to try again after @r, because it said that the index is damaged and there is another
 * one now. */
bool store_settle(struct store *s, int r);

/* Removes the rows of what is in a segment, or (0) in segments that are not there. */
int attach_drop_rows(struct store *s, uint32_t segment);

/* store-transaction.c: transactions */

int change_begin(struct store *s);
/* Unless it returns 0, nothing has changed. */
int change_commit(struct store *s);
void change_abort(struct store *s);
/* change_commit() if @r is not negative, else change_abort(); the first error. */
int change_end(struct store *s, int r);
/* Takes a row away, and everything that was counted for it. */
int change_remove(struct store *s, const struct row *row);
/* Adds a row, whose number is filled in here, and counts it; @parent is its name. */
int change_add(struct store *s, struct row *row, const uint8_t parent[STORE_NAME_BYTES]);
/* Writes down the first @most of the uses. */
int change_touches(struct store *s, uint32_t most);
/* The same in a transaction of its own. */
int change_write_touches(struct store *s, uint32_t most);
/* Remembers a use of @row, the child of @parent (0: not known) in a chain of @length blocks. When
 * there are many, the oldest are forgotten, so that nobody waits for them to be written. */
void touch_add(struct store *s, const struct row *row, int64_t parent, uint32_t length);
/* Remembers space to be given back at the end of the transaction. */
int free_add(struct store *s, uint32_t segment, uint64_t offset, uint64_t bytes);
uint64_t store_now(const struct store *s);

/* store-limits.c: limits */

/* Bytes on disk that count, those of writes under way with them. */
uint64_t room_taken(const struct store *s);
/* What one write may ask for. */
uint64_t room_most(const struct store *s);
/* Whether @need bytes more of @tenant (0: nobody's) fit beside all that is kept. */
bool room_fits(const struct store *s, uint32_t tenant, uint64_t need);

/* A transaction in which blocks go for others. */
struct room {
    const struct store_write *write; /* that the room is for; NULL: none */
    uint32_t tenant;                 /* whose limit holds; 0: nobody's */
    bool is_open;
    uint64_t freed; /* bytes that the file system has back at its end */
};

/* Begins it, unless it was. */
int room_begin(struct store *s, struct room *room);
/* Evicts until @need bytes more fit. 1; 0: they do not, for what would go next is expected back
 * sooner than @rank, or is continued by what is being written; -EDQUOT, -ENOSPC: nothing is left
 * to go. */
int room_clear(struct store *s, struct room *room, uint64_t need, uint64_t rank);
/* Ends it, if it was begun, and sees to it that there is space for @need bytes. @r: what was
 * decided on the way; its error is passed on. */
int room_end(struct store *s, struct room *room, uint64_t need, int r);
/* Keeps to the limits as they are. -ENOSPC. */
int room_make(struct store *s);
/* The segment that has room for @bytes more; its descriptor for writing is open. */
int room_segment(struct store *s, uint64_t bytes, struct segment **ret_segment);
/* Removes the file of a segment that has nothing any more: 1, and @seg is gone, 0, or an error. */
int room_drop_empty(struct store *s, struct segment *seg);

/* store-compact.c: space that no row names */

/* 1: there is more to do; 0: nothing now. */
int tidy_step(struct store *s);
/* Moves all of one segment, of whose bytes at least an eighth are dead. 1, or 0: there is none. */
int tidy_one(struct store *s);

/* store-write.c: what is being written */

/* Whether a write under way, or @more (NULL: none), continues the block of @name. */
bool write_continues(const struct store *s, const struct store_write *more,
                     const uint8_t name[STORE_NAME_BYTES]);
/* Where the first of the writes under way in @seg begins, or the end of it. */
uint64_t write_from(const struct store *s, const struct segment *seg);
/* Counts what writes under way have reserved, after accounts were loaded again. */
void write_reserve_again(struct store *s);
