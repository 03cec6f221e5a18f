/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the archive: owners, expiry, limits, and files. */
#include "keep/archive.h"

#include <fcntl.h>

#include "lib/test.h"

#define HOUR 3600

static struct archive *archive;

static struct str text_of(const char *text)
{
    return (struct str){.data = (char *)(uintptr_t)text, .len = strlen(text)};
}

static void open_archive(const char *path, uint64_t max, uint64_t max_total)
{
    struct inf_err err = {};

    ASSERT_OK_ERR(archive_open(path,
                               &(struct archive_limits){.expiry_sec = HOUR,
                                                        .max_bytes = max,
                                                        .max_total_bytes = max_total},
                               &archive, &err),
                  err);
}

/* Adds a response at the time @now; returns the result. */
static int add(const char *tenant, const char *id, const char *text, int64_t now)
{
    int64_t key;
    int r;

    ASSERT_OK(archive_begin(archive, now));
    r = archive_add(archive, tenant, ARCHIVE_RESPONSE, id, NULL, text_of(text), &key);
    if (r == 0)
        ASSERT_OK(archive_commit(archive));
    else
        archive_rollback(archive);
    return r;
}

static int find(const char *tenant, const char *id, int64_t now)
{
    struct archive_entry entry = {};
    int r;

    ASSERT_OK(archive_begin(archive, now));
    r = archive_find(archive, tenant, ARCHIVE_RESPONSE, id, &entry);
    archive_entry_done(&entry);
    ASSERT_OK(archive_commit(archive));
    return r;
}

TEST(entries_are_found_by_tenant_and_id)
{
    struct archive_entry entry = {};

    open_archive(NULL, 1 << 20, 1 << 20);
    assert_int_equal(add("alice", "resp_1", "{\"a\":1}", 100), 0);
    assert_int_equal(add("bob", "resp_1", "{\"b\":1}", 100), 0);
    assert_int_equal(find("alice", "resp_1", 101), 0);
    assert_int_equal(find("carol", "resp_1", 101), ARCHIVE_ABSENT);
    assert_int_equal(find("alice", "resp_2", 101), ARCHIVE_ABSENT);
    assert_int_equal(add("alice", "resp_1", "{}", 100), -EEXIST);
    ASSERT_OK(archive_begin(archive, 101));
    assert_int_equal(archive_find(archive, "alice", ARCHIVE_CONVERSATION, "resp_1", &entry),
                     ARCHIVE_ABSENT);
    assert_int_equal(archive_find(archive, "bob", ARCHIVE_RESPONSE, "resp_1", &entry), 0);
    ASSERT_STREQ(entry.text.data, "{\"b\":1}");
    assert_int_equal(entry.created, 100);
    archive_entry_done(&entry);
    ASSERT_OK(archive_commit(archive));
    archive = archive_free(archive);
}

TEST(entries_expire_an_hour_after_their_last_use)
{
    struct archive_entry entry = {};
    int64_t next = 0;

    open_archive(NULL, 1 << 20, 1 << 20);
    assert_int_equal(add("alice", "resp_1", "{}", 0), 0);
    assert_int_equal(add("alice", "resp_2", "{}", 0), 0);
    ASSERT_OK(archive_begin(archive, HOUR / 2));
    assert_int_equal(archive_find(archive, "alice", ARCHIVE_RESPONSE, "resp_2", &entry), 0);
    ASSERT_OK(archive_touch(archive, entry.key));
    archive_entry_done(&entry);
    ASSERT_OK(archive_commit(archive));
    ASSERT_OK(archive_next_expiry(archive, &next));
    assert_int_equal(next, HOUR);
    assert_int_equal(find("alice", "resp_1", HOUR - 1), 0);
    assert_int_equal(find("alice", "resp_1", HOUR), ARCHIVE_ABSENT);
    assert_int_equal(find("alice", "resp_2", HOUR), 0);
    assert_int_equal(find("alice", "resp_2", HOUR / 2 + HOUR), ARCHIVE_ABSENT);
    ASSERT_OK(archive_next_expiry(archive, &next));
    assert_int_equal(next, 0);
    archive = archive_free(archive);
}

TEST(the_oldest_entries_of_the_tenant_give_way)
{
    char text[800];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    open_archive(NULL, 3000, 1 << 20);
    assert_int_equal(add("bob", "resp_b", text, 1), 0);
    assert_int_equal(add("alice", "resp_1", text, 2), 0);
    assert_int_equal(add("alice", "resp_2", text, 3), 0);
    assert_int_equal(add("alice", "resp_3", text, 4), 0);
    assert_int_equal(find("alice", "resp_1", 5), ARCHIVE_ABSENT);
    assert_int_equal(find("alice", "resp_2", 5), 0);
    assert_int_equal(find("bob", "resp_b", 5), 0);
    archive = archive_free(archive);
}

