/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>

#include "common/wire/vectors.h"
#include "lib/test.h"

static void check_text(float value, const char *want)
{
    _cleanup_str_ struct str out = {0};

    ASSERT_OK(vectors_put_float(&out, value));
    ASSERT_STREQ(out.data, want);
}

TEST(numbers_are_written_short)
{
    check_text(0, "0");
    check_text(-0.0f, "-0");
    check_text(1, "1");
    check_text(-1, "-1");
    check_text(0.5f, "0.5");
    check_text(-0.25f, "-0.25");
    check_text(0.1f, "0.100000001");
    check_text(0.001953125f, "0.001953125");
    check_text(10, "10");
    check_text(123456792, "123456792");
    check_text(1000.5f, "1000.5");
    check_text(0.99999994f, "0.99999994");
    check_text(1e-5f, "9.99999975e-06");
    check_text(NAN, "null");
    check_text(-INFINITY, "null");
}

/* Tests every exponent with many mantissas. */
TEST(every_number_is_read_back)
{
    uint32_t noise = 1;

    for (uint32_t exponent = 0; exponent < 255; exponent++)
        for (unsigned i = 0; i < 4000; i++) {
            _cleanup_str_ struct str out = {0};
            uint32_t bits;
            float value;

            noise = noise * 1664525u + 1013904223u;
            bits = (noise & 0x80000000u) | exponent << 23 |
                   (i < 4 ? (i & 1 ? 0x7fffffu - i / 2 : i / 2) : noise >> 8 & 0x7fffffu);
            memcpy(&value, &bits, sizeof(value));
            ASSERT_OK(vectors_put_float(&out, value));
            assert_true(strtof(out.data, NULL) == value);
            assert_true(out.len < 20);
        }
}

TEST(arrays_and_base64)
{
    static const float v[] = {1, -0.5f, 0};
    _cleanup_str_ struct str out = {0};

    ASSERT_OK(vectors_put_array(&out, v, 3));
    ASSERT_STREQ(out.data, "[1,-0.5,0]");
    str_clear(&out);
    ASSERT_OK(vectors_put_array(&out, v, 0));
    ASSERT_STREQ(out.data, "[]");
    str_clear(&out);
    ASSERT_OK(vectors_put_base64(&out, v, 3));
    ASSERT_STREQ(out.data, "\"AACAPwAAAL8AAAAA\"");
    str_clear(&out);
    ASSERT_OK(vectors_put_base64(&out, v, 1));
    ASSERT_STREQ(out.data, "\"AACAPw==\"");
    str_clear(&out);
    ASSERT_OK(vectors_put_base64(&out, v, 2));
    ASSERT_STREQ(out.data, "\"AACAPwAAAL8=\"");
}

RUN_TESTS(cmocka_unit_test(numbers_are_written_short), cmocka_unit_test(every_number_is_read_back),
          cmocka_unit_test(arrays_and_base64))
