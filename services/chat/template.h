/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Makes a prompt from the messages of a request, with the chat template of its model. */

#include "common/http/problem.h"

struct generation;

/* Renders g->conversation. The caller frees *ret_text. */
int template_render(struct generation *g, char **ret_text, size_t *ret_len,
                    struct problem *problem);
/* Renders g->conversation and makes the prompt; for chat_api.prepare. */
int conversation_prepare(struct generation *g, struct problem *problem);
