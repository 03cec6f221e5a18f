/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A choice is one answer to a prompt. Its text is split into pieces, which are streamed or
 * collected. */

#include "chat/generation.h"

/* Initializes @c. @prompt is the prompt that the choice continues. -ENOMEM. */
int choice_init(struct choice *c, struct generation *g, uint32_t index, struct prompt *prompt);
/* Takes the text and the tokens of an event. -ENOMEM. */
int choice_take(struct choice *c, const struct inf_event *event);
/* Notes when the tokens of an event came. */
void choice_note_time(struct choice *c, const struct inf_event *event);
/* Ends a choice. The caller has set c->finish to the reason why it ended. Writes the text that the
 * parser held back. If the answer has calls of tools and c->finish is not FINISH_LENGTH, sets it to
 * FINISH_CALLS. -ENOMEM. */
int choice_end(struct choice *c);
void choice_done(struct choice *c);
