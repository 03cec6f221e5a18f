/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the header x-session-id (see session-id.h). */
#include <errno.h>
#include <string.h>

#include "common/http/http.h"
#include "common/wire/session-id.h"

int session_id_take(struct http_request *request, char out[SESSION_ID_SIZE])
{
    struct http_text id;

    out[0] = '\0';
    if (!http_request_header(request, SESSION_ID_HEADER, &id))
        return 0;
    if (!session_id_is_plain(id.data, id.len))
        return -EINVAL;
    memcpy(out, id.data, id.len);
    out[id.len] = '\0';
    http_response_header(request, SESSION_ID_HEADER, out, id.len);
    return 0;
}
