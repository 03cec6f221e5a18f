/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes a temporary directory for each test that uses these functions in
 * cmocka_unit_test_setup_teardown(). `dir` is the path of the directory. */

#include <ftw.h>

#include "lib/test.h"

static char dir[64];

static inline int tempdir_make(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sconce-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static inline int tempdir_remove_one(const char *path, const struct stat *st, int type,
                                     struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static inline int tempdir_remove(void **state)
{
    (void)state;
    return nftw(dir, tempdir_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}
