/* SPDX-License-Identifier: Apache-2.0 */
#include "core/err.h"

#include <errno.h>

#include "core/utf8.h"
#include "lib/test.h"

TEST(texts_are_one_line_of_valid_utf8)
{
    struct inf_err err;

    assert_int_equal(err_set(&err, EBADMSG, "name \"%s\"", "a\nb\xff\xe2\x82"), -EBADMSG);
    ASSERT_STREQ(err.text, "name \"a b???\"");
    assert_true(utf8_valid(err.text, strlen(err.text)));
    assert_int_equal(err.offset, -1);
}

TEST(a_prefix_goes_before)
{
    struct inf_err err;

    err_set_at(&err, EINVAL, 12, "bad");
    err_prefix(&err, "file %d", 3);
    ASSERT_STREQ(err.text, "file 3: bad");
    assert_int_equal(err.offset, 12);
}

TEST(a_long_text_is_cut_and_stays_valid)
{
    struct inf_err err;
    char text[1000];

    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    err_set(&err, EINVAL, "x%s", text);
    assert_true(utf8_valid(err.text, strlen(err.text)));
    err_set(NULL, EINVAL, "nobody asks");
}

RUN_TESTS(cmocka_unit_test(texts_are_one_line_of_valid_utf8),
          cmocka_unit_test(a_prefix_goes_before),
          cmocka_unit_test(a_long_text_is_cut_and_stays_valid))
