/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System messages in the middle of a conversation
 *
 * Agents send instructions in messages of the role system after other messages. These messages must
 * stay in their places. At the beginning they would change the whole prompt, and nothing that was
 * computed for earlier prompts could be used again. Many chat templates refuse such messages, drop
 * them or move them. For these templates, the text of the system message becomes a paragraph of the
 * message before it, if that message has the role user or tool. Otherwise it becomes a paragraph of
 * the message after it, if that message has the role user. Otherwise it becomes a user message of
 * its own. The paragraph is marked as `<system-reminder>`.
 */

#include "chat/conversation.h"

struct inf_chat_template;

/* Returns whether the conversation has system messages after its first message. */
bool late_system_exists(const struct conversation *c);
/* Returns whether a template writes these system messages in their places. Renders a short
 * conversation to find out. */
bool late_system_is_native(const struct inf_chat_template *tmpl);
/* Turns all these messages into paragraphs of other messages, or into user messages. -ENOMEM. */
int late_system_merge(struct conversation *c);
