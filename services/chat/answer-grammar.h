/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The grammar that the answers of a request follow. */

#include "chat/generation.h"

/* Compiles g->grammar from the tools in g->reply and from g->params.constraint. Called by
 * chat_api.prepare. If a schema or a grammar cannot be compiled, the problem names its field. */
int answer_grammar_set(struct generation *g, struct problem *problem);
