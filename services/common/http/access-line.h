/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The access line: the line in the journal that each finished request gets */

#include "common/http/http.h"
#include "common/service/log.h"

/* Call it in the event `done` of @request. @line has the fields that the request does not know:
 * `id`, `key`, `note` (NULL: "client left" if the client left) and `is_inner`; the others are
 * filled in. */
void access_line(const struct http_request *request, struct log_access line);
