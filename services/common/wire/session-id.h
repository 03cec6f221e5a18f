/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads session ids, which are names that clients give to conversations.
 *
 * A KV block has the computed keys and values of some tokens. Blocks of a conversation with an id
 * go to the cache service before other blocks, and `sconce cache ls` lists them under the id. An id
 * gives no access to blocks, because blocks are found only by their names.
 */

#include <stdbool.h>
#include <stddef.h>

struct http_request;

#define SESSION_ID_HEADER "x-session-id"
#define SESSION_ID_SIZE   65
#define SESSION_ID_RULE   "'X-Session-Id' must have 1 to 64 letters, digits or \"-_.:\"."

/* Returns whether @id has 1 to 64 letters, digits and "-_.:". */
bool session_id_is_plain(const char *id, size_t len);
/* Writes the id of the header to @out, and adds it to the answer's headers; writes "" if there is
 * no such header. -EINVAL: session_id_is_plain() refuses the id. */
int session_id_take(struct http_request *request, char out[SESSION_ID_SIZE]);
