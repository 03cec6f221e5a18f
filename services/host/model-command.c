/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and unloads models by command. */
#include "host/model-command.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "common/http/api-error.h"
#include "common/models/models.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"
#include "host/model-host.h"
#include "host/model-request.h"

/* A request to load a model. It waits for the model as a request that uses the model does. */
struct model_command {
    struct model_request request;
    bool unloads, has_keep;
    uint64_t keep_usec;
    json_t *body;
    const char *model; /* within `body` */
    int status;        /* the result of reading the body; negative: `problem` has the error */
    struct problem problem;
};

static struct model_command *command_of(struct model_request *request)
{
    return CONTAINER_OF(request, struct model_command, request);
}

static void command_done(struct model_request *request)
{
    json_decref(command_of(request)->body);
}

/* Does nothing, because nothing is computed for the request; the host itself ends the wait for the
 * model. */
static void command_cancel(struct model_request *request)
{
    (void)request;
}

static void command_answer(struct model_command *c, const char *status)
{
    _cleanup_str_ struct str out = {};
    int r = str_puts(&out, "{\"model\":");

    r = r < 0 ? r : json_put_text(&out, c->model);
    r = r < 0 ? r : str_printf(&out, ",\"status\":\"%s\"}", status);
    if (r < 0) {
        model_request_fail(&c->request, 503, "out_of_memory", "Out of memory.");
        return;
    }
    c->request.ended = true;
    http_respond(c->request.http, 200, "application/json", out.data, out.len);
}

static void command_ready(struct model_request *request)
{
    struct model_command *c = command_of(request);

    if (c->has_keep)
        model_request_keep(request, c->keep_usec);
    command_answer(c, "loaded");
}

static int command_parse(struct model_command *c, struct http_text body)
{
    static const char *const load_fields[] = {"model", "keep_alive", NULL};
    static const char *const unload_fields[] = {"model", NULL};
    struct problem *problem = &c->problem;
    int r = 0;

    if (fields_parse(body.data, body.len, &c->body, problem) < 0 ||
        fields_known(c->body, "", c->unloads ? unload_fields : load_fields, problem) < 0 ||
        field_text(c->body, "model", &c->model, problem) < 0)
        return -EINVAL;
    if (!c->model)
        return problem_set(problem, 400, "missing_field", "model",
                           "Missing required parameter: 'model'.");
    if (!c->unloads)
        r = ollama_read_keep_alive(c->body, &c->keep_usec, problem);
    c->has_keep = r > 0;
    return MIN(r, 0);
}

static void command_read(struct model_request *request, struct http_text body)
{
    struct model_command *c = command_of(request);

    c->status = command_parse(c, body);
}

static const struct models_entry *command_find(struct model_command *c)
{
    struct model_host *host = c->request.host;
    const struct models *models = model_host_list(host, c->model, &c->problem);
    const struct models_entry *entry = models ? models_find(models, c->model) : NULL;
    _cleanup_free_ char *names = NULL;

    if (!models || entry || model_host_is_broken(models, c->model, &c->problem))
        return entry;
    names = models_names(models);
    problem_set(&c->problem, 404, "model_not_found", "model",
                "The model '%.100s' does not exist here. Installed: %.300s.", c->model,
                names && *names ? names : "none");
    return NULL;
}

static bool command_is_in_use(const struct residents *pool, const char *name)
{
    struct resident *r = residents_ready(pool->first);

    while (r && !(strcmp(r->name, name) == 0 && r->n_users > 0))
        r = residents_ready(r->next);
    return r != NULL;
}

static void command_run(struct model_request *request)
{
    struct model_command *c = command_of(request);
    struct model_host *host = request->host;
    const struct models_entry *entry = c->status < 0 ? NULL : command_find(c);
    bool in_use;

    if (!entry) {
        model_request_refuse(request, &c->problem);
    } else if (c->unloads) {
        in_use = command_is_in_use(&host->residents, entry->name);
        residents_unload(&host->residents, entry->name, true);
        command_answer(c, in_use ? "unloading" : "unloaded");
    } else {
        model_request_want(request, entry,
                           host->params.load_key ? host->params.load_key(entry) : NULL);
    }
}

static void command_new(struct model_host *host, struct http_request *http, bool unloads)
{
    static const struct model_request_ops ops = {
        .size = sizeof(struct model_command),
        .ready = command_ready,
        .cancel = command_cancel,
        .done = command_done,
    };
    struct model_request *request;

    if (host->expired) {
        api_error_send(http, 503, "shutting_down", NULL, 1, "The service is ending; try again.");
        return;
    }
    request = model_request_new(host, &ops, http);
    if (!request)
        return;
    command_of(request)->unloads = unloads;
    if (model_request_admit(request))
        model_request_read(request, command_read, command_run);
}

void model_command_load(struct model_host *host, struct http_request *request)
{
    command_new(host, request, false);
}

void model_command_unload(struct model_host *host, struct http_request *request)
{
    command_new(host, request, true);
}
