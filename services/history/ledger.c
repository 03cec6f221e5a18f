/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the numbers of requests in a file of SQLite (see ledger.h).
 *
 * The file is locked as long as it is open. The rollback journal is cut to zero bytes after each
 * change.
 */
#include "history/ledger.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/sql/sql.h"
#include "core/err.h"
#include "history/histogram.h"

/* The characters "scHi". */
#define LEDGER_APPLICATION "1935886441"
#define LEDGER_VERSION     2
#define LEDGER_DAY         86400
#define LEDGER_HOUR        3600
/* Rows that are older than this are joined into rows of whole hours. */
#define LEDGER_MINUTES (2 * LEDGER_DAY)
#define LEDGER_PAGE    4096u
/* The most bytes of a row in the file. */
#define LEDGER_ROW_MAX 1100u

static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA page_size = 4096;"
                               "PRAGMA auto_vacuum = FULL; PRAGMA journal_mode = TRUNCATE;"
                               "PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;"
                               "PRAGMA trusted_schema = OFF;";

/* The columns n0 to n13 are the numbers of enum history_number, and h0 and h1 the histograms of
 * enum history_spread (histogram.h). */
#define SUMS                                                                                       \
    "sum(n0), sum(n1), sum(n2), sum(n3), sum(n4), sum(n5), sum(n6), sum(n7), sum(n8), sum(n9), "   \
    "sum(n10), max(n11), sum(n12), sum(n13), histogram_sum(h0), histogram_sum(h1)"
_Static_assert(HISTORY_NUMBERS == 14 && HISTORY_FIRST_MAX == 11 && HISTORY_SPREADS == 2,
               "the columns are those of enum history_number");

static const char schema[] =
    "BEGIN;"
    "CREATE TABLE sums(minute INTEGER NOT NULL, service TEXT NOT NULL, model TEXT NOT NULL,"
    " key TEXT NOT NULL, n0 INTEGER NOT NULL, n1 INTEGER NOT NULL, n2 INTEGER NOT NULL,"
    " n3 INTEGER NOT NULL, n4 INTEGER NOT NULL, n5 INTEGER NOT NULL, n6 INTEGER NOT NULL,"
    " n7 INTEGER NOT NULL, n8 INTEGER NOT NULL, n9 INTEGER NOT NULL, n10 INTEGER NOT NULL,"
    " n11 INTEGER NOT NULL, n12 INTEGER NOT NULL, n13 INTEGER NOT NULL,"
    " h0 BLOB NOT NULL DEFAULT x'', h1 BLOB NOT NULL DEFAULT x'',"
    " PRIMARY KEY(minute, service, model, key)) WITHOUT ROWID;"
    "PRAGMA application_id = " LEDGER_APPLICATION ";"
    "PRAGMA user_version = 2;"
    "COMMIT;";

/* Version 1 had no histograms. */
static const char upgrade[] = "BEGIN;"
                              "ALTER TABLE sums ADD COLUMN h0 BLOB NOT NULL DEFAULT x'';"
                              "ALTER TABLE sums ADD COLUMN h1 BLOB NOT NULL DEFAULT x'';"
                              "PRAGMA user_version = 2;"
                              "COMMIT;";

#define MERGE                                                                                      \
    " ON CONFLICT DO UPDATE SET n0 = n0 + excluded.n0, n1 = n1 + excluded.n1,"                     \
    " n2 = n2 + excluded.n2, n3 = n3 + excluded.n3, n4 = n4 + excluded.n4,"                        \
    " n5 = n5 + excluded.n5, n6 = n6 + excluded.n6, n7 = n7 + excluded.n7,"                        \
    " n8 = n8 + excluded.n8, n9 = n9 + excluded.n9, n10 = n10 + excluded.n10,"                     \
    " n11 = max(n11, excluded.n11), n12 = n12 + excluded.n12, n13 = n13 + excluded.n13,"           \
    " h0 = histogram_add(h0, excluded.h0), h1 = histogram_add(h1, excluded.h1)"

enum ledger_sql {
    SQL_ADD,
    SQL_JOIN,
    SQL_FORGET_JOINED,
    SQL_FORGET,
    SQL_OLDEST,
    SQL_READ,
    SQL_COUNT,
};

static const char *const texts[SQL_COUNT] = {
    [SQL_ADD] = "INSERT INTO sums VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
                " ?14, ?15, ?16, ?17, ?18, ?19, ?20)" MERGE,
    [SQL_JOIN] = "INSERT INTO sums SELECT minute - minute % 3600, service, model, key, " SUMS
                 " FROM sums WHERE minute < ?1 AND minute % 3600 != 0"
                 " GROUP BY minute - minute % 3600, service, model, key" MERGE,
    [SQL_FORGET_JOINED] = "DELETE FROM sums WHERE minute < ?1 AND minute % 3600 != 0",
    [SQL_FORGET] = "DELETE FROM sums WHERE minute < ?1",
    [SQL_OLDEST] = "SELECT min(minute) FROM sums",
    [SQL_READ] = "SELECT CASE WHEN ?3 = 0 THEN ?1 ELSE minute - (minute + ?4) % ?3 END AS period,"
                 " CASE WHEN ?5 & 1 THEN service ELSE '' END AS of_service,"
                 " CASE WHEN ?5 & 2 THEN model ELSE '' END AS of_model,"
                 " CASE WHEN ?5 & 4 THEN key ELSE '' END AS of_key, " SUMS
                 " FROM sums WHERE minute >= ?1 AND minute < ?2"
                 " GROUP BY period, of_service, of_model, of_key"
                 " ORDER BY period, of_service, of_model, of_key",
};

