/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System messages in mid-conversation
 *
 * Agents send instructions in messages of the role system after other messages. They have to stay
 * in their places: moved to the beginning, they would change the whole prompt, and the prefix cache
 * would be of no use. Many chat templates refuse such messages, drop them or move them. For these
 * templates the text of the message becomes a paragraph of the message before it, if that is the
 * user's or a tool's, else of the user's message after it, else a user's message of its own. The
 * paragraph is marked as `<system-reminder>`.
 */

#include "chat/conversation.h"

struct inf_chat_template;

/* Whether the conversation has such messages. */
bool late_system_exists(const struct conversation *c);
/* Whether a template writes such messages in their places. It is tried with a short
 * conversation. */
bool late_system_is_native(const struct inf_chat_template *tmpl);
/* Makes all such messages paragraphs of other messages. -ENOMEM. */
int late_system_merge(struct conversation *c);
