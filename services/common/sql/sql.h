/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares functions for services that keep data in a database of SQLite.
 *
 * The functions return 0, or a negative errno for an error of SQLite. -EUCLEAN stands for all
 * errors of SQLite that have no errno value of their own. It means that the file is damaged: the
 * statements of the services are constant and match their tables, so nothing else can cause such an
 * error.
 */

#include <sqlite3.h>
#include <stdint.h>

/* Converts a result of SQLite to a negative errno; 0 for results that are not errors. -EEXIST: a
 * constraint was violated. */
int sql_errno(int rc);
/* Opens the database at @path, or makes an empty one. @vfs may be NULL. The caller closes *ret_db
 * with sqlite3_close(), even after a failure. */
int sql_open(const char *path, const char *vfs, sqlite3 **ret_db);
/* Runs statements without parameters, and ignores their rows. */
int sql_exec(sqlite3 *db, const char *text);
/* Reads the number in the first column of the first row. */
int sql_number(sqlite3 *db, const char *text, int64_t *ret_value);
/* Prepares the statement *st if it is NULL, and resets it otherwise. The caller frees the statement
 * with sqlite3_finalize(). */
int sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **st);
/* Runs a statement up to its next row. Returns 1 if there is a row. Otherwise resets @st, and
 * returns 0 or a negative errno. */
int sql_step(sqlite3_stmt *st);

int sql_begin(sqlite3 *db);
/* Commits the transaction. Rolls it back if this fails. */
int sql_commit(sqlite3 *db);
void sql_rollback(sqlite3 *db);
