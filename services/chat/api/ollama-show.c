/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers POST /api/show: describes one model, as in Ollama's API.
 *
 * The description needs the model's files. If the model is not loaded, a thread opens the files.
 * The thread maps the weights but does not read them, and no other model is unloaded.
 */
#include <errno.h>
#include <infer/chat.h>
#include <infer/tokenizer.h>
#include <string.h>

#include "chat/api/fim.h"
#include "chat/api/ollama-answer.h"
#include "chat/chat.h"
#include "common/config/config.h"
#include "common/models/manifest.h"
#include "common/models/models.h"
#include "common/models/templates.h"
#include "common/wire/fields.h"
#include "common/wire/json.h"
#include "common/wire/ollama.h"
#include "host/model-request.h"
#include "host/ollama-model.h"

struct show {
    struct model_request request;
    char *name, *path; /* the model's name and path */
    int64_t mtime;
    const char *kind; /* format of the model's files; static */
    enum models_task task;
    char *asked; /* the name in the request */
    struct inf_model *model;
    char *manifest;                 /* path of the manifest; NULL: there is none */
    const char *licence;            /* of the manifest; NULL: it has none */
    struct arena arena;             /* owns the texts of `settings`, and the licence */
    struct model_settings settings; /* of the model's manifest */
    struct inf_sampling sampling;   /* of the manifest */
    int status;                     /* negative: `problem` has the error */
    struct problem problem;
    struct str out;
};

static struct show *show_of(struct model_request *request)
{
    return CONTAINER_OF(request, struct show, request);
}

static void show_done(struct model_request *request)
{
    struct show *s = show_of(request);

    inf_model_unref(s->model);
    free(s->name);
    free(s->path);
    free(s->asked);
    free(s->manifest);
    str_done(&s->out);
    arena_done(&s->arena);
}

static void show_cancel(struct model_request *request)
{
    (void)request;
}

/* --- the answer --- */

static const char *show_template(const struct show *s)
{
    const struct inf_chat_template *tmpl = inf_model_chat_template(s->model);

    return tmpl ? inf_chat_template_text(tmpl) : "";
}

static int put_capabilities(struct show *s)
{
    const char *source = show_template(s);
    const bool chats = s->task == MODELS_CHAT;
    const struct {
        const char *name;
        bool has;
    } rows[] = {
        {"completion", chats},
        {"tools", chats && strstr(source, "tools")},
        {"insert", chats && fim_is_known(s->model)},
        {"thinking", chats && ollama_template_thinks(source)},
        {"embedding", s->task == MODELS_EMBED},
        {"rerank", s->task == MODELS_RERANK},
    };
    const char *comma = "";
    int r = str_puts(&s->out, "\"capabilities\":[");

    for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++) {
        if (!rows[i].has)
            continue;
        r = str_printf(&s->out, "%s\"%s\"", comma, rows[i].name);
        comma = ",";
    }
    return r < 0 ? r : str_puts(&s->out, "],");
}

/* Returns the value @name of the model's metadata; NULL: there is none. */
static const char *meta_find(const struct inf_model *model, const char *name)
{
    const char *key, *value;

    for (size_t i = 0; inf_model_meta(model, i, &key, &value); i++)
        if (strcmp(key, name) == 0)
            return value;
    return NULL;
}

/* Writes the metadata that a GGUF file of the model would have. */
static int put_info(struct show *s)
{
    const struct inf_model_info *info = inf_model_info(s->model);
    const struct {
        const char *name;
        uint32_t value;
    } rows[] = {
        {"context_length", info->n_ctx_train},
        {"embedding_length", info->n_embd},
        {"block_count", info->n_layers},
        {"feed_forward_length", info->n_ff},
        {"attention.head_count", info->n_heads},
        {"attention.head_count_kv", info->n_kv_heads},
        {"attention.key_length", info->head_dim},
        {"attention.sliding_window", info->sliding_window},
        {"vocab_size", info->n_vocab},
    };
    int r = str_puts(&s->out, "\"model_info\":{\"general.architecture\":");

    r = r < 0 ? r : json_put_text(&s->out, info->arch);
    r = r < 0 ? r : str_puts(&s->out, ",\"general.basename\":");
    r = r < 0 ? r : json_put_text(&s->out, info->name[0] ? info->name : s->name);
    r = r < 0 ? r
              : str_printf(&s->out, ",\"general.parameter_count\":%llu",
                           (unsigned long long)info->n_params);
    for (size_t i = 0; i < ARRAY_SIZE(rows) && r == 0; i++)
        if (rows[i].value)
            r = str_printf(&s->out, ",\"%s.%s\":%u", info->arch, rows[i].name, rows[i].value);
    return r < 0 ? r : str_puts(&s->out, "},");
}

