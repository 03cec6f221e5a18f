/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests with real templates that the prompt of the next turn of a conversation begins with the
 * prompt and the answer of the turn before. Then the KV cache already has both.
 */
#include <infer/chat.h>

#include "chat/api/openai-body.h"
#include "chat/described-tools.h"
#include "lib/test.h"
#include "reply-log.h"

/* An answer as a message of OpenAI's API. */
struct answer {
    struct str content, reasoning, calls;
    size_t n_calls;
};

static int answer_take(void *data, const struct piece *piece)
{
    struct answer *a = data;

    switch (piece->kind) {
    case PIECE_TEXT:
        return str_append(&a->content, piece->text, piece->len);
    case PIECE_REASONING:
        return str_append(&a->reasoning, piece->text, piece->len);
    case PIECE_CALL:
        return str_printf(&a->calls, "%s%.*s\n", a->n_calls++ ? "\1" : "", (int)piece->len,
                          piece->text);
    default:
        return str_append(&a->calls, piece->text, piece->len);
    }
}

static json_t *string_of(const struct str *s)
{
    return json_stringn(s->data ? s->data : "", s->len);
}

static json_t *answer_message(struct answer *a)
{
    json_t *calls = json_array();

    for (char *at = a->calls.data ? strtok(a->calls.data, "\1") : NULL; at;
         at = strtok(NULL, "\1")) {
        char *arguments = strchr(at, '\n');

        *arguments++ = '\0';
        json_array_append_new(calls,
                              json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", "1", "type", "function",
                                        "function", "name", at, "arguments", arguments));
    }
    if (!json_array_size(calls)) {
        json_decref(calls);
        calls = json_null();
    }
    return json_pack("{s:s,s:o,s:o,s:o}", "role", "assistant", "content", string_of(&a->content),
                     "reasoning_content", string_of(&a->reasoning), "tool_calls", calls);
}

/* Reads "chat_template" of a tokenizer_config.json. NULL: the file does not exist. */
static struct inf_chat_template *template_open(const char *name)
{
    const char *path = test_data(name);
    _cleanup_json_ json_t *config = path ? json_load_file(path, 0, NULL) : NULL;
    const char *source = json_string_value(json_object_get(config, "chat_template"));
    struct inf_chat_template *tmpl = NULL;
    struct inf_err err = {};

    if (source)
        ASSERT_OK_ERR(inf_chat_template_new(source, strlen(source), &tmpl, &err), err);
    return tmpl;
}

static char *render(const struct inf_chat_template *tmpl, json_t *messages)
{
    _cleanup_json_ json_t *body = json_pack("{s:O}", "messages", messages);
    _cleanup_json_ json_t *array = NULL, *tools = NULL;
    _cleanup_free_ char *tools_text = NULL;
    struct conversation conversation = {};
    _cleanup_str_ struct str text = {};
    struct problem problem;
    struct inf_err err = {};
    char *prompt = NULL;
    size_t len;

    ASSERT_OK(json_parse(reply_tools, strlen(reply_tools), &array, &err));
    tools = tools_for_template(array);
    tools_text = json_dumps(tools, 0);
    ASSERT_OK(openai_conversation_read(body, &conversation, &problem));
    ASSERT_OK(conversation_put_messages(&conversation, "reasoning_content", &text));
    ASSERT_OK_ERR(inf_chat_render(tmpl,
                                  &(struct inf_chat_input){.messages = text.data,
                                                           .tools = tools_text,
                                                           .add_generation_prompt = true},
                                  &prompt, &len, &err),
                  err);
    conversation_done(&conversation);
    return prompt;
}

static void check_turn(const char *file, const char *text)
{
    struct inf_chat_template *tmpl = template_open(file);
    _cleanup_json_ json_t *messages = NULL;
    _cleanup_free_ char *first = NULL, *second = NULL;
    _cleanup_str_ struct str expected = {};
    struct answer answer = {};
    struct reply_parser parser;
    struct reply reply;

    if (!tmpl)
        skip();
    messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "How is the weather in Paris?");
    reply = reply_of(reply_format_find(inf_chat_template_text(tmpl))->name,
                     inf_chat_template_text(tmpl), true);
    first = render(tmpl, messages);
    reply.is_open = reply_prompt_is_open(reply.thinking, first, strlen(first));
    reply_parser_init(&parser, &reply, (struct piece_sink){answer_take, &answer});
    ASSERT_OK(reply_parser_feed(&parser, text, strlen(text)));
    ASSERT_OK(reply_parser_finish(&parser, false));
    json_array_append_new(messages, answer_message(&answer));
    json_array_append_new(messages, json_pack("{s:s,s:s,s:s}", "role", "tool", "content", "Sunny",
                                              "tool_call_id", "1"));
    second = render(tmpl, messages);
    ASSERT_OK(str_printf(&expected, "%s%s<|im_end|>\n", first, text));
    if (strncmp(second, expected.data, expected.len) != 0)
        fail_msg("the second prompt:\n%s\ndoes not begin with:\n%s", second, expected.data);
    reply_parser_done(&parser);
    reply_done(&reply);
    str_done(&answer.content);
    str_done(&answer.reasoning);
    str_done(&answer.calls);
    inf_chat_template_free(tmpl);
}

TEST(qwen3)
{
    check_turn("tokenizers/qwen3/tokenizer_config.json",
               "<think>\nI need the weather.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", "
               "\"arguments\": {\"city\": \"Paris\", \"days\": 2}}\n</tool_call>");
    check_turn(
        "tokenizers/qwen3/tokenizer_config.json",
        "<think>\nI need it.\n\nTwice.\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"now\", "
        "\"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n"
        "</tool_call>");
}

TEST(qwen3_thinking)
{
    check_turn("tokenizers/qwen3/tokenizer_config.thinking2507.json",
               "I need the weather.\n</think>\n\n<tool_call>\n{\"name\": \"get_weather\", "
               "\"arguments\": {\"city\": \"Paris\"}}\n</tool_call>");
}

TEST(qwen3_coder)
{
    check_turn("tokenizers/qwen3/tokenizer_config.coder.json",
               "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n"
               "</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>");
}

RUN_TESTS(cmocka_unit_test(qwen3), cmocka_unit_test(qwen3_thinking), cmocka_unit_test(qwen3_coder))
