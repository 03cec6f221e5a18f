/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The line of the journal that a request gets when it is over. */

#include "common/http/http.h"
#include "common/service/log.h"

/* For the event `done` of @request. @line has what the request itself does not know: `id`, `key`,
 * `note` (NULL: "client left" where the client did) and `is_inner`; the rest is filled in. */
void access_line(const struct http_request *request, struct log_access line);
