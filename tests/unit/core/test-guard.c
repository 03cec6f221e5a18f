/* SPDX-License-Identifier: Apache-2.0 */
#include "core/guard.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/pages.h"
#include "core/signals.h"
#include "core/workers.h"
#include "lib/tempdir.h"

#define N_PAGES 64

static size_t page;

/* Returns a mapping of a file of ones; *ret_fd is the file. */
static unsigned char *map_ones(int *ret_fd)
{
    char path[128];
    unsigned char *p;

    page = pages_size();
    snprintf(path, sizeof(path), "%s/ones-XXXXXX", dir);
    *ret_fd = mkstemp(path);
    assert_true(*ret_fd >= 0);
    p = malloc(N_PAGES * page);
    memset(p, 1, N_PAGES * page);
    assert_int_equal(write(*ret_fd, p, N_PAGES * page), N_PAGES * page);
    free(p);
    p = mmap(NULL, N_PAGES * page, PROT_READ, MAP_SHARED, *ret_fd, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

static unsigned sum(const volatile unsigned char *p)
{
    unsigned total = 0;

    for (size_t i = 0; i < N_PAGES; i++)
        total += p[i * page];
    return total;
}

static void unmap(unsigned char *p, int fd)
{
    munmap(p, N_PAGES * page);
    close(fd);
}

TEST(truncated_pages_become_zeros_and_their_guard_is_lost)
{
    int fds[2];
    unsigned char *a = map_ones(&fds[0]), *b = map_ones(&fds[1]);
    struct guard *of_a = guard_new(a, N_PAGES * page), *of_b = guard_new(b, N_PAGES * page);
    const unsigned before = guard_n_lost();

    /* cmocka installs its own signal handler before each test, so each test installs the handler of
     * guard.c again. */
    ASSERT_OK(guard_install());
    ASSERT_OK(guard_install());
    assert_int_equal(sum(a), N_PAGES);
    ASSERT_OK(ftruncate(fds[0], (off_t)(10 * page)));
    assert_false(guard_is_lost(of_a));
    errno = 7;
    assert_int_equal(sum(a), 10);
    assert_int_equal(errno, 7);
    assert_true(guard_is_lost(of_a));
    /* All pages are replaced from then on, even if the file is restored. */
    ASSERT_OK(ftruncate(fds[0], (off_t)(N_PAGES * page)));
    assert_int_equal(sum(a), 0);
    assert_int_equal(sum(b), N_PAGES);
    assert_false(guard_is_lost(of_b));
    assert_int_equal(guard_n_lost(), before + 1);
    guard_lose(of_b);
    guard_lose(of_b);
    assert_true(guard_is_lost(of_b));
    assert_int_equal(guard_n_lost(), before + 2);
    guard_free(of_a);
    guard_free(of_b);
    /* Slots are reused, and start in a clean state. */
    of_a = guard_new(b, N_PAGES * page);
    assert_false(guard_is_lost(of_a));
    guard_free(of_a);
    unmap(a, fds[0]);
    unmap(b, fds[1]);
}

TEST(there_may_be_many_guards)
{
    enum { N = 200 };
    struct guard *guards[N];
    unsigned char *maps[N];
    int fds[N];

    ASSERT_OK(guard_install());
    for (unsigned i = 0; i < N; i++) {
        maps[i] = map_ones(&fds[i]);
        guards[i] = guard_new(maps[i], N_PAGES * page);
        assert_non_null(guards[i]);
    }
    for (unsigned i = 0; i < N; i += 3)
        ASSERT_OK(ftruncate(fds[i], 0));
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(sum(maps[i]), i % 3 ? N_PAGES : 0);
        assert_int_equal(guard_is_lost(guards[i]), i % 3 == 0);
        guard_free(guards[i]);
        unmap(maps[i], fds[i]);
    }
}

static void read_all(void *arg, unsigned i_thread, unsigned n_threads)
{
    (void)i_thread;
    (void)n_threads;
    for (unsigned i = 0; i < 100; i++)
        sum(arg);
}

/* Threads block other signals, and read the same pages at the same time. */
TEST(worker_threads_survive_truncation)
{
    struct workers *w;
    sigset_t old, now;
    int fd;
    unsigned char *p = map_ones(&fd);
    struct guard *g = guard_new(p, N_PAGES * page);

    ASSERT_OK(guard_install());
    ASSERT_OK(workers_new(4, &w));
    ASSERT_OK(ftruncate(fd, (off_t)page));
    workers_run(w, read_all, p);
    assert_true(guard_is_lost(g));
    workers_free(w);
    guard_free(g);
    unmap(p, fd);
    signals_block(&old);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    assert_false(sigismember(&now, SIGBUS));
    assert_true(sigismember(&now, SIGTERM));
    signals_restore(&old);
}

static void exit_three(int sig)
{
    (void)sig;
    _exit(3);
}

/* Returns the wait status of a child that reads a truncated page outside of any guard. */
static int child_status(void (*handler)(int sig), bool sent)
{
    const struct rlimit none = {0, 0};
    int status = 0, fd;
    unsigned char *p = map_ones(&fd);
    pid_t pid = fork();

    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGBUS, handler);
        if (guard_install() < 0 || ftruncate(fd, 0) < 0)
            _exit(1);
        if (sent)
            raise(SIGBUS);
        else
            sum(p);
        _exit(2);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unmap(p, fd);
    return status;
}

TEST(other_signals_keep_their_former_handling)
{
    if (!test_emulated()) {
        assert_int_equal(WTERMSIG(child_status(SIG_DFL, false)), SIGBUS);
        assert_int_equal(WTERMSIG(child_status(SIG_IGN, false)), SIGBUS);
    }
    assert_int_equal(WEXITSTATUS(child_status(exit_three, false)), 3);
    assert_int_equal(WEXITSTATUS(child_status(exit_three, true)), 3);
    assert_int_equal(WEXITSTATUS(child_status(SIG_IGN, true)), 2);
    assert_int_equal(WTERMSIG(child_status(SIG_DFL, true)), SIGABRT);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tempdir_make, tempdir_remove)

RUN_TESTS(CASE(truncated_pages_become_zeros_and_their_guard_is_lost),
          CASE(there_may_be_many_guards), CASE(worker_threads_survive_truncation),
          CASE(other_signals_keep_their_former_handling))
