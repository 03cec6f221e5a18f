/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "common/json.h"
#include "lib/test.h"

static int parse(const char *text, struct inf_err *err)
{
    json_t *json = NULL;
    const int r = json_parse(text, strlen(text), &json, err);

    json_decref(json);
    return r;
}

TEST(what_clients_must_not_send_is_refused)
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

RUN_TESTS(cmocka_unit_test(what_clients_must_not_send_is_refused),
          cmocka_unit_test(strings_are_quoted_so_that_any_parser_reads_them),
          cmocka_unit_test(numbers_are_short_and_exact))
