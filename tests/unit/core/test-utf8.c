/* SPDX-License-Identifier: Apache-2.0 */
#include "core/utf8.h"

#include "lib/test.h"

TEST(every_scalar_value_survives_a_round_trip)
{
    for (uint32_t cp = 0; cp <= 0x110000; cp++) {
        char buf[4];
        uint32_t back = 0;
        const size_t n = utf8_encode(cp, buf);

        if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(utf8_decode(buf, n, &back), n);
        assert_int_equal(back, cp);
        assert_int_equal(utf8_valid_prefix(buf, n), n);
        for (size_t k = 1; k < n; k++)
            assert_int_equal(utf8_incomplete(buf, k), n - k);
        assert_int_equal(utf8_incomplete(buf, n), 0);
    }
}

TEST(overlong_forms_surrogates_and_strays_are_invalid)
{
    static const char *bad[] = {
        "\xc0\x80",         "\xc1\xbf",         "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80",         "\xff"};
    uint32_t cp;

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(utf8_decode(bad[i], strlen(bad[i]), &cp), 0);
        assert_int_equal(utf8_valid_prefix(bad[i], strlen(bad[i])), 0);
        assert_true(utf8_bad_length(bad[i], strlen(bad[i])) >= 1);
    }
}

TEST(a_bad_sequence_is_one_maximal_subpart)
{
    assert_int_equal(utf8_bad_length("\xe2\x82g", 3), 2);
    assert_int_equal(utf8_bad_length("\xf0\x9f\x98", 3), 3);
    assert_int_equal(utf8_bad_length("\xe0\x80", 2), 1);
}

RUN_TESTS(cmocka_unit_test(every_scalar_value_survives_a_round_trip),
          cmocka_unit_test(overlong_forms_surrogates_and_strays_are_invalid),
          cmocka_unit_test(a_bad_sequence_is_one_maximal_subpart))
