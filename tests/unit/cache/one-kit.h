/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Holds the kit of the test that runs, and functions for it. Blocks have at most 20,000 bytes. */

#include "lib/test.h"
#include "unit/cache/kit.h"

static struct kit kit;

static int setup(void **state)
{
    (void)state;
    kit_init(&kit);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    kit_done(&kit);
    return 0;
}

static struct store_stats stats(void)
{
    struct store_stats st;

    store_stats(kit.store, &st);
    return st;
}

/* Finds the first @n blocks of a chain; none may be wrong. */
static int find(uint32_t chain, uint32_t n)
{
    uint32_t wrong = 0;
    const int r = kit_find(&kit, chain, n, 20000, &wrong);

    assert_int_equal(wrong, 0);
    return r;
}

static int put(uint32_t chain, uint32_t first, uint32_t n)
{
    return kit_put(&kit, &kit_origin, chain, first, n, 20000);
}

static void tend(void)
{
    int r;

    while ((r = store_tend(kit.store)) > 0)
        ;
    ASSERT_OK(r);
}

/* A test with a new kit. */
#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
