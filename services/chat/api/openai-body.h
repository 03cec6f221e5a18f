/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads bodies of OpenAI's API: the parameters that several endpoints share, and messages.
 *
 * An unsupported field is refused with an error that names the field. A few fields are accepted
 * although they have no effect. docs/http-api.md lists these fields.
 */

#include <jansson.h>

#include "chat/conversation.h"
#include "chat/params.h"
#include "common/http/problem.h"

/* Names of the fields that openai_params_read() knows, NULL-terminated. */
extern const char *const openai_params_names[];

/* Reads the shared parameters, with OpenAI's ranges and defaults, and the parameters that servers
 * of open models add. Strings are borrowed from the body. */
int openai_params_read(struct params *params, json_t *body, struct problem *problem);
/* Reads the limit of tokens of a chat answer. The value -1 means no limit. */
int openai_read_length(struct params *params, json_t *body, struct problem *problem);
/* Works like openai_params_read(), but with the wider ranges of llama-server, and with
 * llama-server's forms of `logit_bias`. */
int openai_params_read_wide(struct params *params, json_t *body, struct problem *problem);
/* Refuses the first field that is in none of the lists openai_params_names, openai_constraint_names
 * and @more (NULL-terminated). */
int openai_fields_known(json_t *body, const char *const *more, struct problem *problem);
/* Reads the messages, and the fields that set variables of the chat template. */
int openai_conversation_read(json_t *body, struct conversation *conversation,
                             struct problem *problem);
/* Reads the tools into @conversation, and sets in @rules which tools may be called. */
int openai_tools_read(json_t *body, struct tool_rules *rules, struct conversation *conversation,
                      struct problem *problem);
/* Names of the fields that openai_constraint_read() and openai_reasoning_read() know,
 * NULL-terminated. */
extern const char *const openai_constraint_names[], *const openai_reasoning_names[];
/* Reads the form that the answer must have. */
int openai_constraint_read(json_t *body, struct constraint *constraint, struct problem *problem);
/* Reads how much the model is to think. */
int openai_reasoning_read(json_t *body, struct reasoning_rules *rules, struct problem *problem);
