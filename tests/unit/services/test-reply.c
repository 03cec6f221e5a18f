/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that answers in the documented form of every family are split into the same pieces, whether
 * they come whole, byte by byte, or cut at any byte.
 */
#include "lib/test.h"
#include "reply-log.h"

static void check_reply(const struct reply *reply, const char *text, bool is_cut,
                        const char *expected)
{
    const size_t len = strlen(text);

    for (size_t first = 0; first <= len; first++) {
        _cleanup_str_ struct str log = {};

        /* @first 0: byte by byte */
        reply_log_parse(reply, text, len, first ? first : 1, first ? 0 : 1, is_cut, &log);
        if (strcmp(log.data ? log.data : "", expected) != 0)
            fail_msg("cut after %zu bytes of: %s\n  got:      %s\n  expected: %s", first, text,
                     log.data ? log.data : "", expected);
    }
}

static void check_all(const char *format, const char *thinking, bool is_open, bool with_tools,
                      bool is_cut, const char *text, const char *expected)
{
    struct reply reply = reply_of(format, thinking, with_tools);

    reply.is_open = is_open;
    check_reply(&reply, text, is_cut, expected);
    reply_done(&reply);
}

static void check(const char *format, const char *text, const char *expected)
{
    check_all(format, NULL, false, true, false, text, expected);
}

static void check_cut(const char *format, const char *text, const char *expected)
{
    check_all(format, NULL, false, true, true, text, expected);
}

TEST(text_without_calls_stays_as_it_is)
{
    check("hermes", "", "");
    check("hermes", " Hello\n\n", "T: Hello\n\n");
    check("hermes", "a < b <tool <tool_cal", "T:a < b <tool <tool_cal");
    check("llama3", "\n{ int x; }", "T:\n{ int x; }");
    check_all("hermes", NULL, false, false, false, "<tool_call>\n{}", "T:<tool_call>\n{}");
}

TEST(thinking_is_split_off)
{
    check_all(NULL, "<think>", false, false, false, "<think>\nHm.\n</think>\n\nYes. ",
              "R:Hm.|T:Yes. ");
    check_all(NULL, "<think>", true, false, false, "Hm <b>.\n\n</think>\n\nYes.",
              "R:Hm <b>.|T:Yes.");
    check_all(NULL, "<think>", true, false, false, "<think>\nHm.</think>Yes.", "R:Hm.|T:Yes.");
    check_all(NULL, "<think>", true, false, true, "Hm </thi", "R:Hm </thi");
    check_all(NULL, "<think>", false, false, false, "\n\nYes <think>no</think>",
              "T:\n\nYes <think>no</think>");
    check_all(NULL, "<think>", false, false, false, "<think>\n\n</think>\n\nYes.", "T:Yes.");
    check_all(NULL, "[THINK]", false, false, false, "[THINK]Hm.[/THINK]Yes.", "R:Hm.|T:Yes.");
    check_all(NULL, "◁think▷", false, false, false, "◁think▷Hm ◁.◁/think▷Yes.", "R:Hm ◁.|T:Yes.");
    check_all("gemma4", "<channel|>", false, true, false,
              "<|channel>thought\nHm.<channel|>Yes.<|tool_call>call:now{}<tool_call|>",
              "R:Hm.|T:Yes.|C:now|A:{}");
}

TEST(hermes)
{
    check("hermes",
          "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"K\\\"}öln"
          "\"}}\n</tool_call>",
          "C:get_weather|A:{\"city\": \"K\\\"}öln\"}");
    check("hermes",
          "Let me see.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"
          "\n<tool_call>\n{\"arguments\": {\"a\": [1]}, \"name\": \"now\"}\n</tool_call>\n",
          "T:Let me see.|C:now|A:{}|C:now|A:{\"a\": [1]}");
    check("hermes", "<tool_call>{\"name\": \"now\"}</tool_call> Done.", "C:now|A:{}|T:Done.");
    check("hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\":\"x\ny\"}, \"id\": 3}",
          "C:now|A:{\"a\":\"x\\ny\"}");
    check_all("hermes", "<think>", false, true, false,
              "<think>\nHm.\n</think>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n"
              "</tool_call>",
              "R:Hm.|C:now|A:{}");
}

TEST(what_is_no_call_becomes_text)
{
    check("hermes", "See <tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>.",
          "T:See <tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>.");
    check("hermes", "A \n<tool_call> b", "T:A \n<tool_call> b");
    check("hermes", "<tool_call>{\"name\": 3}", "T:<tool_call>{\"name\": 3}");
    check("hermes", "<tool_call>{\"na", "T:<tool_call>{\"na");
    check("hermes", "<tool_call><tool_call>{\"name\":\"now\"}</tool_call>",
          "T:<tool_call>|C:now|A:{}");
    check("qwen-xml", "<tool_call>\n<function=other>\n</function>\n</tool_call>",
          "T:<tool_call>\n<function=other>\n</function>\n</tool_call>");
    check("gemma4", "<|tool_call>call:other{}<tool_call|>",
          "T:<|tool_call>call:other{}<tool_call|>");
    check("lfm2", "<|tool_call_start|>[other()]<|tool_call_end|>",
          "T:<|tool_call_start|>[other()]<|tool_call_end|>");
    check("mistral-named", "[TOOL_CALLS]other[ARGS]{}", "T:[TOOL_CALLS]other[ARGS]{}");
}

