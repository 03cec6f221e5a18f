/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Declares the SQL statements and the functions that catalog.c, catalog-rows.c and catalog-tables.c
 * share. */

#include "cache/catalog.h"
#include "common/sql/sql.h"

enum catalog_sql {
    SQL_BY_KEY,
    SQL_FROM,
    SQL_LOWEST,
    SQL_LOWEST_OF,
    SQL_INSERT,
    SQL_DELETE,
    SQL_ADD_CHILDREN,
    SQL_TOUCH,
    SQL_SET_PARENT,
    SQL_MOVE,
    SQL_LOAD_STATE,
    SQL_SAVE_STATE,
    SQL_LOAD_SEGMENTS,
    SQL_SAVE_SEGMENT,
    SQL_DELETE_SEGMENT,
    SQL_LOAD_ORIGINS,
    SQL_SAVE_ORIGIN,
    SQL_DELETE_ORIGIN,
    SQL_LOAD_TENANTS,
    SQL_SAVE_TENANT,
    SQL_PRUNE_TENANTS,
    SQL_RECALL,
    SQL_REMEMBER,
    SQL_FORGET,
    SQL_FORGET_ALL,
    SQL_COUNT,
};

struct catalog {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *statements[SQL_COUNT];
};

/* Prepares the statement on first use and binds @values [n]. On failure returns NULL and sets
 * *ret_error. */
sqlite3_stmt *catalog_bind(struct catalog *c, enum catalog_sql which, const int64_t *values, int n,
                           int *ret_error);
/* Steps to the next row of @st. Returns 1 if there is a row. Otherwise resets @st and returns 0
 * (there are no more rows) or a negative errno. */
int catalog_step(sqlite3_stmt *st);
/* Calls catalog_bind() and catalog_step(), for statements that return no rows. */
int catalog_run(struct catalog *c, enum catalog_sql which, const int64_t *values, int n);
