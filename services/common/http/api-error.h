/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Errors in the format of OpenAI's API: {"error":{"message","type","param","code"}} */

#include <infer/types.h>

#include "core/macros.h"
#include "core/str.h"

struct http_request;

/* Returns the reason phrase of a status; never NULL. */
const char *api_status_text(int status);
/* Appends the JSON object; @code and @param may be NULL. -ENOMEM. */
int api_error_write(struct str *out, int status, const char *code, const char *param,
                    const char *message);
/* Answers a request with an error. 429 and 503 get a Retry-After header unless @retry_sec is 0. */
void api_error_send(struct http_request *request, int status, const char *code, const char *param,
                    unsigned retry_sec, const char *format, ...) PRINTF(6, 7);
