/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Canonical prompts: what an agent changes in each request without meaning is left out
 *
 * The prefix cache helps only if a prompt begins exactly like an earlier one. Some agents put a
 * line that changes with every request at the beginning of their prompts. Each rule below names the
 * agent, and describes whole lines in the fields where this agent puts them. Nothing else is
 * changed; texts of users and results of tools are never searched. `chat.canonical_prompts`
 * switches the rules off.
 *
 * The rules of `claude-code` describe Claude Code 2.1:
 * - The first block of `system` is one line, `x-anthropic-billing-header: cc_version=…;`, whose
 *   `cch=` is a checksum of the request. The block is left out.
 * - In a text block of `system`, and in a message of the role system, a paragraph of its own is the
 *   line `<total_tokens>N tokens left</total_tokens>`. The paragraph is left out.
 */

#include <jansson.h>

#include "core/macros.h"

/* Whether @text is the whole line with the checksum. */
bool canonical_is_billing(const json_t *text);
/* Leaves out the paragraphs that count the tokens left. *ret_text is a new reference to @text, or
 * to a new string. -ENOMEM. */
int canonical_drop_countdown(json_t *text, json_t **ret_text);
