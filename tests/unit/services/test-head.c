/* SPDX-License-Identifier: Apache-2.0 */
#include "common/head.h"
#include "lib/test.h"

static int check(const char *text, struct head *head)
{
    static const struct head_limits limits = {1024, 100};

    *head = (struct head){};
    return head_check(text, strlen(text), &limits, head);
}

static void refused(const char *text, int status)
{
    struct head head;

    assert_int_equal(check(text, &head), HEAD_REFUSED);
    assert_int_equal(head.status, status);
    assert_non_null(head.message);
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

TEST(parts_of_heads_wait)
{
    static const char text[] = "POST /a?b HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n";
    static const struct head_limits limits = {1024, 100};
    struct head head;

    for (size_t n = 0; n < sizeof(text) - 1; n++)
        assert_int_equal(head_check(text, n, &limits, &head), HEAD_INCOMPLETE);
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

    refused("POST / HTTP/1.1\r\n" HOST "Content-Length: 101\r\n\r\n", 413);
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

RUN_TESTS(cmocka_unit_test(whole_heads_pass), cmocka_unit_test(parts_of_heads_wait),
          cmocka_unit_test(malformed_heads_are_refused),
          cmocka_unit_test(lengths_that_could_be_read_twice_are_refused),
          cmocka_unit_test(limits_have_statuses_of_their_own))
