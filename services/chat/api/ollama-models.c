/* SPDX-License-Identifier: Apache-2.0 */
/* Answers GET /api/tags and GET /api/ps, as in Ollama's API: lists the installed models and the
 * loaded ones. */
#include <string.h>

#include <infer/kv.h>

#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/http/api-error.h"
#include "common/http/http.h"
#include "common/models/models.h"
#include "common/wire/ollama.h"
#include "host/ollama-model.h"

/* Listing opens no model, so only loaded models have all details. */
static int put_installed(const struct model_host *host, struct str *out,
                         const struct models_entry *entry)
{
    const struct resident *resident = residents_find(&host->residents, entry->name);
    int r = ollama_put_names(out, entry->name);

    r = r < 0 ? r : str_puts(out, "\"modified_at\":");
    r = r < 0 ? r : ollama_put_time(out, entry->mtime, 0);
    r = r < 0 ? r : str_printf(out, ",\"size\":%llu,", (unsigned long long)entry->size);
    r = r < 0 ? r : ollama_put_digest(out, entry->path, entry->size, entry->mtime);
    r = r < 0 ? r : str_putc(out, ',');
    r = r < 0 ? r
              : ollama_put_details(out, entry->kind,
                                   resident ? inf_model_info(resident->model) : NULL);
    return r < 0 ? r : str_putc(out, '}');
}

void ollama_tags(struct model_host *host, struct http_request *request)
{
    const struct models *models = model_host_models(host);
    _cleanup_str_ struct str out = {};
    bool first = true;
    int r;

    if (!models) {
        api_error_send(request, 500, "models_unreadable", NULL, 0,
                       "The list of installed models cannot be read; see the service's log.");
        return;
    }
    r = str_puts(&out, OLLAMA_MODELS_BEGIN);
    for (size_t i = 0; i < models_count(models) && r == 0; i++) {
        const struct models_entry *entry = models_at(models, i);

        if (entry->task != MODELS_CHAT && entry->task != MODELS_EMBED)
            continue;
        r = first ? 0 : str_putc(&out, ',');
        r = r < 0 ? r : put_installed(host, &out, entry);
        first = false;
    }
    r = r < 0 ? r : str_puts(&out, OLLAMA_MODELS_END);
    if (r < 0)
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
    else
        http_respond(request, 200, "application/json", out.data, out.len);
}

static struct ollama_loaded describe_loaded(const struct resident *resident)
{
    struct inf_engine *engine = chat_resident_of(resident)->engine;

    return (struct ollama_loaded){inf_engine_n_ctx(engine),
                                  strcmp(inf_engine_device(engine), "cpu") != 0,
                                  inf_engine_kv_name(engine)};
}

void ollama_ps(struct model_host *host, struct http_request *request)
{
    ollama_loaded_send(host, request, describe_loaded);
}
