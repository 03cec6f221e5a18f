/* SPDX-License-Identifier: Apache-2.0 */
#include "cache/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "unit/cache/one-kit.h"

enum { KIB = 1024, MIB = 1024 * KIB };

TEST(blocks_are_found_as_far_as_their_chain_goes)
{
    kit_open(&kit);
    assert_int_equal(find(1, 10), 0);
    assert_int_equal(put(1, 0, 10), 10);
    assert_int_equal(find(1, 10), 10);
    assert_int_equal(find(1, 20), 10);
    assert_int_equal(find(2, 20), 0);
    assert_int_equal(put(1, 10, 5), 5);
    assert_int_equal(put(1, 0, 20), 20);
    assert_int_equal(find(1, 20), 20);
    assert_int_equal(stats().blocks, 20);
    assert_int_equal(stats().puts, 20);
    assert_int_equal(stats().hits, 40);
}

TEST(blocks_outlive_the_process)
{
    kit_open(&kit);
    assert_int_equal(put(1, 0, 40), 40);
    kit_close(&kit);
    kit_open(&kit);
    assert_int_equal(find(1, 40), 40);
    assert_int_equal(put(2, 0, 40), 40);
    kit_close(&kit);
    kit_open(&kit);
    assert_int_equal(find(1, 40), 40);
    assert_int_equal(find(2, 40), 40);
    assert_int_equal(stats().segments, 1);
}

TEST(two_processes_do_not_share_a_directory)
{
    struct store *other = NULL;
    struct inf_err err;

    kit_open(&kit);
    ASSERT_ERROR(store_open(&kit.params, &other, &err), EBUSY);
    ASSERT_CONTAINS(err.text, "another process");
    kit_close(&kit);
    kit_open(&kit);
}

TEST(the_limit_holds_and_tails_go_first)
{
    kit.params.limits.max_bytes = 2 * MIB;
    kit_open(&kit);
    for (uint32_t chain = 0; chain < 50; chain++) {
        assert_int_equal(put(chain, 0, 20), 20);
        assert_true(kit_disk(&kit, "segments") <= 2 * MIB);
        assert_int_equal(find(0, 1), 1);
    }
    assert_int_equal(find(49, 20), 20);
    assert_int_equal(find(2, 20), 0);
    assert_true(stats().evictions > 500);
    assert_true(stats().bytes <= 2 * MIB);
}

TEST(a_tenant_keeps_to_its_limit)
{
    const struct store_origin a = {"m", "c", "a", NULL}, b = {"m", "c", "b", NULL};

    kit.params.limits.max_tenant_bytes = MIB;
    kit_open(&kit);
    assert_int_equal(kit_put(&kit, &b, 1000, 0, 20, 20000), 20);
    for (uint32_t chain = 0; chain < 20; chain++)
        assert_int_equal(kit_put(&kit, &a, chain, 0, 20, 20000), 20);
    assert_int_equal(find(1000, 20), 20);
    assert_int_equal(find(0, 20), 0);
    assert_true(stats().bytes <= 2 * MIB);
}

TEST(bytes_with_a_wrong_checksum_are_rejected)
{
    struct store_block blocks[4];
    const int fd = kit_blocks(1, 0, 4, 5000, blocks);

    kit_open(&kit);
    blocks[2].sum++;
    assert_int_equal(store_put(kit.store, &kit_origin, fd, blocks, 4), 2);
    assert_int_equal(store_put(kit.store, &kit_origin, fd, blocks + 2, 1), -EBADMSG);
    blocks[3].offset = 1 << 20;
    assert_int_equal(store_put(kit.store, &kit_origin, fd, blocks + 3, 1), -EINVAL);
    blocks[3].size = 0;
    assert_int_equal(store_put(kit.store, &kit_origin, fd, blocks + 3, 1), -EINVAL);
    assert_int_equal(stats().blocks, 2);
    close(fd);
}