struct ledger {
    sqlite3 *db;
    struct ledger_limits limits;
    int64_t joined; /* the hour whose upkeep was done last */
    sqlite3_stmt *statements[SQL_COUNT];
};

static int ledger_prepare(struct ledger *l, enum ledger_sql which)
{
    return sql_prepare(l->db, texts[which], &l->statements[which]);
}

/* Runs a statement with one number. */
static int ledger_run(struct ledger *l, enum ledger_sql which, int64_t number)
{
    int r = ledger_prepare(l, which);

    if (r < 0)
        return r;
    sqlite3_bind_int64(l->statements[which], 1, number);
    return sql_step(l->statements[which]);
}

static int ledger_check(struct ledger *l, const char *path, struct inf_err *reterr)
{
    int64_t n_tables = 0, application = 0, version = 0;
    char limit[64];
    int r = sql_exec(l->db, settings);

    r = r < 0 ? r : histogram_register(l->db);
    snprintf(limit, sizeof(limit), "PRAGMA max_page_count = %llu",
             (unsigned long long)(l->limits.max_bytes / LEDGER_PAGE));
    r = r < 0 ? r : sql_exec(l->db, limit);
    r = r < 0 ? r : sql_number(l->db, "SELECT count(*) FROM sqlite_schema", &n_tables);
    if (r == 0 && n_tables == 0)
        r = sql_exec(l->db, schema);
    r = r < 0 ? r : sql_number(l->db, "PRAGMA application_id", &application);
    r = r < 0 ? r : sql_number(l->db, "PRAGMA user_version", &version);
    if (r == 0 && version == 1 && application == strtoll(LEDGER_APPLICATION, NULL, 10)) {
        r = sql_exec(l->db, upgrade);
        version = LEDGER_VERSION;
        if (r < 0)
            sql_rollback(l->db);
    }
    if (r == -EBUSY)
        return err_set(reterr, EBUSY, "another process uses %s", path);
    if (r < 0)
        return err_set(reterr, -r, "%s cannot be opened: %s", path, sqlite3_errmsg(l->db));
    if (application != strtoll(LEDGER_APPLICATION, NULL, 10) || version != LEDGER_VERSION)
        return err_set(reterr, EUCLEAN, "%s is not a file of this version of sconce-history", path);
    return 0;
}

int ledger_open(const char *path, const struct ledger_limits *limits, struct ledger **ret_ledger,
                struct inf_err *reterr)
{
    _cleanup_(ledger_freep) struct ledger *l = NEW(struct ledger, 1);
    const char *name = path ? path : "memory";
    int r;

    if (!l)
        return err_set(reterr, ENOMEM, "out of memory");
    l->limits = *limits;
    r = sql_open(path ? path : ":memory:", NULL, &l->db);
    if (r < 0)
        return err_set(reterr, -r, "%s cannot be opened: %s", name, sqlite3_errmsg(l->db));
    sqlite3_limit(l->db, SQLITE_LIMIT_ATTACHED, 0);
    r = ledger_check(l, name, reterr);
    if (r < 0)
        return r;
    *ret_ledger = STEAL(l);
    return 0;
}

struct ledger *ledger_free(struct ledger *l)
{
    if (!l)
        return NULL;
    for (size_t i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(l->statements[i]);
    sqlite3_close(l->db);
    free(l);
    return NULL;
}

static int ledger_add_row(struct ledger *l, const struct history_row *row)
{
    int r = ledger_prepare(l, SQL_ADD);
    sqlite3_stmt *st = l->statements[SQL_ADD];
    uint8_t bytes[HISTOGRAM_BYTES];

    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, row->minute - row->minute % 60);
    sqlite3_bind_text(st, 2, row->service, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, row->model, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 4, row->key, -1, SQLITE_STATIC);
    for (int i = 0; i < HISTORY_NUMBERS; i++)
        sqlite3_bind_int64(st, 5 + i, (int64_t)row->numbers[i]);
    for (int i = 0; i < HISTORY_SPREADS; i++) {
        const int n = histogram_write(&row->spreads[i], bytes);

        sqlite3_bind_blob(st, 5 + HISTORY_NUMBERS + i, bytes, n, SQLITE_TRANSIENT);
    }
    return sql_step(st);
}

static int ledger_add_all(struct ledger *l, const struct history_row *rows, size_t n, int64_t now)
{
    int r = sql_begin(l->db);

    for (size_t i = 0; i < n && r == 0; i++)
        if (rows[i].minute > now - LEDGER_DAY && rows[i].minute < now + LEDGER_DAY)
            r = ledger_add_row(l, &rows[i]);
    if (r < 0)
        sql_rollback(l->db);
    return r < 0 ? r : sql_commit(l->db);
}

