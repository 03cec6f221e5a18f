/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System messages at the beginning of a conversation
 *
 * Some models, such as Gemma 2, know no system messages: their templates refuse or drop them. For
 * these templates, the text of the system message becomes the first paragraph of the first message
 * of the user. If no such message follows, it becomes a message of the user of its own.
 */

#include "chat/conversation.h"

struct inf_chat_template;

/* Returns whether the conversation begins with a system message, or with one of the developer. */
bool first_system_exists(const struct conversation *c);
/* Returns whether a template writes such a message. Renders two short conversations to find out:
 * a template that fails also without the message says nothing about it. */
bool first_system_is_native(const struct inf_chat_template *tmpl);
/* Turns all such messages into paragraphs of the first message of the user. -ENOMEM. */
int first_system_merge(struct conversation *c);