TEST(a_block_that_was_rejected_is_gone)
{
    uint8_t name[STORE_NAME_BYTES];

    kit_open(&kit);
    assert_int_equal(put(1, 0, 10), 10);
    kit_name(1, 5, name);
    ASSERT_OK(store_reject(kit.store, name));
    ASSERT_OK(store_reject(kit.store, name));
    assert_int_equal(find(1, 10), 5);
    assert_int_equal(stats().rejected, 1);
    assert_int_equal(put(1, 5, 1), 1);
    assert_int_equal(find(1, 10), 10);
}

TEST(digests_are_remembered_for_exactly_one_file)
{
    struct store_file file = {1, 2, 3, 4, 5};
    uint8_t digest[STORE_DIGEST_BYTES] = {7}, back[STORE_DIGEST_BYTES] = {0};

    kit_open(&kit);
    assert_int_equal(store_recall(kit.store, &file, back), 0);
    ASSERT_OK(store_remember(kit.store, &file, digest));
    kit_close(&kit);
    kit_open(&kit);
    assert_int_equal(store_recall(kit.store, &file, back), 1);
    assert_memory_equal(digest, back, sizeof(back));
    file.mtime_ns++;
    assert_int_equal(store_recall(kit.store, &file, back), 0);
    for (uint32_t i = 0; i < 5000; i++) {
        file.ino = 100 + i;
        ASSERT_OK(store_remember(kit.store, &file, digest));
    }
    assert_int_equal(store_recall(kit.store, &file, back), 1);
    file.ino = 100;
    assert_int_equal(store_recall(kit.store, &file, back), 0);
}

struct listed {
    char text[512];
};

static int list_one(void *data, const struct store_entry *e)
{
    struct listed *l = data;
    const size_t n = strlen(l->text);

    snprintf(l->text + n, sizeof(l->text) - n, "%s/%s/%s/%s:%d ", e->model ? e->model : "-",
             e->codec ? e->codec : "-", e->tenant ? e->tenant : "-", e->session ? e->session : "-",
             (int)e->blocks);
    return 0;
}

static const char *list(enum store_kind kind)
{
    static struct listed l;

    l.text[0] = 0;
    ASSERT_OK(store_list(kit.store, kind, list_one, &l));
    return l.text;
}

static void purge(const struct store_filter *filter, uint64_t blocks)
{
    struct store_cursor cursor = {0};
    int r;

    while ((r = store_purge(kit.store, filter, &cursor)) > 0)
        ;
    ASSERT_OK(r);
    assert_int_equal(cursor.blocks, blocks);
}

TEST(stored_blocks_are_listed_and_purged)
{
    const struct store_origin a = {"m", "c", "a", NULL}, b = {"m", "c", "b", "s"},
                              c = {"n", "c", "b", "t"};

    kit_open(&kit);
    assert_int_equal(kit_put(&kit, &a, 1, 0, 3, 100), 3);
    assert_int_equal(kit_put(&kit, &b, 2, 0, 4, 100), 4);
    assert_int_equal(kit_put(&kit, &c, 3, 0, 5, 100), 5);
    for (int i = 0; i < 2; i++) {
        ASSERT_STREQ(list(STORE_MODELS), "m/c/-/-:7 n/c/-/-:5 ");
        ASSERT_STREQ(list(STORE_TENANTS), "-/-/a/-:3 -/-/b/-:9 ");
        ASSERT_STREQ(list(STORE_SESSIONS), "m/c/b/s:4 n/c/b/t:5 ");
        kit_close(&kit);
        kit_open(&kit);
    }
    purge(&(struct store_filter){.session = "s", .tenant = "a"}, 0);
    purge(&(struct store_filter){.session = "s"}, 4);
    purge(&(struct store_filter){.model = "m"}, 3);
    ASSERT_STREQ(list(STORE_MODELS), "n/c/-/-:5 ");
    purge(&(struct store_filter){.older_than = 86400}, 0);
    purge(&(struct store_filter){0}, 5);
    ASSERT_STREQ(list(STORE_MODELS), "");
    assert_int_equal(stats().bytes, 0);
    assert_true(kit_disk(&kit, "segments") <= 8192);
}

