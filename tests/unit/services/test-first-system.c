/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the merging of system messages for templates that support no system messages, such as that
 * of Gemma 2.
 */
#include "chat/first-system.h"

#include <infer/chat.h>
#include <string.h>

#include "chat/described-tools.h"
#include "lib/test.h"

/* Refuses system messages and messages of one role in a row, as the template of Gemma 2 does. */
#define TURNS                                                                                      \
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"                 \
    "{{ raise_exception('turns must alternate') }}{% endif %}<{{ m.role }}>{{ m.content }}"        \
    "{% endfor %}"

static struct inf_chat_template *template_of(const char *text)
{
    struct inf_chat_template *tmpl = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(inf_chat_template_new(text, strlen(text), &tmpl, &err), err);
    return tmpl;
}

static bool is_native(const char *text)
{
    struct inf_chat_template *tmpl = template_of(text);
    const bool native = first_system_is_native(tmpl);

    inf_chat_template_free(tmpl);
    return native;
}

TEST(a_template_is_tried)
{
    assert_true(is_native("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"));
    assert_false(is_native(TURNS));
    assert_false(is_native("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
                           "{% endif %}{% endfor %}"));
    /* This template always fails, so the system message is not the reason. */
    assert_true(is_native("{{ raise_exception('no') }}"));
}

static void add(struct conversation *c, enum message_role role, const char *text)
{
    struct message *m = conversation_add(c);

    assert_non_null(m);
    m->role = role;
    m->text = text ? json_string(text) : NULL;
}

/* Merges, renders with TURNS, compares, and frees the conversation. */
static void check(struct conversation *c, const char *want)
{
    struct inf_chat_template *tmpl = template_of(TURNS);
    struct inf_chat_input input = {0};
    struct inf_err err;
    struct str messages = {};
    char *text;
    size_t len;

    assert_true(first_system_exists(c));
    ASSERT_OK(first_system_merge(c));
    assert_false(first_system_exists(c));
    ASSERT_OK(conversation_put_messages(c, "reasoning_content", &messages));
    input.messages = messages.data;
    ASSERT_OK_ERR(inf_chat_render(tmpl, &input, &text, &len, &err), err);
    assert_string_equal(text, want);
    free(text);
    str_done(&messages);
    inf_chat_template_free(tmpl);
    conversation_done(c);
}

TEST(a_system_message_becomes_a_paragraph_of_the_user)
{
    struct conversation c = {0};

    add(&c, ROLE_SYSTEM, "Be brief.");
    add(&c, ROLE_USER, "Hi");
    add(&c, ROLE_ASSISTANT, "Hello");
    add(&c, ROLE_USER, "Bye");
    check(&c, "<user>Be brief.\n\nHi<assistant>Hello<user>Bye");
}

TEST(several_of_them_become_one_message)
{
    struct conversation c = {0};

    add(&c, ROLE_SYSTEM, "a");
    add(&c, ROLE_SYSTEM, NULL);
    add(&c, ROLE_DEVELOPER, "b");
    add(&c, ROLE_USER, "");
    check(&c, "<user>a\n\nb");
}

TEST(without_a_message_of_the_user_it_becomes_one)
{
    struct conversation c = {0};

    add(&c, ROLE_SYSTEM, "a");
    add(&c, ROLE_ASSISTANT, "b");
    check(&c, "<user>a<assistant>b");
    c = (struct conversation){0};
    add(&c, ROLE_SYSTEM, "a");
    check(&c, "<user>a");
}

TEST(described_tools_reach_a_model_that_knows_no_system_messages)
{
    struct conversation c = {
        .tools = json_pack("[{s:s,s:{s:s}}]", "type", "function", "function", "name", "probe")};

    add(&c, ROLE_USER, "Hi");
    ASSERT_OK(tools_describe(&c, true));
    assert_true(first_system_exists(&c));
    ASSERT_OK(first_system_merge(&c));
    assert_int_equal(c.n_messages, 1);
    assert_int_equal(c.messages[0].role, ROLE_USER);
    assert_non_null(strstr(json_string_value(c.messages[0].text), "probe"));
    assert_non_null(strstr(json_string_value(c.messages[0].text), "</tool_call>\n\nHi"));
    conversation_done(&c);
}

RUN_TESTS(cmocka_unit_test(a_template_is_tried),
          cmocka_unit_test(a_system_message_becomes_a_paragraph_of_the_user),
          cmocka_unit_test(several_of_them_become_one_message),
          cmocka_unit_test(without_a_message_of_the_user_it_becomes_one),
          cmocka_unit_test(described_tools_reach_a_model_that_knows_no_system_messages))
