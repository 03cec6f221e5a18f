/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers GET /slots as llama-server does: tells which sequences run.
 *
 * There are chat.max_sequences slots. The running answers of the client that asks occupy the first
 * slots. The answers of other clients are not shown, so their slots seem idle. The field `id_slot`
 * of requests has no effect, because every sequence finds the cached blocks of its client.
 */
#include <errno.h>
#include <string.h>

#include "chat/api/llama.h"
#include "chat/api/timings.h"
#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/config/config.h"
#include "common/http/api-error.h"
#include "common/http/http.h"
#include "common/wire/json.h"

static const struct generation *slots_generation(const struct model_request *request)
{
    return CONTAINER_OF(request, struct generation, request);
}

/* Returns the context length of the loaded model. If no model is loaded, returns the configured
 * context length. */
static uint32_t slots_context(const struct model_host *host)
{
    const struct resident *r = residents_ready(host->residents.first);

    return r ? inf_engine_n_ctx(chat_resident_of(r)->engine) : host->config->chat.context;
}

static int put_head(struct str *out, uint32_t id, uint32_t n_ctx, bool busy)
{
    return str_printf(out, "%s{\"id\":%u,\"n_ctx\":%u,\"speculative\":false,\"is_processing\":%s",
                      id ? "," : "", id, n_ctx, busy ? "true" : "false");
}

static int put_busy(struct str *out, const struct generation *g, const struct choice *c,
                    uint32_t id)
{
    const uint32_t n_max = generation_max_tokens(g);
    _cleanup_json_ json_t *settings = llama_settings(&g->params, n_max);
    _cleanup_free_ char *text = settings ? json_dumps(settings, JSON_COMPACT) : NULL;
    int r = text ? put_head(out, id, inf_engine_n_ctx(g->resident->engine), true) : -ENOMEM;

    r = r < 0 ? r : str_printf(out, ",\"id_task\":\"%s\",\"params\":%s", g->id, text);
    r = r < 0 ? r
              : str_printf(out,
                           ",\"next_token\":[{\"has_next_token\":true,\"has_new_line\":%s,"
                           "\"n_remain\":%lld,\"n_decoded\":%u}],\"timings\":",
                           c->has_new_line ? "true" : "false",
                           n_max ? (long long)n_max - c->n_generated : -1LL, c->n_generated);
    r = r < 0 ? r : timings_put(c, out);
    return r < 0 ? r : str_putc(out, '}');
}

static int put_idle(struct str *out, uint32_t id, uint32_t n_ctx)
{
    const int r = put_head(out, id, n_ctx, false);

    return r < 0 ? r
                 : str_puts(out, ",\"next_token\":[{\"has_next_token\":false,"
                                 "\"has_new_line\":false,\"n_remain\":-1,\"n_decoded\":0}]}");
}

/* Writes the running answers of @tenant; *ret_n is their number, at most @max. */
static int put_all_busy(struct str *out, const struct model_host *host, const char *tenant,
                        uint32_t max, uint32_t *ret_n)
{
    uint32_t n = 0;
    int r = 0;

    for (const struct model_request *q = host->requests; q && r == 0; q = q->next) {
        const struct generation *g = slots_generation(q);

        if (strcmp(g->tenant, tenant) != 0 || !g->request.http)
            continue;
        for (size_t i = 0; i < g->n_choices && n < max && r == 0; i++)
            if (g->choices[i].finish == FINISH_NONE && g->choices[i].prompt->engine_id)
                r = put_busy(out, g, &g->choices[i], n++);
    }
    *ret_n = n;
    return r;
}

void chat_slots(struct model_host *host, struct http_request *request)
{
    const uint32_t max = host->config->chat.max_sequences;
    _cleanup_str_ struct str out = {};
    char tenant[TENANT_SIZE];
    uint32_t n = 0;
    int r = str_putc(&out, '[');

    tenant_take(request, tenant);
    r = r < 0 ? r : put_all_busy(&out, host, tenant, max, &n);
    for (uint32_t i = n; i < max && r == 0; i++)
        r = put_idle(&out, i, slots_context(host));
    r = r < 0 ? r : str_putc(&out, ']');
    if (r < 0)
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
    else if (n == max && http_text_is(http_request_query(request), "fail_on_no_slot=1"))
        api_error_send(request, 503, "no_slot", NULL, 1, "No slot is available.");
    else
        http_respond(request, 200, "application/json", out.data, out.len);
}

void chat_slot_action(struct model_host *host, struct http_request *request)
{
    (void)host;
    api_error_send(request, 501, "unsupported_action", NULL, 0,
                   "Slots cannot be saved, restored or erased: the cache service keeps prompts by "
                   "itself.");
}
