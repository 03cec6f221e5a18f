/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One request for `sconce status`, setup and doctor: to a unix socket or to a TCP port of this
 * machine. */

#include <infer/types.h>

#include "core/str.h"

/* A connection to @address as below; -errno. The caller closes it. */
int http_connect(const char *address);
/* @address: "unix:PATH" or "HOST:PORT". Fills @body (at most 16 MiB) and returns the status.
 * @key: API key or NULL. -ECONNREFUSED, -ENOENT: nobody listens; -ETIMEDOUT; -EBADMSG. */
int http_get(const char *address, const char *path, const char *key, struct str *body,
             struct inf_err *reterr);
/* The same for a POST of a JSON text; each part of the answer may take @seconds. */
int http_post(const char *address, const char *path, const char *key, const char *json,
              unsigned seconds, struct str *body, struct inf_err *reterr);
