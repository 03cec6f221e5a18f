/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the archive, and makes, finds and deletes entries (see archive.h).
 *
 * The file is locked as long as it is open. A commit waits for the disk. SQLite overwrites deleted
 * text with zeros, and its rollback journal is cut to zero bytes after each change.
 */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "keep/archive-sql.h"

/* The characters "scKP". */
#define ARCHIVE_APPLICATION "1935887184"
#define ARCHIVE_VERSION     1
/* The bytes that are counted for a row in addition to its texts. */
#define ARCHIVE_ROW 256u

static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA auto_vacuum = FULL;"
                               "PRAGMA journal_mode = TRUNCATE; PRAGMA secure_delete = ON;"
                               "PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = ON;"
                               "PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF;";

static const char schema[] =
    "BEGIN;"
    "CREATE TABLE entry(key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, kind INTEGER NOT NULL,"
    " id TEXT NOT NULL, previous TEXT NOT NULL, text TEXT NOT NULL, created INTEGER NOT NULL,"
    " used INTEGER NOT NULL, expires INTEGER NOT NULL, bytes INTEGER NOT NULL);"
    "CREATE UNIQUE INDEX entry_id ON entry(tenant, id);"
    "CREATE INDEX entry_used ON entry(tenant, used, key);"
    "CREATE INDEX entry_expires ON entry(expires);"
    "CREATE TABLE item(entry INTEGER NOT NULL REFERENCES entry(key) ON DELETE CASCADE,"
    " place INTEGER NOT NULL, id TEXT NOT NULL, output INTEGER NOT NULL, text TEXT NOT NULL,"
    " PRIMARY KEY(entry, place)) WITHOUT ROWID;"
    "CREATE INDEX item_id ON item(id);"
    /* A row has the sums of one tenant, with "t" before its name. The row "" has the sums of
     * all. */
    "CREATE TABLE sum(tenant TEXT PRIMARY KEY, entries INTEGER NOT NULL, bytes INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN"
    " INSERT INTO sum VALUES('t' || NEW.tenant, 1, NEW.bytes) ON CONFLICT(tenant)"
    "  DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes;"
    " INSERT INTO sum VALUES('', 1, NEW.bytes) ON CONFLICT(tenant)"
    "  DO UPDATE SET entries = entries + 1, bytes = bytes + excluded.bytes;"
    "END;"
    "CREATE TRIGGER entry_grown AFTER UPDATE OF bytes ON entry BEGIN"
    " UPDATE sum SET bytes = bytes + NEW.bytes - OLD.bytes"
    "  WHERE tenant IN ('', 't' || NEW.tenant);"
    "END;"
    "CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN"
    " UPDATE sum SET entries = entries - 1, bytes = bytes - OLD.bytes"
    "  WHERE tenant IN ('', 't' || OLD.tenant);"
    " DELETE FROM sum WHERE tenant = 't' || OLD.tenant AND entries = 0;"
    "END;"
    "PRAGMA application_id = " ARCHIVE_APPLICATION ";"
    "PRAGMA user_version = 1;"
    "COMMIT;";

