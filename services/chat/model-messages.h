/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The messages of a model: its manifest may name a system message, for conversations that have
 * none, and messages with which each conversation begins (common/models/settings.h).
 */

#include "chat/conversation.h"

struct model_settings;

/* Puts the messages of the model before those of the conversation. The system message is the first
 * one. It is left out if the conversation begins with a message of the role system or developer;
 * the other messages then follow this message, because many templates take a system message only
 * at the beginning. If the conversation has_past, only the system message is added. -ENOMEM. */
int model_messages_add(struct conversation *c, const struct model_settings *settings);
