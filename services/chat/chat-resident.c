/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, closes and reports the resident models of the chat service.
 *
 * A model that is used with two KV types (number formats of keys and values) becomes two residents.
 */
#include "chat/chat-resident.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <infer/kv.h>

#include "chat/chat.h"
#include "chat/generation.h"
#include "common/config/config.h"
#include "common/config/draft-kind.h"
#include "common/models/models.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "common/wire/cache-client.h"
#include "core/hash.h"
#include "host/model-host.h"

static const struct chat *chat_of(const struct resident *resident)
{
    return resident->pool->data;
}

/* Returns whether the configured kind of drafts uses a draft model. */
static bool resident_uses_draft(const struct resident *resident)
{
    return draft_kind_uses_model(chat_of(resident)->host.config->speculative.kind);
}

/* Finds the draft model in the list of models. -ENOMEM. */
static int resident_find_draft(struct resident *resident)
{
    struct chat_resident *own = chat_resident_of(resident);
    struct model_host *host = resident->pool->data;
    const struct models *models = resident_uses_draft(resident) ? model_host_models(host) : NULL;
    const struct models_entry *entry =
        models ? models_find_drafter(models, host->config, &resident->settings) : NULL;

    /* A model that is configured to draft for all models does not draft for itself. */
    if (!entry || strcmp(entry->path, resident->path) == 0)
        return 0;
    own->draft_name = strdup(entry->name);
    own->draft_path = strdup(entry->path);
    return own->draft_name && own->draft_path ? 0 : -ENOMEM;
}

/* Opens the draft model. If this fails, the model is used without it: drafts change no text. */
static void resident_open_draft(struct resident *resident)
{
    struct chat_resident *own = chat_resident_of(resident);
    const struct inf_model_params params = {.path = own->draft_path};
    struct inf_err err;
    int r;

    if (!own->draft_path || own->draft)
        return;
    r = inf_model_open(&params, &own->draft, &err);
    if (r == 0)
        r = inf_model_can_draft(own->draft, resident->model, &err);
    if (r == 0)
        return;
    snprintf(own->draft_error, sizeof(own->draft_error), "%s", err.text);
    own->draft = inf_model_unref(own->draft);
}

static int resident_init(struct resident *resident, const void *key)
{
    struct chat_resident *own = chat_resident_of(resident);
    const uint64_t hash = hash_bytes(resident->size ^ (uint64_t)resident->mtime, resident->path,
                                     strlen(resident->path));
    const struct config *config = chat_of(resident)->host.config;
    const struct grammar_cache_limits limits = {.n = config->chat.grammars,
                                                .n_bytes = config->chat.grammar_texts,
                                                .memory = config->chat.grammar_memory};

    snprintf(own->fingerprint, sizeof(own->fingerprint), "b%010llx",
             (unsigned long long)(hash & 0xffffffffffu));
    grammar_cache_init(&own->grammars, &limits);
    if (resident_find_draft(resident) < 0)
        return -ENOMEM;
    if (!key || strcmp(key, "any") == 0)
        return 0;
    own->kv_type = strdup(key);
    return own->kv_type ? 0 : -ENOMEM;
}

static int resident_suits(struct resident *resident, struct inf_err *reterr)
{
    const int r = inf_model_suits(resident->model, INF_USE_GENERATE, reterr);

    if (r == 0)
        resident_open_draft(resident);
    return r;
}

const char *chat_resident_draft_kind(const struct resident *resident)
{
    const char *kind = chat_of(resident)->host.config->speculative.kind;

    const bool must = draft_kind_uses_model(kind) && strcmp(kind, "auto") != 0;

    return must && !chat_resident_of(resident)->draft ? "none" : kind;
}

static int resident_open(struct resident *resident, struct inf_err *reterr)
{
    struct chat_resident *own = chat_resident_of(resident);
    const struct chat *chat = chat_of(resident);
    const struct config *config = chat->host.config;
    struct inf_engine_params engine = {
        .model = resident->model,
        .tier_model = resident->name,
        .device = chat_device_name(&chat->device),
        .cpu_else = !config->chat.device || strcmp(config->chat.device, "auto") == 0,
        .cache_dir = chat->device.cache_dir,
        .cache_read_only = true,
        .device_bytes = config->chat.device_memory,
        .isa = config->chat.isa,
        .kv_type = own->kv_type ? own->kv_type : chat_resident_kv_type(resident),
        .n_threads = config->chat.threads,
        .n_ctx = chat_resident_context(resident),
        .max_seqs = config->chat.max_sequences,
        .max_queue = config->chat.max_queue,
        .max_batch_tokens = config->chat.max_batch_tokens,
        .kv_bytes = chat_resident_kv_bytes(resident),
        .draft_kind = chat_resident_draft_kind(resident),
        .draft_model = own->draft,
        .max_draft = config->speculative.max_tokens,
        .no_prefix_cache = !config->chat.prefix_cache,
    };
    int r;

    if (chat->cache_socket && !engine.no_prefix_cache)
        cache_client_new(chat->cache_socket, resident->name, CACHE_CLIENT_TIMEOUT_USEC, &own->tier);
    engine.tier = own->tier;
    sampling_of_model(resident->model, &own->sampling);
    r = inf_engine_new(&engine, &own->engine, reterr);
    if (r != -EOPNOTSUPP || !own->draft)
        return r;
    /* Not every device supports every draft model. Drafts change no text, so the model is used
     * without them. */
    snprintf(own->draft_error, sizeof(own->draft_error), "%s", reterr->text);
    own->draft = inf_model_unref(own->draft);
    engine.draft_model = NULL;
    engine.draft_kind = chat_resident_draft_kind(resident);
    return inf_engine_new(&engine, &own->engine, reterr);
}

