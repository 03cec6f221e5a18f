/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The beginning of an answer that a request gives (prefill) */

#include "chat/reply/reply.h"

/*
 * Appends to @out what follows a rendered prompt if the answer begins with @text, and the thinking
 * before it was @reasoning. Each is a string or NULL. Thinking that the prompt began ends before
 * the text. Sets reply->continues if there is a text. -ENOMEM.
 */
int prefill_put(struct reply *reply, const char *prompt, size_t len, const json_t *reasoning,
                const json_t *text, struct str *out);
