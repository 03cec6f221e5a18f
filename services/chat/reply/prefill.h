/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes the beginning of an answer that the request contains (prefill). */

#include "chat/reply/reply.h"

/*
 * Appends the beginning of the answer to @out: the thinking @reasoning, and then @text. Each of
 * them is a string or NULL. If the rendered @prompt ends within thinking, the thinking is ended
 * before the text. Sets reply->continues if there is a text. -ENOMEM.
 */
int prefill_put(struct reply *reply, const char *prompt, size_t len, const json_t *reasoning,
                const json_t *text, struct str *out);
