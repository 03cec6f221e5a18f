/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the index, and defines the functions that all statements use (see catalog.h).
 *
 * The connection to SQLite holds its locks as long as it is open, so the write-ahead log needs no
 * shared memory. Commits do not wait for the disk. After a power loss the last commits may be
 * missing; store-recover.c then restores them from the segments.
 */
#include "cache/catalog-sql.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/err.h"

/* The characters "scKV". */
#define APPLICATION_ID  0x73634b56
#define CATALOG_VERSION 1

#define ROW_COLUMNS                                                                                \
    "id, key, rest, parent, children, depth, origin, tenant, segment, page, size, sum, rank, "     \
    "hits, used, at"

static const char *const schema[] = {
    "CREATE TABLE block(id INTEGER PRIMARY KEY, key INTEGER NOT NULL, rest BLOB NOT NULL, "
    "parent INTEGER NOT NULL, children INTEGER NOT NULL, depth INTEGER NOT NULL, "
    "origin INTEGER NOT NULL, tenant INTEGER NOT NULL, segment INTEGER NOT NULL, "
    "page INTEGER NOT NULL, size INTEGER NOT NULL, sum INTEGER NOT NULL, rank INTEGER NOT NULL, "
    "hits INTEGER NOT NULL, used INTEGER NOT NULL, at INTEGER NOT NULL)",
    "CREATE INDEX block_key ON block(key)",
    "CREATE INDEX leaf ON block(rank) WHERE children = 0",
    "CREATE INDEX leaf_of ON block(tenant, rank) WHERE children = 0",
    "CREATE TABLE state(one INTEGER PRIMARY KEY CHECK(one = 1), seq INTEGER NOT NULL, "
    "next_id INTEGER NOT NULL, next_segment INTEGER NOT NULL, at INTEGER NOT NULL)",
    "CREATE TABLE segment(number INTEGER PRIMARY KEY, \"end\" INTEGER NOT NULL, "
    "live INTEGER NOT NULL, blocks INTEGER NOT NULL)",
    "CREATE TABLE origin(id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, model TEXT NOT NULL, "
    "codec TEXT NOT NULL, session TEXT, blocks INTEGER NOT NULL, bytes INTEGER NOT NULL, "
    "at INTEGER NOT NULL)",
    "CREATE TABLE tenant(id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE TABLE digest(dev INTEGER, ino INTEGER, size INTEGER, mtime INTEGER, ctime INTEGER, "
    "digest BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(dev, ino)) WITHOUT ROWID",
    "CREATE INDEX digest_seq ON digest(seq)",
    "INSERT INTO state VALUES(1, 0, 1, 1, 0)",
};

