/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <time.h>

#include "common/wire/json.h"
#include "lib/test.h"

static int parse(const char *text, struct inf_err *err)
{
    json_t *json = NULL;
    const int r = json_parse(text, strlen(text), &json, err);

    json_decref(json);
    return r;
}

TEST(invalid_json_is_refused)
{
    char deep[256];
    struct inf_err err;

    ASSERT_OK(parse("{\"a\":[1,2.5,null,true,\"\\u0000x\"]}", &err));
    ASSERT_ERROR(parse("{\"a\":1,\"a\":2}", &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "duplicate");
    ASSERT_ERROR(parse("{\"a\":\"\xff\"}", &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "UTF-8");
    ASSERT_ERROR(parse("{\"a\":1} x", &err), EBADMSG);
    ASSERT_ERROR(parse("", &err), EBADMSG);
    ASSERT_ERROR(parse("1e999", &err), EBADMSG);
    memset(deep, '[', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = 0;
    ASSERT_ERROR(parse(deep, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "deeper");
}

TEST(integers_of_more_than_64_bits_become_real_numbers)
{
    static const char text[] = "[9223372036854775807,9223372036854775808,-18446744073709551615,"
                               "\"9223372036854775808\",1e20,0]";
    json_t *json = NULL;
    struct inf_err err;

    ASSERT_OK(json_parse(text, strlen(text), &json, &err));
    assert_int_equal(json_integer_value(json_array_get(json, 0)), INT64_MAX);
    assert_true(json_real_value(json_array_get(json, 1)) == 0x1p63);
    assert_true(json_real_value(json_array_get(json, 2)) == -0x1p64);
    ASSERT_STREQ(json_string_value(json_array_get(json, 3)), "9223372036854775808");
    assert_true(json_is_real(json_array_get(json, 4)) && json_is_integer(json_array_get(json, 5)));
    json_decref(json);
    ASSERT_ERROR(parse("[9223372036854775808,1e999]", &err), EBADMSG);
    ASSERT_ERROR(parse("{\"a\":9223372036854775808,\"a\":1}", &err), EBADMSG);
    ASSERT_ERROR(parse("[-92233720368547758081", &err), EBADMSG);
}

/* Returns the bytes of the heap in use; 0 if the C library does not report them. */
static size_t heap(void)
{
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* Returns the text of an array with @n times @item; the caller frees it. */
static char *many(const char *item, size_t n)
{
    const size_t len = strlen(item);
    char *text = malloc(n * (len + 1) + 3), *p = text;

    assert_non_null(text);
    *p++ = '[';
    for (size_t i = 0; i < n; i++) {
        memcpy(p, item, len);
        p += len;
        *p++ = i + 1 < n ? ',' : ']';
    }
    *p = 0;
    return text;
}

TEST(memory_is_predicted)
{
    static const char *const items[] = {
        "{}",
        "[]",
        "1",
        "12345",
        "-1.5e9",
        "null",
        "\"\"",
        "\"a string of some letters\"",
        "[1]",
        "{\"a\":1}",
        "{\"a\":{\"b\":[]}}",
        "[[],[],[],[],[],[],[],[],[]]",
        "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}",
        "\"\\u0041\\\"\\\\\"",
    };
    enum { N = 20000 };

    for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++) {
        char *text = many(items[i], N);
        const size_t before = heap();
        size_t room = SIZE_MAX;
        json_t *json = NULL;
        struct inf_err err;

        ASSERT_OK_ERR(json_parse_within(text, strlen(text), &room, &json, &err), err);
        if (heap() > before && heap() - before > SIZE_MAX - room)
            fail_msg("%s: %zu bytes, %zu were foreseen", items[i], heap() - before,
                     SIZE_MAX - room);
        json_decref(json);
        free(text);
    }
}

TEST(memory_of_many_keys_is_predicted)
{
    enum { N = 70000 };
    char *text = malloc(N * 24), *p = text;
    const size_t before = heap();
    size_t room = SIZE_MAX;
    json_t *json = NULL;
    struct inf_err err;

    assert_non_null(text);
    for (int i = 0; i < N; i++)
        p += sprintf(p, "%s\"%d\":1", i ? "," : "{", i);
    strcpy(p, "}");
    ASSERT_OK_ERR(json_parse_within(text, strlen(text), &room, &json, &err), err);
    assert_true(heap() <= before || heap() - before <= SIZE_MAX - room + N * 24);
    json_decref(json);
    free(text);
}

TEST(values_that_take_too_much_are_refused_before_they_are_made)
{
    struct inf_err err;
    char *text = many("{}", 5 << 20);
    clock_t start = clock();

    ASSERT_ERROR(parse(text, &err), E2BIG);
    ASSERT_CONTAINS(err.text, "MiB");
    assert_true(clock() - start < CLOCKS_PER_SEC);
    free(text);
    text = many("{}", 3000);
    ASSERT_OK(parse(text, &err));
    free(text);
    text = many("12345", 1 << 20); /* token ids */
    ASSERT_OK(parse(text, &err));
    free(text);
    text = many("\"a\\\"b, [{}], {}: {}\"", 1000);
    ASSERT_OK(parse(text, &err));
    free(text);
}

TEST(room_is_shared)
{
    char *text = many("{}", 100);
    size_t room = 60000;
    json_t *json;
    struct inf_err err;

    for (int i = 0; i < 2; i++) {
        ASSERT_OK(json_parse_within(text, strlen(text), &room, &json, &err));
        json_decref(json);
    }
    ASSERT_ERROR(json_parse_within(text, strlen(text), &room, &json, &err), E2BIG);
    free(text);
}

TEST(strings_are_quoted_so_that_any_parser_reads_them)
{
    _cleanup_str_ struct str out = {};

    ASSERT_OK(json_put_string(&out, "a\"\\\n\r\t\001\x7f\xc3\xa9\xffz", 12));
    ASSERT_STREQ(out.data, "\"a\\\"\\\\\\n\\r\\t\\u0001\\u007f\xc3\xa9\xef\xbf\xbdz\"");
    str_clear(&out);
    ASSERT_OK(json_put_text(&out, NULL));
    ASSERT_STREQ(out.data, "null");
}

TEST(numbers_are_short_and_exact)
{
    _cleanup_str_ struct str out = {};

    ASSERT_OK(json_put_double(&out, 0.1));
    ASSERT_OK(str_putc(&out, ' '));
    ASSERT_OK(json_put_double(&out, -1.0 / 3));
    ASSERT_OK(str_putc(&out, ' '));
    ASSERT_OK(json_put_double(&out, (double)NAN));
    ASSERT_STREQ(out.data, "0.1 -0.3333333333333333 null");
    str_clear(&out);
    ASSERT_OK(json_put_uint(&out, 0));
    ASSERT_OK(str_putc(&out, ' '));
    ASSERT_OK(json_put_uint(&out, 1203));
    ASSERT_OK(str_putc(&out, ' '));
    ASSERT_OK(json_put_uint(&out, UINT64_MAX));
    ASSERT_STREQ(out.data, "0 1203 18446744073709551615");
}

RUN_TESTS(cmocka_unit_test(invalid_json_is_refused),
          cmocka_unit_test(integers_of_more_than_64_bits_become_real_numbers),
          cmocka_unit_test(memory_is_predicted), cmocka_unit_test(memory_of_many_keys_is_predicted),
          cmocka_unit_test(values_that_take_too_much_are_refused_before_they_are_made),
          cmocka_unit_test(room_is_shared),
          cmocka_unit_test(strings_are_quoted_so_that_any_parser_reads_them),
          cmocka_unit_test(numbers_are_short_and_exact))
