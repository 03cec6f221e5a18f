/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the grammar of the answers to a request: thinking, text, calls of tools, and the form that
 * the request demands (struct constraint). */

#include <infer/grammar.h>

#include "chat/reply/reply.h"

/*
 * Sets *ret_kind and appends the grammar to @out. Returns 1 on success; 0: the answers may be any
 * text; -EOPNOTSUPP: the constraint cannot be combined with thinking or tools; -E2BIG: the grammar
 * would be too large; -ENOMEM. @is_off: the model must not think. @tok may be NULL.
 */
int reply_grammar(const struct reply *reply, const struct constraint *constraint, bool is_off,
                  const struct inf_tokenizer *tok, enum inf_grammar_kind *ret_kind,
                  struct str *out);
/* Writes the JSON Schema of the arguments of a tool, in the form that the grammar uses. -ENOMEM. */
int reply_tool_schema(const struct reply_tool *tool, struct str *out);