TEST(no_tenant_pushes_out_another)
{
    char text[800];
    struct archive_numbers numbers = {};

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    open_archive(NULL, 3000, 2500);
    assert_int_equal(add("bob", "resp_1", text, 1), 0);
    assert_int_equal(add("bob", "resp_2", text, 2), 0);
    assert_int_equal(add("alice", "resp_1", text, 3), ARCHIVE_FULL);
    assert_int_equal(find("bob", "resp_1", 4), 0);
    assert_int_equal(add("bob", "resp_3", text, 5), 0);
    assert_int_equal(find("bob", "resp_1", 6), ARCHIVE_ABSENT);
    ASSERT_OK(archive_numbers(archive, &numbers));
    assert_int_equal(numbers.n_entries, 2);
    assert_true(numbers.n_bytes <= 2500);
    assert_int_equal(find("bob", "resp_2", 10 * HOUR), ARCHIVE_ABSENT);
    ASSERT_OK(archive_numbers(archive, &numbers));
    assert_int_equal(numbers.n_entries, 0);
    assert_int_equal(numbers.n_bytes, 0);
    archive = archive_free(archive);
}

static struct archive_numbers numbers_now(void)
{
    struct archive_numbers numbers = {};

    ASSERT_OK(archive_numbers(archive, &numbers));
    return numbers;
}

TEST(numbers_count_what_happened)
{
    char text[800];
    int64_t key;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    open_archive(NULL, 2200, 2400);
    assert_int_equal(add("alice", "resp_1", text, 1), 0);
    assert_int_equal(add("alice", "resp_2", text, 2), 0);
    assert_true(numbers_now().n_added == 2 && numbers_now().n_tenants == 1);
    assert_int_equal(add("bob", "resp_3", text, 3), ARCHIVE_FULL);
    assert_true(numbers_now().n_refused == 1 && numbers_now().n_added == 2);
    assert_int_equal(add("alice", "resp_4", text, 4), 0);
    assert_true(numbers_now().n_evicted == 1 && numbers_now().n_entries == 2);
    assert_int_equal(find("alice", "resp_1", 5), ARCHIVE_ABSENT);
    assert_int_equal(find("alice", "resp_2", 5), 0);
    assert_true(numbers_now().n_found == 1 && numbers_now().n_missed == 1);
    assert_int_equal(add("bob", "resp_5", "{}", 6), 0);
    assert_int_equal(numbers_now().n_tenants, 2);
    /* A change that is rolled back is not counted. */
    ASSERT_OK(archive_begin(archive, 10 * HOUR));
    ASSERT_OK(archive_add(archive, "bob", ARCHIVE_RESPONSE, "resp_6", NULL, text_of("{}"), &key));
    archive_rollback(archive);
    assert_true(numbers_now().n_expired == 0 && numbers_now().n_added == 4);
    assert_int_equal(find("bob", "resp_5", 10 * HOUR), ARCHIVE_ABSENT);
    assert_true(numbers_now().n_expired == 3 && numbers_now().n_tenants == 0);
    archive = archive_free(archive);
}

static int count_each(void *data, const struct archive_item *item)
{
    struct str *out = data;

    return str_printf(out, "%s=%.*s%s ", item->id, (int)item->len, item->text,
                      item->is_output ? "!" : "");
}

static void check_list(int64_t key, struct archive_page page, int result, const char *expected)
{
    _cleanup_str_ struct str out = {};

    assert_int_equal(archive_list(archive, key, &page, count_each, &out), result);
    ASSERT_STREQ(out.data ? out.data : "", expected);
}

