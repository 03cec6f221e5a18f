/* SPDX-License-Identifier: Apache-2.0 */
#include "common/http/head.h"
#include "lib/test.h"

static int check(const char *text, struct head *head)
{
    memset(head, 0xff, sizeof(*head));
    return head_check(text, strlen(text), 1024, head);
}

static void refused(const char *text, int status)
{
    struct head head;

    assert_int_equal(check(text, &head), HEAD_REFUSED);
    assert_int_equal(head.refusal.status, status);
    assert_non_null(head.refusal.message);
}

#define HOST "Host: a\r\n"

TEST(whole_heads_pass)
{
    static const char get[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
    struct head head;

    assert_int_equal(check(get, &head), 0);
    assert_int_equal(head.size, sizeof(get) - 1);
    assert_int_equal(check("\r\nGET / HTTP/1.1\n" HOST "\n", &head), 0);
    assert_int_equal(check("GET / HTTP/1.0\r\n\r\n", &head), 0);
    assert_int_equal(check("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", &head), 0);
    assert_int_equal(check("POST / HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n", &head), 0);
    assert_true(head.has_length);
    assert_int_equal(head.content_length, 100);
    assert_int_equal(check("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n", &head),
                     0);
    assert_true(head.chunked);
}

TEST(fields_that_were_read_are_available)
{
    struct head head, copy;

    assert_int_equal(
        check("POST /a?b HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nX:  y \r\n\r\n", &head), 0);
    head_copy(&copy, &head);
    assert_true(http_text_is(copy.method, "POST") && http_text_is(copy.target, "/a?b"));
    assert_int_equal(copy.n_headers, 3);
    assert_true(http_text_is(copy.headers[2].name, "X") &&
                http_text_is(copy.headers[2].value, "y"));
    assert_true(copy.continues && !copy.http10 && !copy.has_length && !copy.chunked);
    /* The fields before the error of a rejected head are available. */
    assert_int_equal(check("GET /a HTTP/1.1\r\nA: b\r\nB\r\n\r\n", &head), HEAD_REFUSED);
    assert_true(http_text_is(head.method, "GET") && http_text_is(head.target, "/a"));
    assert_int_equal(head.n_headers, 1);
    assert_int_equal(check("GET", &head), HEAD_INCOMPLETE);
    assert_int_equal(head.method.len, 0);
}

TEST(parts_of_heads_wait)
{
    static const char text[] = "POST /a?b HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n";
    struct head head;

    for (size_t n = 0; n < sizeof(text) - 1; n++)
        assert_int_equal(head_check(text, n, 1024, &head), HEAD_INCOMPLETE);
}

TEST(malformed_heads_are_refused)
{
    refused("hello\r\n\r\n", 400);
    refused("GET http://a/ HTTP/1.1\r\n" HOST "\r\n", 400);
    refused("GET / HTTP/2.0\r\n" HOST "\r\n", 505);
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
    refused("GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\n" HOST "A: b\001\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\n\r\n", 400);
    refused("GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400);
    refused("GET / HTTP/1.1\r\n" HOST "Expect: more\r\n\r\n", 417);
}

TEST(lengths_that_could_be_read_twice_are_refused)
{
    refused("POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400);
    refused("POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400);
    refused("POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", 400);
    refused("POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\n", 400);
    refused("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501);
    refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
}

TEST(limits_have_statuses_of_their_own)
{
    char text[4096];

    refused("POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999999\r\n\r\n", 413);
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" HOST "A: %02000d\r\n\r\n", 0);
    refused(text, 431);
    snprintf(text, sizeof(text), "GET /%02000d HTTP/1.1\r\n" HOST "\r\n", 0);
    refused(text, 414);
    strcpy(text, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 101; i++)
        strcat(text, "a:b\r\n");
    strcat(text, "\r\n");
    refused(text, 431);
}

static int check_answer(const char *text, bool to_head, struct head *head)
{
    memset(head, 0xff, sizeof(*head));
    return head_check_answer(text, strlen(text), 1024, to_head, head);
}

TEST(answers_pass)
{
    struct head head;

    assert_int_equal(check_answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, &head), 0);
    assert_int_equal(head.status, 200);
    assert_int_equal(head.content_length, 5);
    assert_false(head.closes);
    assert_int_equal(
        check_answer("HTTP/1.1 404 \r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
                     false, &head),
        0);
    assert_true(head.chunked && head.closes);
    assert_int_equal(check_answer("HTTP/1.1 100 Continue\r\n\r\n", false, &head), 0);
    assert_int_equal(check_answer("HTTP/1.1 204 No Content\r\n\r\n", false, &head), 0);
    assert_false(head_has_content(&head, false));
    assert_int_equal(check_answer("HTTP/1.1 200 OK\r\n\r\n", true, &head), 0);
    assert_false(head_has_content(&head, true));
    assert_int_equal(check_answer("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false, &head), 0);
    assert_true(head.closes);
}

TEST(answers_that_are_not_http_are_refused)
{
    static const char *const bad[] = {
        "200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Switching\r\n\r\n",
        "HTTP/1.1 100 Continue\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 204 None\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 O\001K\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n folded\r\n\r\n",
    };
    struct head head;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(check_answer(bad[i], false, &head), HEAD_REFUSED);
        assert_non_null(head.refusal.message);
    }
}

RUN_TESTS(cmocka_unit_test(whole_heads_pass), cmocka_unit_test(fields_that_were_read_are_available),
          cmocka_unit_test(answers_pass), cmocka_unit_test(answers_that_are_not_http_are_refused),
          cmocka_unit_test(parts_of_heads_wait), cmocka_unit_test(malformed_heads_are_refused),
          cmocka_unit_test(lengths_that_could_be_read_twice_are_refused),
          cmocka_unit_test(limits_have_statuses_of_their_own))