static uint64_t the_time;

static uint64_t clock_of_test(void *data)
{
    (void)data;
    return the_time;
}

TEST(a_clock_that_jumps_does_no_harm)
{
    kit.params.clock = clock_of_test;
    the_time = 1700000000;
    kit_open(&kit);
    assert_int_equal(put(1, 0, 3), 3);
    kit_close(&kit);
    the_time = 1000;
    kit_open(&kit);
    assert_int_equal(put(2, 0, 3), 3);
    purge(&(struct store_filter){.older_than = 100}, 0);
    kit_close(&kit);
    the_time = UINT64_C(1) << 62;
    kit_open(&kit);
    assert_int_equal(put(3, 0, 3), 3);
    purge(&(struct store_filter){.older_than = 86400}, 6);
    kit_close(&kit);
    the_time = 1700000000;
    kit_open(&kit);
    assert_int_equal(find(3, 3), 3);
    purge(&(struct store_filter){.older_than = 86400}, 0);
}

/* Runs SQL on the index of the closed store. */
static void sql(const char *text)
{
    char command[512];

    snprintf(command, sizeof(command),
             "python3 -c \"import sqlite3; c = sqlite3.connect('%s/index.db'); "
             "c.executescript('''%s'''); c.commit()\"",
             kit.dir, text);
    if (system(command) != 0)
        skip();
}

TEST(an_index_of_an_older_version_is_rebuilt)
{
    kit_open(&kit);
    assert_int_equal(put(1, 0, 30), 30);
    kit_close(&kit);
    sql("PRAGMA user_version = -65536");
    kit_open(&kit);
    assert_int_equal(stats().rebuilds, 1);
    assert_int_equal(find(1, 30), 30);
    assert_int_equal(stats().blocks, 30);
    ASSERT_STREQ(list(STORE_MODELS), "model/f16/f16 cpu/-/-:30 ");
}

TEST(an_index_of_a_newer_version_is_left_alone)
{
    struct store *s = NULL;
    struct inf_err err;

    kit_open(&kit);
    assert_int_equal(put(1, 0, 3), 3);
    kit_close(&kit);
    sql("PRAGMA user_version = -6553501");
    ASSERT_ERROR(store_open(&kit.params, &s, &err), EPROTONOSUPPORT);
    ASSERT_CONTAINS(err.text, "newer version");
    sql("PRAGMA user_version = -131071");
    kit_open(&kit);
    assert_int_equal(find(1, 3), 3);
}

/* Overwrites @n bytes at @offset of a file below the directory. */
static void scribble(const char *name, off_t offset, size_t n)
{
    char path[128], junk[4096];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", kit.dir, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    memset(junk, 0x5a, sizeof(junk));
    assert_true(n <= sizeof(junk));
    assert_int_equal(pwrite(fd, junk, n, offset), (ssize_t)n);
    close(fd);
}

TEST(a_damaged_index_is_set_aside_and_rebuilt)
{
    char path[128];

    for (off_t offset = 0; offset < 7 * 4096; offset += 4096) {
        kit_open(&kit);
        assert_int_equal(put(1, 0, 30), 30);
        kit_close(&kit);
        scribble("index.db", offset, 4096);
        kit_open(&kit);
        assert_int_equal(find(1, 30), 30);
        assert_int_equal(put(2, 0, 30), 30);
        assert_int_equal(find(2, 30), 30);
        kit_close(&kit);
    }
    snprintf(path, sizeof(path), "%s/index.db.damaged", kit.dir);
    assert_int_equal(access(path, F_OK), 0);
}

