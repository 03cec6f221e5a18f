/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the confinement of the processes that pull models, by actions of confined processes. These
 * are the program that fetches, the process of `sconce pull` that verifies and installs, and the
 * store service, which verifies and installs for clients. All of them work in the directory `dir`.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "confined.h"
#include "service-rows.h"

static const char *const programs[] = {PROGRAM_POLICIES};

static int try_call(const void *arg)
{
    const long *a = arg;

    return syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]) < 0 ? errno : 0;
}

/* Returns the errno of a call in the confined process; -1: the call ended the process. */
static int result(const char *program, long call, long a, long b, long c)
{
    const long args[7] = {call, a, b, c};
    const int status = confined(program, SEALED, try_call, args);

    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return -1;
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int opened(const char *program, const char *path, int flags)
{
    return result(program, SYS_openat, AT_FDCWD, (long)path, flags);
}

static void enter(void)
{
    ASSERT_OK(chdir(dir));
    mkdir("below", 0700);
    mkdir("models", 0700);
    close(open("own", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

TEST(both_write_only_below_their_directory)
{
    enter();
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        assert_int_equal(opened(programs[i], "own", O_RDWR), 0);
        assert_int_equal(opened(programs[i], "new", O_RDWR | O_CREAT), 0);
        assert_int_equal(opened(programs[i], "below/new", O_RDWR | O_CREAT), 0);
        assert_int_equal(opened(programs[i], "../sconce-escape", O_RDWR | O_CREAT), EACCES);
        assert_int_equal(opened(programs[i], "/tmp/sconce-escape", O_RDWR | O_CREAT), EACCES);
        assert_int_equal(opened(programs[i], "/etc/passwd", O_RDONLY), EACCES);
        assert_int_equal(opened(programs[i], "/proc/self/environ", O_RDONLY), EACCES);
        assert_int_equal(opened(programs[i], "/dev/null", O_RDWR), EACCES);
        assert_int_equal(opened(programs[i], ".", O_TMPFILE | O_RDWR), -1);
    }
    assert_int_equal(opened("fetch", "/etc/hosts", O_RDWR), EACCES);
    assert_int_equal(opened("pull", "/etc/hosts", O_RDONLY), EACCES);
}

TEST(only_the_program_that_fetches_has_sockets)
{
    enter();
    assert_int_equal(result("fetch", SYS_socket, AF_INET, SOCK_STREAM, 0), 0);
    assert_int_equal(result("fetch", SYS_socket, AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    assert_int_equal(result("fetch", SYS_socket, AF_NETLINK, SOCK_RAW, 0), EAFNOSUPPORT);
    assert_int_equal(result("fetch", SYS_socket, AF_PACKET, SOCK_RAW, 0), -1);
    assert_int_equal(result("fetch", SYS_bind, -1, 0, 0), -1);
    assert_int_equal(result("fetch", SYS_listen, -1, 0, 0), -1);
    assert_int_equal(result("pull", SYS_socket, AF_INET, SOCK_STREAM, 0), -1);
    assert_int_equal(result("pull", SYS_socket, AF_UNIX, SOCK_STREAM, 0), -1);
    assert_int_equal(result("pull", SYS_connect, -1, 0, 0), -1);
    assert_int_equal(result("pull", SYS_sendto, -1, 0, 0), -1);
}

/* Connects by TCP to a server of this process. Landlock allows this only to `fetch`. */
static int try_connect(const void *arg)
{
    const struct sockaddr_in *to = arg;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 ? errno : 0;
}

TEST(the_program_that_fetches_connects)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof(to);

    enter();
    ASSERT_OK(bind(fd, (struct sockaddr *)&to, len));
    ASSERT_OK(listen(fd, 1));
    ASSERT_OK(getsockname(fd, (struct sockaddr *)&to, &len));
    assert_int_equal(confined("fetch", SEALED, try_connect, &to), 0);
    close(fd);
}

TEST(neither_starts_programs_nor_reaches_other_processes)
{
    enter();
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        assert_int_equal(result(programs[i], SYS_execve, (long)"/bin/true", 0, 0), -1);
        assert_int_equal(result(programs[i], SYS_clone, SIGCHLD, 0, 0), -1);
        assert_int_equal(result(programs[i], SYS_kill, getppid(), 0, 0), -1);
        assert_int_equal(result(programs[i], SYS_ptrace, 0, 0, 0), -1);
        assert_int_equal(result(programs[i], SYS_memfd_create, (long)"m", 0, 0), -1);
        assert_int_equal(result(programs[i], SYS_symlinkat, (long)"/etc", AT_FDCWD, (long)"l"), -1);
        assert_int_equal(result(programs[i], SYS_mmap, 0, 4096, 7), -1);
    }
    assert_int_equal(result("fetch", SYS_linkat, AT_FDCWD, (long)"own", AT_FDCWD), -1);
    assert_int_equal(result("fetch", SYS_renameat2, AT_FDCWD, (long)"own", AT_FDCWD), -1);
    assert_int_equal(result("fetch", SYS_unlinkat, AT_FDCWD, (long)"own", 0), -1);
}

/* The models of the machine are elsewhere, so the store service may read no other file here. */
TEST(the_store_service_writes_only_the_store)
{
    enter();
    assert_int_equal(opened("store", "own", O_RDWR), 0);
    assert_int_equal(opened("store", "below/new", O_RDWR | O_CREAT), 0);
    assert_int_equal(opened("store", "../sconce-escape", O_RDWR | O_CREAT), EACCES);
    assert_int_equal(opened("store", "/tmp/sconce-escape", O_RDWR | O_CREAT), EACCES);
    assert_int_equal(opened("store", "/etc/passwd", O_RDONLY), EACCES);
    assert_int_equal(opened("store", "/proc/self/environ", O_RDONLY), EACCES);
    assert_int_equal(opened("store", "/dev/null", O_RDWR), EACCES);
    assert_int_equal(opened("store", ".", O_TMPFILE | O_RDWR), -1);
    assert_int_equal(result("store", SYS_symlinkat, (long)"/etc", AT_FDCWD, (long)"l"), -1);
}

TEST(the_store_service_connects_to_unix_sockets_alone_and_starts_nothing)
{
    enter();
    assert_int_equal(result("store", SYS_socket, AF_UNIX, SOCK_STREAM, 0), 0);
    assert_int_equal(result("store", SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0), -1);
    assert_int_equal(result("store", SYS_socket, AF_INET, SOCK_STREAM, 0), -1);
    assert_int_equal(result("store", SYS_socket, AF_INET6, SOCK_DGRAM, 0), -1);
    assert_int_equal(result("store", SYS_socket, AF_NETLINK, SOCK_RAW, 0), -1);
    assert_int_equal(result("store", SYS_bind, -1, 0, 0), -1);
    assert_int_equal(result("store", SYS_listen, -1, 0, 0), -1);
    assert_int_equal(result("store", SYS_execve, (long)"/bin/true", 0, 0), -1);
    assert_int_equal(result("store", SYS_clone, SIGCHLD, 0, 0), -1);
    assert_int_equal(result("store", SYS_kill, getppid(), 0, 0), -1);
    assert_int_equal(result("store", SYS_ptrace, 0, 0, 0), -1);
    assert_int_equal(result("store", SYS_memfd_create, (long)"m", 0, 0), -1);
    assert_int_equal(result("store", SYS_mmap, 0, 4096, 7), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_write_only_below_their_directory),
        cmocka_unit_test(only_the_program_that_fetches_has_sockets),
        cmocka_unit_test(the_program_that_fetches_connects),
        cmocka_unit_test(neither_starts_programs_nor_reaches_other_processes),
        cmocka_unit_test(the_store_service_writes_only_the_store),
        cmocka_unit_test(the_store_service_connects_to_unix_sockets_alone_and_starts_nothing),
    };

    return cmocka_run_group_tests(tests, setup_dir, remove_dir);
}
