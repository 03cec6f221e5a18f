/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes prompts canonical: leaves out lines that an agent changes in each request and that have no
 * meaning for the model.
 *
 * The prefix cache reuses the computed beginning of an earlier prompt. It helps only if a prompt
 * begins exactly like an earlier one. Some agents put a line that changes with every request at the
 * beginning of their prompts. Each rule below names the agent, and describes whole lines in the
 * fields where this agent puts them. Nothing else is changed; texts of users and results of tools
 * are never searched. `chat.canonical_prompts` switches the rules off.
 *
 * The rules of `claude-code` describe Claude Code 2.1:
 * - The first block of `system` is one line, `x-anthropic-billing-header: cc_version=…;`, whose
 *   `cch=` is a checksum of the request. The block is left out.
 * - A text block of `system`, or a message of the role system, can contain the line
 *   `<total_tokens>N tokens left</total_tokens>` as a paragraph of its own. The paragraph is left
 *   out.
 */

#include <jansson.h>

#include "core/macros.h"

/* Returns whether @text consists of the line with the checksum, and nothing else. */
bool canonical_is_billing(const json_t *text);
/* Leaves out the paragraphs that tell how many tokens are left. *ret_text is a new reference to
 * @text, or to a new string. -ENOMEM. */
int canonical_drop_countdown(json_t *text, json_t **ret_text);