TEST(a_store_without_an_index_is_rebuilt)
{
    char command[128];
    uint8_t name[STORE_NAME_BYTES];

    kit_open(&kit);
    assert_int_equal(put(1, 0, 30), 30);
    assert_int_equal(put(2, 0, 30), 30);
    kit_name(2, 10, name);
    ASSERT_OK(store_reject(kit.store, name));
    kit_close(&kit);
    snprintf(command, sizeof(command), "rm %s/index.db", kit.dir);
    assert_int_equal(system(command), 0);
    kit_open(&kit);
    assert_int_equal(find(1, 30), 30);
    assert_int_equal(find(2, 30), 10);
    assert_int_equal(stats().blocks, 59);
}

TEST(guesses_are_no_misses)
{
    uint8_t names[3][STORE_NAME_BYTES];
    struct store_place places[3];

    kit_open(&kit);
    assert_int_equal(put(1, 0, 2), 2);
    for (uint32_t i = 0; i < 3; i++)
        kit_name(1, i, names[i]);
    assert_int_equal(store_find(kit.store, &kit_origin, names, 3, true, places), 2);
    assert_int_equal(stats().hits, 2);
    assert_int_equal(stats().misses, 0);
    assert_int_equal(store_find(kit.store, &kit_origin, names, 3, false, places), 2);
    assert_int_equal(stats().hits, 4);
    assert_int_equal(stats().misses, 1);
}

TEST(verify_removes_changed_blocks)
{
    struct store_cursor cursor = {0};
    struct store_place place;
    uint8_t name[1][STORE_NAME_BYTES];
    int r;

    kit_open(&kit);
    assert_int_equal(put(1, 0, 30), 30);
    kit_name(1, 0, name[0]);
    assert_int_equal(store_find(kit.store, &kit_origin, name, 1, false, &place), 1);
    scribble("segments/00000001.kv", (off_t)place.offset, 1);
    while ((r = store_verify(kit.store, &cursor)) > 0)
        ;
    ASSERT_OK(r);
    assert_int_equal(cursor.seen, 30);
    assert_int_equal(cursor.blocks, 1);
    assert_int_equal(find(1, 30), 0);
    tend();
    assert_int_equal(stats().blocks, 29);
}

TEST(pending_writes_count_and_others_continue)
{
    struct store_block blocks[20];
    struct store_write *a, *b;
    const int fd = kit_blocks(1, 0, 20, 20000, blocks);

    kit.params.limits.max_bytes = MIB;
    kit_open(&kit);
    ASSERT_OK(store_put_begin(kit.store, &kit_origin, blocks, 20, &a));
    ASSERT_OK(store_put_begin(kit.store, &kit_origin, blocks, 20, &b));
    ASSERT_OK(store_write_run(a, fd));
    assert_int_equal(find(1, 20), 0);
    ASSERT_OK(store_write_run(b, fd));
    assert_int_equal(store_put_end(kit.store, b), 20);
    assert_int_equal(find(1, 20), 20);
    assert_int_equal(put(2, 0, 20), 20);
    assert_int_equal(store_put_end(kit.store, a), 20);
    tend();
    assert_true(kit_disk(&kit, "segments") <= MIB);
    assert_int_equal(store_put_end(kit.store, NULL), 0);
    close(fd);
}

TEST(a_scan_does_not_evict_blocks_that_are_reused)
{
    kit.params.limits.max_bytes = 2 * MIB;
    kit_open(&kit);
    for (int round = 0; round < 8; round++) {
        for (uint32_t chain = 0; chain < 5; chain++) {
            assert_int_equal(put(chain, 0, 10), 10);
            find(chain, 10);
        }
    }
    for (uint32_t chain = 100; chain < 300; chain++) {
        assert_int_equal(put(chain, 0, 10), 10);
        if (chain % 3 == 0)
            find(chain / 3 % 5, 10);
    }
    for (uint32_t chain = 0; chain < 5; chain++)
        assert_int_equal(find(chain, 10), 10);
    assert_true(stats().evictions + stats().declined > 1000);
}

