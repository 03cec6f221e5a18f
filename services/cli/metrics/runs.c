/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the file of benchmark runs (see runs.h). */
#include "cli/metrics/runs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/config/config.h"
#include "common/sql/sql.h"
#include "core/err.h"
#include "core/file.h"

/* The characters "scBe". */
#define RUNS_APPLICATION "1935884901"
#define RUNS_VERSION     1
#define RUNS_BUSY_MSEC   5000

static const char schema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS run(id INTEGER PRIMARY KEY, time INTEGER NOT NULL,"
    " version TEXT NOT NULL, model TEXT NOT NULL, bytes INTEGER NOT NULL, weights TEXT NOT NULL,"
    " machine TEXT NOT NULL, isa TEXT NOT NULL, kv_type TEXT NOT NULL, threads INTEGER NOT NULL,"
    " n_prompt INTEGER NOT NULL, n_generate INTEGER NOT NULL, depth INTEGER NOT NULL,"
    " streams INTEGER NOT NULL, batch INTEGER NOT NULL, repeat INTEGER NOT NULL,"
    " pp REAL NOT NULL, pp_stddev REAL NOT NULL, tg REAL NOT NULL, tg_stddev REAL NOT NULL);"
    "PRAGMA application_id = " RUNS_APPLICATION ";"
    "PRAGMA user_version = 1;"
    "COMMIT;";

/* Returns the path of the file; the caller frees it. If @makes is set, creates the directory of the
 * file and the missing directories above it. */
static char *runs_path(bool makes)
{
    _cleanup_free_ char *dir = config_data_dir();

    if (dir && makes)
        path_make_dirs(dir, 0755);
    return dir ? path_join(dir, "bench.db") : NULL;
}

static int runs_open(const char *path, sqlite3 **ret_db, struct inf_err *reterr)
{
    int64_t n_tables = 0, application = 0, version = 0;
    int r = sql_open(path, NULL, ret_db);

    if (r == 0)
        sqlite3_busy_timeout(*ret_db, RUNS_BUSY_MSEC);
    r = r < 0 ? r : sql_number(*ret_db, "SELECT count(*) FROM sqlite_schema", &n_tables);
    if (r == 0 && n_tables == 0)
        r = sql_exec(*ret_db, schema);
    r = r < 0 ? r : sql_number(*ret_db, "PRAGMA application_id", &application);
    r = r < 0 ? r : sql_number(*ret_db, "PRAGMA user_version", &version);
    if (r < 0)
        return err_set(reterr, -r, "%s cannot be opened: %s", path, sqlite3_errmsg(*ret_db));
    if (application != strtoll(RUNS_APPLICATION, NULL, 10) || version != RUNS_VERSION)
        return err_set(reterr, EUCLEAN, "%s has no benchmark runs of this version of sconce", path);
    return 0;
}

static int runs_insert(sqlite3 *db, const struct run *run)
{
    const uint32_t counts[] = {run->threads, run->n_prompt, run->n_generate, run->depth,
                               run->streams, run->batch,    run->repeat};
    const double speeds[] = {run->pp, run->pp_stddev, run->tg, run->tg_stddev};
    sqlite3_stmt *st = NULL;
    int r = sql_prepare(db,
                        "INSERT INTO run VALUES(NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
                        "?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
                        &st);

    if (r == 0) {
        sqlite3_bind_int64(st, 1, run->time);
        sqlite3_bind_text(st, 2, run->version, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 3, run->model, -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 4, (int64_t)run->bytes);
        sqlite3_bind_text(st, 5, run->weights, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 6, run->machine, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 7, run->isa, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 8, run->kv_type, -1, SQLITE_STATIC);
        for (int i = 0; i < (int)ARRAY_SIZE(counts); i++)
            sqlite3_bind_int64(st, 9 + i, counts[i]);
        for (int i = 0; i < (int)ARRAY_SIZE(speeds); i++)
            sqlite3_bind_double(st, 16 + i, speeds[i]);
        r = sql_step(st);
    }
    sqlite3_finalize(st);
    return r;
}

int runs_add(const struct run *run, struct inf_err *reterr)
{
    _cleanup_free_ char *path = runs_path(true);
    sqlite3 *db = NULL;
    int r;

    if (!path)
        return err_set(reterr, ENOENT, "there is no home directory to save runs in");
    r = runs_open(path, &db, reterr);
    if (r == 0 && (r = runs_insert(db, run)) < 0)
        err_set(reterr, -r, "%s cannot be written: %s", path, sqlite3_errmsg(db));
    sqlite3_close(db);
    return r;
}

static void runs_text(sqlite3_stmt *st, int column, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(st, column);

    snprintf(out, size, "%s", text ? (const char *)text : "");
}

static void runs_take(sqlite3_stmt *st, struct run *run)
{
    uint32_t *const counts[] = {&run->threads, &run->n_prompt, &run->n_generate, &run->depth,
                                &run->streams, &run->batch,    &run->repeat};
    double *const speeds[] = {&run->pp, &run->pp_stddev, &run->tg, &run->tg_stddev};

    run->id = sqlite3_column_int64(st, 0);
    run->time = sqlite3_column_int64(st, 1);
    runs_text(st, 2, run->version, sizeof(run->version));
    runs_text(st, 3, run->model, sizeof(run->model));
    run->bytes = (uint64_t)sqlite3_column_int64(st, 4);
    runs_text(st, 5, run->weights, sizeof(run->weights));
    runs_text(st, 6, run->machine, sizeof(run->machine));
    runs_text(st, 7, run->isa, sizeof(run->isa));
    runs_text(st, 8, run->kv_type, sizeof(run->kv_type));
    for (int i = 0; i < (int)ARRAY_SIZE(counts); i++)
        *counts[i] = (uint32_t)sqlite3_column_int64(st, 9 + i);
    for (int i = 0; i < (int)ARRAY_SIZE(speeds); i++)
        *speeds[i] = sqlite3_column_double(st, 16 + i);
}

static int runs_select(sqlite3 *db, struct run **ret_runs, size_t *ret_n)
{
    _cleanup_free_ struct run *runs = NULL;
    sqlite3_stmt *st = NULL;
    size_t n = 0, room = 0;
    int r = sql_prepare(db, "SELECT * FROM run ORDER BY time, id", &st);

    while (r == 0 && (r = sql_step(st)) > 0) {
        if (n == room) {
            struct run *more = realloc(runs, (2 * room + 64) * sizeof(*runs));

            if (!more) {
                r = -ENOMEM;
                break;
            }
            runs = more;
            room = 2 * room + 64;
        }
        runs_take(st, &runs[n++]);
        r = 0;
    }
    sqlite3_finalize(st);
    if (r < 0)
        return r;
    *ret_runs = STEAL(runs);
    *ret_n = n;
    return 0;
}

int runs_read(struct run **ret_runs, size_t *ret_n, struct inf_err *reterr)
{
    _cleanup_free_ char *path = runs_path(false);
    sqlite3 *db = NULL;
    int r;

    *ret_runs = NULL;
    *ret_n = 0;
    if (!path || access(path, F_OK) < 0)
        return 0;
    r = runs_open(path, &db, reterr);
    if (r == 0 && (r = runs_select(db, ret_runs, ret_n)) < 0)
        err_set(reterr, -r, "%s cannot be read: %s", path, sqlite3_errmsg(db));
    sqlite3_close(db);
    return r;
}
