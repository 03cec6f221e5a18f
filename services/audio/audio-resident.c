/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading, sharing and replacing models
 *
 * Scheduling is always a task of its own: a release may come from within the results of the very
 * transcriber that would be freed.
 */
#include "audio/audio-resident.h"

#include <errno.h>
#include <string.h>

#include "common/config.h"
#include "common/confine.h"
#include "common/log.h"
#include "common/models.h"
#include "common/service.h"
#include "core/clock.h"
#include "core/err.h"
#include "audio/audio.h"
#include "audio/transcription.h"
#include "audio/vad-file.h"

static void resident_load(struct job *job);
static void resident_loaded(struct job *job);

static void resident_free_victim(struct resident *resident)
{
    resident->victim_transcriber = inf_transcriber_free(resident->victim_transcriber);
    resident->victim_model = inf_model_unref(resident->victim_model);
}

static struct resident *resident_free(struct resident *resident)
{
    if (!resident)
        return NULL;
    loop_watch_free(resident->watch);
    inf_transcriber_free(resident->transcriber);
    inf_model_unref(resident->model);
    resident_free_victim(resident);
    free(resident->name);
    free(resident->path);
    free(resident);
    return NULL;
}

static void resident_unlink(struct resident *resident)
{
    for (struct resident **at = &resident->audio->residents; *at; at = &(*at)->next)
        if (*at == resident) {
            *at = resident->next;
            return;
        }
}

static struct resident *resident_new(struct audio *audio, const struct models_entry *entry)
{
    struct resident *resident = NEW(struct resident, 1);

    if (!resident)
        return NULL;
    resident->audio = audio;
    resident->name = strdup(entry->name);
    resident->path = strdup(entry->path);
    resident->mtime = entry->mtime;
    resident->job = (struct job){.run = resident_load, .done = resident_loaded};
    if (!resident->name || !resident->path)
        return resident_free(resident);
    resident->next = audio->residents;
    audio->residents = resident;
    return resident;
}

/* On the loader thread. */
static void resident_load(struct job *job)
{
    struct resident *resident = (struct resident *)((char *)job - offsetof(struct resident, job));
    const struct config *config = resident->audio->config;
    const struct inf_model_params model = {.path = resident->path};
    struct inf_transcriber_params params = {
        .device = "cpu",
        .isa = config->audio.isa,
        .n_threads = config->audio.threads,
        .max_requests = config->audio.max_running,
        .max_queue = config->audio.max_queue,
    };
    _cleanup_free_ char *vad = NULL;
    char why[sizeof(resident->err.text)];
    int r;

    resident_free_victim(resident);
    r = inf_model_open(&model, &resident->model, &resident->err);
    if (r == -EACCES && confine_explain_path(resident->path, why, sizeof(why)))
        r = err_set(&resident->err, ESTALE, "%s", why);
    if (r == 0)
        r = vad_file_find(config, &vad, &resident->err);
    params.model = resident->model;
    params.vad_path = vad;
    if (r == 0)
        r = inf_transcriber_new(&params, &resident->transcriber, &resident->err);
    resident->load_status = r;
}

static void resident_on_events(void *data)
{
    struct resident *resident = data;
    struct inf_audio_event *event;

    service_touch(resident->audio->service);
    while ((event = inf_transcriber_next_event(resident->transcriber))) {
        transcription_on_event(event->user, event);
        inf_audio_event_free(event);
    }
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
        problem_set(problem, 400, "unsupported_model", "model",
                    "The model '%s' is none for speech: %s.", resident->name, why);
    else
        problem_set(problem, resident->load_status == -ENOMEM ? 503 : 500, "model_load_failed",
                    "model", "The model '%s' cannot be loaded: %s.", resident->name, why);
}

