/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads bodies of Ollama's API (docs/api.md of Ollama, version 0.13): the parameters that /api/chat
 * and /api/generate share, and messages.
 *
 * An unsupported field is refused with an error that names the field. A few fields are accepted
 * although they have no effect. docs/http-api.md lists these fields.
 */

#include <jansson.h>

#include "chat/conversation.h"
#include "chat/params.h"
#include "common/http/problem.h"

/* Ollama's defaults of sampling. */
extern const struct inf_sampling sampling_ollama;

/* Reads the shared parameters. Refuses the first field that is neither a shared parameter nor in
 * @more (NULL-terminated). Strings are borrowed from the body. */
int ollama_params_read(struct params *params, json_t *body, const char *const *more,
                       struct problem *problem);
/* Reads the messages and the tools. The conversation stays empty if there are no messages. */
int ollama_conversation_read(json_t *body, struct tool_rules *rules,
                             struct conversation *conversation, struct problem *problem);
/* Refuses @images if it has elements. @images must be an array or NULL. @param is its path. */
int ollama_refuse_images(const json_t *images, const char *param, struct problem *problem);
