/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The index: rows in SQLite
 *
 * Blocks have numbers that only grow, so that blocks that were put one after the other, as those
 * of a chain are, lie side by side. A second index finds numbers by the first 8 bytes of names, and
 * two more hold the leaves of the forest that chains make, by rank: only a block that no other
 * continues may go, and that keeps these indexes small and out of the way of most uses.
 *
 * What is read here is not believed: rows that cannot be are no rows, and whatever SQLite calls
 * damaged is -EUCLEAN, after which the index is to be made again. Other errors: -ENOSPC, -EIO,
 * -EROFS, -ENOMEM, -EBUSY.
 */

#include "cache/store.h"

/* A block's row. */
struct row {
    int64_t id;
    int64_t parent;    /* its row; 0: none that is known */
    uint32_t children; /* rows that have this one for their parent */
    uint32_t index;    /* in its chain */
    uint32_t origin, tenant;
    uint32_t segment, hits;
    uint64_t offset; /* of its bytes; their record begins a page before */
    uint64_t size, sum;
    uint64_t rank; /* below 2^63; the lowest goes first */
    uint64_t used; /* the store's count of uses then */
    uint64_t at;   /* seconds since 1970 */
    uint8_t name[STORE_NAME_BYTES];
};

/* What the store itself remembers. */
struct catalog_state {
    uint64_t seq; /* uses */
    int64_t next_id;
    uint32_t next_segment;
    uint64_t at;
};

struct catalog_segment {
    uint32_t number;
    uint64_t end, live, blocks;
};

struct catalog_origin {
    uint32_t id, tenant;
    const char *model, *codec, *session; /* session: NULL or text */
    uint64_t blocks, bytes, at;
};

struct catalog;

/* Opens the index at @path, or makes an empty one. -ESTALE: an older version wrote it;
 * -EPROTONOSUPPORT: a newer one; else as above. */
int catalog_open(const char *path, const char *vfs, struct catalog **ret_catalog,
                 struct inf_err *reterr);
struct catalog *catalog_close(struct catalog *c);
/* Removes the index at @path, or renames it to "….damaged". */
int catalog_remove(const char *path);
int catalog_set_aside(const char *path);
uint64_t catalog_bytes(const struct catalog *c);

int catalog_begin(struct catalog *c);
/* Unless it returns 0, the transaction is over and nothing of it is kept, or all of it. */
int catalog_commit(struct catalog *c);
void catalog_rollback(struct catalog *c);
/* Moves what was committed from the log to its place, and syncs it. */
int catalog_checkpoint(struct catalog *c);

/* rows: 1 and the row, or 0 */

int catalog_by_name(struct catalog *c, const uint8_t name[STORE_NAME_BYTES], struct row *ret_row);
/* The first row whose number is at least @id. */
int catalog_from(struct catalog *c, int64_t id, struct row *ret_row);
/* Goes on after the row of the last catalog_from() or catalog_next(); nothing may have been changed
 * in between. */
int catalog_next(struct catalog *c, struct row *ret_row);
/* Lets go of what these two hold. */
void catalog_rest(struct catalog *c);
/* The leaf of the lowest rank; @tenant 0: of all. */
int catalog_lowest(struct catalog *c, uint32_t tenant, struct row *ret_row);

int catalog_insert(struct catalog *c, const struct row *row);
int catalog_delete(struct catalog *c, int64_t id);
/* Adds to the count of children; a row that is not there is fine. */
int catalog_add_children(struct catalog *c, int64_t id, int32_t n);
int catalog_touch(struct catalog *c, int64_t id, uint64_t rank, uint64_t used, uint64_t at);
/* 1: its parent was @old, and is @parent now; 0: it was not, or there is no such row. */
int catalog_set_parent(struct catalog *c, int64_t id, int64_t old, int64_t parent);
int catalog_move(struct catalog *c, int64_t id, uint32_t segment, uint64_t offset);

/* small tables; functions that read call @fn for each row and return its first negative result */

int catalog_load_state(struct catalog *c, struct catalog_state *ret_state);
int catalog_save_state(struct catalog *c, const struct catalog_state *state);
int catalog_load_segments(struct catalog *c,
                          int (*fn)(void *data, const struct catalog_segment *seg), void *data);
int catalog_save_segment(struct catalog *c, const struct catalog_segment *seg);
int catalog_delete_segment(struct catalog *c, uint32_t number);
int catalog_load_origins(struct catalog *c,
                         int (*fn)(void *data, const struct catalog_origin *origin), void *data);
int catalog_save_origin(struct catalog *c, const struct catalog_origin *origin);
int catalog_delete_origin(struct catalog *c, uint32_t id);
int catalog_load_tenants(struct catalog *c, int (*fn)(void *data, uint32_t id, const char *name),
                         void *data);
int catalog_save_tenant(struct catalog *c, uint32_t id, const char *name);
/* Forgets tenants that have nothing. */
int catalog_prune_tenants(struct catalog *c);
int catalog_recall(struct catalog *c, const struct store_file *file,
                   uint8_t ret_digest[STORE_DIGEST_BYTES]);
int catalog_remember(struct catalog *c, const struct store_file *file, uint64_t seq,
                     const uint8_t digest[STORE_DIGEST_BYTES]);
/* Forgets all digests. */
int catalog_forget(struct catalog *c);
