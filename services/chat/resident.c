/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading, sharing and replacing models
 *
 * Scheduling is always a task of its own: a release may come from within the event pump of the
 * very engine that would be freed.
 */
#include "chat/resident.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chat/chat.h"
#include "chat/generation.h"
#include "common/cache-client.h"
#include "common/config.h"
#include "common/confine.h"
#include "common/log.h"
#include "common/models.h"
#include "common/service.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/hash.h"

static void resident_load(struct job *job);
static void resident_loaded(struct job *job);

static void resident_free_victim(struct resident *resident)
{
    resident->victim_engine = inf_engine_free(resident->victim_engine);
    resident->victim_tier = cache_client_free(resident->victim_tier);
    resident->victim_model = inf_model_unref(resident->victim_model);
}

static struct resident *resident_free(struct resident *resident)
{
    if (!resident)
        return NULL;
    loop_watch_free(resident->watch);
    inf_engine_free(resident->engine);
    cache_client_free(resident->tier);
    inf_model_unref(resident->model);
    resident_free_victim(resident);
    free(resident->name);
    free(resident->path);
    free(resident->kv_type);
    free(resident);
    return NULL;
}

static void resident_unlink(struct resident *resident)
{
    for (struct resident **at = &resident->chat->residents; *at; at = &(*at)->next)
        if (*at == resident) {
            *at = resident->next;
            return;
        }
}

static struct resident *resident_new(struct chat *chat, const struct models_entry *entry,
                                     const char *kv_type)
{
    struct resident *resident = NEW(struct resident, 1);
    uint64_t hash;

    if (!resident)
        return NULL;
    resident->chat = chat;
    resident->name = strdup(entry->name);
    resident->path = strdup(entry->path);
    resident->mtime = entry->mtime;
    resident->job = (struct job){.run = resident_load, .done = resident_loaded};
    if (kv_type)
        resident->kv_type = strdup(kv_type);
    if (!resident->name || !resident->path || (kv_type && !resident->kv_type))
        return resident_free(resident);
    hash = hash_bytes(entry->size ^ (uint64_t)entry->mtime, entry->path, strlen(entry->path));
    snprintf(resident->fingerprint, sizeof(resident->fingerprint), "fp_%010llx",
             (unsigned long long)(hash & 0xffffffffffu));
    resident->next = chat->residents;
    chat->residents = resident;
    return resident;
}

struct resident *resident_find(struct chat *chat, const char *name)
{
    for (struct resident *r = chat->residents; r; r = r->next)
        if (r->state == RESIDENT_READY && strcmp(r->name, name) == 0)
            return r;
    return NULL;
}

/* On the loader thread. */
static void resident_load(struct job *job)
{
    struct resident *resident = (struct resident *)((char *)job - offsetof(struct resident, job));
    const struct config *config = resident->chat->config;
    const struct inf_model_params model = {.path = resident->path};
    struct inf_engine_params engine = {
        .device = chat_device_name(&resident->chat->device),
        .cache_dir = resident->chat->device.cache_dir,
        .cache_read_only = true,
        .device_bytes = config->chat.device_memory,
        .isa = config->chat.isa,
        .kv_type = resident->kv_type ? resident->kv_type : config->chat.kv_type,
        .n_threads = config->chat.threads,
        .n_ctx = config->chat.context,
        .max_seqs = config->chat.max_sequences,
        .max_queue = config->chat.max_queue,
        .max_batch_tokens = config->chat.max_batch_tokens,
        .kv_bytes = config->chat.kv_memory,
        .no_prefix_cache = !config->chat.prefix_cache,
    };
    char why[sizeof(resident->err.text)];

    resident_free_victim(resident);
    resident->load_status = inf_model_open(&model, &resident->model, &resident->err);
    if (resident->load_status == -EACCES && confine_explain_path(resident->path, why, sizeof(why)))
        resident->load_status = err_set(&resident->err, ESTALE, "%s", why);
    if (resident->load_status < 0)
        return;
    engine.model = resident->model;
    if (resident->chat->cache_socket && !engine.no_prefix_cache)
        cache_client_new(resident->chat->cache_socket, resident->name, CACHE_CLIENT_TIMEOUT_USEC,
                         &resident->tier);
    engine.tier = resident->tier;
    engine.tier_model = resident->name;
    resident->load_status = inf_engine_new(&engine, &resident->engine, &resident->err);
}