static const char *const texts[SQL_COUNT] = {
    [SQL_BY_KEY] = "SELECT " ROW_COLUMNS " FROM block WHERE key = ?1",
    [SQL_FROM] = "SELECT " ROW_COLUMNS " FROM block WHERE id >= ?1 ORDER BY id",
    [SQL_LOWEST] = "SELECT " ROW_COLUMNS
                   " FROM block INDEXED BY leaf WHERE children = 0 ORDER BY rank LIMIT 1",
    [SQL_LOWEST_OF] = "SELECT " ROW_COLUMNS " FROM block INDEXED BY leaf_of "
                      "WHERE children = 0 AND tenant = ?1 ORDER BY rank LIMIT 1",
    [SQL_INSERT] =
        "INSERT INTO block(" ROW_COLUMNS
        ") VALUES(?1, ?2, ?16, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    [SQL_DELETE] = "DELETE FROM block WHERE id = ?1",
    [SQL_ADD_CHILDREN] = "UPDATE block SET children = max(0, children + ?2) WHERE id = ?1",
    [SQL_TOUCH] = "UPDATE block SET rank = ?2, hits = hits + 1, used = ?3, at = ?4 WHERE id = ?1",
    [SQL_SET_PARENT] = "UPDATE block SET parent = ?3 WHERE id = ?1 AND parent = ?2",
    [SQL_MOVE] = "UPDATE block SET segment = ?2, page = ?3 WHERE id = ?1",
    [SQL_LOAD_STATE] = "SELECT seq, next_id, next_segment, at FROM state",
    [SQL_SAVE_STATE] = "UPDATE state SET seq = ?1, next_id = ?2, next_segment = ?3, at = ?4",
    [SQL_LOAD_SEGMENTS] = "SELECT number, \"end\", live, blocks FROM segment ORDER BY number",
    [SQL_SAVE_SEGMENT] = "INSERT OR REPLACE INTO segment VALUES(?1, ?2, ?3, ?4)",
    [SQL_DELETE_SEGMENT] = "DELETE FROM segment WHERE number = ?1",
    [SQL_LOAD_ORIGINS] = "SELECT id, tenant, blocks, bytes, at, model, codec, session FROM origin",
    [SQL_SAVE_ORIGIN] = "INSERT OR REPLACE INTO origin(id, tenant, blocks, bytes, at, model, "
                        "codec, session) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_DELETE_ORIGIN] = "DELETE FROM origin WHERE id = ?1",
    [SQL_LOAD_TENANTS] = "SELECT id, name FROM tenant",
    [SQL_SAVE_TENANT] = "INSERT OR REPLACE INTO tenant VALUES(?1, ?2)",
    [SQL_PRUNE_TENANTS] = "DELETE FROM tenant WHERE id NOT IN (SELECT tenant FROM origin)",
    [SQL_RECALL] = "SELECT digest FROM digest WHERE dev = ?1 AND ino = ?2 AND size = ?3 "
                   "AND mtime = ?4 AND ctime = ?5",
    [SQL_REMEMBER] = "INSERT OR REPLACE INTO digest(dev, ino, size, mtime, ctime, seq, digest) "
                     "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [SQL_FORGET] = "DELETE FROM digest WHERE seq < (SELECT seq FROM digest ORDER BY seq DESC "
                   "LIMIT 1 OFFSET ?1)",
    [SQL_FORGET_ALL] = "DELETE FROM digest",
};

sqlite3_stmt *catalog_bind(struct catalog *c, enum catalog_sql which, const int64_t *values, int n,
                           int *ret_error)
{
    sqlite3_stmt **st = &c->statements[which];
    int r = sql_prepare(c->db, texts[which], st);

    for (int i = 0; i < n && r == 0; i++)
        r = sql_errno(sqlite3_bind_int64(*st, i + 1, values[i]));
    if (r == 0)
        return *st;
    *ret_error = r;
    return NULL;
}

int catalog_step(sqlite3_stmt *st)
{
    const int r = sql_step(st);

    /* The rows violate no constraint, unless the file is damaged. */
    return r == -EEXIST ? -EUCLEAN : r;
}

int catalog_run(struct catalog *c, enum catalog_sql which, const int64_t *values, int n)
{
    int r = 0;
    sqlite3_stmt *st = catalog_bind(c, which, values, n, &r);

    return st ? catalog_step(st) : r;
}

int catalog_begin(struct catalog *c)
{
    catalog_rest(c);
    return sql_begin(c->db);
}

int catalog_commit(struct catalog *c)
{
    return sql_commit(c->db);
}

void catalog_rollback(struct catalog *c)
{
    sql_rollback(c->db);
}

int catalog_checkpoint(struct catalog *c)
{
    catalog_rest(c);
    return sql_errno(
        sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
}

/* Joins the version and its complement, so that a damaged version is recognized. */
static int32_t version_encode(uint32_t version)
{
    return (int32_t)(version | (~version & 0xffff) << 16);
}

static bool version_decode(int64_t value, int *ret_version)
{
    const uint32_t v = (uint32_t)value;

    *ret_version = (int)(v & 0xffff);
    return value == version_encode(v & 0xffff);
}

static int catalog_create(struct catalog *c)
{
    char text[96];
    int r = catalog_begin(c);

    for (size_t i = 0; i < ARRAY_SIZE(schema) && r == 0; i++)
        r = sql_exec(c->db, schema[i]);
    snprintf(text, sizeof(text), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             APPLICATION_ID, version_encode(CATALOG_VERSION));
    if (r == 0)
        r = sql_exec(c->db, text);
    if (r == 0)
        return catalog_commit(c);
    catalog_rollback(c);
    return r;
}

/* Positive result of check_version(): the file is empty. */
enum {
    CATALOG_NEW = 1,
};

/* Checks whether the file is an index of a version that this program reads. Returns 0, CATALOG_NEW
 * or an error. */
static int check_version(struct catalog *c, struct inf_err *reterr)
{
    int64_t id = 0, value = 0, n_tables = 0;
    int version, r = sql_number(c->db, "PRAGMA application_id", &id);

    if (r == 0)
        r = sql_number(c->db, "PRAGMA user_version", &value);
    if (r == 0)
        r = sql_number(c->db, "SELECT count(*) FROM sqlite_schema", &n_tables);
    if (r < 0)
        return r;
    if (n_tables == 0 && id == 0 && value == 0)
        return CATALOG_NEW;
    if (id != APPLICATION_ID || !version_decode(value, &version))
        return -EUCLEAN;
    if (version > CATALOG_VERSION)
        return err_set(reterr, EPROTONOSUPPORT,
                       "%s was written by a newer version of sconce (its format is %d, this "
                       "version reads %d); update sconce, or remove the directory",
                       c->path, version, CATALOG_VERSION);
    return version < CATALOG_VERSION ? -ESTALE : 0;
}

static int catalog_configure(struct catalog *c)
{
    static const char *const pragmas[] = {
        "PRAGMA page_size = 4096",
        "PRAGMA locking_mode = EXCLUSIVE",
        "PRAGMA cell_size_check = ON",
        "PRAGMA trusted_schema = OFF",
        "PRAGMA cache_size = -393216",
        "PRAGMA wal_autocheckpoint = 4000",
        "PRAGMA journal_size_limit = 33554432",
    };
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(pragmas) && r == 0; i++)
        r = sql_exec(c->db, pragmas[i]);
    return r;
}

static int open_db(struct catalog *c, const char *vfs, struct inf_err *reterr)
{
    int r = sql_open(c->path, vfs, &c->db);
    bool is_new;

    if (r == 0)
        r = catalog_configure(c);
    if (r == 0)
        r = check_version(c, reterr);
    if (r < 0)
        return r;
    is_new = r == CATALOG_NEW;
    r = sql_exec(c->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    return r == 0 && is_new ? catalog_create(c) : r;
}

int catalog_open(const char *path, const char *vfs, struct catalog **ret_catalog,
                 struct inf_err *reterr)
{
    struct catalog *c = NEW(struct catalog, 1);
    int r = -ENOMEM;

    if (c)
        c->path = strdup(path);
    if (c && c->path)
        r = open_db(c, vfs, reterr);
    if (r < 0) {
        if (r != -EPROTONOSUPPORT)
            err_set(reterr, -r, "%s: %s", path, c && c->db ? sqlite3_errmsg(c->db) : strerror(-r));
        catalog_close(c);
        return r;
    }
    *ret_catalog = c;
    return 0;
}

struct catalog *catalog_close(struct catalog *c)
{
    if (!c)
        return NULL;
    for (int i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(c->statements[i]);
    sqlite3_close(c->db);
    free(c->path);
    free(c);
    return NULL;
}

static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};

int catalog_remove(const char *path)
{
    char name[4096];

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        if (unlink(name) < 0 && errno != ENOENT)
            return -errno;
    }
    return 0;
}

int catalog_set_aside(const char *path)
{
    char name[4096], aside[4096 + 16];

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        snprintf(name, sizeof(name), "%s%s", path, suffixes[i]);
        snprintf(aside, sizeof(aside), "%s.damaged%s", path, suffixes[i]);
        if (rename(name, aside) < 0 && errno != ENOENT)
            return -errno;
    }
    return 0;
}

uint64_t catalog_bytes(const struct catalog *c)
{
    char name[4096];
    uint64_t bytes = 0;

    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        struct stat st;

        snprintf(name, sizeof(name), "%s%s", c->path, suffixes[i]);
        if (stat(name, &st) == 0)
            bytes += (uint64_t)st.st_size;
    }
    return bytes;
}
