/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and frees the models of the audio service. */
#include "audio/audio-resident.h"

#include <errno.h>

#include "audio/transcription.h"
#include "audio/vad-file.h"
#include "common/config/config.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "host/model-host.h"

static int resident_suits(struct resident *resident, struct inf_err *reterr)
{
    return inf_model_suits(resident->model, INF_USE_SPEECH, reterr);
}

static int resident_open(struct resident *resident, struct inf_err *reterr)
{
    const struct model_host *host = resident->pool->data;
    _cleanup_free_ char *vad = NULL;
    struct inf_transcriber_params params = {
        .model = resident->model,
        .device = "cpu",
        .isa = host->config->audio.isa,
        .n_threads = host->config->audio.threads,
        .max_requests = host->config->audio.max_running,
        .max_queue = host->config->audio.max_queue,
    };
    const int r = vad_file_find(host->config, &vad, reterr);

    params.vad_path = vad;
    return r < 0 ? r
                 : inf_transcriber_new(&params, &audio_resident_of(resident)->transcriber, reterr);
}

static void resident_close(struct resident *resident)
{
    inf_transcriber_free(audio_resident_of(resident)->transcriber);
}

static int resident_fd(const struct resident *resident)
{
    return inf_transcriber_event_fd(audio_resident_of(resident)->transcriber);
}

static void resident_on_events(struct resident *resident)
{
    struct inf_audio_event *event;

    service_touch(resident->pool->service);
    while ((event = inf_transcriber_next_event(audio_resident_of(resident)->transcriber))) {
        transcription_on_event(event->user, event);
        inf_audio_event_free(event);
    }
}

static void resident_loaded(const struct resident *resident)
{
    log_event(LOG_ID_MODEL_LOADED, LOG_INFO, resident->name, "loaded %s on %s: %s", resident->name,
              inf_transcriber_device(audio_resident_of(resident)->transcriber),
              inf_model_info(resident->model)->dtype_text);
}

static void resident_failed(const struct resident *resident, const char *why,
                            struct problem *problem)
{
    if (resident->load_status == -EOPNOTSUPP && resident->model)
        problem_set(problem, 400, "unsupported_model", "model",
                    "The model '%s' is not a speech model: %s.", resident->name, why);
    else
        resident_load_problem(resident, why, problem);
    log_event(LOG_ID_MODEL_FAILED, LOG_WARNING, resident->name, "%s", problem->message);
}

_Static_assert(sizeof(struct inf_transcriber_stats) <= MODEL_STATS_MAX,
               "model_host_put_metrics() has a buffer of MODEL_STATS_MAX bytes for them");

static void resident_stats(struct resident *resident, void *ret_stats)
{
    inf_transcriber_stats(audio_resident_of(resident)->transcriber, ret_stats);
}

const struct residents_ops audio_residents_ops = {
    .size = sizeof(struct audio_resident),
    .suits = resident_suits,
    .open = resident_open,
    .close = resident_close,
    .fd = resident_fd,
    .readable = resident_on_events,
    .loaded = resident_loaded,
    .failed = resident_failed,
    .stats = resident_stats,
};
