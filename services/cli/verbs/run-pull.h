/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Offers to fetch a model that is not installed. */

#include "cli/cli.h"

/* If @model has the form "OWNER/REPO[:WHAT]", "hf:OWNER/REPO[:WHAT]" or "ollama:NAME", finds the
 * installed model of that name or source. If there is none, fetches the model: at once if @yes is
 * set, otherwise only if the user agrees at the terminal. *ret_name: the name of the model, or a
 * copy of @model if @model has none of these forms; the caller frees it. Prints errors itself, and
 * returns an exit status. */
int cli_find_or_pull(const char *verb, const struct cli_models *m, const char *model, bool yes,
                     char **ret_name);
