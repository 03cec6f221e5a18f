/* SPDX-License-Identifier: Apache-2.0 */
/* Tests that bodies of the Responses API become messages, tools and parameters,
 * such as the schema of the answer. */
#include "chat/api/responses-body.h"
#include "common/wire/json.h"
#include "lib/test.h"

static struct responses_body body;
static struct params params;
static struct conversation conversation;
static struct problem problem;

static int read_body(const char *text)
{
    _cleanup_json_ json_t *json = NULL;
    struct inf_err err = {};

    problem = (struct problem){};
    ASSERT_OK_ERR(json_parse(text, strlen(text), &json, &err), err);
    return responses_body_read(json, &body, &params, &conversation, &problem);
}

static void done(void)
{
    responses_body_done(&body);
    params_done(&params);
    conversation_done(&conversation);
}

static void check_messages(const char *text, const char *expected)
{
    _cleanup_str_ struct str out = {};

    if (read_body(text) < 0)
        fail_msg("%s", problem.message);
    ASSERT_OK(conversation_put_messages(&conversation, "reasoning", &out));
    ASSERT_STREQ(out.data, expected);
    done();
}

TEST(items_of_one_turn_are_one_message)
{
    check_messages(
        "{\"instructions\":\"Be brief.\",\"input\":["
        "{\"role\":\"developer\",\"content\":\"Be kind.\"},{\"role\":\"user\",\"content\":\"Go\"},"
        "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\","
        "\"text\":\"Hm\"}],\"encrypted_content\":null},"
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"I look.\",\"annotations\":[]}]},"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"look\",\"namespace\":\"ns\","
        "\"arguments\":\"{\\\"a\\\":1}\"},"
        "{\"type\":\"custom_tool_call\",\"call_id\":\"c2\",\"name\":\"patch\",\"input\":\"x\"},"
        "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"seen\"},"
        "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":"
        "\"input_text\",\"text\":\"done\"}]},"
        "{\"role\":\"assistant\",\"content\":\"Yes.\"}]}",
        "[{\"role\":\"system\",\"content\":\"Be brief.\\n\\nBe kind.\"},"
        "{\"role\":\"user\",\"content\":\"Go\"},"
        "{\"role\":\"assistant\",\"content\":\"I look.\",\"reasoning\":\"Hm\",\"tool_calls\":["
        "{\"type\":\"function\",\"id\":\"c1\",\"function\":{\"name\":\"ns__look\",\"arguments\":"
        "{\"a\":1}}},{\"type\":\"function\",\"id\":\"c2\",\"function\":{\"name\":\"patch\","
        "\"arguments\":\"x\"}}]},"
        "{\"role\":\"tool\",\"content\":\"seen\",\"name\":\"ns__look\",\"tool_call_id\":\"c1\"},"
        "{\"role\":\"tool\",\"content\":\"done\",\"name\":\"patch\",\"tool_call_id\":\"c2\"},"
        "{\"role\":\"assistant\",\"content\":\"Yes.\"}]");
}

