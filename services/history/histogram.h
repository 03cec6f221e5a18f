/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Keeps histograms (struct history_histogram) in a database of SQLite, and reads percentiles.
 *
 * In the database a histogram is a BLOB: for each bucket that is not empty, in order, one byte with
 * its index and four bytes with its count, the least significant first.
 */

#include <sqlite3.h>

#include "common/wire/history.h"

/* The most bytes of a BLOB. */
#define HISTOGRAM_BYTES (5 * HISTORY_BUCKETS)

/* Defines the SQL functions histogram_add(A, B) and histogram_sum(A), which is an aggregate, for
 * @db. 0 or a negative errno. */
int histogram_register(sqlite3 *db);
/* Writes @h as a BLOB. Returns its length in bytes. */
int histogram_write(const struct history_histogram *h, uint8_t ret[HISTOGRAM_BYTES]);
/* Reads a BLOB of @len bytes. Returns false if it is damaged. */
bool histogram_read(const void *data, int len, struct history_histogram *ret);
/* Returns the value below which the part @share (0 to 1) of the values lies, in the unit of @least,
 * which is the upper bound of the first bucket; NAN: there are no values. */
double histogram_percentile(const struct history_histogram *h, double least, double share);
