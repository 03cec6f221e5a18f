/* SPDX-License-Identifier: Apache-2.0 */
#include "core/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/guard.h"
#include "core/pages.h"
#include "lib/tempdir.h"

#define SIZE ((size_t)300000)

static char path[128];

static void put(const char *name, size_t size, unsigned char byte)
{
    unsigned char *data = malloc(size);
    FILE *f;

    for (size_t i = 0; i < size; i++)
        data[i] = (unsigned char)(byte + i % 251);
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    free(data);
}

/* Maps a file after setting its mtime back, so that any write changes the mtime. */
static struct file_map map_file(const char *name)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
    struct file_map map;
    struct inf_err err;

    put(name, SIZE, 0);
    ASSERT_OK(utimensat(AT_FDCWD, path, times, 0));
    ASSERT_OK_ERR(file_map_open(path, &map, &err), err);
    ASSERT_OK(file_map_check(&map, &err));
    assert_false(file_map_is_lost(&map));
    return map;
}

/* Checks that the change is remembered from now on, even if the file is restored. */
static void assert_stale(struct file_map *map, const char *why)
{
    struct inf_err err;

    assert_false(file_map_is_lost(map));
    for (unsigned i = 0; i < 2; i++) {
        ASSERT_ERROR(file_map_check(map, &err), ESTALE);
        ASSERT_STREQ(err.text, why);
        assert_true(file_map_is_lost(map));
    }
    file_map_done(map);
}

TEST(a_file_that_is_written_to_is_stale)
{
    struct file_map map = map_file("written");
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_int_equal(pwrite(fd, "x", 1, 100), 1);
    close(fd);
    assert_stale(&map, "written was written to while it was in use");
}

TEST(a_file_that_is_cut_is_stale)
{
    struct file_map map = map_file("cut");

    ASSERT_OK(truncate(path, SIZE - 1));
    assert_stale(&map, "cut was cut short while it was in use");
}

TEST(a_file_that_is_replaced_by_renaming_stays_mapped)
{
    struct file_map map = map_file("old");
    struct inf_err err;
    char new[128];

    put("new", 10, 0);
    snprintf(new, sizeof(new), "%s", path);
    snprintf(path, sizeof(path), "%s/old", dir);
    ASSERT_OK(chmod(path, 0600));
    ASSERT_OK(rename(new, path));
    ASSERT_OK(file_map_check(&map, &err));
    ASSERT_OK(unlink(path));
    ASSERT_OK(file_map_check(&map, &err));
    file_map_done(&map);
}

TEST(a_set_is_lost_with_one_of_its_files)
{
    struct file_map maps[3] = {map_file("a"), map_file("b"), map_file("c")};
    const struct file_map *list[2] = {&maps[0], &maps[1]};
    struct file_set set = {.maps = list, .n = 2}, none = {0};
    struct inf_err err;

    guard_install();
    assert_false(file_set_is_lost(&set));
    ASSERT_OK(truncate(path, 0));
    assert_int_equal(*(volatile const unsigned char *)(maps[2].data + 100), 0);
    assert_true(file_map_is_lost(&maps[2]));
    assert_false(file_set_is_lost(&set));
    ASSERT_OK(file_set_check(&set, &err));
    snprintf(path, sizeof(path), "%s/b", dir);
    ASSERT_OK(truncate(path, 5000));
    assert_false(file_set_is_lost(&set));
    assert_int_equal(*(volatile const unsigned char *)(maps[1].data + SIZE - 1), 0);
    assert_true(file_set_is_lost(&set));
    assert_true(file_set_is_lost(&set));
    ASSERT_ERROR(file_set_check(&set, &err), ESTALE);
    ASSERT_STREQ(err.text, "b was cut short while it was in use");
    assert_false(file_set_is_lost(&none));
    ASSERT_OK(file_set_check(&none, NULL));
    for (unsigned i = 0; i < 3; i++)
        file_map_done(&maps[i]);
}

TEST(a_beginning_is_read_once_and_stays)
{
    struct file_map map = map_file("begin");
    struct file_start start = {0};
    struct inf_err err;
    const unsigned char *data;
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    ASSERT_OK_ERR(file_start_read(&start, &map, 1000, &err), err);
    data = start.data;
    assert_int_equal(data[999], 999 % 251);
    assert_int_equal(pwrite(fd, "xxxx", 4, 500), 4);
    ASSERT_OK_ERR(file_start_read(&start, &map, SIZE, &err), err);
    assert_ptr_equal(start.data, data);
    assert_int_equal(data[500], 500 % 251);
    assert_int_equal(map.data[500], 'x');
    assert_int_equal(data[SIZE - 1], (SIZE - 1) % 251);
    ASSERT_ERROR(file_start_read(&start, &map, SIZE + 1, &err), EBADMSG);
    file_start_trim(&start, 280000);
    assert_int_equal(data[279999], 279999 % 251);
    file_start_done(&start);
    /* The file is now shorter than when it was mapped. */
    ASSERT_OK(ftruncate(fd, 1000));
    ASSERT_ERROR(file_start_read(&start, &map, 2000, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "the file became shorter while it was read");
    file_start_done(&start);
    close(fd);
    file_map_done(&map);
}

TEST(a_beginning_of_memory_is_that_memory)
{
    static const unsigned char memory[] = "memory";
    const struct file_map map = {.data = memory, .size = sizeof(memory)};
    struct file_start start = {0};

    ASSERT_OK(file_start_read(&start, &map, 2, NULL));
    assert_ptr_equal(start.data, memory);
    assert_int_equal(start.size, sizeof(memory));
    ASSERT_ERROR(file_start_read(&start, &map, 100, NULL), EBADMSG);
    file_start_done(&start);
}

TEST(files_are_recognized_by_their_first_bytes)
{
    put("gguf", 3, 'a');
    assert_true(file_begins_with(path, "abc"));
    assert_true(file_begins_with(path, ""));
    assert_false(file_begins_with(path, "abcd"));
    assert_false(file_begins_with(path, "GGUF"));
    assert_false(file_begins_with(dir, ""));
    assert_false(file_begins_with("/nowhere", ""));
}

TEST(paths_below_a_directory_are_recognized_by_whole_names)
{
    static const char *const dirs[] = {"/srv/models", "/srv/models/", "/srv/models//"};

    for (size_t i = 0; i < 3; i++) {
        assert_true(path_is_below("/srv/models", dirs[i]));
        assert_true(path_is_below("/srv/models/a.gguf", dirs[i]));
        assert_true(path_is_below("/srv/models/a/b", dirs[i]));
        assert_false(path_is_below("/srv/modelsx", dirs[i]));
        assert_false(path_is_below("/srv", dirs[i]));
        assert_false(path_is_below("/", dirs[i]));
    }
    assert_true(path_is_below("/srv", "/"));
    assert_true(path_is_below("/", "/"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tempdir_make, tempdir_remove)

RUN_TESTS(CASE(a_file_that_is_written_to_is_stale), CASE(a_file_that_is_cut_is_stale),
          CASE(a_file_that_is_replaced_by_renaming_stays_mapped),
          CASE(a_set_is_lost_with_one_of_its_files), CASE(a_beginning_is_read_once_and_stays),
          CASE(a_beginning_of_memory_is_that_memory),
          CASE(files_are_recognized_by_their_first_bytes),
          cmocka_unit_test(paths_below_a_directory_are_recognized_by_whole_names))
