/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, shares and replaces models in memory.
 *
 * residents_schedule() always runs as a task of the loop. It must not run within
 * resident_release(), because the caller of that function may be handling results of the model that
 * residents_schedule() would free.
 */
#include "host/residents.h"

#include <errno.h>
#include <string.h>

#include "common/confine/confine.h"
#include "common/models/models.h"
#include "common/models/templates.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "core/clock.h"
#include "core/err.h"
#include "host/residents-memory.h"
#include "host/residents-spare.h"

static struct resident *resident_free(struct resident *resident);

/* Frees the residents that make room for @heir. */
static void resident_free_victims(struct resident *heir)
{
    struct resident *victim;

    while ((victim = heir->victims)) {
        heir->victims = victim->next;
        resident_free(victim);
    }
    resident_spares_free(STEAL(heir->spares));
}

static struct resident *resident_free(struct resident *resident)
{
    if (!resident)
        return NULL;
    loop_watch_free(resident->watch);
    resident->pool->ops->close(resident);
    inf_model_unref(resident->model);
    resident_free_victims(resident);
    arena_done(&resident->arena);
    free(resident->name);
    free(resident->path);
    free(resident);
    return NULL;
}

void resident_unlink(struct resident *resident)
{
    for (struct resident **at = &resident->pool->first; *at; at = &(*at)->next)
        if (*at == resident) {
            *at = resident->next;
            return;
        }
}

/* Frees dropped residents without users. */
static void residents_free_dropped(struct residents *pool)
{
    struct resident **at = &pool->dropped;

    while (*at) {
        struct resident *resident = *at;

        if (resident->n_users > 0) {
            at = &resident->next;
            continue;
        }
        *at = resident->next;
        resident_free(resident);
    }
}

/* --- loading --- */

static struct resident *resident_of(struct job *job)
{
    return CONTAINER_OF(job, struct resident, job);
}

/* Opens the model with the template of its manifest, if there is one. */
static int resident_open_model(struct resident *resident)
{
    _cleanup_free_ char *template = NULL;
    struct inf_model_params model = {.path = resident->path};
    const char *what = resident->settings.template;
    int r;

    if (resident->model)
        return 0;
    r = what ? template_load(what, &template, &resident->err) : 0;

    if (r < 0)
        return r;
    model.chat_template = template;
    return inf_model_open(&model, &resident->model, &resident->err);
}

/* Runs on a thread: finds out how much memory an opened model needs. */
static int resident_measure(struct resident *resident)
{
    const struct residents_ops *ops = resident->pool->ops;

    if (ops->measure)
        return ops->measure(resident, &resident->err);
    resident->least_bytes = resident->want_bytes = inf_model_info(resident->model)->n_bytes;
    return 0;
}

/* Runs on a thread. */
static void resident_open(struct job *job)
{
    struct resident *resident = resident_of(job);
    char why[sizeof(resident->err.text)];
    int r = resident_open_model(resident);

    if (r == -EACCES && confine_explain_path(resident->path, why, sizeof(why))) {
        resident->leads_out = true;
        err_set(&resident->err, EACCES, "%s", why);
    }
    if (r == 0)
        r = resident->pool->ops->suits(resident, &resident->err);
    resident->load_status = r < 0 ? r : resident_measure(resident);
}

/* Runs on a thread. */
static void resident_load(struct job *job)
{
    struct resident *resident = resident_of(job);

    resident_free_victims(resident);
    resident->load_status = resident->pool->ops->open(resident, &resident->err);
}

