/* SPDX-License-Identifier: Apache-2.0 */
/* Answers the requests of Ollama's API that need no service, or several. */
#include <string.h>

#include "common/http/api-error.h"
#include "common/wire/ollama.h"
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

/* Asks @target and all services after it for their loaded models, one after the other. If a service
 * reported that it has no model loaded, it is asked again only after it was called for something
 * else, because asking could start it. */
static void loaded_ask(struct gw_request *r, unsigned target);

/* Returns whether the service had no model when it was asked, and has not been called since then.
 * If a call is in progress, returns false, because the service may have loaded a model since. */
static bool has_surely_none(const struct gateway *gateway, unsigned target)
{
    return gateway->has_no_models[target] && gateway->n_forwarded[target] == 0;
}

/* Adds the list of one service. The gateway parses no JSON: it copies the bytes between the fixed
 * texts with which each list begins and ends. */
static void loaded_answer(struct gw_request *r)
{
    const size_t begin = strlen(OLLAMA_MODELS_BEGIN), end = strlen(OLLAMA_MODELS_END);

    if (r->status == 200 && r->body.len >= begin + end) {
        const size_t len = r->body.len - begin - end;

        r->gateway->has_no_models[r->target] = len == 0;
        r->any_ill |= (len && r->text.len && str_putc(&r->text, ',') < 0) ||
                      str_append(&r->text, r->body.data + begin, len) < 0;
    }
    loaded_ask(r, r->target + 1);
}

static void loaded_ask(struct gw_request *r, unsigned target)
{
    static const bool lists[N_BACKENDS] = {
        [BACKEND_CHAT] = true, [BACKEND_EMBED] = true, [BACKEND_AUDIO] = true};
    _cleanup_str_ struct str out = {};

    while (target < N_BACKENDS && (!lists[target] || has_surely_none(r->gateway, target)))
        target++;
    if (target < N_BACKENDS) {
        str_clear(&r->body);
        r->status = 0;
        r->answered = loaded_answer;
        gw_ask(r, target, "/api/ps");
    } else if (r->any_ill || str_printf(&out, OLLAMA_MODELS_BEGIN "%s" OLLAMA_MODELS_END,
                                        r->text.data ? r->text.data : "") < 0) {
        api_error_send(r->http, 503, "out_of_memory", NULL, 1, "Out of memory.");
    } else {
        http_respond(r->http, 200, "application/json", out.data, out.len);
    }
}

void gw_ollama_loaded(struct gw_request *r)
{
    loaded_ask(r, 0);
}

void gw_ollama_refuse(struct gw_request *r)
{
    const struct http_text path = http_request_path(r->http);

    api_error_send(r->http, 501, "not_implemented", NULL, 0,
                   "%.*s is not available here: models are not published, because nothing leaves "
                   "this machine.",
                   (int)MIN(path.len, 100u), path.data);
}
