/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads bodies of OpenAI's API: the parameters that several endpoints share, and messages
 *
 * A field that is not supported is refused by an error that names it, except for a few fields that
 * are accepted without effect. docs/http-api.md lists them.
 */

#include <jansson.h>

#include "chat/conversation.h"
#include "chat/params.h"
#include "common/http/problem.h"

/* Names of the fields that openai_params_read() knows, NULL-terminated. */
extern const char *const openai_params_names[];

/* Reads the shared parameters, with OpenAI's ranges and defaults, and those that servers of open
 * models add. Strings are borrowed from the body. */
int openai_params_read(struct params *params, json_t *body, struct problem *problem);
/* Refuses the first field that is neither in openai_params_names, openai_constraint_names nor @more
 * (NULL-terminated). */
int openai_fields_known(json_t *body, const char *const *more, struct problem *problem);
/* Reads the messages, and the fields that set variables of the chat template. */
int openai_conversation_read(json_t *body, struct conversation *conversation,
                             struct problem *problem);
/* Reads the tools into the conversation, and which of them may be called. */
int openai_tools_read(json_t *body, struct tool_rules *rules, struct conversation *conversation,
                      struct problem *problem);
/* Names of the fields that openai_constraint_read() and openai_reasoning_read() know,
 * NULL-terminated. */
extern const char *const openai_constraint_names[], *const openai_reasoning_names[];
/* Reads what the answer has to be. */
int openai_constraint_read(json_t *body, struct constraint *constraint, struct problem *problem);
/* Reads how much the model thinks. */
int openai_reasoning_read(json_t *body, struct reasoning_rules *rules, struct problem *problem);
