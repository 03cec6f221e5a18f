/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /v1/models/load and POST /v1/models/unload, for keys with the right to manage.
 *
 * Unloading by command also unloads a pinned model. If requests use a model, it is unloaded when
 * the last of these requests has ended. Models for vectors, rankings and speech belong to other
 * services; the gateway then sends the request to that service (common/wire/elsewhere.h).
 */
#include "chat/generation.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"

static const char *const load_fields[] = {"model", "keep_alive", NULL};
static const char *const unload_fields[] = {"model", NULL};

static int routes_read(struct generation *g, const char *const *fields, struct problem *problem)
{
    int r = fields_known(g->body, "", fields, problem);

    if (r == 0)
        r = MIN(field_text(g->body, "model", &g->params.model, problem), 0);
    if (r == 0 && !g->params.model)
        r = problem_set(problem, 400, "missing_field", "model",
                        "Missing required parameter: 'model'.");
    return r;
}

static int load_read(struct generation *g, struct problem *problem)
{
    int r = routes_read(g, load_fields, problem);

    if (r == 0)
        r = ollama_read_keep_alive(g->body, &g->params.keep_usec, problem);
    g->params.has_keep = r > 0;
    return MIN(r, 0);
}

static int unload_read(struct generation *g, struct problem *problem)
{
    g->params.unloads = g->params.by_command = true;
    return routes_read(g, unload_fields, problem);
}

static int put_status(struct generation *g, const char *status, struct problem *problem)
{
    int r = str_puts(&g->out, "{\"model\":");

    r = r < 0 ? r : json_put_text(&g->out, g->params.model);
    r = r < 0 ? r : str_printf(&g->out, ",\"status\":\"%s\"}", status);
    return r < 0 ? problem_no_memory(problem) : 0;
}

static int load_prepare(struct generation *g, struct problem *problem)
{
    return put_status(g, "loaded", problem);
}

static int unload_prepare(struct generation *g, struct problem *problem)
{
    return put_status(g, g->params.in_use ? "unloading" : "unloaded", problem);
}

const struct chat_api api_models_load = {
    .id_prefix = "load-",
    .any_service = true,
    .prompt_field = "model",
    .read = load_read,
    .prepare = load_prepare,
};

const struct chat_api api_models_unload = {
    .id_prefix = "unload-",
    .any_service = true,
    .prompt_field = "model",
    .read = unload_read,
    .prepare = unload_prepare,
};
