/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading, sharing and replacing models
 *
 * Scheduling is always a task of its own: a release may come from within the results of the very
 * embedder that would be freed.
 */
#include "embed/embed-resident.h"

#include <errno.h>
#include <string.h>

#include "common/config.h"
#include "common/confine.h"
#include "common/log.h"
#include "common/models.h"
#include "common/service.h"
#include "core/clock.h"
#include "core/err.h"
#include "embed/call.h"
#include "embed/embed.h"
#include "embed/prompts.h"

/* Speed is told anew after so many seconds of computing. */
#define SPEED_SECONDS 0.5

static void resident_load(struct job *job);
static void resident_loaded(struct job *job);

static void resident_free_victim(struct resident *resident)
{
    resident->victim_embedder = inf_embedder_free(resident->victim_embedder);
    resident->victim_model = inf_model_unref(resident->victim_model);
}

static struct resident *resident_free(struct resident *resident)
{
    if (!resident)
        return NULL;
    loop_watch_free(resident->watch);
    inf_embedder_free(resident->embedder);
    inf_model_unref(resident->model);
    resident_free_victim(resident);
    json_decref(resident->prompts);
    free(resident->name);
    free(resident->path);
    free(resident);
    return NULL;
}

static void resident_unlink(struct resident *resident)
{
    for (struct resident **at = &resident->embed->residents; *at; at = &(*at)->next)
        if (*at == resident) {
            *at = resident->next;
            return;
        }
}

static struct resident *resident_new(struct embed *embed, const struct models_entry *entry,
                                     enum inf_embed_kind kind)
{
    struct resident *resident = NEW(struct resident, 1);

    if (!resident)
        return NULL;
    resident->embed = embed;
    resident->kind = kind;
    resident->name = strdup(entry->name);
    resident->path = strdup(entry->path);
    resident->mtime = entry->mtime;
    resident->job = (struct job){.run = resident_load, .done = resident_loaded};
    if (!resident->name || !resident->path)
        return resident_free(resident);
    resident->next = embed->residents;
    embed->residents = resident;
    return resident;
}

bool resident_ranks_by_rows(const struct resident *resident)
{
    return resident->kind == INF_EMBED_SCORES && inf_model_info(resident->model)->token_width > 0;
}

/* On the loader thread. */
static void resident_load(struct job *job)
{
    struct resident *resident = (struct resident *)((char *)job - offsetof(struct resident, job));
    const struct config *config = resident->embed->config;
    const struct inf_model_params model = {.path = resident->path};
    struct inf_embedder_params params = {
        .device = "cpu",
        .isa = config->embed.isa,
        .n_threads = config->embed.threads,
        .kind = resident->kind,
        .max_tokens = config->embed.context,
        .max_queue_tokens = config->embed.max_queue_tokens,
    };
    char why[sizeof(resident->err.text)];
    int r;

    resident_free_victim(resident);
    r = inf_model_open(&model, &resident->model, &resident->err);
    if (r == -EACCES && confine_explain_path(resident->path, why, sizeof(why)))
        r = err_set(&resident->err, ESTALE, "%s", why);
    if (r == 0)
        r = prompts_read(resident->path, inf_model_info(resident->model)->arch, &resident->prompts,
                         &resident->err);
    params.model = resident->model;
    if (r == 0 && resident_ranks_by_rows(resident))
        params.kind = INF_EMBED_ROWS;
    if (r == 0)
        r = inf_embedder_new(&params, &resident->embedder, &resident->err);
    resident->load_status = r;
}