/* Returns the name of a parameter in Ollama's API. */
static const char *parameter_name(enum sampling_key key)
{
    return key == SAMPLING_REPETITION_PENALTY ? "repeat_penalty" : sampling_rows[key].name;
}

/* Writes the parameters that a Modelfile would set: the length of the context, and what the
 * manifest says about sampling and stop strings. */
static int put_parameters(struct show *s)
{
    const struct config *config = s->request.host->config;
    const uint32_t trained = inf_model_info(s->model)->n_ctx_train;
    const uint32_t n_ctx = s->settings.context    ? s->settings.context
                           : config->chat.context ? config->chat.context
                                                  : MIN(trained ? trained : 8192u, 8192u);
    const char *const *stop = s->settings.stops;
    _cleanup_str_ struct str text = {};
    int r = str_printf(&text, "num_ctx %u", n_ctx);

    if (s->task != MODELS_CHAT)
        return 0;
    for (enum sampling_key key = 0; key < N_SAMPLING_KEYS && r == 0; key++)
        if (sampling_is_set(&s->sampling, key))
            r = str_printf(&text, "\n%s %g", parameter_name(key),
                           sampling_value(&s->sampling, key));
    for (; stop && *stop && r == 0; stop++) {
        r = str_puts(&text, "\nstop ");
        r = r < 0 ? r : json_put_text(&text, *stop);
    }
    r = r < 0 ? r : str_puts(&s->out, "\"parameters\":");
    r = r < 0 ? r : json_put_text(&s->out, text.data);
    return r < 0 ? r : str_putc(&s->out, ',');
}

/* Writes the system message and the other messages with which conversations begin. */
static int put_messages(struct show *s)
{
    const struct model_settings *m = &s->settings;
    int r = m->system ? str_puts(&s->out, ",\"system\":") : 0;

    if (r == 0 && m->system)
        r = json_put_text(&s->out, m->system);
    for (size_t i = 0; i < m->n_messages && r == 0; i++) {
        r = str_printf(&s->out, "%s{\"role\":\"%s\",\"content\":", i ? "," : ",\"messages\":[",
                       m->messages[i].of_assistant ? "assistant" : "user");
        r = r < 0 ? r : json_put_text(&s->out, m->messages[i].text);
        r = r < 0 ? r : str_putc(&s->out, '}');
    }
    return r < 0 || m->n_messages == 0 ? r : str_putc(&s->out, ']');
}

/* Returns whether a text can stand between three quotation marks. */
static bool text_fits_marks(const char *text)
{
    const size_t len = strlen(text);

    return !strstr(text, "\"\"\"") && (len == 0 || text[len - 1] != '"');
}

/* Writes the beginning of a Modelfile that would make the same model. A system message that a
 * Modelfile cannot have is left out. */
static int put_modelfile(struct show *s)
{
    const char *system = s->settings.system;
    _cleanup_str_ struct str text = {};
    int r = str_printf(&text, "FROM %s\n", s->name);

    if (r == 0 && system && text_fits_marks(system))
        r = str_printf(&text, "SYSTEM \"\"\"%s\"\"\"\n", system);
    r = r < 0 ? r : str_puts(&s->out, "\"modelfile\":");
    r = r < 0 ? r : json_put_text(&s->out, text.data);
    return r < 0 ? r : str_putc(&s->out, ',');
}

static int show_write(struct show *s)
{
    const char *license = s->licence ? s->licence : meta_find(s->model, "general.license");
    int r = str_putc(&s->out, '{');

    r = r < 0 ? r : put_modelfile(s);
    r = r < 0 ? r : put_parameters(s);
    r = r < 0 ? r : str_puts(&s->out, "\"template\":");
    r = r < 0 ? r : json_put_text(&s->out, show_template(s));
    r = r < 0 ? r : put_messages(s);
    if (r == 0 && license) {
        r = str_puts(&s->out, ",\"license\":");
        r = r < 0 ? r : json_put_text(&s->out, license);
    }
    r = r < 0 ? r : str_putc(&s->out, ',');
    r = r < 0 ? r : put_capabilities(s);
    r = r < 0 ? r : put_info(s);
    r = r < 0 ? r : ollama_put_details(&s->out, s->kind, inf_model_info(s->model));
    r = r < 0 ? r : str_puts(&s->out, ",\"modified_at\":");
    r = r < 0 ? r : ollama_put_time(&s->out, s->mtime, 0);
    return r < 0 ? r : str_putc(&s->out, '}');
}

