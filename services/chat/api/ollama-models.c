/* SPDX-License-Identifier: Apache-2.0 */
/* Answers GET /api/tags and GET /api/ps, as in Ollama's API: lists the installed models and the
 * loaded ones. */
#include "chat/api/ollama-models.h"

#include <string.h>
#include <time.h>

#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/config/config.h"
#include "common/http/api-error.h"
#include "common/http/http.h"
#include "common/models/models.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"
#include "core/clock.h"
#include "core/sha256.h"

/* Writes a digest that identifies the model's file. The digest is not made from the contents of the
 * file, because this would take a minute. */
static int put_digest(struct str *out, const char *path, uint64_t size, int64_t mtime)
{
    static const char purpose[] = "sconce model";
    uint8_t digest[SHA256_BYTES];
    struct sha256 h;
    int r = str_puts(out, "\"digest\":\"");

    sha256_init(&h);
    sha256_add_part(&h, purpose, sizeof(purpose) - 1);
    sha256_add_part(&h, path, strlen(path));
    sha256_add_part(&h, &size, sizeof(size));
    sha256_add_part(&h, &mtime, sizeof(mtime));
    sha256_end(&h, digest);
    for (size_t i = 0; i < SHA256_BYTES && r == 0; i++)
        r = str_printf(out, "%02x", digest[i]);
    return r < 0 ? r : str_putc(out, '"');
}

/* Writes a number of parameters in a form such as "1.5B". */
static int put_count(struct str *out, uint64_t n)
{
    const double d = (double)n;

    return n >= 1000000000u ? str_printf(out, "\"%.1fB\"", d / 1e9)
           : n >= 1000000u  ? str_printf(out, "\"%.2fM\"", d / 1e6)
                            : str_printf(out, "\"%.2fK\"", d / 1e3);
}

int ollama_put_details(struct str *out, const char *format, const struct inf_model_info *info)
{
    int r = str_puts(out, "\"details\":{\"parent_model\":\"\",\"format\":");

    r = r < 0 ? r : json_put_text(out, format);
    r = r < 0 ? r : str_puts(out, ",\"family\":");
    r = r < 0 ? r : json_put_text(out, info ? info->arch : "");
    r = r < 0 ? r : str_puts(out, ",\"families\":[");
    if (r == 0 && info)
        r = json_put_text(out, info->arch);
    r = r < 0 ? r : str_puts(out, "],\"parameter_size\":");
    r = r < 0 ? r : info ? put_count(out, info->n_params) : str_puts(out, "\"\"");
    r = r < 0 ? r : str_puts(out, ",\"quantization_level\":");
    r = r < 0 ? r : json_put_text(out, info ? info->dtype_text : "");
    return r < 0 ? r : str_putc(out, '}');
}

static int put_names(struct str *out, const char *name)
{
    int r = str_puts(out, "{\"name\":");

    r = r < 0 ? r : ollama_put_name(out, name);
    r = r < 0 ? r : str_puts(out, ",\"model\":");
    r = r < 0 ? r : ollama_put_name(out, name);
    return r < 0 ? r : str_putc(out, ',');
}

/* Listing opens no model, so only loaded models have all details. */
static int put_installed(const struct model_host *host, struct str *out,
                         const struct models_entry *entry)
{
    const struct resident *resident = residents_find(&host->residents, entry->name);
    int r = put_names(out, entry->name);

    r = r < 0 ? r : str_puts(out, "\"modified_at\":");
    r = r < 0 ? r : ollama_put_time(out, entry->mtime, 0);
    r = r < 0 ? r : str_printf(out, ",\"size\":%llu,", (unsigned long long)entry->size);
    r = r < 0 ? r : put_digest(out, entry->path, entry->size, entry->mtime);
    r = r < 0 ? r : str_putc(out, ',');
    r = r < 0 ? r
              : ollama_put_details(out, entry->kind,
                                   resident ? inf_model_info(resident->model) : NULL);
    return r < 0 ? r : str_putc(out, '}');
}

static void models_answer(struct http_request *request, int r, const struct str *out)
{
    if (r < 0)
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
    else
        http_respond(request, 200, "application/json", out->data, out->len);
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
    r = str_puts(&out, "{\"models\":[");
    for (size_t i = 0; i < models_count(models) && r == 0; i++) {
        const struct models_entry *entry = models_at(models, i);

        if (entry->task != MODELS_CHAT && entry->task != MODELS_EMBED)
            continue;
        r = first ? 0 : str_putc(&out, ',');
        r = r < 0 ? r : put_installed(host, &out, entry);
        first = false;
    }
    models_answer(request, r < 0 ? r : str_puts(&out, "]}"), &out);
}

/* Writes when the model will be unloaded if nobody uses it: at the end of its keep_alive, or when
 * the service exits because it is idle. If the model is in use, the time begins now. */
static int put_expiry(const struct model_host *host, const struct resident *r, struct str *out)
{
    const uint64_t idle = host->params.idle_timeout_usec, now = clock_usec();
    const uint64_t keep = r->keep_usec != RESIDENT_KEEP_USUAL ? r->keep_usec
                          : idle                              ? idle
                                                              : UINT64_MAX;
    const uint64_t used = r->n_users || keep == UINT64_MAX ? 0 : now - r->used_usec;
    int res = str_puts(out, "\"expires_at\":");

    if (res < 0)
        return res;
    /* Ollama writes the same time for a model that stays forever. */
    if (keep > (uint64_t)100 * 365 * 86400 * 1000000)
        return str_puts(out, "\"2318-01-01T00:00:00Z\"");
    return ollama_put_time(out, time(NULL) + (int64_t)((keep > used ? keep - used : 0) / 1000000),
                           0);
}

static int put_loaded(const struct model_host *host, struct str *out, const struct resident *r)
{
    const struct inf_model_info *info = inf_model_info(r->model);
    struct inf_engine *engine = chat_resident_of(r)->engine;
    const bool on_cpu = strcmp(inf_engine_device(engine), "cpu") == 0;
    int res = put_names(out, r->name);

    res = res < 0 ? res : str_printf(out, "\"size\":%llu,", (unsigned long long)info->n_bytes);
    res = res < 0 ? res : put_digest(out, r->path, r->size, r->mtime);
    res = res < 0 ? res : str_putc(out, ',');
    res = res < 0 ? res : ollama_put_details(out, info->format, info);
    res = res < 0 ? res : str_putc(out, ',');
    res = res < 0 ? res : put_expiry(host, r, out);
    return res < 0 ? res
                   : str_printf(out, ",\"size_vram\":%llu,\"context_length\":%u}",
                                on_cpu ? 0ull : (unsigned long long)info->n_bytes,
                                inf_engine_n_ctx(engine));
}

void ollama_ps(struct model_host *host, struct http_request *request)
{
    struct resident *r = residents_ready(host->residents.first);
    _cleanup_str_ struct str out = {};
    bool first = true;
    int res = str_puts(&out, "{\"models\":[");

    for (; r && res == 0; r = residents_ready(r->next)) {
        res = first ? 0 : str_putc(&out, ',');
        res = res < 0 ? res : put_loaded(host, &out, r);
        first = false;
    }
    models_answer(request, res < 0 ? res : str_puts(&out, "]}"), &out);
}
