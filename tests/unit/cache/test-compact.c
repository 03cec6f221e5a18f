/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests compaction while memory is short, and while the disk frees no space.
 *
 * The program is linked with --wrap=realloc.
 */
#include <fcntl.h>

#include "cache/segment.h"
#include "lib/test.h"
#include "unit/cache/kit.h"

enum { BLOCKS = 20, SIZE = 20000 };

static bool no_memory; /* the next allocation fails */
static bool no_holes;

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *__wrap_realloc(void *p, size_t size)
{
    if (!no_memory)
        return __real_realloc(p, size);
    no_memory = false;
    return NULL;
}

static int punch_or_not(void *data, int fd, uint64_t offset, uint64_t n)
{
    return no_holes ? -EIO : store_io_system.punch(data, fd, offset, n);
}

/* Overwrites the header of the first record, so that its bytes belong to no record. */
static void break_first_record(const struct kit *k)
{
    char path[128], junk[STORE_PAGE];
    int fd;

    snprintf(path, sizeof(path), "%s/segments/00000001.kv", k->dir);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    memset(junk, 'x', sizeof(junk));
    assert_int_equal(pwrite(fd, junk, sizeof(junk), STORE_PAGE), sizeof(junk));
    close(fd);
}

static off_t first_data(const struct kit *k)
{
    char path[128];
    off_t at;
    int fd;

    snprintf(path, sizeof(path), "%s/segments/00000001.kv", k->dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    at = lseek(fd, STORE_PAGE, SEEK_DATA);
    close(fd);
    return at;
}

TEST(space_is_freed_later_when_memory_is_short)
{
    struct store_io io = store_io_system;
    uint8_t name[STORE_NAME_BYTES];
    struct kit k;
    int r;

    io.punch = punch_or_not;
    kit_init(&k);
    k.params.io = &io;
    kit_open(&k);
    assert_int_equal(kit_put(&k, &kit_origin, 0, 0, BLOCKS, SIZE), BLOCKS);
    assert_int_equal(kit_put(&k, &kit_origin, 1, 0, BLOCKS, SIZE), BLOCKS);
    /* The blocks of chain 0 are removed from the index, but the disk does not free their space. */
    no_holes = true;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        kit_name(0, i, name);
        ASSERT_OK(store_reject(k.store, name));
    }
    kit_close(&k);
    no_holes = false;
    break_first_record(&k);
    kit_open(&k);
    assert_int_equal(first_data(&k), STORE_PAGE);

    no_memory = true;
    while ((r = store_tend(k.store)) > 0)
        ;
    assert_int_equal(r, -ENOMEM);
    while ((r = store_tend(k.store)) > 0)
        ;
    ASSERT_OK(r);
    assert_true(first_data(&k) > 2 * STORE_PAGE);
    kit_done(&k);
}

TEST(freeing_is_not_retried_at_once_when_the_disk_refuses)
{
    struct store_io io = store_io_system;
    uint8_t name[STORE_NAME_BYTES];
    struct kit k;
    int n = 0;

    io.punch = punch_or_not;
    no_holes = false;
    kit_init(&k);
    k.params.io = &io;
    kit_open(&k);
    assert_int_equal(kit_put(&k, &kit_origin, 0, 0, BLOCKS, SIZE), BLOCKS);
    no_holes = true;
    kit_name(0, 0, name);
    ASSERT_OK(store_reject(k.store, name));
    while (n < 100 && store_tend(k.store) > 0)
        n++;
    assert_true(n < 100);
    no_holes = false;
    kit_done(&k);
}

RUN_TESTS(cmocka_unit_test(space_is_freed_later_when_memory_is_short),
          cmocka_unit_test(freeing_is_not_retried_at_once_when_the_disk_refuses))