/* --- the request --- */

/* Opens the model if it is not open, and describes it. Does not run in the thread of the event
 * loop. */
static void show_describe(struct model_request *request)
{
    struct show *s = show_of(request);
    _cleanup_free_ char *template = NULL;
    struct model_manifest manifest;
    struct inf_err err = {};
    int r = 0;

    if (s->manifest && model_manifest_read(&s->arena, s->manifest, &manifest, NULL) == 0)
        s->licence = manifest.licence;
    if (!s->model && s->settings.template)
        r = template_load(s->settings.template, &template, &err);
    if (!s->model && r == 0)
        r = inf_model_open(&(struct inf_model_params){.path = s->path, .chat_template = template},
                           &s->model, &err);
    if (r < 0)
        s->status =
            problem_set(&s->problem, r == -ENOMEM ? 503 : 400, "model_unusable", "model",
                        "The files of the model '%s' cannot be used: %s.", s->name, err.text);
    else if (show_write(s) < 0)
        s->status = problem_no_memory(&s->problem);
}

static void show_described(struct model_request *request)
{
    struct show *s = show_of(request);

    if (s->status < 0) {
        model_request_refuse(request, &s->problem);
        return;
    }
    request->ended = true;
    http_respond(request->http, 200, "application/json", s->out.data, s->out.len);
}

static int show_read_body(struct show *s, struct http_text body, struct problem *problem)
{
    static const char *const fields[] = {"model",    "name",    "verbose", "system",
                                         "template", "options", NULL};
    _cleanup_json_ json_t *json = NULL;
    const char *name = NULL;
    bool verbose = false;
    int r;

    if ((r = fields_parse(body.data, body.len, &json, problem)) < 0 ||
        (r = fields_known(json, "", fields, problem)) < 0 ||
        (r = field_bool(json, "verbose", &verbose, problem)) < 0 ||
        (r = field_text(json, "name", &name, problem)) < 0 ||
        (r = field_text(json, "model", &name, problem)) < 0)
        return r;
    if (!name || !*name)
        return problem_set(problem, 400, "missing_field", "model",
                           "Missing required parameter: 'model'.");
    s->asked = strdup(name);
    return s->asked ? 0 : problem_no_memory(problem);
}

static void show_read(struct model_request *request, struct http_text body)
{
    struct show *s = show_of(request);

    s->status = show_read_body(s, body, &s->problem);
}

static int show_find(struct show *s, struct problem *problem)
{
    struct model_host *host = s->request.host;
    const struct models *models = model_host_list(host, s->asked, problem);
    const struct models_entry *entry = models ? models_find(models, s->asked) : NULL;
    const struct resident *resident;

    if (!models || (!entry && model_host_is_broken(models, s->asked, problem)))
        return -EINVAL;
    if (!entry)
        return problem_set(problem, 404, "model_not_found", "model",
                           "The model '%.100s' does not exist here.", s->asked);
    if (entry->task == MODELS_SPEECH)
        return problem_set(problem, 400, "unsupported_model", "model",
                           "The model '%.100s' transcribes speech, which Ollama's API cannot do.",
                           s->asked);
    s->name = strdup(entry->name);
    s->path = strdup(entry->path);
    s->mtime = entry->mtime;
    s->kind = strcmp(entry->kind, "gguf") == 0 ? "gguf" : "safetensors";
    s->task = entry->task;
    s->sampling = entry->sampling;
    s->manifest = entry->manifest ? strdup(entry->manifest) : NULL;
    if (!s->name || !s->path || !s->manifest != !entry->manifest ||
        model_settings_copy(&s->arena, &entry->settings, &s->settings) < 0)
        return problem_no_memory(problem);
    resident = residents_find(&host->residents, entry->name);
    if (resident)
        s->model = inf_model_ref(resident->model);
    return 0;
}

static void show_was_read(struct model_request *request)
{
    struct show *s = show_of(request);

    if (s->status < 0 || show_find(s, &s->problem) < 0)
        model_request_refuse(request, &s->problem);
    else
        model_request_work(request, RESIDENT_SMALL, show_describe, show_described);
}

void ollama_show(struct model_host *host, struct http_request *http)
{
    static const struct model_request_ops ops = {
        .size = sizeof(struct show),
        .cancel = show_cancel,
        .done = show_done,
    };
    struct model_request *request = model_request_new(host, &ops, http);

    if (request && model_request_admit(request))
        model_request_read(request, show_read, show_was_read);
}
