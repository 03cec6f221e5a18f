/* SPDX-License-Identifier: Apache-2.0 */
/* Answers GET /openapi.json with the description that services/openapi.py made of all routes. */
#include "common/http/http.h"
#include "gateway/gateway.h"
#include "openapi-text.h"

void gw_openapi(struct gw_request *r)
{
    http_respond(r->http, 200, "application/json", openapi_text, sizeof(openapi_text) - 1);
}