TEST(items_are_listed_in_both_directions)
{
    const struct archive_item items[] = {
        {"msg_1", "1", 1, false}, {"msg_2", "2", 1, false}, {"msg_3", "3", 1, true}};
    _cleanup_str_ struct str text = {};
    struct archive_numbers numbers = {};
    int64_t key = 0;

    open_archive(NULL, 1 << 20, 1 << 20);
    ASSERT_OK(archive_begin(archive, 1));
    ASSERT_OK(
        archive_add(archive, "alice", ARCHIVE_CONVERSATION, "conv_1", NULL, text_of("{}"), &key));
    for (size_t i = 0; i < ARRAY_SIZE(items); i++)
        ASSERT_OK(archive_add_item(archive, "alice", key, &items[i]));
    check_list(key, (struct archive_page){.limit = 9}, 0, "msg_1=1 msg_2=2 msg_3=3! ");
    check_list(key, (struct archive_page){.limit = 9, .descending = true}, 0,
               "msg_3=3! msg_2=2 msg_1=1 ");
    check_list(key, (struct archive_page){.limit = 9, .inputs_only = true}, 0, "msg_1=1 msg_2=2 ");
    check_list(key, (struct archive_page){.limit = 9, .after = "msg_1"}, 0, "msg_2=2 msg_3=3! ");
    /* The list has one item more than the limit, so that the caller sees that there are more. */
    check_list(key, (struct archive_page){.limit = 1}, 0, "msg_1=1 msg_2=2 ");
    check_list(key, (struct archive_page){.limit = 1, .after = "msg_9"}, ARCHIVE_ABSENT, "");
    assert_int_equal(archive_find_item(archive, "bob", 0, "msg_1", &text), ARCHIVE_ABSENT);
    assert_int_equal(archive_find_item(archive, "alice", 0, "msg_1", &text), 0);
    ASSERT_STREQ(text.data, "1");
    ASSERT_OK(archive_delete_item(archive, key, "msg_2"));
    assert_int_equal(archive_delete_item(archive, key, "msg_2"), ARCHIVE_ABSENT);
    check_list(key, (struct archive_page){.limit = 9}, 0, "msg_1=1 msg_3=3! ");
    ASSERT_OK(archive_delete(archive, key));
    ASSERT_OK(archive_numbers(archive, &numbers));
    assert_true(numbers.n_entries == 0 && numbers.n_bytes == 0);
    assert_int_equal(archive_find_item(archive, "alice", 0, "msg_1", &text), ARCHIVE_ABSENT);
    ASSERT_OK(archive_commit(archive));
    archive = archive_free(archive);
}

/* Returns whether a file has the bytes of @text. */
static bool file_has(const char *path, const char *text)
{
    static char data[1 << 20];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, data, sizeof(data));

    if (fd >= 0)
        close(fd);
    return n > 0 && memmem(data, (size_t)n, text, strlen(text));
}

TEST(a_file_outlives_the_process_and_forgets_what_was_deleted)
{
    char dir[] = "/tmp/sconce-keep-XXXXXX", path[64];
    struct archive_entry entry = {};
    struct archive *other = NULL;
    struct inf_err err = {};

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/kept.db", dir);
    open_archive(path, 1 << 20, 1 << 20);
    assert_int_equal(add("alice", "resp_1", "{\"text\":\"first-secret\"}", 1), 0);
    assert_int_equal(add("alice", "resp_2", "{\"text\":\"second-secret\"}", 1), 0);
    ASSERT_ERROR(archive_open(path, &(struct archive_limits){HOUR, 1, 1}, &other, &err), EBUSY);
    archive = archive_free(archive);
    assert_true(file_has(path, "first-secret") && file_has(path, "second-secret"));
    open_archive(path, 1 << 20, 1 << 20);
    ASSERT_OK(archive_begin(archive, 2));
    assert_int_equal(archive_find(archive, "alice", ARCHIVE_RESPONSE, "resp_1", &entry), 0);
    ASSERT_OK(archive_delete(archive, entry.key));
    archive_entry_done(&entry);
    ASSERT_OK(archive_commit(archive));
    assert_int_equal(find("alice", "resp_2", 2), 0);
    archive = archive_free(archive);
    assert_false(file_has(path, "first-secret"));
    assert_true(file_has(path, "second-secret"));
    unlink(path);
    snprintf(path, sizeof(path), "%s/kept.db-journal", dir);
    assert_false(file_has(path, "secret"));
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

TEST(a_file_that_is_no_archive_is_refused)
{
    char path[] = "/tmp/sconce-keep-XXXXXX";
    const int fd = mkstemp(path);
    struct inf_err err = {};

    assert_true(fd >= 0 && write(fd, "not a database, only text", 25) == 25);
    close(fd);
    ASSERT_ERROR(archive_open(path, &(struct archive_limits){HOUR, 1, 1}, &archive, &err), EUCLEAN);
    ASSERT_CONTAINS(err.text, path);
    unlink(path);
}

RUN_TESTS(cmocka_unit_test(entries_are_found_by_tenant_and_id),
          cmocka_unit_test(entries_expire_an_hour_after_their_last_use),
          cmocka_unit_test(the_oldest_entries_of_the_tenant_give_way),
          cmocka_unit_test(no_tenant_pushes_out_another),
          cmocka_unit_test(numbers_count_what_happened),
          cmocka_unit_test(items_are_listed_in_both_directions),
          cmocka_unit_test(a_file_outlives_the_process_and_forgets_what_was_deleted),
          cmocka_unit_test(a_file_that_is_no_archive_is_refused))