static void resident_on_results(void *data)
{
    struct resident *resident = data;
    struct inf_embed_result *result;

    service_touch(resident->embed->service);
    while ((result = inf_embedder_next_result(resident->embedder)))
        call_on_result(result->user, result);
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

static void load_problem(const struct resident *resident, struct problem *problem)
{
    const char *why = resident->err.text[0] ? resident->err.text : strerror(-resident->load_status);

    if (resident->load_status == -EOPNOTSUPP && resident->model)
        problem_set(problem, 400, "unsupported_model", "model", "The model '%s' makes no %s: %s.",
                    resident->name, resident_makes(resident), why);
    else
        problem_set(problem, resident->load_status == -ENOMEM ? 503 : 500, "model_load_failed",
                    "model", "The model '%s' cannot be loaded: %s.", resident->name, why);
}

static void resident_loaded(struct job *job)
{
    struct resident *resident = (struct resident *)((char *)job - offsetof(struct resident, job));
    struct embed *embed = resident->embed;
    struct problem problem;

    embed->loading = NULL;
    if (resident->load_status == 0)
        resident->load_status =
            loop_watch_new(embed->loop, inf_embedder_event_fd(resident->embedder),
                           resident_on_results, resident, &resident->watch);
    if (resident->load_status == 0) {
        resident->state = RESIDENT_READY;
        resident->used_usec = clock_usec();
        embed->stats.n_loads++;
        log_info("loaded %s for %s: %u threads, %s", resident->name, resident_makes(resident),
                 inf_embedder_n_threads(resident->embedder), inf_embedder_isa(resident->embedder));
        resident_answer(resident, NULL);
    } else {
        load_problem(resident, &problem);
        log_error("%s", problem.message);
        if (resident->load_status == -ESTALE && confine_is_outdated())
            service_retire(embed->service, "a link came that was missing at the start");
        resident_unlink(resident);
        resident_answer(resident, &problem);
        resident_free(resident);
    }
    loop_task_queue(embed->loop, &embed->schedule);
}

/* Takes model and embedder out of the one that was used longest ago; false: all have users. */
static bool resident_evict(struct embed *embed, struct resident *heir)
{
    struct resident *oldest = NULL;

    for (struct resident *r = embed->residents; r; r = r->next)
        if (r->state == RESIDENT_READY && r->n_users == 0 &&
            (!oldest || r->used_usec < oldest->used_usec))
            oldest = r;
    if (!oldest)
        return false;
    log_info("unloading %s", oldest->name);
    /* Before the descriptor that it watches goes. */
    oldest->watch = loop_watch_free(oldest->watch);
    heir->victim_embedder = STEAL(oldest->embedder);
    heir->victim_model = STEAL(oldest->model);
    resident_unlink(oldest);
    resident_free(oldest);
    return true;
}

void resident_schedule(struct loop_task *task)
{
    struct embed *embed = task->data;
    struct resident *first = NULL;
    uint32_t n_ready = 0;

    if (embed->loading)
        return;
    for (struct resident *r = embed->residents; r; r = r->next) {
        if (r->state == RESIDENT_READY)
            n_ready++;
        /* New ones stand at the front: the last one in the list waits longest. */
        if (r->state == RESIDENT_QUEUED)
            first = r;
    }
    if (!first ||
        (n_ready >= MAX(embed->config->embed.max_models, 1u) && !resident_evict(embed, first)))
        return;
    first->state = RESIDENT_LOADING;
    embed->loading = first;
    jobs_queue(embed->loader, &first->job);
}

static struct resident *find_of_kind(struct embed *embed, const char *name,
                                     enum inf_embed_kind kind)
{
    for (struct resident *r = embed->residents; r; r = r->next)
        if (r->kind == kind && strcmp(r->name, name) == 0)
            return r;
    return NULL;
}

void resident_want(struct embed *embed, const struct models_entry *entry, enum inf_embed_kind kind,
                   struct resident_waiter *waiter)
{
    struct resident *resident = find_of_kind(embed, entry->name, kind);
    struct problem problem;

    /* The file was replaced: nobody uses the old one, so the new one takes over. */
    if (resident && resident->state == RESIDENT_READY && resident->n_users == 0 &&
        (resident->mtime != entry->mtime || strcmp(resident->path, entry->path) != 0)) {
        resident_unlink(resident);
        resident = resident_free(resident);
    }
    if (!resident) {
        resident = resident_new(embed, entry, kind);
        if (!resident) {
            problem_set(&problem, 503, "out_of_memory", NULL, "Out of memory.");
            waiter->ready(waiter, NULL, &problem);
            return;
        }
        loop_task_queue(embed->loop, &embed->schedule);
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
    loop_task_queue(resident->embed->loop, &resident->embed->schedule);
}

const char *resident_makes(const struct resident *resident)
{
    static const char *const names[] = {
        [INF_EMBED_VECTORS] = "vectors",
        [INF_EMBED_ROWS] = "token_vectors",
        [INF_EMBED_SCORES] = "scores",
    };

    return names[resident->kind];
}

double resident_speed(struct resident *resident)
{
    struct inf_embedder_stats now;
    double seconds;

    inf_embedder_stats(resident->embedder, &now);
    seconds = now.busy_seconds - resident->before.busy_seconds;
    if (seconds >= SPEED_SECONDS || (resident->tok_s <= 0 && seconds > 0)) {
        resident->tok_s = (double)(now.n_tokens - resident->before.n_tokens) / seconds;
        resident->before = now;
    }
    return resident->tok_s;
}

void resident_free_all(struct embed *embed)
{
    while (embed->residents) {
        struct resident *resident = embed->residents;

        embed->residents = resident->next;
        resident_free(resident);
    }
}
