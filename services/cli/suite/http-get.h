/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sends the HTTP requests of `sconce status`, setup and doctor to a unix socket or a TCP port. */

#include <infer/types.h>

#include "core/str.h"

/* The forms of an address, for messages */
#define HTTP_ADDRESS_FORMS "ADDR:PORT, http://ADDR:PORT/v1 or unix:PATH"

/* Returns whether @address has one of these forms; does not connect. */
bool http_address_is_good(const char *address);
/* Connects to @address, which has one of these forms. Returns the descriptor, which the caller
 * closes, or -errno: -ECONNREFUSED, -ENOENT (no listener), -EACCES, -EINVAL (no such host). */
int http_connect(const char *address);
/* Sends a GET of @path to @address. Fills @body (at most 16 MiB) and returns the HTTP status, an
 * error of http_connect(), -ETIMEDOUT, or -EBADMSG (not HTTP). @key: API key or NULL. */
int http_get(const char *address, const char *path, const char *key, struct str *body,
             struct inf_err *reterr);
/* Sends a POST of a JSON text; @seconds is the longest time to wait for each part of the answer. */
int http_post(const char *address, const char *path, const char *key, const char *json,
              unsigned seconds, struct str *body, struct inf_err *reterr);