static void resident_on_events(void *data)
{
    struct resident *resident = data;
    struct inf_event event;

    service_touch(resident->chat->service);
    while (inf_engine_next_event(resident->engine, &event) > 0)
        generation_on_event(event.user, &event);
}

static void resident_answer(struct resident *resident, const struct problem *problem)
{
    struct resident_waiter *waiter;

    while ((waiter = resident->waiters)) {
        resident->waiters = waiter->next;
        waiter->next = NULL;
        waiter->resident = NULL;
        if (!problem)
            resident->n_users++;
        waiter->ready(waiter, problem ? NULL : resident, problem);
    }
}

static void bad_kv_type(struct problem *problem, const char *why)
{
    problem_set(problem, 400, "invalid_value", "kv_type", "Invalid value for 'kv_type': %s.", why);
}

static void resident_loaded(struct job *job)
{
    struct resident *resident = (struct resident *)((char *)job - offsetof(struct resident, job));
    struct chat *chat = resident->chat;
    struct problem problem;

    chat->loading = NULL;
    if (resident->load_status == 0)
        resident->load_status = loop_watch_new(chat->loop, inf_engine_event_fd(resident->engine),
                                               resident_on_events, resident, &resident->watch);
    if (resident->load_status == 0) {
        const uint32_t n_threads = inf_engine_n_threads(resident->engine);

        resident->state = RESIDENT_READY;
        resident->used_usec = clock_usec();
        chat->stats.n_loads++;
        log_event(LOG_ID_MODEL_LOADED, LOG_INFO, resident->name,
                  "loaded %s on %s: %s, context %u, %u thread%s, %s", resident->name,
                  inf_engine_device(resident->engine), inf_model_info(resident->model)->dtype_text,
                  inf_engine_n_ctx(resident->engine), n_threads, n_threads == 1 ? "" : "s",
                  inf_engine_isa(resident->engine));
        resident_answer(resident, NULL);
    } else {
        const char *why =
            resident->err.text[0] ? resident->err.text : strerror(-resident->load_status);

        log_event(LOG_ID_MODEL_FAILED, LOG_ERR, resident->name, "cannot load %s: %s",
                  resident->name, why);
        if (resident->load_status == -ESTALE)
            service_retire(chat->service, "a link came that was missing at the start");
        resident_unlink(resident);
        if (resident->load_status == -EOPNOTSUPP && resident->model && resident->kv_type)
            bad_kv_type(&problem, why);
        else
            problem_set(&problem, resident->load_status == -ENOMEM ? 503 : 500, "model_load_failed",
                        "model", "The model '%s' cannot be loaded: %s.", resident->name, why);
        resident_answer(resident, &problem);
        resident_free(resident);
    }
    loop_task_queue(chat->loop, &chat->schedule);
}

/* Takes model and engine out of the one that was used longest ago; false: all have users. */
static bool resident_evict(struct chat *chat, struct resident *heir)
{
    struct resident *oldest = NULL;

    for (struct resident *r = chat->residents; r; r = r->next)
        if (r->state == RESIDENT_READY && r->n_users == 0 &&
            (!oldest || r->used_usec < oldest->used_usec))
            oldest = r;
    if (!oldest)
        return false;
    log_info("unloading %s", oldest->name);
    heir->victim_engine = STEAL(oldest->engine);
    heir->victim_tier = STEAL(oldest->tier);
    heir->victim_model = STEAL(oldest->model);
    resident_unlink(oldest);
    resident_free(oldest);
    return true;
}

