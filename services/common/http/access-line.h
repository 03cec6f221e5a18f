/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Writes access lines: each finished request gets one line in the journal. */

#include "common/http/http.h"
#include "common/service/log.h"

/* Writes the access line of @request; called in its event `done`. The caller sets the fields `id`,
 * `key`, `note` and `is_inner` of @line, and the function sets the others. If `note` is NULL and
 * the client left, the note is "client left". */
void access_line(const struct http_request *request, struct log_access line);
