/* SPDX-License-Identifier: Apache-2.0 */
/* Tests packets of the keep service: packets arrive as they were sent, and malformed packets are
 * refused. */
#include "common/wire/keep-protocol.h"

#include <sys/socket.h>

#include "lib/test.h"

static struct keep_packet sent, got;
static const struct http_text target = {"/v1/responses/resp_1", 20};

static void pair_open(int pair[2])
{
    ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
}

TEST(a_question_arrives_with_its_body)
{
    _cleanup_str_ struct str body = {};
    int pair[2];

    pair_open(pair);
    ASSERT_OK(keep_question_make(&sent, "DELETE", target, "uid 0", "req_1"));
    ASSERT_OK(keep_packet_add_body(&sent, (struct http_text){"{\"a\":1}", 7}));
    ASSERT_OK(keep_packet_send(&sent, pair[0], 0));
    ASSERT_OK(keep_packet_receive(&got, pair[1], 0));
    ASSERT_STREQ(got.head.method, "DELETE");
    ASSERT_STREQ(got.head.tenant, "uid 0");
    ASSERT_STREQ(got.head.id, "req_1");
    assert_int_equal(got.head.target_len, target.len);
    assert_memory_equal(got.target, target.data, target.len);
    ASSERT_OK(keep_packet_read_body(&got, true, &body));
    ASSERT_STREQ(body.data, "{\"a\":1}");
    keep_packet_done(&sent);
    keep_packet_done(&got);
    close(pair[0]);
    ASSERT_ERROR(keep_packet_receive(&got, pair[1], 0), ECONNRESET);
    close(pair[1]);
}

TEST(memory_that_can_change_or_is_too_short_is_refused)
{
    _cleanup_str_ struct str body = {};
    char path[] = "/tmp/sconce-keep-XXXXXX";

    keep_answer_make(&sent, 200);
    sent.fd = mkstemp(path);
    unlink(path);
    assert_int_equal(write(sent.fd, "abc", 3), 3);
    sent.head.body_len = 3;
    ASSERT_ERROR(keep_packet_read_body(&sent, true, &body), EBADMSG);
    ASSERT_OK(keep_packet_read_body(&sent, false, &body));
    sent.head.body_len = 4;
    ASSERT_ERROR(keep_packet_read_body(&sent, false, &body), EBADMSG);
    keep_packet_done(&sent);
    ASSERT_ERROR(keep_packet_read_body(&sent, false, &body), EBADMSG);
}

TEST(other_packets_are_refused)
{
    ASSERT_OK(keep_question_make(&sent, "GET", target, "me", "req_1"));
    ASSERT_OK(keep_packet_check(&sent));
    got = sent;
    got.len--;
    ASSERT_ERROR(keep_packet_check(&got), EBADMSG);
    got = sent;
    got.head.version++;
    ASSERT_ERROR(keep_packet_check(&got), EPROTONOSUPPORT);
    got = sent;
    got.head.body_len = UINT64_MAX;
    ASSERT_ERROR(keep_packet_check(&got), EBADMSG);
    got = sent;
    memset(got.head.tenant, 'x', sizeof(got.head.tenant));
    ASSERT_ERROR(keep_packet_check(&got), EBADMSG);
    got = sent;
    got.head.magic[0] = 'x';
    ASSERT_ERROR(keep_packet_check(&got), EBADMSG);
}

RUN_TESTS(cmocka_unit_test(a_question_arrives_with_its_body),
          cmocka_unit_test(memory_that_can_change_or_is_too_short_is_refused),
          cmocka_unit_test(other_packets_are_refused))
