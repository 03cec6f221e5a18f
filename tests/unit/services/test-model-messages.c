/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the messages of a model come before those of a conversation. */
#include "chat/model-messages.h"

#include <string.h>

#include "common/models/settings.h"
#include "lib/test.h"

static const struct model_message shots[] = {{false, "q"}, {true, "a"}};
static const struct model_settings has_system = {.system = "s"};
static const struct model_settings has_both = {.system = "s", .messages = shots, .n_messages = 2};
static const struct model_settings has_shots = {.messages = shots, .n_messages = 2};
static const struct model_settings has_none = {0};

/* Adds the messages of the model to a conversation with the roles that the letters of @roles name:
 * s(ystem), d(eveloper), u(ser) or a(ssistant), each with the role's letter in upper case as its
 * text. Compares the letters and the texts of the messages with @wanted. */
static void check_with(const struct model_settings *settings, bool has_past, const char *roles,
                       const char *wanted)
{
    static const char letters[] = "sdua";
    struct conversation c = {.has_past = has_past};
    char got[64] = "";

    for (; *roles; roles++) {
        struct message *m = conversation_add(&c);
        const char text[] = {(char)(*roles - 'a' + 'A'), 0};

        assert_non_null(m);
        m->role = (enum message_role)(strchr(letters, *roles) - letters);
        m->text = json_string(text);
    }
    ASSERT_OK(model_messages_add(&c, settings));
    for (size_t i = 0; i < c.n_messages; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), "%c%s ", letters[c.messages[i].role],
                 json_string_value(c.messages[i].text));
    ASSERT_STREQ(got, wanted);
    conversation_done(&c);
}

static void check(const struct model_settings *settings, const char *roles, const char *wanted)
{
    check_with(settings, false, roles, wanted);
}

TEST(a_system_message_is_added_unless_there_is_one)
{
    check(&has_system, "", "ss ");
    check(&has_system, "u", "ss uU ");
    check(&has_system, "uau", "ss uU aA uU ");
    check(&has_system, "su", "sS uU ");
    check(&has_system, "du", "dD uU ");
    check(&has_system, "us", "ss uU sS ");
    check(&has_none, "u", "uU ");
    check(&has_none, "", "");
}

TEST(messages_follow_the_system_messages_at_the_beginning)
{
    check(&has_both, "u", "ss uq aa uU ");
    check(&has_both, "su", "sS uq aa uU ");
    check(&has_both, "sdua", "sS dD uq aa uU aA ");
    check(&has_shots, "u", "uq aa uU ");
    check(&has_shots, "usu", "uq aa uU sS uU ");
    check(&has_shots, "s", "sS uq aa ");
}

TEST(a_past_has_the_first_messages_already)
{
    check_with(&has_both, true, "u", "ss uU ");
    check_with(&has_both, true, "su", "sS uU ");
    check_with(&has_shots, true, "u", "uU ");
}

RUN_TESTS(cmocka_unit_test(a_system_message_is_added_unless_there_is_one),
          cmocka_unit_test(messages_follow_the_system_messages_at_the_beginning),
          cmocka_unit_test(a_past_has_the_first_messages_already))
