/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the rows of the history, and the file in which they are kept. */
#include "history/ledger.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history/histogram.h"
#include "lib/test.h"

#define DAY 86400
#define NOW ((int64_t)1700000000 - 1700000000 % DAY)

static struct ledger *ledger;
static struct history_row found[64];
static size_t n_found;

static void open_ledger(const char *path, uint64_t max_bytes)
{
    struct inf_err err = {};

    ASSERT_OK_ERR(
        ledger_open(path,
                    &(struct ledger_limits){.retention_sec = 90 * DAY, .max_bytes = max_bytes},
                    &ledger, &err),
        err);
}

static struct history_row row_of(int64_t minute, const char *model, const char *key, uint64_t n)
{
    struct history_row row = {.minute = minute, .service = "chat"};

    snprintf(row.model, sizeof(row.model), "%s", model);
    snprintf(row.key, sizeof(row.key), "%s", key);
    row.numbers[HISTORY_REQUESTS] = n;
    row.numbers[HISTORY_GENERATED] = 10 * n;
    row.numbers[HISTORY_FIRST_MAX] = 100 * n;
    return row;
}

static int put(void *data, const struct history_row *row)
{
    assert_true(n_found < sizeof(found) / sizeof(found[0]));
    found[n_found++] = *row;
    return data ? -E2BIG : 0;
}

static size_t read_rows(int64_t from, int64_t to, int64_t step, unsigned by)
{
    n_found = 0;
    ASSERT_OK(ledger_read(
        ledger, &(struct ledger_query){.from = from, .to = to, .step = step, .by = by}, put, NULL));
    return n_found;
}

TEST(rows_are_summed_by_time_and_names)
{
    const struct history_row rows[] = {row_of(NOW, "a", "", 1), row_of(NOW + 60, "a", "bob", 2),
                                       row_of(NOW + 3600, "b", "", 4), row_of(NOW, "a", "", 8)};

    open_ledger(NULL, 64 << 20);
    ASSERT_OK(ledger_add(ledger, rows, 4, NOW));
    assert_int_equal(read_rows(NOW, NOW + DAY, 0, 0), 1);
    assert_int_equal(found[0].numbers[HISTORY_REQUESTS], 15);
    assert_int_equal(found[0].numbers[HISTORY_FIRST_MAX], 800);
    assert_string_equal(found[0].model, "");
    assert_int_equal(read_rows(NOW, NOW + DAY, 3600, LEDGER_BY_MODEL), 2);
    assert_int_equal(found[0].minute, NOW);
    assert_int_equal(found[0].numbers[HISTORY_GENERATED], 110);
    assert_string_equal(found[1].model, "b");
    assert_int_equal(found[1].minute, NOW + 3600);
    assert_int_equal(read_rows(NOW, NOW + DAY, 0, LEDGER_BY_KEY | LEDGER_BY_MODEL), 3);
    assert_int_equal(read_rows(NOW + 60, NOW + 61, 0, LEDGER_BY_KEY), 1);
    assert_string_equal(found[0].key, "bob");
    n_found = 0;
    assert_int_equal(
        ledger_read(ledger, &(struct ledger_query){.to = NOW + DAY, .by = 7}, put, &n_found),
        -E2BIG);
    ledger = ledger_free(ledger);
}

TEST(old_rows_are_joined_and_then_deleted)
{
    struct history_row rows[2] = {row_of(NOW + 60, "a", "", 1), row_of(NOW + 120, "a", "", 2)};

    open_ledger(NULL, 64 << 20);
    ASSERT_OK(ledger_add(ledger, rows, 2, NOW + 120));
    assert_int_equal(read_rows(NOW, NOW + DAY, 60, 0), 2);
    ASSERT_OK(ledger_add(ledger, rows, 0, NOW + 3 * DAY));
    assert_int_equal(read_rows(NOW, NOW + DAY, 60, 0), 1);
    assert_int_equal(found[0].minute, NOW);
    assert_int_equal(found[0].numbers[HISTORY_REQUESTS], 3);
    /* Rows whose time cannot be right are left out. */
    ASSERT_OK(ledger_add(ledger, rows, 2, NOW + 3 * DAY));
    assert_int_equal(read_rows(NOW, NOW + DAY, 60, 0), 1);
    assert_int_equal(found[0].numbers[HISTORY_REQUESTS], 3);
    ASSERT_OK(ledger_add(ledger, rows, 0, NOW + 91 * DAY));
    assert_int_equal(read_rows(0, NOW + DAY, 60, 0), 0);
    ledger = ledger_free(ledger);
}

