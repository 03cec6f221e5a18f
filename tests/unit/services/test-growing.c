/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the digests of files that grow: they are those of store_digest(), or there is none. */
#include <fcntl.h>
#include <unistd.h>

#include "common/store/store.h"
#include "lib/tempdir.h"

enum { N = 600000, CUT = 300000 };

static char path[96];
static uint8_t bytes[N];

/* Writes the bytes from @first up to @end into the file, all with @change added. */
static void put(size_t first, size_t end, uint8_t change)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    for (size_t i = 0; i < N; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 9) + change);
    assert_int_equal(pwrite(fd, bytes + first, end - first, (off_t)first), end - first);
    close(fd);
}

static struct store_growing *begin(void)
{
    snprintf(path, sizeof(path), "%s/file", dir);
    return store_growing_new(path);
}

static void count(void *data, uint64_t n)
{
    *(uint64_t *)data += n;
}

TEST(the_digest_is_that_of_the_whole_file)
{
    struct store_growing *g = begin();
    char digest[STORE_DIGEST + 1], whole[STORE_DIGEST + 1];
    uint64_t size, n_told = 0;

    store_growing_read(g, 10); /* the file does not exist yet */
    put(0, CUT, 0);
    store_growing_read(g, 1);
    store_growing_read(g, CUT);
    store_growing_read(NULL, CUT);
    put(CUT, N, 0);
    assert_int_equal(store_growing_end(g, path, count, &n_told, digest, &size), 0);
    assert_int_equal(size, N);
    assert_int_equal(n_told, N);
    assert_int_equal(store_digest(path, NULL, NULL, whole, &size, NULL), 0);
    assert_string_equal(digest, whole);
    store_growing_free(g);
}

TEST(changes_of_bytes_that_were_read_are_noticed)
{
    static const size_t places[] = {0, 1, CUT / 2, CUT - 1};
    char digest[STORE_DIGEST + 1];
    uint64_t size;

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct store_growing *g = begin();

        put(0, N, 0);
        store_growing_read(g, CUT);
        put(places[i], places[i] + 1, 1);
        assert_int_equal(store_growing_end(g, path, NULL, NULL, digest, &size),
                         STORE_GROWING_DIFFERS);
        store_growing_free(g);
        unlink(path);
    }
}

TEST(shorter_missing_and_unread_files_have_no_digest)
{
    struct store_growing *g = begin();
    char digest[STORE_DIGEST + 1];
    uint64_t size;

    assert_int_equal(store_growing_end(g, path, NULL, NULL, digest, &size), STORE_GROWING_DIFFERS);
    put(0, N, 0);
    assert_int_equal(store_growing_end(g, path, NULL, NULL, digest, &size), STORE_GROWING_DIFFERS);
    store_growing_read(g, CUT);
    assert_int_equal(truncate(path, CUT - 1), 0);
    assert_int_equal(store_growing_end(g, path, NULL, NULL, digest, &size), STORE_GROWING_DIFFERS);
    unlink(path);
    assert_int_equal(store_growing_end(g, path, NULL, NULL, digest, &size), STORE_GROWING_DIFFERS);
    store_growing_free(g);
    store_growing_free(NULL);
}

#define GROWING_TEST(name) cmocka_unit_test_setup_teardown(name, tempdir_make, tempdir_remove)
RUN_TESTS(GROWING_TEST(the_digest_is_that_of_the_whole_file),
          GROWING_TEST(changes_of_bytes_that_were_read_are_noticed),
          GROWING_TEST(shorter_missing_and_unread_files_have_no_digest))
