/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Answers with errors, in the format of the request's API (error-shape.h). */

#include <infer/types.h>

#include "common/http/error-shape.h"
#include "core/macros.h"

struct http_request;

/* Returns the reason phrase of a status; never NULL. */
const char *api_status_text(int status);
/* Answers a request with an error; @code and @param may be NULL. @retry_sec is the value of the
 * Retry-After header; 0: the answer has none. */
void api_error_send(struct http_request *request, int status, const char *code, const char *param,
                    unsigned retry_sec, const char *format, ...) PRINTF(6, 7);
/* Works like api_error_send(), with all members of an error. */
void api_error_answer(struct http_request *request, const struct api_error *error,
                      unsigned retry_sec);
/* Sends an error as the last event of a stream, and breaks the transfer off, so that no client
 * takes the stream for a complete answer. */
void api_error_break(struct http_request *request, const struct api_error *error);
