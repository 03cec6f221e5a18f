/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the model that a request names. */
#include "chat/generation.h"

#include <string.h>

#include "common/config/config.h"
#include "common/http/http.h"
#include "common/models/models.h"
#include "common/wire/elsewhere.h"
#include "host/model-host.h"

const struct models_entry *generation_find_model(struct generation *g, struct problem *problem)
{
    const struct config *config = g->request.host->config;
    const char *name = g->params.model ? g->params.model : config->default_model;
    const struct models *models = model_host_list(g->request.host, name, problem);
    const struct models_entry *entry;
    _cleanup_free_ char *names = NULL;

    if (!models)
        return NULL;
    if (!g->params.model) {
        entry = models_default(models, config);
        if (!entry)
            problem_set(problem, 400, "missing_field", "model",
                        "Missing required parameter: 'model'.");
        return entry;
    }
    entry = models_find(models, g->params.model);
    if (entry || model_host_is_broken(models, g->params.model, problem))
        return entry;
    if (models_find_adapted(models, g->params.model)) {
        problem_set(problem, 400, "unsupported_model", "model",
                    "The adapter of '%.100s' cannot be used: this version applies no adapters.",
                    g->params.model);
        return NULL;
    }
    names = models_names(models);
    problem_set(problem, 404, "model_not_found", "model",
                "The model '%.100s' does not exist here. Installed: %.300s.", g->params.model,
                names && *names ? names : "none");
    return NULL;
}

bool generation_send_elsewhere(struct generation *g, const struct models_entry *entry,
                               struct problem *problem)
{
    static const char *const services[] = {
        [MODELS_CHAT] = NULL,
        [MODELS_EMBED] = "embed",
        [MODELS_RERANK] = "embed",
        [MODELS_SPEECH] = "audio",
    };
    const char *service = services[entry->task];

    if (!service)
        return false;
    http_response_header(g->request.http, ELSEWHERE_HEADER, service, strlen(service));
    problem_set(problem, ELSEWHERE_STATUS, "other_service", "model",
                "The model '%.100s' belongs to the %s service.", entry->name, service);
    return true;
}
