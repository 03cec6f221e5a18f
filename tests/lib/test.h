/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Every unit test includes this header, which includes cmocka and defines more macros.
 *
 * A test program is a list of TEST(name) functions, with RUN_TESTS(name, …) at the end. Names are
 * sentences. Tests that need files outside the tree call test_data(), and skip() if it returns
 * NULL.
 */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <infer/types.h>

#define TEST(name) static void name(void **state __attribute__((unused)))

#define ASSERT_OK(expr)                                                                            \
    do {                                                                                           \
        const long r_ = (long)(expr);                                                              \
        if (r_ < 0)                                                                                \
            fail_msg("%s: %s", #expr, strerror((int)-r_));                                         \
    } while (0)
/* Works like ASSERT_OK(), for calls that fill @err. */
#define ASSERT_OK_ERR(expr, err)                                                                   \
    do {                                                                                           \
        const long r_ = (long)(expr);                                                              \
        if (r_ < 0)                                                                                \
            fail_msg("%s: %s (%s)", #expr, strerror((int)-r_), (err).text);                        \
    } while (0)
#define ASSERT_ERROR(expr, code)                                                                   \
    do {                                                                                           \
        const long r_ = (long)(expr);                                                              \
        if (r_ != -(long)(code))                                                                   \
            fail_msg("%s: %ld, expected %ld", #expr, r_, -(long)(code));                           \
    } while (0)
#define ASSERT_STREQ(a, b) assert_string_equal(a, b)
#define ASSERT_CONTAINS(text, part)                                                                \
    do {                                                                                           \
        if (!strstr(text, part))                                                                   \
            fail_msg("\"%s\" does not contain \"%s\"", text, part);                                \
    } while (0)

/* Returns whether to run all cases. If not, slow tests run a random or fixed part of their
 * cases. */
static inline bool test_full(void)
{
    return getenv("SCONCE_TEST_FULL");
}

/* Returns whether an emulator of programs, not of machines, runs the test (tests/lib/arm64.sh). The
 * emulator forwards system calls to the kernel of another architecture. It cannot set filters of
 * system calls, and does not end a process that blocks the signal of its own fault. */
static inline bool test_emulated(void)
{
    return getenv("SCONCE_TEST_EMULATED");
}

/* Returns a path below the directory of real models: $SCONCE_DATA, or shared/data beside the tree.
 * Returns NULL if the file is missing; the test must then call skip(). */
static inline const char *test_data(const char *name)
{
    static char path[4096];
    const char *dir = getenv("SCONCE_DATA"), *src = getenv("SCONCE_SRC");

    if (dir)
        snprintf(path, sizeof(path), "%s/%s", dir, name);
    else
        snprintf(path, sizeof(path), "%s/../shared/data/%s", src ? src : ".", name);
    if (access(path, R_OK) == 0)
        return path;
    print_message("skipped: no %s\n", path);
    return NULL;
}

/* Returns a path below tests/golden. */
static inline const char *test_golden(const char *name)
{
    static char path[4096];
    const char *dir = getenv("SCONCE_GOLDEN");

    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "tests/golden", name);
    return path;
}

/* Returns how many times slower the test program runs because of a tool such as qemu; 1: there is
 * no such tool. */
static inline double test_slowness(void)
{
    const char *text = getenv("SCONCE_TEST_SLOW");

    return text && atof(text) > 1 ? atof(text) : 1;
}

/* Returns the number of rounds of a random test: @n, or @n divided by test_slowness(). With
 * test_full() it is always @n. */
static inline uint32_t test_rounds(uint32_t n)
{
    const double few = n / test_slowness();

    return test_full() ? n : few > 1 ? (uint32_t)few : 1;
}

#define RUN_TESTS(...)                                                                             \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }
