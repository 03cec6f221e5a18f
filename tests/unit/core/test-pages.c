/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/auxv.h>
#include <sys/mman.h>

#include "core/pages.h"

#include "lib/test.h"

/* tests/lib/large-pages.c simulates other sizes. */
TEST(the_size_of_a_page_is_the_kernels)
{
    const char *simulated = getenv("SCONCE_TEST_PAGE");
    const size_t page = simulated ? strtoul(simulated, NULL, 10) : getauxval(AT_PAGESZ);

    assert_int_equal(pages_size(), page);
    assert_int_equal(PAGES_HUGE % page, 0);
    assert_true(pages_memory() >= (uint64_t)1 << 20);
}

TEST(whole_pages_are_dropped_and_parts_are_kept)
{
    const size_t page = pages_size(), size = 4 * page;
    unsigned char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                  there[4];

    assert_true(p != MAP_FAILED);
    memset(p, 7, size);
    pages_drop(p + page - 1, 2 * page + 2);
    assert_int_equal(mincore(p, size, there), 0);
    assert_int_equal(there[0] & 1, 1);
    assert_int_equal(there[1] & 1, 0);
    assert_int_equal(there[2] & 1, 0);
    assert_int_equal(there[3] & 1, 1);
    assert_int_equal(p[page - 1], 7);
    assert_int_equal(p[page], 0);
    assert_int_equal(p[3 * page], 7);

    pages_drop(p + 1, page - 1);
    pages_drop(p, 0);
    assert_int_equal(p[0], 7);
    munmap(p, size);
}

TEST(touched_pages_have_memory_and_keep_their_content)
{
    const size_t page = pages_size(), size = 4 * page;
    unsigned char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                  there[4];

    assert_true(p != MAP_FAILED);
    p[page] = 7;
    pages_touch(p + page, 2 * page);
    pages_touch(p, 0);
    assert_int_equal(mincore(p, size, there), 0);
    assert_int_equal(there[0] & 1, 0);
    assert_int_equal(there[1] & 1, 1);
    assert_int_equal(there[2] & 1, 1);
    assert_int_equal(there[3] & 1, 0);
    assert_int_equal(p[page], 7);
    munmap(p, size);
}

RUN_TESTS(cmocka_unit_test(the_size_of_a_page_is_the_kernels),
          cmocka_unit_test(whole_pages_are_dropped_and_parts_are_kept),
          cmocka_unit_test(touched_pages_have_memory_and_keep_their_content))
