/* SPDX-License-Identifier: Apache-2.0 */
/* Tests answers whose beginning is given by the request. The first tests check the text that is put
 * after the prompt. The last tests check how the parser reads the rest of the answer. */
#include "chat/reply/prefill.h"

#include "lib/test.h"
#include "reply-log.h"

/* Checks which text is put after @prompt if the request gives the beginning of the answer: its
 * reasoning @reasoning and its text @text. Each of them may be NULL. */
static void check_put(const char *format, const char *thinking, const char *prompt,
                      const char *reasoning, const char *text, const char *expected)
{
    struct reply reply = reply_of(format, thinking, false);
    _cleanup_json_ json_t *thought = reasoning ? json_string(reasoning) : NULL;
    _cleanup_json_ json_t *begun = text ? json_string(text) : NULL;
    _cleanup_str_ struct str out = {};

    ASSERT_OK(prefill_put(&reply, prompt, strlen(prompt), thought, begun, &out));
    assert_string_equal(out.data ? out.data : "", expected);
    assert_int_equal(reply.continues, text && text[0]);
    reply_done(&reply);
}

TEST(a_text_follows_the_prompt)
{
    check_put(NULL, NULL, "<assistant>", NULL, "Yes", "Yes");
    check_put(NULL, NULL, "<assistant>", "Hm.", "Yes", "Yes");
    check_put("hermes", NULL, "<assistant>", NULL, NULL, "");
    check_put(NULL, "<think>", "<assistant>", NULL, "", "");
}

TEST(thinking_ends_before_the_text)
{
    check_put(NULL, "<think>", "<assistant>", NULL, "Yes", "Yes");
    check_put(NULL, "<think>", "<assistant><think>\n", NULL, "Yes", "\n</think>\n\nYes");
    check_put(NULL, "<think>", "<assistant><think>\n", "Hm.", "Yes", "Hm.\n</think>\n\nYes");
    check_put(NULL, "<think>", "<assistant>", "Hm.", "Yes", "<think>\nHm.\n</think>\n\nYes");
    check_put(NULL, "<think>", "<assistant>", "Hm.", NULL, "<think>\nHm.\n</think>\n\n");
    check_put(NULL, "<think>", "<assistant><think>\n\n</think>\n\n", "Hm.", "Yes", "Yes");
    check_put(NULL, "[THINK]", "[/INST]", "Hm.", "Yes", "[THINK]Hm.[/THINK]Yes");
    check_put("gemma4", "<channel|>", "<assistant><|channel>thought\n", "Hm.", "Yes",
              "Hm.<channel|>Yes");
}

TEST(gpt_oss_gets_a_message_of_its_final_channel)
{
    check_put("harmony", "<|channel|>", "<|start|>assistant", NULL, "Yes",
              "<|channel|>final<|message|>Yes");
    check_put("harmony", "<|channel|>", "<|start|>assistant", "Hm.", "Yes",
              "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
              "<|channel|>final<|message|>Yes");
}

/* The request has given the beginning of an answer. Checks into which pieces (reply-log.h) the
 * parser splits the rest of the answer, @text, if it arrives in two parts that are cut at any byte.
 */
static void check_rest(const char *format, const char *thinking, enum tool_choice choice,
                       const char *text, const char *expected)
{
    struct reply reply = reply_of(format, thinking, true);
    const size_t len = strlen(text);

    reply.continues = true;
    reply.choice = choice;
    for (size_t first = 0; first <= len; first++) {
        _cleanup_str_ struct str log = {};

        reply_log_parse(&reply, text, len, first ? first : 1, first ? 0 : 1, false, &log);
        if (strcmp(log.data ? log.data : "", expected) != 0)
            fail_msg("cut after %zu bytes of: %s\n  got:      %s\n  expected: %s", first, text,
                     log.data ? log.data : "", expected);
    }
    reply_done(&reply);
}

TEST(the_rest_of_a_text_is_text)
{
    check_rest("hermes", "<think>", TOOLS_AUTO, " is 42. ", "T: is 42. ");
    check_rest("hermes", NULL, TOOLS_AUTO,
               " look.\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
               "T: look.|C:now|A:{}");
    check_rest("llama3", NULL, TOOLS_AUTO, "{\"name\": \"now\", \"parameters\": {}}",
               "T:{\"name\": \"now\", \"parameters\": {}}");
    check_rest("llama3", NULL, TOOLS_REQUIRED, "{\"name\": \"now\", \"parameters\": {}}",
               "C:now|A:{}");
    check_rest("harmony", "<|channel|>", TOOLS_AUTO, " is 42.", "T: is 42.");
    check_rest("harmony", "<|channel|>", TOOLS_AUTO,
               " look.<|end|><|start|>assistant<|channel|>commentary to=functions.now "
               "<|constrain|>json<|message|>{}",
               "T: look.|C:now|A:{}");
}

RUN_TESTS(cmocka_unit_test(a_text_follows_the_prompt),
          cmocka_unit_test(thinking_ends_before_the_text),
          cmocka_unit_test(gpt_oss_gets_a_message_of_its_final_channel),
          cmocka_unit_test(the_rest_of_a_text_is_text))
