/* SPDX-License-Identifier: Apache-2.0 */
/* Counts requests in rows, and reads rows that came from another process (see history.h). */
#include "common/wire/history.h"

#include <math.h>
#include <time.h>

#include "core/utf8.h"

/* The largest number of a row of another process. Sums of such numbers do not overflow, and SQLite
 * stores them as they are. */
#define HISTORY_NUMBER_MAX ((uint64_t)1 << 48)

/* Copies @text and cuts it before the first code point that does not fit. */
static void history_copy(char *out, size_t size, const char *text, size_t len)
{
    const size_t n = utf8_valid_prefix(text, MIN(len, size - 1));

    memset(out, 0, size);
    memcpy(out, text, n);
}

void history_add(uint64_t to[HISTORY_NUMBERS], const uint64_t from[HISTORY_NUMBERS])
{
    for (size_t i = 0; i < HISTORY_NUMBERS; i++)
        to[i] = i == HISTORY_FIRST_MAX ? MAX(to[i], from[i]) : to[i] + from[i];
}

void history_histogram_add(struct history_histogram *to, const struct history_histogram *from)
{
    for (size_t i = 0; i < HISTORY_BUCKETS; i++)
        if (__builtin_add_overflow(to->counts[i], from->counts[i], &to->counts[i]))
            to->counts[i] = UINT32_MAX;
}

/* Counts @value, whose unit is that of @least (see HISTORY_BUCKETS). */
static void history_spread(struct history_histogram *h, double least, double value)
{
    const double bucket = value > least ? ceil(log(value / least) / log(HISTORY_BUCKET_RATIO)) : 0;

    h->counts[(unsigned)MIN(bucket, HISTORY_BUCKETS - 1.0)]++;
}

/* Counts a request with these numbers in the histograms. */
static void history_spread_all(struct history_row *row, const uint64_t numbers[HISTORY_NUMBERS])
{
    if (numbers[HISTORY_FIRSTS])
        history_spread(&row->spreads[HISTORY_SPREAD_FIRST], HISTORY_FIRST_LEAST,
                       (double)numbers[HISTORY_FIRST_USEC] / 1e6);
    if (numbers[HISTORY_NEXT] && numbers[HISTORY_GENERATE_USEC])
        history_spread(&row->spreads[HISTORY_SPREAD_SPEED], HISTORY_SPEED_LEAST,
                       (double)numbers[HISTORY_NEXT] / (double)numbers[HISTORY_GENERATE_USEC] *
                           1e6);
}

/* Returns the row with the minute and the names of @wanted, or a new one; NULL: no room. */
static struct history_row *history_find(struct history_counts *counts,
                                        const struct history_row *wanted)
{
    const size_t names = offsetof(struct history_row, numbers);

    if (!counts->rows)
        counts->rows = NEW(struct history_row, HISTORY_ROWS);
    if (!counts->rows)
        return NULL;
    for (size_t i = counts->n; i-- > 0;)
        if (memcmp(&counts->rows[i], wanted, names) == 0)
            return &counts->rows[i];
    if (counts->n == HISTORY_ROWS)
        return NULL;
    counts->rows[counts->n] = *wanted;
    return &counts->rows[counts->n++];
}

void history_count(struct history_counts *counts, const char *service, const char *model,
                   const char *key, const uint64_t numbers[HISTORY_NUMBERS])
{
    const int64_t now = time(NULL);
    struct history_row wanted = {.minute = now - now % 60}, *row;

    history_copy(wanted.service, sizeof(wanted.service), service, strlen(service));
    if (model)
        history_copy(wanted.model, sizeof(wanted.model), model, strlen(model));
    if (key)
        history_copy(wanted.key, sizeof(wanted.key), key, strlen(key));
    row = history_find(counts, &wanted);
    if (row) {
        history_add(row->numbers, numbers);
        history_spread_all(row, numbers);
    } else {
        counts->n_lost += numbers[HISTORY_REQUESTS];
    }
}

void history_counts_done(struct history_counts *counts)
{
    free(counts->rows);
    *counts = (struct history_counts){};
}

void history_counts_send(struct history_counts *counts, struct http_request *request)
{
    http_respond(request, 200, "application/octet-stream", counts->rows ? (void *)counts->rows : "",
                 counts->n * sizeof(struct history_row));
    counts->n = 0;
}

void history_take_key(const struct http_request *request, char out[HISTORY_KEY])
{
    struct http_text key = {"", 0};

    http_request_header(request, HISTORY_KEY_HEADER, &key);
    history_copy(out, HISTORY_KEY, key.data, key.len);
}

static bool history_text_is_good(const char *text, size_t size)
{
    const size_t len = strnlen(text, size);

    return len < size && utf8_valid(text, len);
}

bool history_row_read(struct http_text rows, size_t i, struct history_row *ret_row)
{
    struct history_row row;

    if (i >= rows.len / sizeof(row))
        return false;
    memcpy(&row, rows.data + i * sizeof(row), sizeof(row));
    if (row.minute < 0 || row.minute > (int64_t)HISTORY_NUMBER_MAX ||
        !history_text_is_good(row.service, sizeof(row.service)) ||
        !history_text_is_good(row.model, sizeof(row.model)) ||
        !history_text_is_good(row.key, sizeof(row.key)))
        return false;
    for (size_t k = 0; k < HISTORY_NUMBERS; k++)
        if (row.numbers[k] > HISTORY_NUMBER_MAX)
            return false;
    *ret_row = row;
    return true;
}
