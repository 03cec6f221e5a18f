/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The name that a client gives a conversation
 *
 * What the conversation leaves in the KV cache is kept first, and listed under that name by
 * `sconce cache ls`. It gives no access to anything: blocks are found by their tokens alone.
 */

#include <stdbool.h>
#include <stddef.h>

struct http_request;

#define SESSION_ID_HEADER "x-session-id"
#define SESSION_ID_SIZE   65
#define SESSION_ID_RULE   "'X-Session-Id' must have 1 to 64 letters, digits or \"-_.:\"."

/* Whether it has 1 to 64 letters, digits and "-_.:". */
bool session_id_is_plain(const char *id, size_t len);
/* "" when the header is not there; else puts it on the answer as well. -EINVAL: it is not plain. */
int session_id_take(struct http_request *request, char out[SESSION_ID_SIZE]);
