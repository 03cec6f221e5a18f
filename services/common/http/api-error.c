/* SPDX-License-Identifier: Apache-2.0 */
/* Answers with errors. All errors of one API have the same format, so that clients can rely on
 * it. */
#include "common/http/api-error.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/http/http.h"

static const struct {
    int status;
    const char *text;
} api_statuses[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {421, "Misdirected Request"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *api_status_text(int status)
{
    for (size_t i = 0; i < ARRAY_SIZE(api_statuses); i++)
        if (api_statuses[i].status == status)
            return api_statuses[i].text;
    return "Unknown";
}

void api_error_answer(struct http_request *request, const struct api_error *error,
                      unsigned retry_sec)
{
    _cleanup_str_ struct str body = {};

    if (retry_sec) {
        char text[16];
        const int n = snprintf(text, sizeof(text), "%u", retry_sec);

        http_response_header(request, "retry-after", text, (size_t)n);
    }
    if (http_request_errors(request)->put(&body, error) < 0)
        http_respond(request, error->status, NULL, NULL, 0);
    else
        http_respond(request, error->status, "application/json", body.data, body.len);
}

void api_error_send(struct http_request *request, int status, const char *code, const char *param,
                    unsigned retry_sec, const char *format, ...)
{
    char message[1024];
    va_list ap;

    va_start(ap, format);
    vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    api_error_answer(
        request,
        &(struct api_error){.status = status, .code = code, .param = param, .message = message},
        retry_sec);
}

void api_error_break(struct http_request *request, const struct api_error *error)
{
    _cleanup_str_ struct str event = {};

    /* If memory runs out, the answer is broken off without an event. */
    error_shape_put_event(http_request_errors(request), &event, error);
    http_response_abort(request, event.data, event.len);
}
