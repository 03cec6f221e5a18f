/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers GET /api/ps with the loaded models, as Ollama does. Answers GET /info with the model and
 * the limits, as text-embeddings-inference does.
 *
 * The model in the answer to /info is the default model of requests for vectors or, if there is
 * none, that of rankings. The request does not load the model.
 */
#include <jansson.h>
#include <string.h>

#include "common/config/config.h"
#include "common/http/http.h"
#include "common/http/problem.h"
#include "common/models/models.h"
#include "common/wire/json.h"
#include "embed/embed-resident.h"
#include "embed/embed.h"
#include "host/ollama-model.h"

static const struct models_entry *find_default(const struct models *models, const char *name,
                                               enum models_task task)
{
    return name ? models_find(models, name) : models_only(models, task);
}

static json_t *put_type(const struct models_entry *entry)
{
    if (entry && entry->task == MODELS_RERANK)
        return json_pack("{s:{s:{}, s:{}}}", "reranker", "id2label", "label2id");
    return json_pack("{s:{s:s}}", "embedding", "pooling", "model");
}

void embed_information(struct model_host *host, struct http_request *request)
{
    const struct config *config = host->config;
    const struct models *models = model_host_models(host);
    const struct models_entry *entry =
        models ? find_default(models, config->embed.default_model, MODELS_EMBED) : NULL;
    const struct resident *resident;
    _cleanup_json_ json_t *out = NULL;
    _cleanup_free_ char *text = NULL;
    struct problem problem;
    uint32_t n_ctx = config->embed.context;

    if (models && !entry)
        entry = find_default(models, config->embed.default_reranker, MODELS_RERANK);
    resident = entry ? residents_find(&host->residents, entry->name) : NULL;
    if (resident)
        n_ctx = inf_embedder_max_tokens(embed_resident_of(resident)->embedder);
    out = json_pack("{s:s?, s:n, s:s?, s:o, s:i, s:i, s:i, s:i, s:b, s:i, s:s}", "model_id",
                    entry ? entry->name : NULL, "model_sha", "model_dtype",
                    resident ? inf_model_info(resident->model)->dtype_text : NULL, "model_type",
                    put_type(entry), "max_concurrent_requests", (int)config->embed.max_queue,
                    "max_input_length", (int)n_ctx, "max_batch_tokens",
                    (int)config->embed.max_queue_tokens, "max_client_batch_size",
                    (int)config->embed.max_texts, "auto_truncate", 0, "tokenization_workers", 1,
                    "version", SCONCE_VERSION);
    text = out ? json_dumps(out, JSON_COMPACT) : NULL;
    if (text) {
        http_respond(request, 200, "application/json", text, strlen(text));
        return;
    }
    problem_no_memory(&problem);
    problem_send(&problem, request);
}

static struct ollama_loaded describe_loaded(const struct resident *resident)
{
    return (struct ollama_loaded){
        .n_ctx = inf_embedder_max_tokens(embed_resident_of(resident)->embedder)};
}

void embed_loaded(struct model_host *host, struct http_request *request)
{
    ollama_loaded_send(host, request, describe_loaded);
}
