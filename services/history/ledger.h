/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The ledger is the file with the numbers of all requests, a database of SQLite.
 *
 * It has one row for each minute, service, model and API key. Rows that are older than two days are
 * joined into rows of whole hours. Rows older than the retention are deleted. If the file reaches
 * its largest size, the rows of its oldest day are deleted until there is room. If the disk is
 * full, no older row is deleted, and the new rows are lost.
 *
 * One thread uses a ledger. Functions return 0 or a negative errno.
 */

#include "common/wire/history.h"

struct ledger;

struct ledger_limits {
    int64_t retention_sec;
    uint64_t max_bytes;
};

/* Opens the file at @path, or makes it. NULL: the rows are only in memory, for tests. -EUCLEAN: it
 * is another file, or it is damaged. */
int ledger_open(const char *path, const struct ledger_limits *limits, struct ledger **ret_ledger,
                struct inf_err *reterr);
struct ledger *ledger_free(struct ledger *ledger);
DEFINE_CLEANUP(struct ledger *, ledger_free);

/* Adds the numbers of @n rows in one transaction. Rows from more than a day before or after @now
 * (Unix seconds) are left out, because no clock is that wrong. Before that, once an hour, deletes
 * rows that are older than the retention. If the file has no room, deletes its oldest days.
 * -ENOSPC: the disk is full, or the limits leave no room at all. */
int ledger_add(struct ledger *ledger, const struct history_row *rows, size_t n, int64_t now);

/* The names by which rows are distinguished. */
enum ledger_by {
    LEDGER_BY_SERVICE = 1,
    LEDGER_BY_MODEL = 2,
    LEDGER_BY_KEY = 4,
};

struct ledger_query {
    int64_t from, to; /* Unix seconds; rows whose minute is at least `from` and before `to` */
    int64_t step;     /* seconds of a period; 0: all rows are one period */
    int64_t offset;   /* seconds by which local time is ahead of UTC, for periods of days */
    unsigned by;      /* bits of enum ledger_by */
};

/* Calls @put for each sum, sorted by time and names. Names that are not in query->by are "". Stops
 * when @put returns a negative value, and returns it. */
int ledger_read(struct ledger *ledger, const struct ledger_query *query,
                int (*put)(void *data, const struct history_row *row), void *data);
/* Returns how many bytes the file has. */
int ledger_bytes(struct ledger *ledger, uint64_t *ret_bytes);