TEST(blocks_without_parents_are_declined_when_space_is_short)
{
    struct store_stats before;

    kit.params.limits.max_bytes = 2 * MIB;
    kit_open(&kit);
    /* The parent of the block may still arrive. */
    assert_int_equal(put(500, 5, 5), 5);
    assert_int_equal(put(500, 0, 5), 5);
    assert_int_equal(find(500, 10), 10);
    for (uint32_t chain = 0; chain < 20; chain++)
        assert_int_equal(put(chain, 0, 20), 20);
    before = stats();
    assert_int_equal(put(501, 5, 5), 5);
    assert_int_equal(stats().declined, before.declined + 5);
    assert_int_equal(stats().blocks, before.blocks);
}

TEST(blocks_are_weighed_one_by_one)
{
    uint64_t declined;

    kit.params.limits.max_bytes = 2 * MIB;
    kit_open(&kit);
    for (uint32_t chain = 0; chain < 20; chain++)
        assert_int_equal(put(chain, 0, 20), 20);
    for (int round = 0; round < 3; round++)
        for (uint32_t chain = 17; chain < 20; chain++)
            assert_int_equal(find(chain, 20), 20);
    declined = stats().declined;
    /* There is room for some of these blocks beside the chains that were found above. */
    assert_int_equal(put(500, 0, 120), 120);
    for (uint32_t chain = 17; chain < 20; chain++)
        assert_int_equal(find(chain, 20), 20);
    assert_in_range(find(500, 120), 1, 119);
    assert_int_equal(stats().declined - declined, 120 - find(500, 120));
}

TEST(blocks_of_a_missing_segment_are_not_found)
{
    char path[128];

    kit.params.limits.segment_bytes = MIB;
    kit_open(&kit);
    for (uint32_t chain = 0; chain < 20; chain++)
        assert_int_equal(put(chain, 0, 20), 20);
    kit_close(&kit);
    snprintf(path, sizeof(path), "%s/segments/00000001.kv", kit.dir);
    assert_int_equal(unlink(path), 0);
    kit_open(&kit);
    assert_int_equal(find(0, 20), 0);
    assert_int_equal(find(19, 20), 20);
    assert_true(stats().blocks < 400);
    assert_int_equal(put(0, 0, 20), 20);
    assert_int_equal(find(0, 20), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(blocks_are_found_as_far_as_their_chain_goes),
        STORE_TEST(blocks_outlive_the_process),
        STORE_TEST(two_processes_do_not_share_a_directory),
        STORE_TEST(the_limit_holds_and_tails_go_first),
        STORE_TEST(a_tenant_keeps_to_its_limit),
        STORE_TEST(bytes_with_a_wrong_checksum_are_rejected),
        STORE_TEST(a_block_that_was_rejected_is_gone),
        STORE_TEST(digests_are_remembered_for_exactly_one_file),
        STORE_TEST(stored_blocks_are_listed_and_purged),
        STORE_TEST(a_clock_that_jumps_does_no_harm),
        STORE_TEST(an_index_of_an_older_version_is_rebuilt),
        STORE_TEST(an_index_of_a_newer_version_is_left_alone),
        STORE_TEST(a_damaged_index_is_set_aside_and_rebuilt),
        STORE_TEST(a_store_without_an_index_is_rebuilt),
        STORE_TEST(guesses_are_no_misses),
        STORE_TEST(verify_removes_changed_blocks),
        STORE_TEST(pending_writes_count_and_others_continue),
        STORE_TEST(a_scan_does_not_evict_blocks_that_are_reused),
        STORE_TEST(blocks_without_parents_are_declined_when_space_is_short),
        STORE_TEST(blocks_are_weighed_one_by_one),
        STORE_TEST(blocks_of_a_missing_segment_are_not_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
