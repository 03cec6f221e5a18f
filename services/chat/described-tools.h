/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes tools, calls and results into a conversation in the form that a model can read. */

#include "chat/conversation.h"

/* Makes the array of tools for a template: custom tools become functions with one argument,
 * `input`. The caller owns the result. NULL: out of memory. */
json_t *tools_for_template(json_t *tools);
/* Writes calls of custom tools, whose arguments are a text, as calls of these functions. -ENOMEM.
 */
int tools_rewrite_calls(struct conversation *c);
/*
 * Writes everything about tools as plain messages, for templates that know no tools: the list of
 * tools is added to the system message, calls become text in the format "hermes", and results
 * become messages of the user. @may_call: tools can be called, so they are listed. -ENOMEM.
 */
int tools_describe(struct conversation *c, bool may_call);
