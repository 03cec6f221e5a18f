/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the grammar rules of calls, in the formats of the families of models. */

#include "chat/reply/lark.h"
#include "chat/reply/reply.h"

/* Adds the rule `calls`, which is one call or several, and the rules that it needs. */
void grammar_put_calls(struct lark *l, const struct reply *reply);
/* Makes the JSON Schema of the arguments of a tool. The caller owns the result. NULL: out of
 * memory. */
json_t *grammar_arguments(const struct reply_tool *tool);
