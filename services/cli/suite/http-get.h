/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One request for `sconce status`, setup and doctor: to a unix socket or to a TCP port of this
 * machine. */

#include <infer/types.h>

#include "core/str.h"

/* How an address is written, for messages. */
#define HTTP_ADDRESS_FORMS "ADDR:PORT, http://ADDR:PORT/v1 or unix:PATH"

/* Whether @address has one of these forms; nothing is connected to. */
bool http_address_is_good(const char *address);
/* A connection to @address, in one of these forms. Returns the descriptor, which the caller closes,
 * or -errno: -ECONNREFUSED, -ENOENT (nobody listens), -EACCES, -EINVAL (no such host). */
int http_connect(const char *address);
/* GET of @path at @address. Fills @body (at most 16 MiB) and returns the status, or what
 * http_connect() does, -ETIMEDOUT, or -EBADMSG. @key: API key or NULL. */
int http_get(const char *address, const char *path, const char *key, struct str *body,
             struct inf_err *reterr);
/* The same for a POST of a JSON text; each part of the answer may take @seconds. */
int http_post(const char *address, const char *path, const char *key, const char *json,
              unsigned seconds, struct str *body, struct inf_err *reterr);