TEST(tools_get_the_format_of_chats)
{
    _cleanup_free_ char *tools = NULL;

    ASSERT_OK(read_body(
        "{\"input\":\"x\",\"parallel_tool_calls\":false,\"tools\":["
        "{\"type\":\"function\",\"name\":\"a\",\"strict\":false,\"parameters\":{}},"
        "{\"type\":\"namespace\",\"name\":\"ns\",\"description\":\"d\",\"tools\":["
        "{\"type\":\"function\",\"name\":\"b\"}]},"
        "{\"type\":\"web_search\",\"external_web_access\":false},"
        "{\"type\":\"web_search_preview_2025_03_11\"},"
        "{\"type\":\"custom\",\"name\":\"c\",\"format\":{\"type\":\"grammar\",\"syntax\":\"lark\","
        "\"definition\":\"start: x\"}}],"
        "\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":["
        "{\"type\":\"function\",\"name\":\"b\",\"namespace\":\"ns\"},{\"type\":\"web_search\"}]}"
        "}"));
    tools = json_dumps(conversation.tools, JSON_COMPACT | JSON_SORT_KEYS);
    ASSERT_STREQ(tools,
                 "[{\"function\":{\"name\":\"a\",\"parameters\":{},\"strict\":false},"
                 "\"type\":\"function\"},{\"function\":{\"name\":\"ns__b\"},\"type\":\"function\"},"
                 "{\"custom\":{\"format\":{\"grammar\":{\"definition\":\"start: x\",\"syntax\":"
                 "\"lark\"},\"type\":\"grammar\"},\"name\":\"c\"},\"type\":\"custom\"}]");
    assert_int_equal(params.tools.choice, TOOLS_REQUIRED);
    assert_true(params.tools.single);
    assert_int_equal(json_array_size(params.tools.allowed), 1);
    ASSERT_STREQ(json_string_value(json_array_get(params.tools.allowed, 0)), "ns__b");
    assert_non_null(json_object_get(body.namespaces, "ns__b"));
    done();
}

TEST(formats_and_reasoning_become_rules)
{
    ASSERT_OK(read_body("{\"input\":\"x\",\"store\":true,\"text\":{\"format\":{\"type\":"
                        "\"json_schema\",\"name\":\"n\",\"strict\":true,\"schema\":{\"type\":"
                        "\"object\"}},\"verbosity\":\"low\"},\"reasoning\":{\"effort\":\"high\","
                        "\"summary\":\"auto\"},\"max_output_tokens\":7}"));
    assert_int_equal(params.constraint.kind, CONSTRAINT_SCHEMA);
    assert_true(json_is_object(params.constraint.value));
    ASSERT_STREQ(json_string_value(params.reasoning.effort), "high");
    assert_true(body.summarizes && body.store && body.must_store);
    assert_int_equal(params.max_tokens, 7);
    done();
    ASSERT_OK(
        read_body("{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg_1\"}],"
                  "\"reasoning\":{\"effort\":\"none\"},\"conversation\":{\"id\":\"conv_1\"}}"));
    assert_int_equal(params.reasoning.enabled, 0);
    assert_int_equal(json_array_size(body.references), 1);
    ASSERT_STREQ(json_string_value(body.conversation), "conv_1");
    assert_true(body.store && !body.must_store);
    done();
}

TEST(wrong_items_and_tools_are_refused_by_path)
{
    static const struct {
        const char *text, *param;
    } rows[] = {
        {"{\"input\":1}", "input"},
        {"{\"input\":[1]}", "input[0]"},
        {"{\"input\":[{\"role\":\"user\"}]}", "input[0].content"},
        {"{\"input\":[{\"role\":\"user\",\"content\":\"x\",\"weight\":1}]}", "input[0].weight"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\",\"y\":1}]}]"
         "}",
         "input[0].content[0].y"},
        {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"n\"}]}",
         "input[0].arguments"},
        {"{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"a\",\"parameters\":1}]}",
         "tools[0].parameters"},
        {"{\"input\":\"x\",\"tools\":[{\"type\":\"custom\",\"name\":\"a\",\"format\":{\"type\":"
         "\"grammar\",\"syntax\":\"ebnf\",\"definition\":\"x\"}}]}",
         "tools[0].format"},
        {"{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"a\"},"
         "{\"type\":\"function\",\"name\":\"a\"}]}",
         "tools[1].name"},
        {"{\"input\":\"x\",\"tools\":[{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":"
         "\"namespace\",\"name\":\"m\",\"tools\":[]}]}]}",
         "tools[0].tools[0].type"},
        {"{\"input\":\"x\",\"tool_choice\":{\"type\":\"mcp\"}}", "tool_choice"},
        {"{\"input\":\"x\",\"previous_response_id\":1}", "previous_response_id"},
        {"{\"input\":\"x\",\"n\":2}", "n"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        ASSERT_ERROR(read_body(rows[i].text), EINVAL);
        ASSERT_STREQ(problem.param, rows[i].param);
        done();
    }
}

RUN_TESTS(cmocka_unit_test(items_of_one_turn_are_one_message),
          cmocka_unit_test(tools_get_the_format_of_chats),
          cmocka_unit_test(formats_and_reasoning_become_rules),
          cmocka_unit_test(wrong_items_and_tools_are_refused_by_path))
