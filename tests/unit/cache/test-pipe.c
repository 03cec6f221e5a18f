/* SPDX-License-Identifier: Apache-2.0 */
/* Sends parts of files through pipes, and checks the received bytes, and the errors when nothing
 * can be sent. */
#include "cache/block-pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/test.h"

#define FILE_BYTES (3u << 20)

static uint8_t bytes[FILE_BYTES], got[FILE_BYTES];

static int make_file(void)
{
    const int fd = memfd_create("file", MFD_CLOEXEC);

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    return fd;
}

/* Sends @n bytes at @offset of @fd, and compares the received bytes with @want. */
static void check(int fd, uint64_t offset, size_t n, const uint8_t *want)
{
    size_t in = 0, out = 0;
    int ends[2];

    ASSERT_OK(pipe_new(ends));
    while (out < n) {
        ssize_t r = in < n ? pipe_fill(ends[1], fd, offset + in, n - in) : -EAGAIN;

        assert_true(r > 0 || r == -EAGAIN);
        in += r > 0 ? (size_t)r : 0;
        r = read(ends[0], got + out, n - out);
        assert_true(r > 0);
        out += (size_t)r;
    }
    assert_int_equal(in, n);
    assert_memory_equal(got, want, n);
    assert_int_equal(read(ends[0], got, 1), -1);
    assert_int_equal(errno, EAGAIN);
    close(ends[0]);
    close(ends[1]);
}

TEST(a_part_of_a_file_comes_out)
{
    const int fd = make_file();

    check(fd, 0, 1, bytes);
    check(fd, 4096, 4096, bytes + 4096);
    check(fd, 12345, FILE_BYTES - 12346, bytes + 12345);
    check(fd, 0, FILE_BYTES, bytes);
    close(fd);
}

/* Uses a file of /proc that can be read at an offset, but has no pages to share. */
TEST(pages_that_cannot_be_shared_are_copied)
{
    const int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    int ends[2];

    close(make_file());
    assert_true(fd >= 0);
    ASSERT_OK(pipe_new(ends));
    assert_int_equal(splice(fd, NULL, ends[1], NULL, 1, SPLICE_F_NONBLOCK), -1);
    assert_int_equal(errno, EINVAL);
    close(ends[0]);
    close(ends[1]);
    check(fd, (uint64_t)(uintptr_t)bytes + 77, FILE_BYTES - 77, bytes + 77);
    close(fd);
}

TEST(errors_of_sending_are_returned)
{
    const int fd = make_file();
    int ends[2];
    ssize_t r;

    signal(SIGPIPE, SIG_IGN);
    ASSERT_OK(pipe_new(ends));
    ASSERT_ERROR((int)pipe_fill(ends[1], -1, 0, 1), EBADF);
    assert_int_equal(pipe_fill(ends[1], fd, FILE_BYTES, 1), 0);
    while ((r = pipe_fill(ends[1], fd, 0, FILE_BYTES)) > 0)
        ;
    assert_int_equal(r, -EAGAIN);
    close(ends[0]);
    ASSERT_ERROR((int)pipe_fill(ends[1], fd, 0, 1), EPIPE);
    close(ends[1]);
    close(fd);
}

/* The owner of the reading end can only read from the pipe. */
TEST(the_reading_end_shows_nothing_of_the_file)
{
    const int fd = make_file();
    struct stat st;
    int ends[2];

    ASSERT_OK(pipe_new(ends));
    assert_int_equal(pipe_fill(ends[1], fd, 4096, 10), 10);
    ASSERT_OK(fstat(ends[0], &st));
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(lseek(ends[0], 0, SEEK_SET), -1);
    assert_int_equal(pread(ends[0], got, 1, 0), -1);
    assert_int_equal(write(ends[0], got, 1), -1);
    assert_int_equal(read(ends[0], got, sizeof(got)), 10);
    assert_memory_equal(got, bytes + 4096, 10);
    close(ends[0]);
    close(ends[1]);
    close(fd);
}

RUN_TESTS(cmocka_unit_test(a_part_of_a_file_comes_out),
          cmocka_unit_test(pages_that_cannot_be_shared_are_copied),
          cmocka_unit_test(errors_of_sending_are_returned),
          cmocka_unit_test(the_reading_end_shows_nothing_of_the_file))
