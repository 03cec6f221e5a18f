/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include "lib/test.h"

TEST(a_list_holds_whole_names)
{
    static const char *const names[] = {"llama", "bert", "qwen2"};

    for (size_t size = 6; size < 32; size++) {
        char list[32], whole[32] = "";

        memset(list, 'x', sizeof(list));
        list[0] = 0;
        for (size_t i = 0; i < 3; i++) {
            text_list_add(list, size, names[i]);
            text_list_add(whole, sizeof(whole), names[i]);
        }
        /* Each list has all names, or "…" in place of the last names. */
        assert_true(strlen(list) < size);
        for (size_t i = size; i < sizeof(list); i++)
            assert_int_equal(list[i], 'x');
        ASSERT_STREQ(whole, "llama, bert, qwen2");
        ASSERT_STREQ(list, size < 11   ? "…"
                           : size < 17 ? "llama, …"
                           : size < 24 ? "llama, bert, …"
                                       : whole);
    }
}

TEST(beginnings_and_ends_are_found)
{
    ASSERT_STREQ(text_after("unix:/run/x", "unix:"), "/run/x");
    assert_null(text_after("unix", "unix:"));
    assert_true(text_ends_with("a.gguf", ".gguf") && !text_ends_with("gguf", ".gguf"));
    assert_true(text_ends_with_nocase("A.GGUF", ".gguf"));
}

RUN_TESTS(cmocka_unit_test(a_list_holds_whole_names),
          cmocka_unit_test(beginnings_and_ends_are_found))
