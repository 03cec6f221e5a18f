/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes tools, calls and results into a conversation in a form that a model can read. */

#include "chat/conversation.h"

/* Makes the array of tools for a template: custom tools become functions with one argument,
 * `input`. The caller owns the result. NULL: out of memory. */
json_t *tools_for_template(json_t *tools);
/* A call of a custom tool has a text instead of arguments. Turns such calls into calls of the
 * functions that tools_for_template() makes, with the text as the argument `input`. -ENOMEM. */
int tools_rewrite_calls(struct conversation *c);
/*
 * Writes tools, calls and results as plain messages, for templates that know no tools: the list of
 * tools is added to the system message, calls become text in the format "hermes", and results
 * become messages of the user. Tools are listed only if @may_call is set. -ENOMEM.
 */
int tools_describe(struct conversation *c, bool may_call);