static void resident_on_readable(void *data)
{
    struct resident *resident = data;

    resident->pool->ops->readable(resident);
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

/* A problem that a retry cannot solve gets a 4xx status, because clients retry after 5xx. */
static void open_problem(const struct resident *resident, const char *why, struct problem *problem)
{
    switch (resident->load_status) {
    case -EOPNOTSUPP:
        problem_set(problem, 400, "unsupported_model", "model",
                    "The model '%s' cannot be used here: %s.", resident->name, why);
        break;
    case -EBADMSG:
    case -EINVAL:
    case -ENOENT:
    case -EACCES:
    case -EPERM:
        problem_set(problem, 400, "model_unusable", "model",
                    "The files of the model '%s' cannot be used: %s.", resident->name, why);
        break;
    default:
        problem_set(problem, 500, "model_load_failed", "model",
                    "The model '%s' cannot be loaded: %s.", resident->name, why);
    }
}

void resident_load_problem(const struct resident *resident, const char *why,
                           struct problem *problem)
{
    const int status = resident->load_status;
    const bool passes = status == -ENOMEM || resident->leads_out;

    if (status == -ESTALE)
        problem_set(problem, 503, "model_changed", "model",
                    "The model '%s' changed while it was loaded: %s. Try again.", resident->name,
                    why);
    else if (!passes && resident->state == RESIDENT_OPENING)
        open_problem(resident, why, problem);
    else
        problem_set(problem, passes ? 503 : 500, "model_load_failed", "model",
                    "The model '%s' cannot be loaded: %s.", resident->name, why);
    if (status == -ESTALE || passes)
        problem->retry_sec = 1;
}

static void resident_fail(struct resident *resident)
{
    struct residents *pool = resident->pool;
    struct problem problem;

    pool->ops->failed(resident,
                      resident->err.text[0] ? resident->err.text : strerror(-resident->load_status),
                      &problem);
    if (resident->leads_out)
        service_retire(pool->service, "a link appeared that was missing at the start");
    resident_unlink(resident);
    resident_answer(resident, &problem);
    resident_free(resident);
}

/* Refuses a resident that is not loaded. */
static void resident_refuse(struct resident *resident, const struct problem *problem)
{
    log_warn("not loading %s: %s", resident->name, problem->message);
    resident_unlink(resident);
    resident_answer(resident, problem);
    resident_free(resident);
}

static void resident_opened(struct job *job)
{
    struct resident *resident = resident_of(job);
    struct problem problem;

    if (resident->load_status < 0) {
        resident_fail(resident);
    } else if (!resident->waiters) {
        resident_unlink(resident);
        resident_free(resident);
    } else if (resident_settle(resident, &problem) < 0) {
        resident_refuse(resident, &problem);
    } else {
        resident->state = RESIDENT_QUEUED;
        resident->since_usec = clock_usec();
        loop_task_queue(resident->pool->loop, &resident->pool->schedule);
    }
}

static void resident_loaded(struct job *job)
{
    struct resident *resident = resident_of(job);
    struct residents *pool = resident->pool;

    pool->loading = NULL;
    if (resident->load_status == 0)
        resident->load_status = loop_watch_new(pool->loop, pool->ops->fd(resident),
                                               resident_on_readable, resident, &resident->watch);
    if (resident->load_status < 0) {
        resident_fail(resident);
    } else {
        resident->state = RESIDENT_READY;
        resident->used_usec = resident->loaded_usec = clock_usec();
        pool->n_loads++;
        pool->ops->loaded(resident);
        resident_answer(resident, NULL);
    }
    loop_task_queue(pool->loop, &pool->schedule);
}

static struct resident *resident_new(struct residents *pool, const struct models_entry *entry,
                                     const void *key)
{
    struct resident *resident = calloc(1, pool->ops->size);

    if (!resident)
        return NULL;
    resident->pool = pool;
    resident->name = strdup(entry->name);
    resident->path = strdup(entry->path);
    resident->size = entry->size;
    resident->mtime = entry->mtime;
    resident->keep_usec = entry->settings.keep_usec;
    resident->pinned = entry->settings.pinned;
    resident->job = (struct job){.run = resident_open, .done = resident_opened};
    if (!resident->name || !resident->path ||
        model_settings_copy(&resident->arena, &entry->settings, &resident->settings) < 0 ||
        (pool->ops->init && pool->ops->init(resident, key) < 0))
        return resident_free(resident);
    resident->model = resident_spare_take(resident);
    resident->next = pool->first;
    pool->first = resident;
    return resident;
}

/* --- scheduling --- */

/* Returns how long the resident still stays because its keep_usec is set, or because it is pinned;
 * UINT64_MAX: neither is the case, or it has users. */
static uint64_t resident_stays(const struct resident *resident, uint64_t now)
{
    const uint64_t unused = now - resident->used_usec;

    if (resident->state != RESIDENT_READY || resident->n_users ||
        (resident->keep_usec == RESIDENT_KEEP_USUAL && !resident->pinned))
        return UINT64_MAX;
    if (resident->pinned)
        return RESIDENT_PINNED_USEC;
    return resident->keep_usec > unused ? resident->keep_usec - unused : 0;
}

/* Frees the residents whose keep_usec is over. Returns the time until the next one is freed;
 * UINT64_MAX: none will be. */
static uint64_t residents_expire(struct residents *pool)
{
    const uint64_t now = clock_usec();
    uint64_t next = UINT64_MAX;
    struct resident *after;

    for (struct resident *r = pool->first; r; r = after) {
        const uint64_t stays = resident_stays(r, now);

        after = r->next;
        next = stays ? MIN(next, stays) : next;
        if (stays)
            continue;
        log_info("unloading %s", r->name);
        resident_unlink(r);
        resident_free(r);
    }
    return next;
}

static void residents_on_expiry(struct loop_timer *timer)
{
    struct residents *pool = timer->data;

    loop_task_queue(pool->loop, &pool->schedule);
}

/* Returns the queued resident that has waited longest, or NULL. New residents are inserted at the
 * front of the list, so it is the last one. */
static struct resident *residents_queued(const struct residents *pool)
{
    struct resident *queued = NULL;

    for (struct resident *r = pool->first; r; r = r->next)
        queued = r->state == RESIDENT_QUEUED ? r : queued;
    return queued;
}

/* Loads the resident that has waited longest, if there is room. *ret_wait: the time until the next
 * attempt; not written if a load begins or nothing waits. */
static void residents_load_next(struct residents *pool, uint64_t *ret_wait)
{
    struct resident *first;
    struct problem problem;

    /* A model may have been pinned since the resident was queued. */
    while ((first = residents_queued(pool)) && resident_settle(first, &problem) < 0)
        resident_refuse(first, &problem);
    if (!first)
        return;
    if (!residents_make_room(pool, first)) {
        const uint64_t waited = clock_usec() - first->since_usec;

        *ret_wait = waited < RESIDENT_PATIENCE_USEC ? RESIDENT_PATIENCE_USEC - waited
                                                    : RESIDENT_PATIENCE_USEC;
        return;
    }
    first->state = RESIDENT_LOADING;
    first->job = (struct job){.run = resident_load, .done = resident_loaded};
    pool->loading = first;
    jobs_queue(pool->loader, NULL, &first->job);
}

static void residents_schedule(struct loop_task *task)
{
    struct residents *pool = task->data;
    uint64_t next, wait = UINT64_MAX;

    residents_free_dropped(pool);
    next = MIN(residents_expire(pool), residents_spare_expire(pool));
    if (!pool->loading)
        residents_load_next(pool, &wait);
    next = MIN(next, wait);
    if (next == UINT64_MAX)
        loop_timer_stop(pool->loop, &pool->expiry);
    else
        loop_timer_set(pool->loop, &pool->expiry, next);
}

/* --- waiting for a resident --- */

/* Finds the resident named @name that serves the purpose @key, or NULL. -EINVAL: no resident of
 * this model can serve the purpose. */
static int residents_find_serving(struct residents *pool, const char *name, const void *key,
                                  struct resident **ret_resident, struct problem *problem)
{
    *ret_resident = NULL;
    for (struct resident *r = pool->first; r && !*ret_resident; r = r->next) {
        int serves = strcmp(r->name, name) == 0;

        if (serves && pool->ops->serves)
            serves = pool->ops->serves(r, key, problem);
        if (serves < 0)
            return serves;
        if (serves)
            *ret_resident = r;
    }
    return 0;
}

static bool is_replaced(const struct resident *resident, const struct models_entry *entry)
{
    return resident->mtime != entry->mtime || strcmp(resident->path, entry->path) != 0 ||
           !model_settings_equal(&resident->settings, &entry->settings);
}

void residents_want(struct residents *pool, const struct models_entry *entry, const void *key,
                    struct resident_waiter *waiter)
{
    struct resident *resident;
    struct problem problem;

    if (residents_find_serving(pool, entry->name, key, &resident, &problem) < 0) {
        waiter->ready(waiter, NULL, &problem);
        return;
    }
    if (resident && resident->state == RESIDENT_READY) {
        resident_check(resident);
        resident = resident->dropped ? NULL : resident;
    }
    /* If the model's file or its settings were replaced, a resident without users is replaced
     * too. */
    if (resident && resident->state == RESIDENT_READY && resident->n_users == 0 &&
        is_replaced(resident, entry)) {
        resident_unlink(resident);
        resident = resident_free(resident);
    }
    if (!resident) {
        resident = resident_new(pool, entry, key);
        if (!resident) {
            problem_no_memory(&problem);
            waiter->ready(waiter, NULL, &problem);
            return;
        }
        jobs_queue(pool->loader, &pool->opening, &resident->job);
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
    struct residents *pool = resident->pool;

    assert(resident->n_users > 0);
    resident->n_users--;
    resident->used_usec = clock_usec();
    loop_task_queue(pool->loop, &pool->schedule);
}

void resident_drop(struct resident *resident, const char *why)
{
    struct residents *pool = resident->pool;

    if (resident->dropped)
        return;
    assert(resident->state == RESIDENT_READY);
    log_warn("unloading %s: %s", resident->name, why);
    resident_unlink(resident);
    resident->dropped = true;
    resident->next = pool->dropped;
    pool->dropped = resident;
    loop_task_queue(pool->loop, &pool->schedule);
}

void resident_check(struct resident *resident)
{
    struct inf_err err;

    if (inf_model_check(resident->model, &err) < 0)
        resident_drop(resident, err.text);
}

unsigned residents_unload(struct residents *pool, const char *name, bool by_command)
{
    unsigned n = 0;

    for (struct resident *r = residents_ready(pool->first); r; r = residents_ready(r->next)) {
        if (strcmp(r->name, name) != 0)
            continue;
        n++;
        r->keep_usec = 0;
        r->pinned = r->pinned && !by_command;
    }
    residents_spare_drop(pool, name);
    loop_task_queue(pool->loop, &pool->schedule);
    return n;
}

uint64_t residents_kept_usec(const struct residents *pool)
{
    const uint64_t now = clock_usec();
    uint64_t kept = 0;

    for (const struct resident *r = pool->first; r; r = r->next) {
        const uint64_t stays = resident_stays(r, now);

        kept = stays == UINT64_MAX ? kept : MAX(kept, stays);
    }
    return kept;
}

struct resident *residents_ready(struct resident *resident)
{
    while (resident && resident->state != RESIDENT_READY)
        resident = resident->next;
    return resident;
}

struct resident *residents_find(const struct residents *pool, const char *name)
{
    struct resident *r = residents_ready(pool->first);

    while (r && strcmp(r->name, name) != 0)
        r = residents_ready(r->next);
    return r;
}

/* --- the pool --- */

int residents_init(struct residents *pool)
{
    pool->schedule = (struct loop_task){.run = residents_schedule, .data = pool};
    pool->expiry = (struct loop_timer){.fire = residents_on_expiry, .data = pool};
    return jobs_new(pool->loop, "loader", 2, &pool->loader);
}

void residents_stop(struct residents *pool)
{
    if (pool->loader)
        loop_timer_stop(pool->loop, &pool->expiry);
    pool->loader = jobs_free(pool->loader);
}

void residents_done(struct residents *pool)
{
    assert(!pool->loader);
    while (pool->first) {
        struct resident *resident = pool->first;

        pool->first = resident->next;
        resident_free(resident);
    }
    while (pool->dropped) {
        struct resident *resident = pool->dropped;

        pool->dropped = resident->next;
        resident_free(resident);
    }
    residents_spare_drop(pool, NULL);
}
