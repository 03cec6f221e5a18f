/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how /api/chat writes pieces of answers, with fakes of the rest of the chat service. */
#include <string.h>

#include "chat/chat-api.h"
#include "chat/generation.h"
#include "chat/template.h"
#include "lib/test.h"

/* --- fakes --- */

struct usage generation_usage(const struct generation *g)
{
    return (struct usage){.n_prompt = 5, .n_generated = g->choices[0].n_generated};
}

const char *generation_finish_word(const struct generation *g, const struct choice *c)
{
    return g->api->finishes[c->finish];
}

int conversation_prepare(struct generation *g __attribute__((unused)),
                         struct problem *problem __attribute__((unused)))
{
    return 0;
}

/* --- an answer --- */

static struct generation g;
static struct chat_resident resident;
static struct choice choice;

static void begin(bool streams)
{
    resident.base.name = (char *)"tiny";
    g = (struct generation){.api = &api_ollama_chat,
                            .resident = &resident,
                            .choices = &choice,
                            .n_choices = 1,
                            .request.streaming = streams};
    choice = (struct choice){.n_generated = 3};
    g.params.n_logprobs = -1;
    g.own = calloc(1, g.api->own_size);
    choice.own = calloc(1, g.api->choice_size);
    assert_non_null(g.own);
    assert_non_null(choice.own);
}

static void piece(enum piece_kind kind, const char *text)
{
    const struct piece piece = {
        .kind = kind, .text = text, .len = strlen(text), .id = kind == PIECE_CALL ? "c1" : NULL};

    ASSERT_OK(g.api->piece(&g, &choice, &piece));
}

/* Ends the answer, and returns its lines as an array. */
static json_t *finish(enum finish why)
{
    json_t *lines = json_array();

    choice.finish = why;
    ASSERT_OK(g.api->finish(&g, &choice));
    ASSERT_OK(g.api->end(&g));
    for (char *line = strtok(g.out.data, "\n"); line; line = strtok(NULL, "\n"))
        if (json_array_append_new(lines, json_loads(line, 0, NULL)) < 0)
            fail_msg("not JSON: %s", line);
    g.api->choice_done(&choice);
    g.api->done(&g);
    free(choice.own);
    free(g.own);
    str_done(&g.out);
    return lines;
}

static json_t *message_of(const json_t *lines, size_t i)
{
    return json_object_get(json_array_get(lines, i), "message");
}

static void check_text(const json_t *object, const char *name, const char *wanted)
{
    const char *text = json_string_value(json_object_get(object, name));

    assert_non_null(text);
    ASSERT_STREQ(text, wanted);
}

TEST(texts_and_thoughts_are_lines)
{
    json_t *lines;

    begin(true);
    piece(PIECE_REASONING, "hm\n");
    piece(PIECE_TEXT, "\"hi\"");
    lines = finish(FINISH_STOP);
    assert_int_equal(json_array_size(lines), 3);
    check_text(message_of(lines, 0), "thinking", "hm\n");
    check_text(message_of(lines, 0), "content", "");
    check_text(message_of(lines, 1), "content", "\"hi\"");
    assert_null(json_object_get(message_of(lines, 1), "thinking"));
    assert_true(json_is_false(json_object_get(json_array_get(lines, 1), "done")));
    assert_true(json_is_true(json_object_get(json_array_get(lines, 2), "done")));
    check_text(json_array_get(lines, 2), "done_reason", "stop");
    json_decref(lines);
}

static void check_call(const json_t *message, size_t i, const char *name, const char *arguments)
{
    const json_t *call = json_array_get(json_object_get(message, "tool_calls"), i);
    const json_t *function = json_object_get(call, "function");
    char *text = json_dumps(json_object_get(function, "arguments"), JSON_COMPACT);

    check_text(call, "id", "c1");
    check_text(function, "name", name);
    assert_non_null(text);
    ASSERT_STREQ(text, arguments);
    free(text);
}

TEST(a_call_is_sent_when_it_is_whole)
{
    json_t *lines;

    begin(true);
    piece(PIECE_TEXT, "a");
    piece(PIECE_CALL, "f");
    piece(PIECE_ARGUMENTS, "{\"x\":");
    piece(PIECE_ARGUMENTS, "[1]}");
    piece(PIECE_CALL, "g");
    lines = finish(FINISH_CALLS);
    assert_int_equal(json_array_size(lines), 4);
    check_call(message_of(lines, 1), 0, "f", "{\"x\":[1]}");
    check_call(message_of(lines, 2), 0, "g", "{}");
    check_text(json_array_get(lines, 3), "done_reason", "stop");
    assert_null(json_object_get(message_of(lines, 3), "tool_calls"));
    json_decref(lines);
}

TEST(an_answer_in_one_piece_has_everything)
{
    struct made_call calls[2] = {{.id = (char *)"c1"}, {.id = (char *)"c1"}};
    json_t *lines;

    begin(false);
    choice.calls = calls;
    choice.n_calls = 2;
    ASSERT_OK(str_puts(&calls[0].name, "f"));
    ASSERT_OK(str_puts(&calls[0].arguments, "{\"x\":1}"));
    ASSERT_OK(str_puts(&calls[1].name, "g"));
    ASSERT_OK(str_puts(&choice.text, "text"));
    ASSERT_OK(str_puts(&choice.reasoning, "thought"));
    lines = finish(FINISH_CALLS);
    assert_int_equal(json_array_size(lines), 1);
    check_text(message_of(lines, 0), "content", "text");
    check_text(message_of(lines, 0), "thinking", "thought");
    check_call(message_of(lines, 0), 0, "f", "{\"x\":1}");
    check_call(message_of(lines, 0), 1, "g", "{}");
    check_text(json_array_get(lines, 0), "model", "tiny");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(lines, 0), "eval_count")),
                     3);
    json_decref(lines);
    str_done(&calls[0].name);
    str_done(&calls[0].arguments);
    str_done(&calls[1].name);
    str_done(&choice.text);
    str_done(&choice.reasoning);
}

RUN_TESTS(cmocka_unit_test(texts_and_thoughts_are_lines),
          cmocka_unit_test(a_call_is_sent_when_it_is_whole),
          cmocka_unit_test(an_answer_in_one_piece_has_everything))
