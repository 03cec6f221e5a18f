/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the SQL statements and the functions that archive.c and archive-items.c share. */

#include "common/sql/sql.h"
#include "keep/archive.h"

enum archive_sql {
    SQL_EXPIRE,
    SQL_ADD,
    SQL_REPLACE,
    SQL_GROW,
    SQL_FIND,
    SQL_TOUCH,
    SQL_DELETE,
    SQL_OLDEST,
    SQL_BYTES_OF,
    SQL_NUMBERS,
    SQL_TENANTS,
    SQL_NEXT,
    SQL_ADD_ITEM,
    SQL_PLACE_OF,
    SQL_LIST_UP,
    SQL_LIST_DOWN,
    SQL_FIND_ITEM,
    SQL_FIND_ITEM_OF,
    SQL_DELETE_ITEM,
    SQL_COUNT,
};

/* The numbers of entries that a change adds and deletes. */
struct archive_change {
    uint64_t n_added, n_expired, n_evicted;
};

struct archive {
    sqlite3 *db;
    struct archive_limits limits;
    int64_t now;                   /* time of the current change */
    struct archive_change change;  /* the current change */
    struct archive_change changes; /* the sums of all committed changes */
    uint64_t n_found, n_missed, n_refused;
    sqlite3_stmt *statements[SQL_COUNT];
};

/* Returns the statement, prepared and reset. On failure, returns NULL and sets *ret_error. */
sqlite3_stmt *archive_statement(struct archive *a, enum archive_sql which, int *ret_error);
/* Runs a statement that yields no rows. The statement has at most two parameters, which are
 * numbers. */
int archive_run(struct archive *a, enum archive_sql which, int64_t first, int64_t second);
/* Makes room for @bytes more bytes of the tenant. To do so, deletes entries of the tenant, least
 * recently used first, but never the entry @key. ARCHIVE_FULL: that is not enough. */
int archive_make_room(struct archive *a, const char *tenant, int64_t key, uint64_t bytes);
/* Adds @bytes, which may be negative, to the size of an entry. */
int archive_grow(struct archive *a, int64_t key, int64_t bytes);