TEST(a_full_file_loses_its_oldest_days)
{
    char path[] = "/tmp/test-ledger-XXXXXX";
    const int fd = mkstemp(path);
    static struct history_row rows[400];
    char name[100];
    struct stat st;

    assert_true(fd >= 0);
    close(fd);
    open_ledger(path, 1 << 20);
    for (int day = 0; day < 40; day++) {
        for (int i = 0; i < 400; i++) {
            snprintf(name, sizeof(name), "a model with a long name, number %d", i);
            rows[i] = row_of(NOW + day * DAY + i * 60, name, "", 1);
        }
        ASSERT_OK(ledger_add(ledger, rows, 400, NOW + day * DAY + DAY / 2));
    }
    assert_int_equal(stat(path, &st), 0);
    assert_in_range(st.st_size, 1, 1 << 20);
    assert_int_equal(read_rows(NOW, NOW + 10 * DAY, 0, 0), 0);
    assert_int_equal(read_rows(NOW + 39 * DAY, NOW + 40 * DAY, 0, 0), 1);
    assert_int_equal(found[0].numbers[HISTORY_REQUESTS], 400);
    ledger = ledger_free(ledger);
    open_ledger(path, 1 << 20);
    assert_int_equal(read_rows(NOW + 39 * DAY, NOW + 40 * DAY, 0, 0), 1);
    ledger = ledger_free(ledger);
    unlink(path);
}

/* Fills a disk of 2 MiB beside the file. Without the right to mount one, nothing is tested. */
TEST(on_a_full_disk_no_row_is_deleted)
{
    char dir[] = "/tmp/test-ledger-XXXXXX", path[64], filler[64];
    static const char block[65536];
    static struct history_row rows[400];
    char name[100];
    FILE *f;
    int r = 0;

    assert_non_null(mkdtemp(dir));
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", dir, "tmpfs", 0, "size=2m") < 0) {
        rmdir(dir);
        skip();
    }
    snprintf(path, sizeof(path), "%s/history.db", dir);
    snprintf(filler, sizeof(filler), "%s/filler", dir);
    open_ledger(path, 64 << 20);
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof(name), "a model with a long name, number %d", i);
        rows[i] = row_of(NOW + i * 60, name, "", 1);
    }
    ASSERT_OK(ledger_add(ledger, rows, 400, NOW));
    f = fopen(filler, "w");
    assert_non_null(f);
    while (fwrite(block, sizeof(block), 1, f) == 1 && fflush(f) == 0)
        continue;
    fclose(f);
    for (int day = 1; day < 20 && r == 0; day++) {
        for (int i = 0; i < 400; i++)
            rows[i].minute += DAY;
        r = ledger_add(ledger, rows, 400, NOW + day * DAY);
    }
    assert_int_equal(r, -ENOSPC);
    assert_int_equal(read_rows(NOW, NOW + DAY, 0, 0), 1);
    assert_int_equal(found[0].numbers[HISTORY_REQUESTS], 400);
    unlink(filler);
    ASSERT_OK(ledger_add(ledger, rows, 400, NOW + 20 * DAY));
    ledger = ledger_free(ledger);
    umount(dir);
    rmdir(dir);
}

TEST(percentiles_are_near_the_values)
{
    uint64_t numbers[HISTORY_NUMBERS] = {[HISTORY_REQUESTS] = 1, [HISTORY_FIRSTS] = 1};
    struct history_counts counts = {};
    const struct history_histogram *h;

    /* Times to the first token of 10 ms to 1 s, and speeds of 1 to 100 tokens per second. */
    for (uint64_t i = 1; i <= 100; i++) {
        numbers[HISTORY_FIRST_USEC] = i * 10000;
        numbers[HISTORY_NEXT] = i;
        numbers[HISTORY_GENERATE_USEC] = 1000000;
        history_count(&counts, "chat", "m", NULL, numbers);
    }
    counts.rows[0].minute = counts.rows[counts.n - 1].minute = NOW;
    open_ledger(NULL, 64 << 20);
    ASSERT_OK(ledger_add(ledger, counts.rows, counts.n, NOW));
    /* The rows are joined to a row of an hour. */
    ASSERT_OK(ledger_add(ledger, counts.rows, 0, NOW + 3 * DAY));
    assert_int_equal(read_rows(NOW, NOW + DAY, 0, 0), 1);
    h = &found[0].spreads[HISTORY_SPREAD_FIRST];
    assert_float_equal(histogram_percentile(h, HISTORY_FIRST_LEAST, 0.5), 0.5, 0.05);
    assert_float_equal(histogram_percentile(h, HISTORY_FIRST_LEAST, 0.95), 0.95, 0.1);
    h = &found[0].spreads[HISTORY_SPREAD_SPEED];
    assert_float_equal(histogram_percentile(h, HISTORY_SPEED_LEAST, 0.5), 50, 5);
    assert_float_equal(histogram_percentile(h, HISTORY_SPEED_LEAST, 0.95), 95, 10);
    assert_true(isnan(histogram_percentile(&(struct history_histogram){}, 1, 0.5)));
    ledger = ledger_free(ledger);
    history_counts_done(&counts);
}