TEST(cut_answers_keep_what_came)
{
    check_cut("hermes", "Hi. <tool_call>{\"na", "T:Hi.");
    check_cut("hermes", "Hi. <tool_", "T:Hi. <tool_");
    check_cut("hermes", "<tool_call>{\"name\": \"now\"}</tool_call>\n<tool_", "C:now|A:{}");
    check_cut("hermes", "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"b",
              "C:now|A:{\"a\": \"b");
    check_cut("qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar",
              "C:get_weather|A:{\"city\":\"Par");
    check("qwen-xml", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar",
          "C:get_weather|A:{\"city\":\"Par\"}");
}

TEST(qwen_xml)
{
    check(
        "qwen-xml",
        "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nKöln\n"
        "\"x\"\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=detailed>\nTrue\n"
        "</parameter>\n<parameter=tags>\n[\"a\", \"b\"]\n</parameter>\n<parameter=near>\n{'a': 1}\n"
        "</parameter>\n<parameter=note>\nnull\n</parameter>\n</function>\n</tool_call>",
        "T:I look.|C:get_weather|A:{\"city\":\"Köln\\n\\\"x\\\"\",\"days\":3,\"detailed\":true,"
        "\"tags\":[\"a\", \"b\"],\"near\":{\"a\":1},\"note\":null}");
    check("qwen-xml",
          "<function=now>\n</function>\n</tool_call>\n<tool_call>\n<function=now>\n"
          "</function>\n</tool_call>",
          "C:now|A:{}|C:now|A:{}");
    check("qwen-xml",
          "<tool_call>\n<function=get_weather>\n<parameter=days>\nmany\n</parameter>\n"
          "<parameter=note>\n12\n</parameter>\n<parameter=other>\n12\n</parameter>\n</function>\n"
          "</tool_call>",
          "C:get_weather|A:{\"days\":\"many\",\"note\":\"12\",\"other\":12}");
    check("qwen-xml",
          "<tool_call>\n<function=get_weather>\n<parameter=city>\n\n a</param>\n\n"
          "</parameter>\n</function>\n</tool_call>",
          "C:get_weather|A:{\"city\":\"\\n a</param>\\n\"}");
}

TEST(other_xml)
{
    check("glm",
          "\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
          "<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>now\n"
          "</tool_call>",
          "C:get_weather|A:{\"city\":\"Paris\",\"days\":2}|C:now|A:{}");
    check("glm", "<tool_call>now</tool_call>", "C:now|A:{}");
    check(
        "minimax",
        "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">"
        "Paris</parameter>\n<parameter name=\"tags\">[\"a\"]</parameter>\n</invoke>\n<invoke name="
        "\"now\">\n</invoke>\n</minimax:tool_call>",
        "C:get_weather|A:{\"city\":\"Paris\",\"tags\":[\"a\"]}|C:now|A:{}");
    check("deepseek-v3.2",
          "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n"
          "<｜DSML｜parameter name=\"city\" string=\"true\">Paris</｜DSML｜parameter>\n"
          "<｜DSML｜parameter name=\"any\" string=\"false\">[1]</｜DSML｜parameter>\n"
          "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
          "C:get_weather|A:{\"city\":\"Paris\",\"any\":[1]}");
}

TEST(gemma)
{
    check("gemma4",
          "<|tool_call>call:get_weather{city:<|\"|>Köln \"{a}\\ <|\"|>,days:3,detailed:true,"
          "tags:[<|\"|>a<|\"|>,<|\"|>b<|\"|>],near:{x:-1.5e3,y:null}}<tool_call|>",
          "C:get_weather|A:{\"city\":\"Köln \\\"{a}\\\\ \",\"days\":3,\"detailed\":true,\"tags\":["
          "\"a\",\"b\"],\"near\":{\"x\":-1.5e3,\"y\":null}}");
    check("gemma4", "<|tool_call>call:now{}<tool_call|><|tool_call>call:now{}<tool_call|>",
          "C:now|A:{}|C:now|A:{}");
}

