/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the requests of Ollama's API that need no service. */
#include <string.h>

#include "common/http/api-error.h"
#include "gateway/gateway.h"

/* The version of Ollama whose API is offered. Some clients refuse servers with a version below
 * 0.6.4, or one that is not three numbers. */
#define OLLAMA_VERSION "0.13.0"

void gw_ollama_greet(struct gw_request *r)
{
    static const char text[] = "Ollama is running";

    http_respond(r->http, 200, "text/plain; charset=utf-8", text, sizeof(text) - 1);
}

void gw_ollama_version(struct gw_request *r)
{
    static const char text[] = "{\"version\":\"" OLLAMA_VERSION "\"}";

    http_respond(r->http, 200, "application/json", text, sizeof(text) - 1);
}

void gw_ollama_refuse(struct gw_request *r)
{
    const struct http_text path = http_request_path(r->http);

    api_error_send(r->http, 501, "not_implemented", NULL, 0,
                   "%.*s is not available here: clients cannot install, change or remove models. "
                   "Models are installed by putting their files into a model directory.",
                   (int)MIN(path.len, 100u), path.data);
}
