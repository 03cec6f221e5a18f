/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Short ids of calls, for templates that accept only short ones
 *
 * Mistral's templates refuse ids of calls that are not nine letters or digits. A conversation that
 * began with another model, or at another server, has other ids. Each of these ids is replaced by
 * nine letters or digits that depend only on the id. Therefore the replacement is the same in all
 * requests of the conversation.
 */

#include "chat/conversation.h"

/* Returns whether the template with this source accepts only short ids. */
bool short_ids_needed(const char *source);
/* Replaces all ids of calls and of results that are not short. -ENOMEM. */
int short_ids_set(struct conversation *c);
