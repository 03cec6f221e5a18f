/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the parts that the answers of /v1/chat/completions and /v1/completions share. */

#include "chat/generation.h"

/* In requests to these endpoints, g->own points to this structure. */
struct openai_own {
    struct str head; /* the text that openai_put_head() appends; empty until its first call */
    bool echo;       /* answers begin with their prompts */
};

/* Appends to g->out the start of an answer, or of an event of a stream, up to "choices":[. The
 * first call makes the text and later calls reuse it, so @object must be the same in all calls. */
int openai_put_head(struct generation *g, const char *object);
/* Appends the usage object. */
int openai_put_usage(const struct generation *g, struct str *out);
/* Appends to g->out the event of a stream that has the usage, if it was requested. */
int openai_put_usage_event(struct generation *g, const char *object);
/* Appends the fields that llama-server adds to answers: the times and the prompt. Each field is
 * added only if the request asks for it. */
int openai_put_extras(const struct generation *g, struct str *out);
/* Appends to g->out an event without choices that tells how much of c->prompt was computed. */
int openai_put_progress(struct generation *g, struct choice *c, const char *object);
/* Implements chat_api.done. */
void openai_own_done(struct generation *g);