static void resident_loaded(struct job *job)
{
    struct resident *resident = (struct resident *)((char *)job - offsetof(struct resident, job));
    struct audio *audio = resident->audio;
    struct problem problem;

    audio->loading = NULL;
    if (resident->load_status == 0)
        resident->load_status =
            loop_watch_new(audio->loop, inf_transcriber_event_fd(resident->transcriber),
                           resident_on_events, resident, &resident->watch);
    if (resident->load_status == 0) {
        resident->state = RESIDENT_READY;
        resident->used_usec = clock_usec();
        audio->stats.n_loads++;
        log_event(LOG_ID_MODEL_LOADED, LOG_INFO, resident->name, "loaded %s on %s: %s",
                  resident->name, inf_transcriber_device(resident->transcriber),
                  inf_model_info(resident->model)->dtype_text);
        resident_answer(resident, NULL);
    } else {
        load_problem(resident, &problem);
        log_event(LOG_ID_MODEL_FAILED, LOG_ERR, resident->name, "%s", problem.message);
        if (resident->load_status == -ESTALE && confine_is_outdated())
            service_retire(audio->service, "a link came that was missing at the start");
        resident_unlink(resident);
        resident_answer(resident, &problem);
        resident_free(resident);
    }
    loop_task_queue(audio->loop, &audio->schedule);
}

/* Takes model and transcriber out of the one that was used longest ago; false: all have users. */
static bool resident_evict(struct audio *audio, struct resident *heir)
{
    struct resident *oldest = NULL;

    for (struct resident *r = audio->residents; r; r = r->next)
        if (r->state == RESIDENT_READY && r->n_users == 0 &&
            (!oldest || r->used_usec < oldest->used_usec))
            oldest = r;
    if (!oldest)
        return false;
    log_info("unloading %s", oldest->name);
    /* Before the descriptor that it watches goes. */
    oldest->watch = loop_watch_free(oldest->watch);
    heir->victim_transcriber = STEAL(oldest->transcriber);
    heir->victim_model = STEAL(oldest->model);
    resident_unlink(oldest);
    resident_free(oldest);
    return true;
}

void resident_schedule(struct loop_task *task)
{
    struct audio *audio = task->data;
    struct resident *first = NULL;
    uint32_t n_ready = 0;

    if (audio->loading)
        return;
    for (struct resident *r = audio->residents; r; r = r->next) {
        if (r->state == RESIDENT_READY)
            n_ready++;
        /* New ones stand at the front: the last one in the list waits longest. */
        if (r->state == RESIDENT_QUEUED)
            first = r;
    }
    if (!first ||
        (n_ready >= MAX(audio->config->audio.max_models, 1u) && !resident_evict(audio, first)))
        return;
    first->state = RESIDENT_LOADING;
    audio->loading = first;
    jobs_queue(audio->loader, &first->job);
}

static struct resident *find_resident(struct audio *audio, const char *name)
{
    for (struct resident *r = audio->residents; r; r = r->next)
        if (strcmp(r->name, name) == 0)
            return r;
    return NULL;
}

void resident_want(struct audio *audio, const struct models_entry *entry,
                   struct resident_waiter *waiter)
{
    struct resident *resident = find_resident(audio, entry->name);
    struct problem problem;

    /* The file was replaced: nobody uses the old one, so the new one takes over. */
    if (resident && resident->state == RESIDENT_READY && resident->n_users == 0 &&
        (resident->mtime != entry->mtime || strcmp(resident->path, entry->path) != 0)) {
        resident_unlink(resident);
        resident = resident_free(resident);
    }
    if (!resident) {
        resident = resident_new(audio, entry);
        if (!resident) {
            problem_set(&problem, 503, "out_of_memory", NULL, "Out of memory.");
            waiter->ready(waiter, NULL, &problem);
            return;
        }
        loop_task_queue(audio->loop, &audio->schedule);
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
    loop_task_queue(resident->audio->loop, &resident->audio->schedule);
}

void resident_free_all(struct audio *audio)
{
    while (audio->residents) {
        struct resident *resident = audio->residents;

        audio->residents = resident->next;
        resident_free(resident);
    }
}
