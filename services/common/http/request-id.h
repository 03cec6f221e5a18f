/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Takes the id of each request from the client, or makes a new id. The ids appear in logs and
 * answers. */

#include "common/http/http.h"

#define REQUEST_ID_SIZE 72

/* Writes the client's x-request-id to @out if it is short and plain, else a new id (see
 * request_id_new()). Adds the id to the answer's headers. */
void request_id_take(struct http_request *request, const char *prefix, char out[REQUEST_ID_SIZE]);
/* Writes @prefix and 24 random hexadecimal digits to @out. */
void request_id_new(const char *prefix, char out[REQUEST_ID_SIZE]);
