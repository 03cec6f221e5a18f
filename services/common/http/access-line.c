/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the access line of a request (see access-line.h). */
#include "common/http/access-line.h"

#include <stdio.h>

#include "core/clock.h"

/* Copies the trace id of traceparent, "00-" and 32 hexadecimal digits (W3C Trace Context, level 1),
 * to @out. False: there is no valid trace id. */
static bool trace_take(const struct http_request *request, char out[33])
{
    struct http_text value;

    if (!http_request_header(request, "traceparent", &value) || value.len < 55 ||
        value.data[2] != '-' || value.data[35] != '-')
        return false;
    for (size_t i = 0; i < 32; i++) {
        const char c = value.data[3 + i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        out[i] = c;
    }
    out[32] = '\0';
    return true;
}

void access_line(const struct http_request *request, struct log_access line)
{
    const struct http_text method = http_request_method(request);
    const struct http_text path = http_request_path(request);
    char method_text[16], path_text[256], trace[33];

    snprintf(method_text, sizeof(method_text), "%.*s", (int)MIN(method.len, 15u), method.data);
    snprintf(path_text, sizeof(path_text), "%.*s", (int)MIN(path.len, 255u), path.data);
    line.method = method.len ? method_text : "-";
    line.path = path.len ? path_text : "-";
    line.trace = trace_take(request, trace) ? trace : NULL;
    line.status = http_request_status(request);
    line.bytes = http_request_bytes(request);
    line.duration_usec = clock_usec() - http_request_start_usec(request);
    if (!line.note && http_request_failed(request))
        line.note = "client left";
    log_request(&line);
}
