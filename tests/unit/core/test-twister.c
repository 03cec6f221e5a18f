/* SPDX-License-Identifier: Apache-2.0 */
#include "core/twister.h"

#include "lib/test.h"

/* The standard of C++ names this number. */
TEST(the_ten_thousandth_number_is_that_of_the_standard)
{
    struct twister t;
    uint32_t x = 0;

    twister_seed(&t, 5489);
    for (unsigned i = 0; i < 10000; i++)
        x = twister_u32(&t);
    assert_int_equal(x, 4123659995);
}

/* A program with std::uniform_real_distribution of libstdc++ 12 printed these numbers. */
TEST(numbers_below_1_are_those_of_libstdcxx)
{
    static const double doubles[] = {0.79654298428784598, 0.18343478789336848, 0.77969099761266125};
    static const float floats[] = {0.37454012f, 0.796543002f, 0.95071429f};
    struct twister t;

    twister_seed(&t, 42);
    for (unsigned i = 0; i < 3; i++)
        assert_true(twister_double(&t) == doubles[i]);
    for (unsigned i = 0; i < 500; i++)
        twister_double(&t);
    assert_true(twister_double(&t) == 0.60278187990509791);
    twister_seed(&t, 42);
    for (unsigned i = 0; i < 3; i++)
        assert_true(twister_float(&t) == floats[i]);
}

RUN_TESTS(cmocka_unit_test(the_ten_thousandth_number_is_that_of_the_standard),
          cmocka_unit_test(numbers_below_1_are_those_of_libstdcxx))
