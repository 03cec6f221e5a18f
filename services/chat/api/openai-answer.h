/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the answers of /v1/chat/completions and /v1/completions have in common */

#include "chat/generation.h"

/* g->own of these endpoints. */
struct openai_own {
    struct str head; /* see openai_put_head() */
    bool echo;       /* answers begin with their prompts */
};

/* Appends to g->out the start of an answer, or of an event of a stream, up to "choices":[. The
 * first call makes the text and later calls reuse it, so @object must be the same in all calls. */
int openai_put_head(struct generation *g, const char *object);
/* Appends the usage object. */
int openai_put_usage(const struct generation *g, struct str *out);
/* Appends to g->out the event of a stream that has the usage, if it was requested. */
int openai_put_usage_event(struct generation *g, const char *object);
/* Appends what llama-server adds to answers, each part if the request wants it: the times, and the
 * prompt. */
int openai_put_extras(const struct generation *g, struct str *out);
/* Appends to g->out an event without choices that tells how far c->prompt is computed. */
int openai_put_progress(struct generation *g, struct choice *c, const char *object);
/* For chat_api.done. */
void openai_own_done(struct generation *g);
