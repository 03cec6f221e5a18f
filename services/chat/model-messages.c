/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the messages of a model before those of a conversation (see model-messages.h). */
#include "chat/model-messages.h"

#include <errno.h>
#include <string.h>

#include "common/models/settings.h"

static int model_message_set(struct message *m, enum message_role role, const char *text)
{
    *m = (struct message){.role = role, .text = json_string(text)};
    return m->text ? 0 : -ENOMEM;
}

/* Returns how many messages at the beginning are system messages. */
static size_t n_systems(const struct conversation *c)
{
    size_t n = 0;

    while (n < c->n_messages &&
           (c->messages[n].role == ROLE_SYSTEM || c->messages[n].role == ROLE_DEVELOPER))
        n++;
    return n;
}

int model_messages_add(struct conversation *c, const struct model_settings *s)
{
    const size_t n_old = c->n_messages, n_lead = n_systems(c);
    const size_t n_system = n_lead == 0 && s->system, n_first = c->has_past ? 0 : s->n_messages;
    struct message *at;
    int r = 0;

    if (n_system + n_first == 0)
        return 0;
    for (size_t i = 0; i < n_system + n_first; i++)
        if (!conversation_add(c))
            return -ENOMEM;
    at = c->messages + n_lead;
    memmove(at + n_system + n_first, at, (n_old - n_lead) * sizeof(*at));
    memset(at, 0, (n_system + n_first) * sizeof(*at));
    if (n_system)
        r = model_message_set(at++, ROLE_SYSTEM, s->system);
    for (size_t i = 0; r == 0 && i < n_first; i++)
        r = model_message_set(at++, s->messages[i].of_assistant ? ROLE_ASSISTANT : ROLE_USER,
                              s->messages[i].text);
    return r;
}
