/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-audio: starts its decoder, takes the socket, reads the configuration, gives up new rights,
 * serves
 */
#include <errno.h>
#include <string.h>

#include "audio/audio.h"
#include "audio/transcription.h"
#include "common/config.h"
#include "common/jobs.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/misconfigured.h"
#include "common/models.h"
#include "common/options.h"
#include "common/service.h"

/* Peers are the gateway and tools of this machine; the gateway's own limits are stricter. */
#define AUDIO_MAX_CONNECTIONS 1024
/* Longer than the gateway keeps its connections, so that only the gateway closes them. */
#define AUDIO_REQUEST_USEC (120 * 1000000u)

static bool audio_busy(void *data)
{
    const struct audio *audio = data;

    return audio->n_transcriptions > 0 || audio->loading;
}

static void audio_expired(void *data)
{
    struct audio *audio = data;
    struct transcription *next;

    audio->expired = true;
    for (struct transcription *t = audio->transcriptions; t; t = next) {
        next = t->next;
        transcription_fail(t, 503, "shutting_down", "The service is ending; try again.");
    }
}

/* No new one can be started from here. */
static void on_decoder_lost(void *data)
{
    struct audio *audio = data;

    service_retire(audio->service, "the decoder ended");
}

static int audio_start(struct audio *audio)
{
    int r;

    audio->loop = service_loop(audio->service);
    audio->schedule = (struct loop_task){.run = resident_schedule, .data = audio};
    r = jobs_new(audio->loop, "loader", &audio->loader);
    return r < 0 ? r : decoder_attach(audio->decoder, audio->loop, on_decoder_lost, audio);
}

static void audio_stop(struct audio *audio)
{
    jobs_free(audio->loader);
    /* Answers end with their connections; then transcribers, which have nobody to tell any more. */
    if (audio->service)
        http_server_close(service_server(audio->service));
    audio->decoder = decoder_close(audio->decoder);
    resident_free_all(audio);
    models_free(audio->models);
    service_free(audio->service);
}

static int audio_run(struct audio *audio, const struct options *options)
{
    const struct config *config = options->config;
    struct inf_err err = {};
    int r;

    audio->config = config;
    r = service_new(
        &(struct service_params){
            .name = "audio",
            .http =
                {
                    .max_header = config->gateway.max_header,
                    .max_body = config->audio.max_body,
                    .max_connections = AUDIO_MAX_CONNECTIONS,
                    .request_timeout_usec = AUDIO_REQUEST_USEC,
                    .stall_timeout_usec = config->gateway.stall_timeout_usec,
                    .handle = audio_handle,
                    .data = audio,
                },
            .idle_timeout_usec = config->audio.idle_timeout_usec,
            .drain_timeout_usec = options->drain_timeout_usec,
            .busy = audio_busy,
            .expired = audio_expired,
            .status = audio_status,
            .data = audio,
        },
        &audio->service, &err);
    if (r < 0)
        log_error("%s", err.text);
    else if ((r = audio_start(audio)) < 0)
        log_error("cannot start threads: %s", strerror(-r));
    else
        r = service_run(audio->service);
    audio_stop(audio);
    return r < 0 ? 1 : 0;
}

/* Before this process gives up the right to start one. */
static int open_decoder(struct audio *audio, struct options *options)
{
    const struct decoder_params params = {
        .landlock_optional = options->config->confinement.landlock == CONFIG_LANDLOCK_OPTIONAL,
    };
    struct inf_err err = {};

    if (options->wrong || decoder_open(&params, &audio->decoder, &err) == 0)
        return 0;
    return options_set_wrong(options, err.text);
}

int main(int argc, char **argv)
{
    static struct audio audio;
    struct options options;
    int r;

    log_open("audio");
    r = options_read("audio", argc, argv, &options);
    if (r >= 0)
        return r;
    metrics_open();
    if (open_decoder(&audio, &options) < 0 || !misconfigured_confine("audio", &options))
        r = 1;
    else if (options.wrong)
        r = misconfigured_serve("audio", &options);
    else
        r = audio_run(&audio, &options);
    options_done(&options);
    return r;
}
