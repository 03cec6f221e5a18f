/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps the index of the store, an SQLite database with a row for each block.
 *
 * Each new row gets a higher number (row id) than all earlier rows. Therefore the rows of blocks
 * that were put one after the other, such as the blocks of a chain, lie side by side in the
 * database. An SQL index finds the numbers by the first 8 bytes of names. Two more SQL indexes hold
 * the leaves (blocks that no other block continues) by rank, because only leaves may be evicted.
 * These two indexes are small, and most uses of blocks do not change them.
 *
 * The contents are not trusted. Rows with impossible values are skipped. If SQLite finds damage,
 * functions return -EUCLEAN, and the caller rebuilds the index. Other errors are -ENOSPC, -EIO,
 * -EROFS, -ENOMEM and -EBUSY.
 */

#include "cache/store.h"

/* Struct row is the row of a block. */
struct row {
    int64_t id;
    int64_t parent;    /* number of the parent's row; 0: unknown */
    uint32_t children; /* number of rows whose parent is this row */
    uint32_t index;    /* position of the block in its chain */
    uint32_t origin, tenant;
    uint32_t segment, hits;
    uint64_t offset; /* offset of the block's bytes; the record begins one page before */
    uint64_t size, sum;
    uint64_t rank; /* below 2^63; the lowest is evicted first */
    uint64_t used; /* the store's count of uses and puts at the last use */
    uint64_t at;   /* seconds since 1970 */
    uint8_t name[STORE_NAME_BYTES];
};

/* Struct catalog_state is the state of the store as a whole. */
struct catalog_state {
    uint64_t seq; /* count of uses and puts */
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
    const char *model, *codec, *session; /* session may be NULL */
    uint64_t blocks, bytes, at;
};

struct catalog;

/* Opens the index at @path, or makes an empty index. -ESTALE: an older version of sconce wrote the
 * index; -EPROTONOSUPPORT: a newer version wrote it; other errors are those listed above. */
int catalog_open(const char *path, const char *vfs, struct catalog **ret_catalog,
                 struct inf_err *reterr);
struct catalog *catalog_close(struct catalog *c);
/* catalog_remove() removes the index at @path; catalog_set_aside() appends ".damaged" to its
 * name. */
int catalog_remove(const char *path);
int catalog_set_aside(const char *path);
uint64_t catalog_bytes(const struct catalog *c);

int catalog_begin(struct catalog *c);
/* Commits the transaction. After an error, either none or all of its changes are committed. */
int catalog_commit(struct catalog *c);
void catalog_rollback(struct catalog *c);
/* Moves committed pages from the log into the database file and syncs it. */
int catalog_checkpoint(struct catalog *c);

/* Functions for rows. The functions that read return 1 and set *ret_row, or return 0 if there is no
 * such row. */

int catalog_by_name(struct catalog *c, const uint8_t name[STORE_NAME_BYTES], struct row *ret_row);
/* Finds the first row with a number of at least @id. */
int catalog_from(struct catalog *c, int64_t id, struct row *ret_row);
/* Reads the row after the row that catalog_from() or catalog_next() read last. The index must not
 * change in between. */
int catalog_next(struct catalog *c, struct row *ret_row);
/* Ends the read transaction of catalog_from() and catalog_next(). */
void catalog_rest(struct catalog *c);
/* Finds the leaf with the lowest rank among the leaves of @tenant; 0: of all tenants. */
int catalog_lowest(struct catalog *c, uint32_t tenant, struct row *ret_row);

int catalog_insert(struct catalog *c, const struct row *row);
int catalog_delete(struct catalog *c, int64_t id);
/* Adds @n to the row's count of children. A missing row is not an error. */
int catalog_add_children(struct catalog *c, int64_t id, int32_t n);
int catalog_touch(struct catalog *c, int64_t id, uint64_t rank, uint64_t used, uint64_t at);
/* If the parent of the row @id is @old, changes it to @parent and returns 1. Returns 0 if the
 * parent is another row, or if there is no row @id. */
int catalog_set_parent(struct catalog *c, int64_t id, int64_t old, int64_t parent);
int catalog_move(struct catalog *c, int64_t id, uint32_t segment, uint64_t offset);

/* Functions for small tables. The functions with a parameter @fn call @fn for each row. If @fn
 * returns a negative number, they stop and return this number. */

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
/* Removes tenants without blocks. */
int catalog_prune_tenants(struct catalog *c);
int catalog_recall(struct catalog *c, const struct store_file *file,
                   uint8_t ret_digest[STORE_DIGEST_BYTES]);
int catalog_remember(struct catalog *c, const struct store_file *file, uint64_t seq,
                     const uint8_t digest[STORE_DIGEST_BYTES]);
/* Removes all digests. */
int catalog_forget(struct catalog *c);
