/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes request ids from clients, or makes new ids. A client's id is accepted only if all its
 * characters are plain, because the id appears in logs and headers.
 */
#include "common/http/request-id.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"

void request_id_new(const char *prefix, char out[REQUEST_ID_SIZE])
{
    unsigned char bytes[12];

    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != sizeof(bytes)) {
        const uint64_t now = clock_nsec();

        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, &now, sizeof(now));
    }
    out += snprintf(out, REQUEST_ID_SIZE - 25, "%s", prefix);
    for (size_t i = 0; i < sizeof(bytes); i++)
        out += snprintf(out, 3, "%02x", bytes[i]);
}

static bool request_id_is_plain(struct http_text id)
{
    if (!id.len || id.len >= REQUEST_ID_SIZE)
        return false;
    for (size_t i = 0; i < id.len; i++) {
        const char c = id.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              strchr("-_.:", c)))
            return false;
    }
    return true;
}

void request_id_take(struct http_request *request, const char *prefix, char out[REQUEST_ID_SIZE])
{
    struct http_text id;

    if (http_request_header(request, "x-request-id", &id) && request_id_is_plain(id)) {
        memcpy(out, id.data, id.len);
        out[id.len] = '\0';
    } else {
        request_id_new(prefix, out);
    }
    http_response_header(request, "x-request-id", out, strlen(out));
}