void resident_schedule(struct loop_task *task)
{
    struct chat *chat = task->data;
    struct resident *first = NULL;
    uint32_t n_ready = 0;

    if (chat->loading)
        return;
    for (struct resident *r = chat->residents; r; r = r->next) {
        if (r->state == RESIDENT_READY)
            n_ready++;
        /* New ones stand at the front: the last one in the list waits longest. */
        if (r->state == RESIDENT_QUEUED)
            first = r;
    }
    if (!first ||
        (n_ready >= MAX(chat->config->chat.max_models, 1u) && !resident_evict(chat, first)))
        return;
    first->state = RESIDENT_LOADING;
    chat->loading = first;
    jobs_queue(chat->loader, &first->job);
}

/* Whether @resident keeps keys and values as @kv_type; -errno with the reason when its model or
 * device cannot. While it is not ready, a name stands for itself alone. */
static int keeps(const struct resident *resident, const char *kv_type, struct inf_err *reterr)
{
    const char *configured = resident->chat->config->chat.kv_type;
    const char *wanted = kv_type ? kv_type : configured;
    const char *own = resident->kv_type ? resident->kv_type : configured;
    int r;

    if (strcmp(wanted, "any") == 0 || strcmp(wanted, own) == 0)
        return true;
    if (resident->state != RESIDENT_READY)
        return false;
    r = inf_engine_kv_type(resident->engine, wanted, reterr);
    return r < 0 && kv_type ? r : r == 0; /* what is configured fails when it is loaded */
}

/* The one of that name and @kv_type, or NULL. An engine of the same model tells what cannot be, so
 * that none makes room for what fails: -errno. */
static int find_keeping(struct chat *chat, const char *name, const char *kv_type,
                        struct resident **ret_resident, struct inf_err *reterr)
{
    *ret_resident = NULL;
    for (struct resident *r = chat->residents; r && !*ret_resident; r = r->next) {
        const int k = strcmp(r->name, name) == 0 ? keeps(r, kv_type, reterr) : false;

        if (k < 0)
            return k;
        if (k)
            *ret_resident = r;
    }
    return 0;
}

void resident_want(struct chat *chat, const struct models_entry *entry, const char *kv_type,
                   struct resident_waiter *waiter)
{
    struct resident *resident;
    struct problem problem;
    struct inf_err err;

    if (find_keeping(chat, entry->name, kv_type, &resident, &err) < 0) {
        bad_kv_type(&problem, err.text);
        waiter->ready(waiter, NULL, &problem);
        return;
    }
    /* The file was replaced: nobody uses the old one, so the new one takes over. */
    if (resident && resident->state == RESIDENT_READY && resident->n_users == 0 &&
        (resident->mtime != entry->mtime || strcmp(resident->path, entry->path) != 0)) {
        resident_unlink(resident);
        resident = resident_free(resident);
    }
    if (!resident) {
        resident =
            resident_new(chat, entry, kv_type && strcmp(kv_type, "any") != 0 ? kv_type : NULL);
        if (!resident) {
            problem_set(&problem, 503, "out_of_memory", NULL, "Out of memory.");
            waiter->ready(waiter, NULL, &problem);
            return;
        }
        loop_task_queue(chat->loop, &chat->schedule);
    }
    if (resident->state == RESIDENT_READY) {
        resident->n_users++;
        waiter->ready(waiter, resident, NULL);
        return;
    }
    waiter->resident = resident;
    waiter->next = resident->waiters;
    resident->waiters = waiter;
}

void resident_forget(struct resident_waiter *waiter)
{
    struct resident *resident = waiter->resident;

    if (!resident)
        return;
    for (struct resident_waiter **at = &resident->waiters; *at; at = &(*at)->next)
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    waiter->resident = NULL;
    waiter->next = NULL;
    if (!resident->waiters && resident->state == RESIDENT_QUEUED) {
        resident_unlink(resident);
        resident_free(resident);
    }
}

void resident_release(struct resident *resident)
{
    assert(resident->n_users > 0);
    resident->n_users--;
    resident->used_usec = clock_usec();
    loop_task_queue(resident->chat->loop, &resident->chat->schedule);
}

void resident_free_all(struct chat *chat)
{
    while (chat->residents) {
        struct resident *resident = chat->residents;

        chat->residents = resident->next;
        resident_free(resident);
    }
}
