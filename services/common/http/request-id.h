/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Names of requests, for logs and answers. */

#include "common/http/http.h"

#define REQUEST_ID_SIZE 72

/* The client's x-request-id when it is short and plain, else a new one of 24 random digits behind
 * @prefix. Puts it on the answer as well. */
void request_id_take(struct http_request *request, const char *prefix, char out[REQUEST_ID_SIZE]);
/* @prefix and 24 random hexadecimal digits. */
void request_id_new(const char *prefix, char out[REQUEST_ID_SIZE]);