TEST(harmony)
{
    check("harmony",
          "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>"
          "commentary to=functions.get_weather "
          "<|constrain|>json<|message|>{\"city\":\"Paris\"}<|call|>",
          "R:Need it.|C:get_weather|A:{\"city\":\"Paris\"}");
    check("harmony", " to=functions.now<|channel|>commentary json<|message|>{}", "C:now|A:{}");
    check("harmony",
          "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final"
          "<|message|>Yes <|x.",
          "R:Hm.|T:Yes <|x.");
    check("harmony",
          "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>"
          "commentary to=functions.now<|message|>{}<|call|>",
          "T:I look.|C:now|A:{}");
    check("harmony", "No channels.", "T:No channels.");
    check_all("harmony", NULL, false, false, false, "<|channel|>final<|message|>Yes.", "T:Yes.");
    check_cut("harmony", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assis", "R:Hm.");
}

TEST(llama)
{
    check("llama3", "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Paris\"}}",
          "C:get_weather|A:{\"city\": \"Paris\"}");
    check("llama3", "<|python_tag|>{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}",
          "C:now|A:{}");
    check("llama3",
          "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}",
          "C:now|A:{}|C:now|A:{}");
    check("llama3", "{\"name\": \"Bob\", \"age\": 3}", "T:{\"name\": \"Bob\", \"age\": 3}");
    check("pythonic", "[get_weather(city='Paris', days=2, detailed=False, note=None), now()]",
          "C:get_weather|A:{\"city\":\"Paris\",\"days\":2,\"detailed\":false,\"note\":null}|C:now|"
          "A:{}");
    check("pythonic", "<|python_start|>[now()]<|python_end|>", "C:now|A:{}");
    check("pythonic", "[1, 2]", "T:[1, 2]");
}

TEST(mistral)
{
    check("mistral",
          "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}, "
          "\"id\": \"VvvODy9mT\"}, {\"name\": \"now\", \"arguments\": {}}]",
          "C:get_weather|A:{\"city\": \"Paris\"}|C:now|A:{}");
    check("mistral-named",
          "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Paris\"}[TOOL_CALLS]now[CALL_ID]"
          "123456789[ARGS]{}",
          "C:get_weather|A:{\"city\": \"Paris\"}|C:now|A:{}");
}

TEST(deepseek_and_kimi)
{
    check("deepseek-v3",
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
          "```json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function"
          "<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          "C:get_weather|A:{\"city\": \"Paris\"}|C:now|A:{}");
    check("deepseek-v3.1",
          "Ok.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"
          "{\"city\": \"Paris\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
          "T:Ok.|C:get_weather|A:{\"city\": \"Paris\"}");
    check(
        "kimi-k2",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
        "<|tool_call_argument_begin|>{\"city\": \"Paris\"}<|tool_call_end|><|tool_call_begin|>"
        "functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
        "C:get_weather|A:{\"city\": \"Paris\"}|C:now|A:{}");
}

TEST(granite_and_lfm)
{
    check("granite",
          "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}]",
          "C:get_weather|A:{\"city\": \"Paris\"}");
    check("granite",
          "<tool_call>[{\"arguments\": {\"city\": \"Paris\"}, \"name\": \"get_weather\"}]",
          "C:get_weather|A:{\"city\": \"Paris\"}");
    check(
        "lfm2",
        "<|tool_call_start|>[get_weather(city=\"Pa\\\"r\\nis\", tags=[\"a\", 'b'], near={\"x\": "
        "(1, 2)})]<|tool_call_end|>Checking.",
        "C:get_weather|A:{\"city\":\"Pa\\\"r\\nis\",\"tags\":[\"a\",\"b\"],\"near\":{\"x\":[1,2]}}|"
        "T:Checking.");
}

TEST(custom_tools_get_their_text)
{
    check("hermes",
          "<tool_call>{\"name\":\"patch\",\"arguments\":{\"input\":\"*** a\\n\\\"\\u00e9"
          "\\ud83d\\ude00\\/\"}}</tool_call>",
          "C:patch|I:*** a\n\"é😀/");
    check("qwen-xml",
          "<tool_call>\n<function=patch>\n<parameter=input>\n*** a\n\\\"é\n</parameter>\n"
          "</function>\n</tool_call>",
          "C:patch|I:*** a\n\\\"é");
    check("gemma4", "<|tool_call>call:patch{input:<|\"|>a\n\"<|\"|>}<tool_call|>",
          "C:patch|I:a\n\"");
}

TEST(an_answer_with_one_call_drops_further_ones)
{
    struct reply reply = reply_of("hermes", NULL, true);

    reply.single = true;
    check_reply(&reply,
                "<tool_call>{\"name\":\"now\"}</tool_call><tool_call>{\"name\":\"now\",\"a"
                "rguments\":{\"a\":1}}</tool_call>",
                false, "C:now|A:{}");
    reply_done(&reply);
}

TEST(formats_have_names)
{
    assert_non_null(reply_format_named("kimi-k2"));
    assert_null(reply_format_named("other"));
}

RUN_TESTS(cmocka_unit_test(text_without_calls_stays_as_it_is),
          cmocka_unit_test(thinking_is_split_off), cmocka_unit_test(hermes),
          cmocka_unit_test(what_is_no_call_becomes_text),
          cmocka_unit_test(cut_answers_keep_what_came), cmocka_unit_test(qwen_xml),
          cmocka_unit_test(other_xml), cmocka_unit_test(gemma), cmocka_unit_test(harmony),
          cmocka_unit_test(llama), cmocka_unit_test(mistral), cmocka_unit_test(deepseek_and_kimi),
          cmocka_unit_test(granite_and_lfm), cmocka_unit_test(custom_tools_get_their_text),
          cmocka_unit_test(an_answer_with_one_call_drops_further_ones),
          cmocka_unit_test(formats_have_names))
