/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of POST /tokenize, /detokenize and /apply-template that need no model. */

#include "chat/generation.h"

/* These functions implement chat_api.read, which checks the body. They use only g->body, g->params
 * and g->conversation. */
int tokenize_read(struct generation *g, struct problem *problem);
int detokenize_read(struct generation *g, struct problem *problem);
int apply_template_read(struct generation *g, struct problem *problem);

/* Returns the text of the body of /tokenize, borrowed; NULL: absent. */
json_t *tokenize_text(const struct generation *g);
