/* SPDX-License-Identifier: Apache-2.0 */
/* Answers GET /v1/models and /v1/models/{id}: lists installed models, with more details of loaded
 * ones. */
#include <string.h>
#include <time.h>

#include "chat/agent-models.h"
#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/http/api-error.h"
#include "common/http/http.h"
#include "common/http/query.h"
#include "common/models/models.h"
#include "common/wire/json.h"

static int put_meta(struct str *out, const struct chat_resident *resident)
{
    const struct inf_model_info *info = inf_model_info(resident->base.model);

    return str_printf(
        out,
        "{\"arch\":\"%s\",\"format\":\"%s\",\"dtype\":\"%s\",\"n_ctx\":%u,\"n_ctx_train\":%u,"
        "\"n_vocab\":%u,\"n_embd\":%u,\"n_layers\":%u,\"n_params\":%llu,\"size\":%llu,"
        "\"has_chat_template\":%s}",
        info->arch, info->format, info->dtype_text, inf_engine_n_ctx(resident->engine),
        info->n_ctx_train, info->n_vocab, info->n_embd, info->n_layers,
        (unsigned long long)info->n_params, (unsigned long long)info->n_bytes,
        inf_model_chat_template(resident->base.model) ? "true" : "false");
}

/* Writes the fields of a model that Anthropic's API has and OpenAI's API does not have. */
static int put_anthropic(struct str *out, const struct models_entry *entry)
{
    const time_t time = (time_t)entry->mtime;
    char text[32];
    struct tm tm;
    int r = str_puts(out, ",\"type\":\"model\",\"display_name\":");

    r = r < 0 ? r : json_put_text(out, entry->name);
    if (!gmtime_r(&time, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
        return r;
    return r < 0 ? r : str_printf(out, ",\"created_at\":\"%s\"", text);
}

static int put_model(const struct model_host *host, struct str *out,
                     const struct models_entry *entry)
{
    const struct resident *resident = residents_find(&host->residents, entry->name);
    int r = str_puts(out, "{\"id\":");

    r = r < 0 ? r : json_put_text(out, entry->name);
    r = r < 0 ? r : put_anthropic(out, entry);
    r = r < 0 ? r
              : str_printf(out,
                           ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"sconce\","
                           "\"aliases\":[",
                           (long long)entry->mtime);
    for (size_t i = 0; r == 0 && entry->aliases && entry->aliases[i]; i++) {
        r = i ? str_putc(out, ',') : 0;
        r = r < 0 ? r : json_put_text(out, entry->aliases[i]);
    }
    r = r < 0 ? r
              : str_printf(out, "],\"size\":%llu,\"task\":\"%s\"", (unsigned long long)entry->size,
                           models_task_name(entry->task));
    /* This service does not know which models other services have loaded. */
    if (r == 0 && (resident || entry->task == MODELS_CHAT))
        r = str_printf(out, ",\"status\":\"%s\"", resident ? "loaded" : "unloaded");
    r = r < 0 ? r : str_puts(out, ",\"meta\":");
    if (r == 0)
        r = resident ? put_meta(out, chat_resident_of(resident)) : str_puts(out, "null");
    return r < 0 ? r : str_putc(out, '}');
}

static void listing_answer(struct http_request *request, int r, const struct str *out)
{
    if (r < 0)
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
    else
        http_respond(request, 200, "application/json", out->data, out->len);
}

static void listing_unreadable(struct http_request *request)
{
    api_error_send(request, 500, "models_unreadable", NULL, 0,
                   "The list of installed models cannot be read; see the service's log.");
}

void chat_list_models(struct model_host *host, struct http_request *request)
{
    const struct models *models = model_host_models(host);
    _cleanup_str_ struct str out = {};
    int r;

    if (!models) {
        listing_unreadable(request);
        return;
    }
    r = str_puts(&out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < models_count(models) && r == 0; i++) {
        r = i ? str_putc(&out, ',') : 0;
        r = r < 0 ? r : put_model(host, &out, models_at(models, i));
    }
    r = r < 0 ? r : str_puts(&out, "],\"has_more\":false,\"first_id\":");
    r = r < 0 ? r : json_put_text(&out, models_count(models) ? models_at(models, 0)->name : NULL);
    r = r < 0 ? r : str_puts(&out, ",\"last_id\":");
    if (r == 0)
        r = json_put_text(
            &out, models_count(models) ? models_at(models, models_count(models) - 1)->name : NULL);
    r = r < 0 ? r : str_puts(&out, ",\"models\":");
    r = r < 0 ? r : agent_models_put(host, models, &out);
    listing_answer(request, r < 0 ? r : str_putc(&out, '}'), &out);
}

void chat_show_model(struct model_host *host, struct http_request *request)
{
    static const char prefix[] = "/v1/models/";
    const struct http_text path = http_request_path(request);
    _cleanup_free_ char *name =
        strndup(path.data + sizeof(prefix) - 1, path.len - (sizeof(prefix) - 1));
    const struct models *models;
    _cleanup_free_ char *names = NULL;
    const struct models_entry *entry;
    _cleanup_str_ struct str out = {};
    struct problem problem;

    if (name)
        query_decode(name);
    models = model_host_look(host, name);
    if (!models || !name) {
        listing_unreadable(request);
        return;
    }
    entry = models_find(models, name);
    if (entry) {
        listing_answer(request, put_model(host, &out, entry), &out);
        return;
    }
    if (model_host_is_broken(models, name, &problem)) {
        problem_send(&problem, request);
        return;
    }
    names = models_names(models);
    api_error_send(request, 404, "model_not_found", "model", 0,
                   "The model '%.100s' does not exist here. Installed: %.300s.", name,
                   names && *names ? names : "none");
}
