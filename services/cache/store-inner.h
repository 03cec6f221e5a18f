/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the data and functions that the files of the store share.
 *
 * The state in memory that mirrors the index (accounts, bytes of segments, counts) changes together
 * with the index in a transaction. If the transaction fails, the state is read from the index
 * again. Disk space is freed after the transaction that removed the rows.
 */

#include "cache/accounts.h"
#include "cache/segment.h"

/* Struct touch records a use of a block until the use is written to the index. */
struct touch {
    int64_t id;
    int64_t parent, old_parent; /* new and old parent, which may be equal; 0: unknown */
    uint64_t rank, used, at;
};

/* Struct range is disk space that no row names any more. */
struct range {
    uint32_t segment;
    uint64_t offset, bytes;
};

/* Struct pass is a compaction pass over the records of a segment. */
struct pass {
    uint32_t segment; /* 0: no pass is under way */
    uint64_t from, end;
    bool moves; /* true: the remaining blocks move to another segment */
};

struct store {
    struct store_limits limits;
    const struct store_io *io;
    char *vfs, *index_path;
    uint64_t (*clock)(void *data);
    void *clock_data;
    int dir, segments_dir, lock;

    struct catalog *catalog; /* NULL: the index could not be opened; store_ready() tries again */
    uint64_t tried_usec;
    struct catalog_state state;
    uint64_t at, at_usec; /* wall clock and monotonic clock when the wall clock was last read */
    struct accounts accounts;

    struct segments segments;
    struct segment *active; /* where records are appended; NULL: the next record begins a segment */
    bool can_punch;
    uint64_t unpunched_usec; /* when punching a hole last failed; 0: never */
    /* Used while the index is opened: sums over the segments in the index, and whether a segment
     * file is missing. */
    uint64_t sum_blocks, sum_bytes;
    uint64_t to_trust; /* bytes of records that get rows without a check of their checksums */
    bool lost_segments;

    struct cache_policy *policy;
    uint64_t capacity; /* number of blocks that fit, as given to the policy */

    struct touch *touches;
    uint32_t n_touches;
    struct range *freed;
    uint32_t n_freed, freed_cap;

    struct pass tidy;
    uint64_t tended_usec;

    struct store_write *writes; /* the writes under way */
    uint64_t reserved;          /* bytes reserved by these writes */

    struct store_stats stats; /* only the counters */
};

/* TOUCHES_MAX is the limit of uses that are pending in memory. A step of upkeep, or a transaction
 * that adds blocks, writes up to TOUCHES_STEP of them to the index. */
#define TOUCHES_MAX  8192
#define TOUCHES_STEP 1024

/* store-recover.c: opens the index, and rebuilds it from the segments */

/* Opens the index, makes it if necessary, and adds rows for records that have none. */
int store_attach(struct store *s, struct inf_err *reterr);
void store_detach(struct store *s);
/* Returns 0 if the index is open. Otherwise tries to open it, at most once every few seconds. */
int store_ready(struct store *s);
/* Handles the result @r of a call. Returns true if the index was damaged and a new index is open
 * now. Then the caller must repeat the call. */
bool store_settle(struct store *s, int r);

/* Removes the rows of blocks in @segment; 0: in segments whose file is missing. */
int recover_drop_rows(struct store *s, uint32_t segment);

/* store-transaction.c: transactions */

int transaction_begin(struct store *s);
/* Commits the open transaction. After an error, nothing has changed. */
int transaction_commit(struct store *s);
void transaction_abort(struct store *s);
/* Calls transaction_commit() if @r is not negative, else transaction_abort(). Returns the first
 * error. */
int transaction_end(struct store *s, int r);
/* Removes a row and subtracts it from all counts. */
int transaction_remove(struct store *s, const struct row *row);
/* Adds a row, counts it, and sets its number. @parent is the name of the parent block. */
int transaction_add(struct store *s, struct row *row, const uint8_t parent[STORE_NAME_BYTES]);
/* Writes at most @most pending uses to the index, the oldest first. */
int transaction_touches(struct store *s, uint32_t most);
/* Works like transaction_touches(), but in a transaction of its own. */
int transaction_write_touches(struct store *s, uint32_t most);
/* Records a use of @row, the child of the row @parent (0: not known), in a chain of @length blocks.
 * If too many uses are pending, the oldest are dropped, so that the caller never waits for a
 * write. */
void touch_add(struct store *s, const struct row *row, int64_t parent, uint32_t length);
/* Records space that the end of the transaction frees. */
int free_add(struct store *s, uint32_t segment, uint64_t offset, uint64_t bytes);
uint64_t store_now(const struct store *s);

/* store-limits.c: limits */

/* Returns the limit of bytes that one write may request. */
uint64_t room_most(const struct store *s);
/* Returns whether @need more bytes of @tenant (0: no tenant) fit without eviction. */
bool room_fits(const struct store *s, uint32_t tenant, uint64_t need);

/* Struct room is a transaction that evicts blocks to make space for others. */
struct room {
    const struct store_write *write; /* the write that needs the space; NULL: none */
    uint32_t tenant;                 /* the tenant whose limit applies; 0: none */
    bool is_open;
    uint64_t freed; /* bytes that the file system gets back at the end of the transaction */
};

/* Begins the transaction if it is not yet open. */
int room_begin(struct store *s, struct room *room);
/* Evicts blocks until @need more bytes fit. 1: they fit; 0: they do not fit, because the next block
 * to evict is expected to be needed sooner than a block of @rank, or because a write continues the
 * chain of the next block to evict; -EDQUOT, -ENOSPC: nothing is left to evict. */
int room_clear(struct store *s, struct room *room, uint64_t need, uint64_t rank);
/* Ends the transaction if it is open, and makes sure that @need bytes are free. @r is the result so
 * far; if it is an error, the function returns it. */
int room_end(struct store *s, struct room *room, uint64_t need, int r);
/* Evicts blocks until the store is within its limits. -ENOSPC. */
int room_make(struct store *s);
/* Finds or makes the segment to which @bytes can be appended. Its descriptor for writing is
 * open. */
int room_segment(struct store *s, uint64_t bytes, struct segment **ret_segment);
/* Removes the file of a segment without blocks. 1: @seg was freed; 0: the segment is not empty or
 * is in use; or an error. */
int room_drop_empty(struct store *s, struct segment *seg);

/* store-compact.c: frees space that no row names */

/* Does one step. 1: there is more to do; 0: there is nothing to do now. */
int compact_step(struct store *s);
/* Moves all blocks of one segment of which more than an eighth is dead. 1: moved; 0: there is no
 * such segment. */
int compact_one(struct store *s);

/* store-write.c: writes under way */

/* Returns whether a write under way, or the write @more (NULL: none), contains a child of the block
 * @name. */
bool write_continues(const struct store *s, const struct store_write *more,
                     const uint8_t name[STORE_NAME_BYTES]);
/* Returns the lowest offset at which a write under way writes to @seg, or the end of @seg. */
uint64_t write_from(const struct store *s, const struct segment *seg);
/* Counts again the reservations of the writes that are under way, after the accounts were
 * reloaded. */
void write_reserve_again(struct store *s);
