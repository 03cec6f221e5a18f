/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers GET /props as llama-server does. The answer says which model a request would use, and
 * gives the length of its context and the defaults of sampling.
 *
 * The request neither loads a model nor keeps one in memory. If the model is not loaded, the answer
 * lacks the fields that only a loaded model can tell. The query may name a model:
 * /props?model=NAME.
 */
#include <infer/chat.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/llama.h"
#include "chat/chat-resident.h"
#include "chat/chat.h"
#include "common/config/config.h"
#include "common/http/http.h"
#include "common/http/query.h"
#include "common/models/models.h"
#include "common/wire/json.h"

static json_t *put_sources(const struct params *params)
{
    json_t *out = json_object();

    for (unsigned i = 0; out && i < N_SAMPLING_KEYS; i++)
        json_object_set_new(out, sampling_rows[i].name,
                            json_string(sampling_source_name(params->sources[i])));
    return out;
}

static json_t *put_defaults(const struct model_host *host, const struct models_entry *entry,
                            const struct chat_resident *resident)
{
    const struct config *config = host->config;
    struct inf_sampling none;
    struct params params;
    json_t *out;

    sampling_clear(&none);
    params_init(&params);
    params_resolve(&params, entry ? &entry->sampling : &none,
                   resident ? &resident->sampling : &none, config, &sampling_llama);
    out = json_pack("{s:i, s:i, s:b, s:o, s:o, s:s}", "id", 0, "n_ctx",
                    (int)(resident ? inf_engine_n_ctx(resident->engine) : config->chat.context),
                    "is_processing", 0, "params",
                    llama_settings(&params, config->chat.max_tokens ? config->chat.max_tokens
                                                                    : config->chat.most_tokens),
                    "sources", put_sources(&params), "prompt", "");
    params_done(&params);
    return out;
}

static void put_loaded(json_t *out, const struct chat_resident *resident)
{
    const struct inf_model *model = resident->base.model;
    const struct inf_tokenizer *tok = inf_model_tokenizer(model);
    const struct inf_chat_template *tmpl = inf_model_chat_template(model);
    const struct {
        const char *name;
        int32_t id;
    } tokens[] = {{"bos_token", inf_tokenizer_bos(tok)}, {"eos_token", inf_tokenizer_eos(tok)}};

    json_object_set_new(out, "chat_template",
                        json_string(tmpl ? inf_chat_template_text(tmpl) : ""));
    for (size_t i = 0; i < ARRAY_SIZE(tokens); i++) {
        size_t len = 0;
        const char *text =
            tokens[i].id >= 0 ? inf_tokenizer_token_text(tok, tokens[i].id, &len) : NULL;

        json_object_set_new(out, tokens[i].name, json_stringn(text ? text : "", len));
    }
}

void chat_properties(struct model_host *host, struct http_request *request)
{
    _cleanup_free_ char *name = query_find(http_request_query(request), "model");
    const struct models *models = model_host_look(host, name);
    const struct models_entry *entry = !models ? NULL
                                       : name  ? models_find(models, name)
                                               : models_default(models, host->config);
    const struct resident *resident = entry ? residents_find(&host->residents, entry->name) : NULL;
    const struct chat_resident *own = resident ? chat_resident_of(resident) : NULL;
    _cleanup_json_ json_t *out = NULL;
    _cleanup_free_ char *text = NULL;
    struct problem problem;

    if (name && !entry) {
        problem_set(&problem, 404, "model_not_found", "model",
                    "The model '%.100s' does not exist here.", name);
        problem_send(&problem, request);
        return;
    }
    out = json_pack("{s:o, s:i, s:s?, s:s?, s:{s:b, s:b}, s:s, s:b, s:s}",
                    "default_generation_settings", put_defaults(host, entry, own), "total_slots",
                    (int)host->config->chat.max_sequences, "model_alias",
                    entry ? entry->name : NULL, "model_path", entry ? entry->path : NULL,
                    "modalities", "vision", 0, "audio", 0, "chat_template", "", "is_sleeping",
                    own == NULL, "build_info", "sconce-" SCONCE_VERSION);
    if (out && own)
        put_loaded(out, own);
    text = out ? json_dumps(out, JSON_COMPACT) : NULL;
    if (text) {
        http_respond(request, 200, "application/json", text, strlen(text));
        return;
    }
    problem_no_memory(&problem);
    problem_send(&problem, request);
}