TEST(damaged_histograms_are_refused)
{
    struct history_histogram h = {.counts = {1, [63] = UINT32_MAX}}, back;
    uint8_t bytes[HISTOGRAM_BYTES] = {};

    assert_int_equal(histogram_write(&h, bytes), 10);
    assert_true(histogram_read(bytes, 10, &back));
    assert_memory_equal(&h, &back, sizeof(h));
    history_histogram_add(&h, &back);
    assert_true(h.counts[0] == 2 && h.counts[63] == UINT32_MAX);
    assert_false(histogram_read(bytes, 9, &back));
    bytes[5] = 64;
    assert_false(histogram_read(bytes, 10, &back));
}

/* Makes the file that version 1 made, and opens it. */
TEST(a_file_of_version_1_gets_histograms)
{
    char path[] = "/tmp/test-ledger-XXXXXX";
    const struct history_row row = row_of(NOW, "a", "", 1);
    const int fd = mkstemp(path);
    sqlite3 *db;

    assert_true(fd >= 0);
    close(fd);
    open_ledger(path, 1 << 20);
    ASSERT_OK(ledger_add(ledger, &row, 1, NOW));
    ledger = ledger_free(ledger);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "ALTER TABLE sums DROP COLUMN h0; ALTER TABLE sums DROP COLUMN "
                                  "h1; PRAGMA user_version = 1;",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    open_ledger(path, 1 << 20);
    ASSERT_OK(ledger_add(ledger, &row, 1, NOW));
    assert_int_equal(read_rows(NOW, NOW + DAY, 0, 0), 1);
    assert_int_equal(found[0].numbers[HISTORY_REQUESTS], 2);
    ledger = ledger_free(ledger);
    unlink(path);
}

TEST(counts_are_kept_by_names_up_to_a_limit)
{
    const uint64_t one[HISTORY_NUMBERS] = {[HISTORY_REQUESTS] = 1, [HISTORY_PROMPT] = 5};
    struct history_counts counts = {};
    char name[300];

    memset(name, 'm', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    /* The minute may change between two calls, so there may be two rows for a name. */
    for (int i = 0; i < 10; i++)
        history_count(&counts, "chat", name, NULL, one);
    assert_in_range(counts.n, 1, 2);
    assert_int_equal(strlen(counts.rows[0].model), HISTORY_MODEL - 1);
    memcpy(name + HISTORY_MODEL - 2, "\xc3\xa4", 2);
    history_count(&counts, "chat", name, "key", one);
    assert_int_equal(strlen(counts.rows[counts.n - 1].model), HISTORY_MODEL - 2);
    for (int i = 0; i < HISTORY_ROWS + 10; i++) {
        snprintf(name, sizeof(name), "%d", i);
        history_count(&counts, "chat", name, "key", one);
    }
    assert_int_equal(counts.n, HISTORY_ROWS);
    assert_in_range(counts.n_lost, 10, 20);
    history_counts_done(&counts);
}

TEST(rows_of_other_processes_are_checked)
{
    struct history_row rows[2] = {row_of(NOW, "a", "b", 1), row_of(NOW, "a", "b", 1)}, row;
    const struct http_text body = {(const char *)rows, sizeof(rows) - 1};

    assert_true(history_row_read(body, 0, &row));
    assert_int_equal(memcmp(&row, rows, sizeof(row)), 0);
    assert_false(history_row_read(body, 1, &row));
    memset(rows[0].key, 'x', sizeof(rows[0].key));
    assert_false(history_row_read(body, 0, &row));
    rows[0] = row_of(NOW, "\xff", "", 1);
    assert_false(history_row_read(body, 0, &row));
    rows[0] = row_of(-60, "a", "", 1);
    assert_false(history_row_read(body, 0, &row));
    rows[0] = row_of(NOW, "a", "", UINT64_MAX / 1000);
    assert_false(history_row_read(body, 0, &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_summed_by_time_and_names),
        cmocka_unit_test(old_rows_are_joined_and_then_deleted),
        cmocka_unit_test(a_full_file_loses_its_oldest_days),
        cmocka_unit_test(percentiles_are_near_the_values),
        cmocka_unit_test(damaged_histograms_are_refused),
        cmocka_unit_test(a_file_of_version_1_gets_histograms),
        cmocka_unit_test(on_a_full_disk_no_row_is_deleted),
        cmocka_unit_test(counts_are_kept_by_names_up_to_a_limit),
        cmocka_unit_test(rows_of_other_processes_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
