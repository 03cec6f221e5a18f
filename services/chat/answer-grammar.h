/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The grammar that the answers of a request follow. */

#include "chat/generation.h"

/* Sets g->grammar for the tools in g->reply, and for g->params.constraint; for `prepare`. A schema
 * or a grammar that cannot be compiled is refused; the problem names its field. */
int answer_grammar_set(struct generation *g, struct problem *problem);
