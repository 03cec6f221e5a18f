/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads the files of tests/golden/make_whisper.py; a file that is too short fails the test. */

#include "core/macros.h"
#include "lib/test.h"

static inline FILE *golden_open(const char *name)
{
    FILE *f = fopen(test_golden(name), "rb");

    assert_non_null(f);
    return f;
}

static inline void golden_read(FILE *f, void *to, size_t size)
{
    if (size > 0)
        assert_int_equal(fread(to, size, 1, f), 1);
}

static inline int32_t golden_int(FILE *f)
{
    int32_t v;

    golden_read(f, &v, sizeof(v));
    return v;
}

/* Reads @n values of @size bytes to the heap. */
static inline void *golden_array(FILE *f, size_t n, size_t size)
{
    void *values = calloc(n + 1, size);

    assert_non_null(values);
    golden_read(f, values, n * size);
    return values;
}

/* Reads a count, and then that many values to the heap. */
static inline int32_t *golden_row(FILE *f, size_t *ret_n)
{
    *ret_n = (size_t)golden_int(f);
    return golden_array(f, *ret_n, sizeof(int32_t));
}

static inline bool golden_end(FILE *f)
{
    const int c = fgetc(f);

    ungetc(c, f);
    return c == EOF;
}
