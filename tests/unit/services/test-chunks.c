/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/chunks.h"
#include "core/str.h"
#include "lib/test.h"

#define MAX_BODY 1000

/* Reads @text in pieces of @step bytes; returns the result and the concatenated content. */
static int read_all(const char *text, size_t len, size_t step, struct str *out, size_t *ret_used)
{
    struct chunks c = {.max = MAX_BODY};
    size_t at = 0;
    int r = CHUNKS_MORE;

    str_clear(out);
    while (at < len && r == CHUNKS_MORE) {
        const size_t end = MIN(len, at + step);

        do {
            struct http_text content;
            size_t used;

            r = chunks_next(&c, text + at, end - at, &used, &content);
            at += used;
            if (r == 0)
                str_append(out, content.data, content.len);
        } while (r == 0);
    }
    *ret_used = at;
    return r;
}

static void expect(const char *text, int result, const char *content)
{
    _cleanup_str_ struct str whole = {}, cut = {};
    size_t used, used_cut;

    assert_int_equal(read_all(text, strlen(text), SIZE_MAX / 2, &whole, &used), result);
    if (content)
        assert_string_equal(whole.data ? whole.data : "", content);
    for (size_t step = 1; step < 5; step++) {
        assert_int_equal(read_all(text, strlen(text), step, &cut, &used_cut), result);
        assert_int_equal(used_cut, used);
        assert_string_equal(cut.data ? cut.data : "", whole.data ? whole.data : "");
    }
}

TEST(bodies_are_put_together)
{
    expect("0\r\n\r\n", CHUNKS_END, "");
    expect("5\r\nhello\r\n0\r\n\r\n", CHUNKS_END, "hello");
    expect("5\r\nhello\r\n00000007\r\n, world\r\n000\r\n\r\n", CHUNKS_END, "hello, world");
    expect("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", CHUNKS_END, "01234567890123456789");
    expect("5\r\nhel", CHUNKS_MORE, "hel");
}

TEST(bytes_after_the_body_are_not_read)
{
    static const char text[] = "1\r\na\r\n0\r\n\r\nGET / HTTP/1.1";
    _cleanup_str_ struct str out = {};
    size_t used;

    assert_int_equal(read_all(text, sizeof(text) - 1, SIZE_MAX / 2, &out, &used), CHUNKS_END);
    assert_int_equal(used, sizeof("1\r\na\r\n0\r\n\r\n") - 1);
}

TEST(extensions_and_trailers_are_dropped)
{
    expect("1;a\r\na\r\n0\r\n\r\n", CHUNKS_END, "a");
    expect("1;a=b;c=\"d;\\\"\r\x7f\"\r\n", CHUNKS_BAD, "");
    expect("1;a=b;c=\"d;\\\" e\"\r\na\r\n0;last\r\n\r\n", CHUNKS_END, "a");
    expect("1 ; a = b ;c\r\na\r\n0\r\n\r\n", CHUNKS_END, "a");
    expect("1\r\na\r\n0\r\nDigest: x\r\nA:\r\n\r\n", CHUNKS_END, "a");
}

TEST(other_framing_is_refused)
{
    static const char *const bad[] = {
        "\r\n",          "x\r\n",          " 1\r\na\r\n",    "-1\r\n",         "+1\r\na\r\n",
        "0x1\r\na\r\n",  "5bzz\r\n",       "1\na\r\n",       "1\r\na\n0\r\n",  "1\r\nab\r\n",
        "1 \r\na\r\n",   "1;\r\na\r\n",    "1;=b\r\na\r\n",  "1;a=\r\na\r\n",  "1;a b\r\na\r\n",
        "1;a=b\na\r\n",  "1;a=b c\r\n",    "1;a=\"b\r\n",    "1;a=\"b\"c\r\n", "1\r\r\n",
        "1\r\na\r0\r\n", "0\r\nA : b\r\n", "0\r\n A: b\r\n", "0\r\nA\r\n",     "0\r\nA: \x01\r\n",
        "0\r\nA: b\n",   "0\r\n\r\r",      "0\r\n\n",        "1,2\r\n",        "1\r\na1\r\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        expect(bad[i], CHUNKS_BAD, NULL);
}

TEST(sizes_beyond_the_limit_are_known_at_once)
{
    expect("3e8\r\n", CHUNKS_MORE, "");
    expect("3e9", CHUNKS_LARGE, "");
    expect("8000000000000000", CHUNKS_LARGE, "");
    expect("ffffffffffffffff", CHUNKS_LARGE, "");
    expect("fffffffffffffffffffff", CHUNKS_LARGE, "");
    expect("1\r\na\r\n3e8", CHUNKS_LARGE, "a");
    expect("1\r\na\r\n3e7\r\n", CHUNKS_MORE, "a");
}

TEST(dropped_extensions_and_trailers_have_limits)
{
    _cleanup_str_ struct str text = {}, out = {};
    size_t used;

    /* There is a limit for a line, one for all extensions together, and one for all trailers
     * together. */
    for (int i = 0; i < 5000; i++)
        str_putc(&text, '0');
    assert_int_equal(read_all(text.data, text.len, SIZE_MAX / 2, &out, &used), CHUNKS_BAD);
    str_clear(&text);
    for (int i = 0; i < 300; i++)
        str_printf(&text, "1;%0100d\r\na\r\n", 0);
    assert_int_equal(read_all(text.data, text.len, SIZE_MAX / 2, &out, &used), CHUNKS_BAD);
    str_clear(&text);
    str_puts(&text, "0\r\n");
    for (int i = 0; i < 300; i++)
        str_printf(&text, "a: %0100d\r\n", 0);
    assert_int_equal(read_all(text.data, text.len, SIZE_MAX / 2, &out, &used), CHUNKS_TRAILERS);
}

RUN_TESTS(cmocka_unit_test(bodies_are_put_together),
          cmocka_unit_test(bytes_after_the_body_are_not_read),
          cmocka_unit_test(extensions_and_trailers_are_dropped),
          cmocka_unit_test(other_framing_is_refused),
          cmocka_unit_test(sizes_beyond_the_limit_are_known_at_once),
          cmocka_unit_test(dropped_extensions_and_trailers_have_limits))