static const char *const texts[SQL_COUNT] = {
    [SQL_EXPIRE] = "DELETE FROM entry WHERE expires <= ?1",
    [SQL_ADD] = "INSERT INTO entry(tenant, kind, id, previous, text, created, used, expires, bytes)"
                " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8)",
    [SQL_REPLACE] = "UPDATE entry SET bytes = bytes - length(CAST(text AS BLOB)) + ?3, text = ?2"
                    " WHERE key = ?1",
    [SQL_GROW] = "UPDATE entry SET bytes = bytes + ?2 WHERE key = ?1",
    [SQL_FIND] = "SELECT key, kind, created, text, previous FROM entry"
                 " WHERE tenant = ?1 AND id = ?2 AND kind = ?3",
    [SQL_TOUCH] = "UPDATE entry SET used = max(used, ?2), expires = max(expires, ?3)"
                  " WHERE key = ?1",
    [SQL_DELETE] = "DELETE FROM entry WHERE key = ?1",
    [SQL_OLDEST] = "SELECT key FROM entry WHERE tenant = ?1 AND key != ?2 ORDER BY used, key"
                   " LIMIT 1",
    [SQL_BYTES_OF] = "SELECT bytes FROM sum WHERE tenant = 't' || ?1",
    [SQL_NUMBERS] = "SELECT entries, bytes FROM sum WHERE tenant = ''",
    [SQL_TENANTS] = "SELECT count(*) FROM sum WHERE tenant != ''",
    [SQL_NEXT] = "SELECT coalesce(min(expires), 0) FROM entry",
    [SQL_ADD_ITEM] = "INSERT INTO item(entry, place, id, output, text) VALUES(?1,"
                     " (SELECT coalesce(max(place), 0) + 1 FROM item WHERE entry = ?1), ?2, ?3,"
                     " ?4)",
    [SQL_PLACE_OF] = "SELECT place FROM item WHERE entry = ?1 AND id = ?2",
    [SQL_LIST_UP] = "SELECT id, text, output FROM item WHERE entry = ?1 AND place > ?2"
                    " AND output <= ?3 ORDER BY place LIMIT ?4",
    [SQL_LIST_DOWN] = "SELECT id, text, output FROM item WHERE entry = ?1 AND place < ?2"
                      " AND output <= ?3 ORDER BY place DESC LIMIT ?4",
    [SQL_FIND_ITEM] = "SELECT item.text FROM item JOIN entry ON entry.key = item.entry"
                      " WHERE item.id = ?1 AND entry.tenant = ?2 LIMIT 1",
    [SQL_FIND_ITEM_OF] = "SELECT text FROM item WHERE entry = ?1 AND id = ?2",
    [SQL_DELETE_ITEM] = "DELETE FROM item WHERE entry = ?1 AND id = ?2",
};

sqlite3_stmt *archive_statement(struct archive *a, enum archive_sql which, int *ret_error)
{
    const int r = sql_prepare(a->db, texts[which], &a->statements[which]);

    if (r == 0)
        return a->statements[which];
    *ret_error = r;
    return NULL;
}

int archive_run(struct archive *a, enum archive_sql which, int64_t first, int64_t second)
{
    int r = 0;
    sqlite3_stmt *st = archive_statement(a, which, &r);

    if (!st)
        return r;
    if (sqlite3_bind_parameter_count(st) > 0)
        sqlite3_bind_int64(st, 1, first);
    if (sqlite3_bind_parameter_count(st) > 1)
        sqlite3_bind_int64(st, 2, second);
    r = sql_step(st);
    sqlite3_reset(st);
    return r < 0 ? r : 0;
}

/* Reads @n numbers from a row into @values. If there is no row, @values stays as it is. */
static int archive_read_numbers(struct archive *a, enum archive_sql which, const char *tenant,
                                int64_t *values, int n)
{
    int r = 0;
    sqlite3_stmt *st = archive_statement(a, which, &r);

    if (!st)
        return r;
    if (tenant)
        sqlite3_bind_text(st, 1, tenant, -1, SQLITE_STATIC);
    r = sql_step(st);
    for (int i = 0; i < n && r > 0; i++)
        values[i] = sqlite3_column_int64(st, i);
    sqlite3_reset(st);
    return r < 0 ? r : 0;
}

/* Makes the tables of a new file, or checks that the file is an archive. */
static int archive_prepare(struct archive *a, const char *path, struct inf_err *reterr)
{
    int64_t n_tables = 0, application = 0, version = 0;
    int r = sql_exec(a->db, settings);

    r = r < 0 ? r : sql_number(a->db, "SELECT count(*) FROM sqlite_schema", &n_tables);
    if (r == 0 && n_tables == 0)
        r = sql_exec(a->db, schema);
    r = r < 0 ? r : sql_number(a->db, "PRAGMA application_id", &application);
    r = r < 0 ? r : sql_number(a->db, "PRAGMA user_version", &version);
    if (r == -EBUSY)
        return err_set(reterr, EBUSY, "another process uses %s", path ? path : "memory");
    if (r < 0)
        return err_set(reterr, -r, "%s cannot be opened: %s", path ? path : "memory",
                       sqlite3_errmsg(a->db));
    if (application != strtoll(ARCHIVE_APPLICATION, NULL, 10) || version != ARCHIVE_VERSION)
        return err_set(reterr, EUCLEAN, "%s is not a file of this version of sconce-keep",
                       path ? path : "memory");
    return 0;
}

