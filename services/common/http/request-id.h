/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Each request has an id, which appears in logs and answers. */

#include "common/http/http.h"

#define REQUEST_ID_SIZE 72

/* Returns the client's x-request-id if it is short and plain, else a new id: @prefix and 24 random
 * digits. Adds it to the answer too. */
void request_id_take(struct http_request *request, const char *prefix, char out[REQUEST_ID_SIZE]);
/* @prefix and 24 random hexadecimal digits. */
void request_id_new(const char *prefix, char out[REQUEST_ID_SIZE]);
