/* SPDX-License-Identifier: Apache-2.0 */
/* Stores and reads histograms (see histogram.h). */
#include "history/histogram.h"

#include <math.h>

#include "common/sql/sql.h"

int histogram_write(const struct history_histogram *h, uint8_t ret[HISTOGRAM_BYTES])
{
    int n = 0;

    for (unsigned i = 0; i < HISTORY_BUCKETS; i++) {
        if (!h->counts[i])
            continue;
        ret[n++] = (uint8_t)i;
        for (unsigned k = 0; k < 4; k++)
            ret[n++] = (uint8_t)(h->counts[i] >> 8 * k);
    }
    return n;
}

bool histogram_read(const void *data, int len, struct history_histogram *ret)
{
    const uint8_t *bytes = data;
    struct history_histogram h = {};

    if (len % 5 != 0 || len > HISTOGRAM_BYTES)
        return false;
    for (int at = 0; at < len; at += 5) {
        if (bytes[at] >= HISTORY_BUCKETS)
            return false;
        for (unsigned k = 0; k < 4; k++)
            h.counts[bytes[at]] |= (uint32_t)bytes[at + 1 + (int)k] << 8 * k;
    }
    *ret = h;
    return true;
}

/* Adds the BLOB @value. Returns false, and sets the error of the statement, if it is damaged. */
static bool add_value(sqlite3_context *context, struct history_histogram *to, sqlite3_value *value)
{
    struct history_histogram from;

    if (!histogram_read(sqlite3_value_blob(value), sqlite3_value_bytes(value), &from)) {
        sqlite3_result_error_code(context, SQLITE_CORRUPT);
        return false;
    }
    history_histogram_add(to, &from);
    return true;
}

static void put_result(sqlite3_context *context, const struct history_histogram *h)
{
    uint8_t bytes[HISTOGRAM_BYTES];

    sqlite3_result_blob(context, bytes, histogram_write(h, bytes), SQLITE_TRANSIENT);
}

static void on_add(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct history_histogram sum = {};
    bool is_good = true;

    for (int i = 0; i < n && is_good; i++)
        is_good = add_value(context, &sum, values[i]);
    if (is_good)
        put_result(context, &sum);
}

static void on_step(sqlite3_context *context, int n, sqlite3_value **values)
{
    struct history_histogram *sum = sqlite3_aggregate_context(context, sizeof(*sum));

    (void)n;
    if (!sum)
        sqlite3_result_error_nomem(context);
    else
        add_value(context, sum, values[0]);
}

static void on_final(sqlite3_context *context)
{
    static const struct history_histogram none;
    const struct history_histogram *sum = sqlite3_aggregate_context(context, 0);

    put_result(context, sum ? sum : &none);
}

int histogram_register(sqlite3 *db)
{
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC;
    int rc =
        sqlite3_create_function_v2(db, "histogram_add", 2, flags, NULL, on_add, NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_create_function_v2(db, "histogram_sum", 1, flags, NULL, NULL, on_step,
                                        on_final, NULL);
    return sql_errno(rc);
}

double histogram_percentile(const struct history_histogram *h, double least, double share)
{
    double all = 0, below = 0;

    for (unsigned i = 0; i < HISTORY_BUCKETS; i++)
        all += h->counts[i];
    for (unsigned i = 0; i < HISTORY_BUCKETS; i++) {
        const double n = h->counts[i];

        /* Within a bucket the logarithms of the values are taken as evenly distributed. */
        if (n > 0 && below + n >= share * all)
            return least * pow(HISTORY_BUCKET_RATIO, (double)i - 1 + (share * all - below) / n);
        below += n;
    }
    return NAN;
}