int archive_open(const char *path, const struct archive_limits *limits,
                 struct archive **ret_archive, struct inf_err *reterr)
{
    _cleanup_(archive_freep) struct archive *a = NEW(struct archive, 1);
    int r;

    if (!a)
        return err_set(reterr, ENOMEM, "out of memory");
    a->limits = *limits;
    r = sql_open(path ? path : ":memory:", NULL, &a->db);
    if (r < 0)
        return err_set(reterr, -r, "%s cannot be opened: %s", path ? path : "memory",
                       sqlite3_errmsg(a->db));
    sqlite3_limit(a->db, SQLITE_LIMIT_ATTACHED, 0);
    r = archive_prepare(a, path, reterr);
    if (r < 0)
        return r;
    *ret_archive = STEAL(a);
    return 0;
}

struct archive *archive_free(struct archive *a)
{
    if (!a)
        return NULL;
    for (size_t i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(a->statements[i]);
    sqlite3_close(a->db);
    free(a);
    return NULL;
}

int archive_begin(struct archive *a, int64_t now)
{
    int r = sql_begin(a->db);

    a->now = now;
    a->change = (struct archive_change){};
    r = r < 0 ? r : archive_run(a, SQL_EXPIRE, now, 0);
    if (r < 0)
        sql_rollback(a->db);
    else
        a->change.n_expired = (uint64_t)sqlite3_changes(a->db);
    return r;
}

int archive_commit(struct archive *a)
{
    const int r = sql_commit(a->db);

    if (r < 0)
        return r;
    a->changes.n_added += a->change.n_added;
    a->changes.n_expired += a->change.n_expired;
    a->changes.n_evicted += a->change.n_evicted;
    return 0;
}

void archive_rollback(struct archive *a)
{
    sql_rollback(a->db);
}

/* Deletes the entry of the tenant that was not used for the longest time. ARCHIVE_FULL: the tenant
 * has no entry except @key. */
static int archive_drop_oldest(struct archive *a, const char *tenant, int64_t key)
{
    int r = 0;
    sqlite3_stmt *st = archive_statement(a, SQL_OLDEST, &r);
    int64_t oldest = 0;

    if (!st)
        return r;
    sqlite3_bind_text(st, 1, tenant, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 2, key);
    r = sql_step(st);
    if (r > 0)
        oldest = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    if (r <= 0)
        return r < 0 ? r : ARCHIVE_FULL;
    r = archive_delete(a, oldest);
    if (r == 0)
        a->change.n_evicted++;
    return r;
}

static int archive_find_room(struct archive *a, const char *tenant, int64_t key, uint64_t bytes)
{
    if (bytes > a->limits.max_bytes || bytes > a->limits.max_total_bytes)
        return ARCHIVE_FULL;
    for (;;) {
        int64_t own = 0, all[2] = {};
        int r = archive_read_numbers(a, SQL_BYTES_OF, tenant, &own, 1);

        r = r < 0 ? r : archive_read_numbers(a, SQL_NUMBERS, NULL, all, 2);
        if (r < 0 || ((uint64_t)own + bytes <= a->limits.max_bytes &&
                      (uint64_t)all[1] + bytes <= a->limits.max_total_bytes))
            return r;
        r = archive_drop_oldest(a, tenant, key);
        if (r != 0)
            return r;
    }
}

int archive_make_room(struct archive *a, const char *tenant, int64_t key, uint64_t bytes)
{
    const int r = archive_find_room(a, tenant, key, bytes);

    if (r == ARCHIVE_FULL)
        a->n_refused++;
    return r;
}

int archive_grow(struct archive *a, int64_t key, int64_t bytes)
{
    return archive_run(a, SQL_GROW, key, bytes);
}

int archive_add(struct archive *a, const char *tenant, enum archive_kind kind, const char *id,
                const char *previous, struct str text, int64_t *ret_key)
{
    const uint64_t bytes = text.len + ARCHIVE_ROW;
    int r = archive_make_room(a, tenant, 0, bytes);
    sqlite3_stmt *st = r == 0 ? archive_statement(a, SQL_ADD, &r) : NULL;

    if (!st)
        return r;
    sqlite3_bind_text(st, 1, tenant, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 2, (int)kind);
    sqlite3_bind_text(st, 3, id, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 4, previous ? previous : "", -1, SQLITE_STATIC);
    sqlite3_bind_text64(st, 5, text.data ? text.data : "", text.len, SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(st, 6, a->now);
    sqlite3_bind_int64(st, 7, a->now + a->limits.expiry_sec);
    sqlite3_bind_int64(st, 8, (int64_t)bytes);
    r = sql_step(st);
    sqlite3_clear_bindings(st);
    if (r < 0)
        return r;
    a->change.n_added++;
    *ret_key = sqlite3_last_insert_rowid(a->db);
    return 0;
}

int archive_replace(struct archive *a, const char *tenant, int64_t key, struct str text)
{
    int r = archive_make_room(a, tenant, key, text.len);
    sqlite3_stmt *st = r == 0 ? archive_statement(a, SQL_REPLACE, &r) : NULL;

    if (!st)
        return r;
    sqlite3_bind_int64(st, 1, key);
    sqlite3_bind_text64(st, 2, text.data ? text.data : "", text.len, SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(st, 3, (int64_t)text.len);
    r = sql_step(st);
    sqlite3_clear_bindings(st);
    return r;
}

static int archive_take_text(sqlite3_stmt *st, int column, struct str *out)
{
    const void *text = sqlite3_column_blob(st, column);

    return str_append(out, text ? text : "", (size_t)sqlite3_column_bytes(st, column));
}

int archive_find(struct archive *a, const char *tenant, enum archive_kind kind, const char *id,
                 struct archive_entry *ret_entry)
{
    struct archive_entry entry = {.kind = kind};
    int r = 0;
    sqlite3_stmt *st = archive_statement(a, SQL_FIND, &r);

    if (!st)
        return r;
    sqlite3_bind_text(st, 1, tenant, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, id, -1, SQLITE_STATIC);
    sqlite3_bind_int(st, 3, (int)kind);
    r = sql_step(st);
    if (r == 0)
        a->n_missed++;
    if (r <= 0)
        return r < 0 ? r : ARCHIVE_ABSENT;
    a->n_found++;
    entry.key = sqlite3_column_int64(st, 0);
    entry.created = sqlite3_column_int64(st, 2);
    r = archive_take_text(st, 3, &entry.text);
    r = r < 0 ? r : archive_take_text(st, 4, &entry.previous);
    sqlite3_reset(st);
    if (r < 0)
        archive_entry_done(&entry);
    else
        *ret_entry = entry;
    return r;
}

void archive_entry_done(struct archive_entry *entry)
{
    str_done(&entry->text);
    str_done(&entry->previous);
}

int archive_touch(struct archive *a, int64_t key)
{
    int r = 0;
    sqlite3_stmt *st = archive_statement(a, SQL_TOUCH, &r);

    if (!st)
        return r;
    sqlite3_bind_int64(st, 1, key);
    sqlite3_bind_int64(st, 2, a->now);
    sqlite3_bind_int64(st, 3, a->now + a->limits.expiry_sec);
    return sql_step(st);
}

int archive_delete(struct archive *a, int64_t key)
{
    return archive_run(a, SQL_DELETE, key, 0);
}

int archive_numbers(struct archive *a, struct archive_numbers *ret_numbers)
{
    int64_t values[3] = {};
    int r = archive_read_numbers(a, SQL_NUMBERS, NULL, values, 2);

    r = r < 0 ? r : archive_read_numbers(a, SQL_TENANTS, NULL, &values[2], 1);
    if (r < 0)
        return r;
    *ret_numbers = (struct archive_numbers){
        .n_entries = (uint64_t)values[0],
        .n_bytes = (uint64_t)values[1],
        .n_tenants = (uint64_t)values[2],
        .n_added = a->changes.n_added,
        .n_found = a->n_found,
        .n_missed = a->n_missed,
        .n_expired = a->changes.n_expired,
        .n_evicted = a->changes.n_evicted,
        .n_refused = a->n_refused,
    };
    return 0;
}

int archive_next_expiry(struct archive *a, int64_t *ret_time)
{
    return archive_read_numbers(a, SQL_NEXT, NULL, ret_time, 1);
}
