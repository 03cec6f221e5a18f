/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that the gateway finds the ends of events and error events, however the bytes arrive. */
#include "gateway/stream-watch.h"

#include <string.h>

#include "lib/test.h"

/* Feeds the text whole, and in two parts, which are cut at each possible byte. */
static void check(const struct error_shape *shape, const char *text, bool takes_error)
{
    const size_t len = strlen(text);

    for (size_t cut = 0; cut <= len; cut++) {
        struct stream_watch watch = {.shape = shape};

        stream_watch_feed(&watch, text, cut);
        stream_watch_feed(&watch, text + cut, len - cut);
        if (stream_watch_takes_error(&watch) != takes_error)
            fail_msg("cut after %zu bytes of: %s", cut, text);
    }
}

TEST(an_error_may_follow_whole_events)
{
    check(&errors_openai, "", true);
    check(&errors_openai, "data: {\"a\":1}\n\n", true);
    check(&errors_openai, "data: {\"a\":1}\n\n: pause\n\ndata: {}\n\n", true);
    check(&errors_openai, "x\n\n", true);
    check(&errors_anthropic, "event: message_start\ndata: {}\n\n", true);
    check(&errors_ollama, "{\"a\":1}\n{\"b\":2}\n", true);
}

TEST(no_error_is_added_within_an_event)
{
    check(&errors_openai, "data: {\"a\":1}\n", false);
    check(&errors_openai, "data: {\"a\":1}\n\ndata: {", false);
    check(&errors_openai, "d", false);
    check(&errors_anthropic, "event: message_start\ndata: {}\n", false);
    check(&errors_ollama, "{\"a\":1}\n{\"b\":2}", false);
}

TEST(no_error_is_added_after_one_of_the_service)
{
    check(&errors_openai, "data: {}\n\ndata: {\"error\":{}}\n\n", false);
    check(&errors_openai, "data: {\"error\":{}}\n\ndata: {}\n\n", false);
    check(&errors_anthropic, "event: ping\ndata: {}\n\nevent: error\ndata: {}\n\n", false);
    check(&errors_ollama, "{}\n{\"error\":\"a\"}\n", false);
}

TEST(text_that_looks_like_an_error_is_none)
{
    check(&errors_openai, "data: {\"text\":\"data: {\\\"error\\\":\"}\n\n", true);
    check(&errors_openai, "xdata: {\"error\":{}}\n\n", true);
    check(&errors_anthropic, "event: errors\ndata: {}\n\n", true);
    check(&errors_ollama, "{\"response\":\"{\\\"error\\\":1}\"}\n", true);
}

TEST(an_answer_that_is_no_stream_takes_none)
{
    check(NULL, "{}", false);
    check(NULL, "", false);
}

RUN_TESTS(cmocka_unit_test(an_error_may_follow_whole_events),
          cmocka_unit_test(no_error_is_added_within_an_event),
          cmocka_unit_test(no_error_is_added_after_one_of_the_service),
          cmocka_unit_test(text_that_looks_like_an_error_is_none),
          cmocka_unit_test(an_answer_that_is_no_stream_takes_none))
