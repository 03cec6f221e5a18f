/* SPDX-License-Identifier: Apache-2.0 */
/* Describes models, and lists those that are loaded, in the format of Ollama's API. */
#include "host/ollama-model.h"

#include <string.h>
#include <time.h>

#include "common/http/api-error.h"
#include "common/http/http.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"
#include "core/clock.h"
#include "core/sha256.h"
#include "host/model-host.h"

/* The digest is not made from the contents of the file, because this would take a minute. */
int ollama_put_digest(struct str *out, const char *path, uint64_t size, int64_t mtime)
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

int ollama_put_names(struct str *out, const char *name)
{
    int r = str_puts(out, "{\"name\":");

    r = r < 0 ? r : ollama_put_name(out, name);
    r = r < 0 ? r : str_puts(out, ",\"model\":");
    r = r < 0 ? r : ollama_put_name(out, name);
    return r < 0 ? r : str_putc(out, ',');
}

/* Writes when the model will be unloaded if nobody uses it: at the end of its keep_alive, or when
 * the service exits because it is idle. If the model is in use, the time begins now. */
static int put_expiry(const struct model_host *host, const struct resident *r, struct str *out)
{
    const uint64_t idle = host->params.idle_timeout_usec, now = clock_usec();
    const uint64_t keep = r->pinned                             ? UINT64_MAX
                          : r->keep_usec != RESIDENT_KEEP_USUAL ? r->keep_usec
                          : idle                                ? idle
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

static int put_loaded(const struct model_host *host, struct str *out, const struct resident *r,
                      struct ollama_loaded loaded)
{
    const struct inf_model_info *info = inf_model_info(r->model);
    int res = ollama_put_names(out, r->name);

    res = res < 0 ? res
                  : str_printf(out, "\"size\":%llu,",
                               (unsigned long long)(r->host_bytes + r->device_bytes));
    res = res < 0 ? res : ollama_put_digest(out, r->path, r->size, r->mtime);
    res = res < 0 ? res : str_putc(out, ',');
    res = res < 0 ? res : ollama_put_details(out, info->format, info);
    res = res < 0 ? res : str_putc(out, ',');
    res = res < 0 ? res : put_expiry(host, r, out);
    if (loaded.kv_type && res >= 0)
        res = str_printf(out, ",\"kv_type\":\"%s\"", loaded.kv_type);
    return res < 0 ? res
                   : str_printf(out,
                                ",\"size_vram\":%llu,\"context_length\":%u,\"requests\":%u,"
                                "\"pinned\":%s}",
                                (unsigned long long)(r->device_bytes ? r->device_bytes
                                                     : loaded.on_gpu ? r->host_bytes
                                                                     : 0),
                                loaded.n_ctx, r->n_users, r->pinned ? "true" : "false");
}

/* Returns whether an earlier resident has the same name: a model that is used for two purposes has
 * two residents. */
static bool is_listed(const struct model_host *host, const struct resident *resident)
{
    struct resident *r = residents_ready(host->residents.first);

    while (r != resident && strcmp(r->name, resident->name) != 0)
        r = residents_ready(r->next);
    return r != resident;
}

void ollama_loaded_send(const struct model_host *host, struct http_request *request,
                        struct ollama_loaded (*describe)(const struct resident *resident))
{
    struct resident *r = residents_ready(host->residents.first);
    _cleanup_str_ struct str out = {};
    const char *separator = "";
    int res = str_puts(&out, OLLAMA_MODELS_BEGIN);

    for (; r && res == 0; r = residents_ready(r->next)) {
        if (is_listed(host, r))
            continue;
        res = str_puts(&out, separator);
        res = res < 0 ? res : put_loaded(host, &out, r, describe(r));
        separator = ",";
    }
    res = res < 0 ? res : str_puts(&out, OLLAMA_MODELS_END);
    if (res < 0)
        api_error_send(request, 503, "out_of_memory", NULL, 1, "Out of memory.");
    else
        http_respond(request, 200, "application/json", out.data, out.len);
}
