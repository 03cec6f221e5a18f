/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes the rows of blocks in the index.
 *
 * The name of a block is stored in two columns. The first column has the first 8 bytes as a number,
 * and has an SQL index. The second column has the rest of the name.
 */
#include "cache/catalog-sql.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define KEY_BYTES  8
#define REST_BYTES (STORE_NAME_BYTES - KEY_BYTES)

static int64_t key_of(const uint8_t *name)
{
    uint64_t key;

    memcpy(&key, name, sizeof(key));
    return (int64_t)le64toh(key);
}

static bool row_fits(int64_t value, int64_t max)
{
    return value >= 0 && value <= max;
}

/* Reads the current row of @st. False: the row has values that no block can have. */
static bool row_read(sqlite3_stmt *st, struct row *r)
{
    int64_t v[16];
    uint64_t key;

    for (int i = 0; i < 16; i++)
        v[i] = i == 2 ? 0 : sqlite3_column_int64(st, i);
    if (sqlite3_column_bytes(st, 2) != REST_BYTES || v[0] <= 0 || !row_fits(v[4], UINT32_MAX) ||
        !row_fits(v[5], UINT32_MAX) || !row_fits(v[6], UINT32_MAX) || !row_fits(v[7], UINT32_MAX) ||
        !row_fits(v[8], UINT32_MAX) || !row_fits(v[9], INT64_MAX / STORE_PAGE) ||
        !row_fits(v[10], STORE_BLOCK_MAX))
        return false;
    key = htole64((uint64_t)v[1]);
    memcpy(r->name, &key, KEY_BYTES);
    memcpy(r->name + KEY_BYTES, sqlite3_column_blob(st, 2), REST_BYTES);
    r->id = v[0];
    r->parent = v[3];
    r->children = (uint32_t)v[4];
    r->index = (uint32_t)v[5];
    r->origin = (uint32_t)v[6];
    r->tenant = (uint32_t)v[7];
    r->segment = (uint32_t)v[8];
    r->offset = (uint64_t)v[9] * STORE_PAGE;
    r->size = (uint64_t)v[10];
    r->sum = (uint64_t)v[11];
    r->rank = (uint64_t)v[12];
    r->hits = (uint32_t)v[13];
    r->used = (uint64_t)v[14];
    r->at = (uint64_t)v[15];
    return true;
}

/* Steps to the next row with valid values. */
static int row_step(sqlite3_stmt *st, struct row *ret_row)
{
    int r;

    while ((r = catalog_step(st)) > 0)
        if (row_read(st, ret_row))
            return 1;
    return r;
}

int catalog_by_name(struct catalog *c, const uint8_t name[STORE_NAME_BYTES], struct row *ret_row)
{
    const int64_t values[] = {key_of(name)};
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_BY_KEY, values, 1, &r);

    if (!st)
        return r;
    while ((r = row_step(st, ret_row)) > 0)
        if (memcmp(ret_row->name, name, STORE_NAME_BYTES) == 0)
            break;
    sqlite3_reset(st);
    return r;
}

int catalog_from(struct catalog *c, int64_t id, struct row *ret_row)
{
    int r = 0;
    sqlite3_stmt *st;

    catalog_rest(c);
    st = catalog_bind(c, SQL_FROM, &id, 1, &r);
    return st ? row_step(st, ret_row) : r;
}

int catalog_next(struct catalog *c, struct row *ret_row)
{
    return row_step(c->statements[SQL_FROM], ret_row);
}

void catalog_rest(struct catalog *c)
{
    if (c->statements[SQL_FROM])
        sqlite3_reset(c->statements[SQL_FROM]);
}

int catalog_lowest(struct catalog *c, uint32_t tenant, struct row *ret_row)
{
    const int64_t values[] = {tenant};
    int r = 0;
    sqlite3_stmt *st =
        catalog_bind(c, tenant ? SQL_LOWEST_OF : SQL_LOWEST, values, tenant != 0, &r);

    if (!st)
        return r;
    r = catalog_step(st);
    /* An invalid row must not be skipped here, because it would stay the lowest forever and prevent
     * eviction. */
    if (r > 0 && !row_read(st, ret_row))
        r = -EUCLEAN;
    sqlite3_reset(st);
    return r;
}

int catalog_insert(struct catalog *c, const struct row *row)
{
    const int64_t values[] = {
        row->id,
        key_of(row->name),
        row->parent,
        row->children,
        row->index,
        row->origin,
        row->tenant,
        row->segment,
        (int64_t)(row->offset / STORE_PAGE),
        (int64_t)row->size,
        (int64_t)row->sum,
        (int64_t)row->rank,
        row->hits,
        (int64_t)row->used,
        (int64_t)row->at,
    };
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_INSERT, values, ARRAY_SIZE(values), &r);

    if (!st)
        return r;
    r = sql_errno(sqlite3_bind_blob(st, 16, row->name + KEY_BYTES, REST_BYTES, SQLITE_STATIC));
    return r < 0 ? r : catalog_step(st);
}

int catalog_delete(struct catalog *c, int64_t id)
{
    return catalog_run(c, SQL_DELETE, &id, 1);
}

int catalog_add_children(struct catalog *c, int64_t id, int32_t n)
{
    const int64_t values[] = {id, n};

    return catalog_run(c, SQL_ADD_CHILDREN, values, 2);
}

int catalog_touch(struct catalog *c, int64_t id, uint64_t rank, uint64_t used, uint64_t at)
{
    const int64_t values[] = {id, (int64_t)rank, (int64_t)used, (int64_t)at};

    return catalog_run(c, SQL_TOUCH, values, 4);
}

int catalog_set_parent(struct catalog *c, int64_t id, int64_t old, int64_t parent)
{
    const int64_t values[] = {id, old, parent};
    const int r = catalog_run(c, SQL_SET_PARENT, values, 3);

    return r < 0 ? r : sqlite3_changes(c->db) > 0;
}

int catalog_move(struct catalog *c, int64_t id, uint32_t segment, uint64_t offset)
{
    const int64_t values[] = {id, segment, (int64_t)(offset / STORE_PAGE)};

    return catalog_run(c, SQL_MOVE, values, 3);
}