/* Deletes the rows of the first day. Returns 1, or 0 if there are no rows. */
static int ledger_drop_day(struct ledger *l)
{
    int64_t oldest = 0, n = 0;
    int r = sql_number(l->db, "SELECT count(*) FROM sums", &n);

    if (r < 0 || n == 0)
        return r;
    r = sql_number(l->db, texts[SQL_OLDEST], &oldest);
    r = r < 0 ? r : ledger_run(l, SQL_FORGET, oldest + LEDGER_DAY);
    return r < 0 ? r : 1;
}

/* Joins and deletes old rows, once an hour. */
static int ledger_upkeep(struct ledger *l, int64_t now)
{
    const int64_t hour = now - now % LEDGER_HOUR;
    int r;

    if (hour == l->joined)
        return 0;
    r = sql_begin(l->db);
    r = r < 0 ? r : ledger_run(l, SQL_FORGET, now - l->limits.retention_sec);
    r = r < 0 ? r : ledger_run(l, SQL_JOIN, hour - LEDGER_MINUTES);
    r = r < 0 ? r : ledger_run(l, SQL_FORGET_JOINED, hour - LEDGER_MINUTES);
    if (r < 0) {
        sql_rollback(l->db);
        return r;
    }
    l->joined = hour;
    return sql_commit(l->db);
}

/* Deletes the oldest day if the file has not enough room for @n rows below its limit. Returns 1,
 * or 0 if no row is left or the file is smaller. If it is smaller, the disk is full, and deleting
 * rows would only make room for other programs. */
static int ledger_make_room(struct ledger *l, size_t n)
{
    /* A new row may split a page, and some pages are not leaves of the tree. */
    const uint64_t needed = n * (LEDGER_ROW_MAX + LEDGER_PAGE) + 16 * (uint64_t)LEDGER_PAGE;
    uint64_t bytes = 0;
    int r = ledger_bytes(l, &bytes);

    return r < 0 || bytes + needed < l->limits.max_bytes ? r : ledger_drop_day(l);
}

int ledger_add(struct ledger *l, const struct history_row *rows, size_t n, int64_t now)
{
    int r, dropped = 1;

    /* While upkeep runs, it needs additional room. If the disk is full, the next call tries
     * again. */
    while ((r = ledger_upkeep(l, now)) == -ENOSPC && (dropped = ledger_make_room(l, n)) > 0)
        continue;
    if (r < 0 && (r != -ENOSPC || dropped < 0))
        return dropped < 0 ? dropped : r;
    while ((r = ledger_add_all(l, rows, n, now)) == -ENOSPC &&
           (dropped = ledger_make_room(l, n)) > 0)
        continue;
    return dropped < 0 ? dropped : r;
}

static void ledger_column(sqlite3_stmt *st, int column, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(st, column);

    snprintf(out, size, "%s", text ? (const char *)text : "");
}

/* Returns false if a histogram of the row is damaged. */
static bool ledger_take_row(sqlite3_stmt *st, struct history_row *row)
{
    bool is_good = true;

    row->minute = sqlite3_column_int64(st, 0);
    ledger_column(st, 1, row->service, sizeof(row->service));
    ledger_column(st, 2, row->model, sizeof(row->model));
    ledger_column(st, 3, row->key, sizeof(row->key));
    for (int i = 0; i < HISTORY_NUMBERS; i++)
        row->numbers[i] = (uint64_t)sqlite3_column_int64(st, 4 + i);
    for (int i = 0; i < HISTORY_SPREADS; i++) {
        const void *blob = sqlite3_column_blob(st, 4 + HISTORY_NUMBERS + i);

        is_good &= histogram_read(blob, sqlite3_column_bytes(st, 4 + HISTORY_NUMBERS + i),
                                  &row->spreads[i]);
    }
    return is_good;
}

int ledger_read(struct ledger *l, const struct ledger_query *query,
                int (*put)(void *data, const struct history_row *row), void *data)
{
    int r = ledger_prepare(l, SQL_READ), answer = 0;
    sqlite3_stmt *st = l->statements[SQL_READ];
    struct history_row row;

    if (r < 0)
        return r;
    sqlite3_bind_int64(st, 1, query->from);
    sqlite3_bind_int64(st, 2, query->to);
    sqlite3_bind_int64(st, 3, query->step);
    sqlite3_bind_int64(st, 4, query->offset);
    sqlite3_bind_int64(st, 5, query->by);
    while (answer >= 0 && (r = sql_step(st)) > 0)
        answer = ledger_take_row(st, &row) ? put(data, &row) : -EUCLEAN;
    sqlite3_reset(st);
    return answer < 0 ? answer : r;
}

int ledger_bytes(struct ledger *l, uint64_t *ret_bytes)
{
    int64_t n_pages = 0;
    const int r = sql_number(l->db, "PRAGMA page_count", &n_pages);

    if (r == 0)
        *ret_bytes = (uint64_t)n_pages * LEDGER_PAGE;
    return r;
}
