/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes the small tables of the index: the state of the store, segments, origins,
 * tenants and digests. */
#include "cache/catalog-sql.h"

#include <errno.h>
#include <string.h>

/* When there are more digests of files than this, the oldest are removed. */
#define DIGESTS 4096

int catalog_load_state(struct catalog *c, struct catalog_state *ret_state)
{
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_LOAD_STATE, NULL, 0, &r);

    if (!st)
        return r;
    r = catalog_step(st);
    if (r > 0) {
        *ret_state = (struct catalog_state){
            .seq = (uint64_t)sqlite3_column_int64(st, 0),
            .next_id = sqlite3_column_int64(st, 1),
            .next_segment = (uint32_t)sqlite3_column_int64(st, 2),
            .at = (uint64_t)sqlite3_column_int64(st, 3),
        };
        r = ret_state->next_id <= 0 || ret_state->seq > INT64_MAX / 2 ? -EUCLEAN : 0;
    } else if (r == 0) {
        r = -EUCLEAN;
    }
    sqlite3_reset(st);
    return r;
}

int catalog_save_state(struct catalog *c, const struct catalog_state *state)
{
    const int64_t values[] = {(int64_t)state->seq, state->next_id, state->next_segment,
                              (int64_t)state->at};

    return catalog_run(c, SQL_SAVE_STATE, values, 4);
}

int catalog_load_segments(struct catalog *c,
                          int (*fn)(void *data, const struct catalog_segment *seg), void *data)
{
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_LOAD_SEGMENTS, NULL, 0, &r);

    if (!st)
        return r;
    while ((r = catalog_step(st)) > 0) {
        const struct catalog_segment seg = {
            .number = (uint32_t)sqlite3_column_int64(st, 0),
            .end = (uint64_t)sqlite3_column_int64(st, 1),
            .live = (uint64_t)sqlite3_column_int64(st, 2),
            .blocks = (uint64_t)sqlite3_column_int64(st, 3),
        };

        r = seg.live > seg.end || seg.end > INT64_MAX / 2 ? -EUCLEAN : fn(data, &seg);
        if (r < 0)
            break;
    }
    sqlite3_reset(st);
    return r;
}

int catalog_save_segment(struct catalog *c, const struct catalog_segment *seg)
{
    const int64_t values[] = {seg->number, (int64_t)seg->end, (int64_t)seg->live,
                              (int64_t)seg->blocks};

    return catalog_run(c, SQL_SAVE_SEGMENT, values, 4);
}

int catalog_delete_segment(struct catalog *c, uint32_t number)
{
    const int64_t values[] = {number};

    return catalog_run(c, SQL_DELETE_SEGMENT, values, 1);
}

int catalog_load_origins(struct catalog *c,
                         int (*fn)(void *data, const struct catalog_origin *origin), void *data)
{
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_LOAD_ORIGINS, NULL, 0, &r);

    if (!st)
        return r;
    while ((r = catalog_step(st)) > 0) {
        const struct catalog_origin origin = {
            .id = (uint32_t)sqlite3_column_int64(st, 0),
            .tenant = (uint32_t)sqlite3_column_int64(st, 1),
            .blocks = (uint64_t)sqlite3_column_int64(st, 2),
            .bytes = (uint64_t)sqlite3_column_int64(st, 3),
            .at = (uint64_t)sqlite3_column_int64(st, 4),
            .model = (const char *)sqlite3_column_text(st, 5),
            .codec = (const char *)sqlite3_column_text(st, 6),
            .session = (const char *)sqlite3_column_text(st, 7),
        };

        r = origin.model && origin.codec ? fn(data, &origin) : -EUCLEAN;
        if (r < 0)
            break;
    }
    sqlite3_reset(st);
    return r;
}

/* Binds @text to the parameter @at. A NULL @text becomes SQL's NULL. */
static int bind_text(sqlite3_stmt *st, int at, const char *text)
{
    return sql_errno(sqlite3_bind_text(st, at, text, -1, SQLITE_STATIC));
}

int catalog_save_origin(struct catalog *c, const struct catalog_origin *origin)
{
    const int64_t values[] = {origin->id, origin->tenant, (int64_t)origin->blocks,
                              (int64_t)origin->bytes, (int64_t)origin->at};
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_SAVE_ORIGIN, values, 5, &r);

    if (!st)
        return r;
    r = bind_text(st, 6, origin->model);
    if (r == 0)
        r = bind_text(st, 7, origin->codec);
    if (r == 0)
        r = bind_text(st, 8, origin->session);
    return r < 0 ? r : catalog_step(st);
}

int catalog_delete_origin(struct catalog *c, uint32_t id)
{
    const int64_t values[] = {id};

    return catalog_run(c, SQL_DELETE_ORIGIN, values, 1);
}

int catalog_load_tenants(struct catalog *c, int (*fn)(void *data, uint32_t id, const char *name),
                         void *data)
{
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_LOAD_TENANTS, NULL, 0, &r);

    if (!st)
        return r;
    while ((r = catalog_step(st)) > 0) {
        const char *name = (const char *)sqlite3_column_text(st, 1);

        r = name ? fn(data, (uint32_t)sqlite3_column_int64(st, 0), name) : -EUCLEAN;
        if (r < 0)
            break;
    }
    sqlite3_reset(st);
    return r;
}

int catalog_save_tenant(struct catalog *c, uint32_t id, const char *name)
{
    const int64_t values[] = {id};
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_SAVE_TENANT, values, 1, &r);

    if (!st)
        return r;
    r = bind_text(st, 2, name);
    return r < 0 ? r : catalog_step(st);
}

int catalog_prune_tenants(struct catalog *c)
{
    return catalog_run(c, SQL_PRUNE_TENANTS, NULL, 0);
}

int catalog_recall(struct catalog *c, const struct store_file *file,
                   uint8_t ret_digest[STORE_DIGEST_BYTES])
{
    const int64_t values[] = {(int64_t)file->dev, (int64_t)file->ino, (int64_t)file->size,
                              file->mtime_ns, file->ctime_ns};
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_RECALL, values, 5, &r);

    if (!st)
        return r;
    r = catalog_step(st);
    if (r > 0) {
        if (sqlite3_column_bytes(st, 0) == STORE_DIGEST_BYTES)
            memcpy(ret_digest, sqlite3_column_blob(st, 0), STORE_DIGEST_BYTES);
        else
            r = 0;
    }
    sqlite3_reset(st);
    return r;
}

int catalog_remember(struct catalog *c, const struct store_file *file, uint64_t seq,
                     const uint8_t digest[STORE_DIGEST_BYTES])
{
    const int64_t values[] = {(int64_t)file->dev, (int64_t)file->ino, (int64_t)file->size,
                              file->mtime_ns,     file->ctime_ns,     (int64_t)seq};
    const int64_t keep[] = {DIGESTS - 1};
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, SQL_REMEMBER, values, 6, &r);

    if (!st)
        return r;
    r = sql_errno(sqlite3_bind_blob(st, 7, digest, STORE_DIGEST_BYTES, SQLITE_STATIC));
    if (r == 0)
        r = catalog_step(st);
    return r < 0 ? r : catalog_run(c, SQL_FORGET, keep, 1);
}

int catalog_forget(struct catalog *c)
{
    return catalog_run(c, SQL_FORGET_ALL, NULL, 0);
}
