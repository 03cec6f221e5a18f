/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Short ids of calls, for templates that take no others
 *
 * Mistral's templates refuse ids of calls that are not nine letters or digits. A conversation that
 * began with another model, or at another server, has other ids. They are replaced by nine letters
 * that depend only on the id, so that each turn of the conversation is rendered alike.
 */

#include "chat/conversation.h"

/* Whether the template with this source takes short ids only. */
bool short_ids_needed(const char *source);
/* Replaces all other ids of calls and of results. -ENOMEM. */
int short_ids_set(struct conversation *c);
