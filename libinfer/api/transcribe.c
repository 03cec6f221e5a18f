/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_transcriber_*: checks arguments, resolves defaults, and calls transcribe/.
 */
#include <infer/audio.h>

#include <errno.h>
#include <string.h>

#include "api/handle.h"
#include "core/err.h"
#include "transcribe/transcriber.h"

enum {
    DEFAULT_REQUESTS = 4,
    DEFAULT_QUEUE = 64,
};

struct inf_transcriber {
    struct inf_model *model;
    struct transcriber *t;
};

static int check_params(const struct inf_transcriber_params *p, struct inf_err *reterr)
{
    if (!p || !p->model)
        return err_set(reterr, EINVAL, "no model was given");
    if (!p->model->whisper)
        return err_set(reterr, EOPNOTSUPP, "this model does not transcribe speech");
    if (p->max_requests > TRANSCRIBER_MAX_RUNNING)
        return err_set(reterr, EINVAL, "max_requests must not be above %d",
                       TRANSCRIBER_MAX_RUNNING);
    return 0;
}

/* Returns the device to use. "auto" means the CPU, because no other device can run Whisper. */
static const char *device_of(const struct inf_transcriber_params *p)
{
    return !p->device || strcmp(p->device, "auto") == 0 ? "cpu" : p->device;
}

int inf_transcriber_new(const struct inf_transcriber_params *p,
                        struct inf_transcriber **ret_transcriber, struct inf_err *reterr)
{
    _cleanup_(backend_freep) struct backend *backend = NULL;
    struct transcriber_params params;
    struct inf_transcriber *transcriber;
    struct backend_params on;
    int r;

    r = check_params(p, reterr);
    if (r < 0)
        return r;
    on = (struct backend_params){.device = device_of(p),
                                 .isa = p->isa,
                                 .n_threads = p->n_threads,
                                 .cache_dir = p->cache_dir};
    params = (struct transcriber_params){
        .model = p->model->whisper,
        .tok = p->model->tok,
        .vad_path = p->vad_path,
        .max_running = p->max_requests > 0 ? p->max_requests : DEFAULT_REQUESTS,
        .max_waiting = p->max_queue > 0 ? p->max_queue : DEFAULT_QUEUE,
        .exact = p->exact,
        .files = model_files(p->model),
    };
    transcriber = NEW(struct inf_transcriber, 1);
    if (!transcriber)
        return err_set(reterr, ENOMEM, "out of memory");
    r = backend_new(&on, &backend, reterr);
    if (r == 0)
        r = transcriber_new(&backend, &params, &transcriber->t, reterr);
    /* Copies of weights were made, so check that the files are unchanged. */
    if (r == 0)
        r = inf_model_check(p->model, reterr);
    if (r < 0) {
        transcriber_free(transcriber->t);
        free(transcriber);
        return r;
    }
    transcriber->model = inf_model_ref(p->model);
    *ret_transcriber = transcriber;
    return 0;
}

struct inf_transcriber *inf_transcriber_free(struct inf_transcriber *transcriber)
{
    if (!transcriber)
        return NULL;
    transcriber_free(transcriber->t);
    inf_model_unref(transcriber->model);
    free(transcriber);
    return NULL;
}

int inf_transcriber_submit(struct inf_transcriber *transcriber,
                           const struct inf_audio_request *request, uint64_t *ret_id,
                           struct inf_err *reterr)
{
    int r;

    assert(transcriber && ret_id);
    if (!request)
        return err_set(reterr, EINVAL, "there is no request");
    r = inf_model_check(transcriber->model, reterr);
    if (r < 0)
        return r;
    return transcriber_submit(transcriber->t, request, ret_id, reterr);
}

int inf_transcriber_feed(struct inf_transcriber *transcriber, uint64_t id, const float *samples,
                         size_t n)
{
    assert(transcriber && (samples || n == 0));
    return transcriber_feed(transcriber->t, id, samples, n);
}

void inf_transcriber_finish(struct inf_transcriber *transcriber, uint64_t id)
{
    transcriber_finish(transcriber->t, id);
}

void inf_transcriber_cancel(struct inf_transcriber *transcriber, uint64_t id)
{
    transcriber_cancel(transcriber->t, id);
}

int inf_transcriber_event_fd(const struct inf_transcriber *transcriber)
{
    return transcriber->t->events.fd;
}

struct inf_audio_event *inf_transcriber_next_event(struct inf_transcriber *transcriber)
{
    return transcriber_next(transcriber->t);
}

struct inf_audio_event *inf_transcriber_wait_event(struct inf_transcriber *transcriber,
                                                   int timeout_msec)
{
    const uint64_t end = outbox_deadline(timeout_msec);
    struct inf_audio_event *event;

    while (!(event = transcriber_next(transcriber->t)) &&
           outbox_wait(transcriber->t->events.fd, end))
        ;
    return event;
}

struct inf_audio_event *inf_audio_event_free(struct inf_audio_event *event)
{
    free(event);
    return NULL;
}

void inf_transcriber_stats(struct inf_transcriber *transcriber,
                           struct inf_transcriber_stats *ret_stats)
{
    transcriber_stats(transcriber->t, ret_stats);
}

bool inf_transcriber_is_multilingual(const struct inf_transcriber *transcriber)
{
    return transcriber->t->tokens.multilingual;
}

bool inf_transcriber_has_vad(const struct inf_transcriber *transcriber)
{
    return transcriber->t->vad;
}

const char *inf_transcriber_device(const struct inf_transcriber *transcriber)
{
    return transcriber->t->backend->device;
}
