/* SPDX-License-Identifier: Apache-2.0 */
/* Runs statements of SQLite, and converts its errors (see sql.h). */
#include "common/sql/sql.h"

#include <errno.h>
#include <stddef.h>

int sql_errno(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CONSTRAINT:
        return -EEXIST;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return rc == SQLITE_IOERR_NOMEM ? -ENOMEM : -EIO;
    default:
        return -EUCLEAN;
    }
}

int sql_open(const char *path, const char *vfs, sqlite3 **ret_db)
{
    return sql_errno(sqlite3_open_v2(path, ret_db,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                         SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                                     vfs));
}

int sql_exec(sqlite3 *db, const char *text)
{
    return sql_errno(sqlite3_exec(db, text, NULL, NULL, NULL));
}

int sql_number(sqlite3 *db, const char *text, int64_t *ret_value)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, text, -1, &st, NULL);

    if (rc == SQLITE_OK) {
        rc = sqlite3_step(st);
        if (rc == SQLITE_ROW)
            *ret_value = sqlite3_column_int64(st, 0);
    }
    sqlite3_finalize(st);
    return rc == SQLITE_DONE ? -EUCLEAN : sql_errno(rc);
}

int sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **st)
{
    if (!*st)
        return sql_errno(sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, st, NULL));
    sqlite3_reset(*st);
    return 0;
}

int sql_step(sqlite3_stmt *st)
{
    const int rc = sqlite3_step(st);

    if (rc == SQLITE_ROW)
        return 1;
    sqlite3_reset(st);
    return sql_errno(rc);
}

int sql_begin(sqlite3 *db)
{
    return sql_exec(db, "BEGIN IMMEDIATE");
}

int sql_commit(sqlite3 *db)
{
    const int r = sql_exec(db, "COMMIT");

    if (r < 0)
        sql_rollback(db);
    return r;
}

void sql_rollback(sqlite3 *db)
{
    /* SQLite may already have rolled the transaction back. */
    if (!sqlite3_get_autocommit(db))
        sql_exec(db, "ROLLBACK");
}
