/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System messages at the beginning of a conversation
 *
 * Some models, such as Gemma 2, know no system messages: their templates refuse or drop them. For
 * these templates, the text of the system message becomes the first paragraph of the message of the
 * user that follows. If the next message is not the user's, the text becomes a new message of the
 * user.
 */

#include "chat/conversation.h"

struct inf_chat_template;

/* Returns whether the conversation begins with a message of the role system or developer. */
bool first_system_exists(const struct conversation *c);
/* Returns whether a template writes a system message at the beginning. To find out, renders a short
 * conversation with a system message. If this fails, renders the conversation without the system
 * message. If that fails too, the system message is not the reason, and the function returns
 * true. */
bool first_system_is_native(const struct inf_chat_template *tmpl);
/* Turns the messages of these roles at the beginning into paragraphs of a message of the user.
 * -ENOMEM. */
int first_system_merge(struct conversation *c);
