/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Controls how much a model thinks, with the variables of its template and the limits of the
 * engine. */

#include "chat/generation.h"

/* Sets the variables of g->conversation that the template @source reads for g->params.reasoning.
 * Refuses a request for thinking if the model cannot think and g->params.reasoning.field is set. */
int thinking_set_variables(struct generation *g, const char *source, struct problem *problem);
/* Fills g->channel for the prompt that was rendered as @text. g->reply.thinking must be set.
 * -ENOMEM. */
int thinking_set_channel(struct generation *g, const char *text, size_t len);
/* Returns the field of a message in which a template reads what the assistant thought. */
const char *thinking_field(const char *source);
/* Writes earlier thoughts into the texts of the messages, if the template expects them there. */
int thinking_write_history(struct conversation *c, const char *source, struct problem *problem);