static void resident_close(struct resident *resident)
{
    struct chat_resident *own = chat_resident_of(resident);

    inf_engine_free(own->engine);
    grammar_cache_done(&own->grammars);
    cache_client_free(own->tier);
    inf_model_unref(own->draft);
    free(own->draft_name);
    free(own->draft_path);
    free(own->kv_type);
}

static int resident_fd(const struct resident *resident)
{
    return inf_engine_event_fd(chat_resident_of(resident)->engine);
}

static void resident_on_events(struct resident *resident)
{
    struct inf_event event;

    service_touch(resident->pool->service);
    while (inf_engine_next_event(chat_resident_of(resident)->engine, &event) > 0)
        generation_on_event(event.user, &event);
}

/* Logs which model drafts, or why none does although one is named. */
static void resident_tell_draft(const struct resident *resident)
{
    const struct chat_resident *own = chat_resident_of(resident);
    const struct config *config = chat_of(resident)->host.config;
    const char *name =
        resident->settings.drafter ? resident->settings.drafter : config->speculative.model;

    if (own->draft)
        log_info("%s is computed with drafts of %s", resident->name, own->draft_name);
    else if (own->draft_error[0])
        log_warn("%s is computed without drafts of %s: %s", resident->name, own->draft_name,
                 own->draft_error);
    else if (name && !resident_uses_draft(resident) && resident->settings.drafter)
        log_warn("%s is computed without drafts of %s: speculative.kind is %s", resident->name,
                 name, config->speculative.kind);
    else if (name && resident_uses_draft(resident) && !own->draft_path &&
             strcasecmp(name, resident->name) != 0)
        log_warn("%s is computed without drafts of %s: no such model is installed", resident->name,
                 name);
}

static void resident_loaded(const struct resident *resident)
{
    const struct inf_engine *engine = chat_resident_of(resident)->engine;
    const uint32_t n_threads = inf_engine_n_threads(engine);

    log_event(LOG_ID_MODEL_LOADED, LOG_INFO, resident->name,
              "loaded %s on %s: %s, context %u, keys and values in %s, %u thread%s, %s",
              resident->name, inf_engine_device(engine),
              inf_model_info(resident->model)->dtype_text, inf_engine_n_ctx(engine),
              inf_engine_kv_name(engine), n_threads, n_threads == 1 ? "" : "s",
              inf_engine_isa(engine));
    resident_tell_draft(resident);
}

static int bad_kv_type(struct problem *problem, const char *why)
{
    return problem_set(problem, 400, "invalid_value", "kv_type", "Invalid value for 'kv_type': %s.",
                       why);
}

static void resident_failed(const struct resident *resident, const char *why,
                            struct problem *problem)
{
    log_event(LOG_ID_MODEL_FAILED, LOG_WARNING, resident->name, "cannot load %s: %s",
              resident->name, why);
    if (chat_resident_of(resident)->kv_wrong ||
        (resident->load_status == -EOPNOTSUPP && resident->state == RESIDENT_LOADING &&
         chat_resident_of(resident)->kv_type))
        bad_kv_type(problem, why);
    else if (resident->load_status == -EOPNOTSUPP && resident->model)
        problem_set(problem, 400, "unsupported_model", "model", "The model '%s' cannot chat: %s.",
                    resident->name, why);
    else
        resident_load_problem(resident, why, problem);
}

/* Returns whether @resident uses the KV type @key. If the names of the types differ and the
 * resident is loaded, asks its engine whether the model and the device support @key. So a request
 * with an unsupported type is refused before another model is unloaded for it. */
static int resident_serves(const struct resident *resident, const void *key,
                           struct problem *problem)
{
    const struct chat_resident *own = chat_resident_of(resident);
    const char *configured = chat_resident_kv_type(resident);
    const char *wanted = key ? key : configured;
    struct inf_err err = {};
    int r;

    if (strcmp(wanted, "any") == 0 || strcmp(wanted, own->kv_type ? own->kv_type : configured) == 0)
        return true;
    if (resident->state != RESIDENT_READY)
        return false;
    r = inf_engine_kv_type(own->engine, wanted, &err);
    /* If the configured type is unsupported, loading the model reports it. */
    return r < 0 && key ? bad_kv_type(problem, err.text) : r == 0;
}

static const char *resident_purpose(const struct resident *resident)
{
    return chat_resident_of(resident)->kv_type;
}

_Static_assert(sizeof(struct chat_resident_stats) <= MODEL_STATS_MAX,
               "model_host_put_metrics() has a buffer of MODEL_STATS_MAX bytes for them");

static void resident_stats(struct resident *resident, void *ret_stats)
{
    struct inf_engine *engine = chat_resident_of(resident)->engine;
    struct chat_resident_stats *s = ret_stats;

    inf_engine_stats(engine, &s->engine);
    s->kv_use = s->engine.n_blocks ? (double)s->engine.n_blocks_used / s->engine.n_blocks : 0;
    s->n_threads = inf_engine_n_threads(engine);
}

const struct residents_ops chat_residents_ops = {
    .size = sizeof(struct chat_resident),
    .serves = resident_serves,
    .init = resident_init,
    .suits = resident_suits,
    .measure = chat_resident_measure,
    .advise = chat_resident_advise,
    .open = resident_open,
    .close = resident_close,
    .fd = resident_fd,
    .readable = resident_on_events,
    .loaded = resident_loaded,
    .failed = resident_failed,
    .purpose_name = "kv_type",
    .purpose = resident_purpose,
    .stats = resident_stats,
};
