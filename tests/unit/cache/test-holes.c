/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how a store frees the space of blocks on disks where holes cannot be punched into files,
 * and where punching fails for a time.
 */
#include "unit/cache/one-kit.h"

enum { MIB = 1024 * 1024 };

static int punch_error;

static int punch_or_not(void *data, int fd, uint64_t offset, uint64_t n)
{
    return punch_error ? punch_error : store_io_system.punch(data, fd, offset, n);
}

static struct store_io io_with_punch(int error)
{
    struct store_io io = store_io_system;

    punch_error = error;
    io.punch = punch_or_not;
    return io;
}

TEST(blocks_are_moved_together_on_disks_without_holes)
{
    const struct store_io io = io_with_punch(-EOPNOTSUPP);
    int found = 0;

    kit.params.io = &io;
    kit.params.limits.max_bytes = 4 * MIB;
    kit_open(&kit);
    for (uint32_t chain = 0; chain < 60; chain++) {
        assert_int_equal(put(chain, 0, 20), 20);
        assert_true(kit_disk(&kit, "segments") <= 4 * MIB);
        find(0, 20);
        if (chain % 4 == 0)
            tend();
    }
    assert_true(stats().moved > 0);
    for (uint32_t chain = 0; chain < 60; chain++)
        found += find(chain, 20);
    assert_int_equal(found, (int)stats().blocks);
    assert_true(stats().bytes >= 2 * MIB);
    assert_int_equal(find(0, 20), 20);
}

TEST(space_that_could_not_be_freed_is_freed_later)
{
    const struct store_io io = io_with_punch(0);
    uint8_t name[STORE_NAME_BYTES];
    uint64_t before;

    kit.params.io = &io;
    kit_open(&kit);
    for (uint32_t chain = 0; chain < 10; chain++)
        assert_int_equal(put(chain, 0, 20), 20);
    before = kit_disk(&kit, "segments");
    punch_error = -EIO;
    for (uint32_t i = 0; i < 100; i++) {
        kit_name(i % 10, 10 + i / 10, name);
        ASSERT_OK(store_reject(kit.store, name));
    }
    assert_int_equal(kit_disk(&kit, "segments"), before);
    /* A newly opened store counts the space of its files. */
    kit_close(&kit);
    kit_open(&kit);
    punch_error = 0;
    tend();
    assert_true(kit_disk(&kit, "segments") < before * 2 / 3);
    for (uint32_t chain = 0; chain < 10; chain++)
        assert_int_equal(find(chain, 20), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(blocks_are_moved_together_on_disks_without_holes),
        STORE_TEST(space_that_could_not_be_freed_is_freed_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
