/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce-audio, the audio service, transcribes speech.
 *
 * It reads the configuration, starts its decoder, confines itself, takes its sockets and serves.
 */
#include "audio/audio.h"
#include "audio/transcription.h"
#include "common/config/config.h"
#include "common/config/options.h"
#include "common/service/log.h"
#include "common/service/misconfigured.h"
#include "common/service/service.h"

/* Only the gateway and tools on this machine connect; by default, the gateway allows fewer
 * connections than this. */
#define AUDIO_MAX_CONNECTIONS 1024

static struct audio *audio_of(struct model_host *host)
{
    return CONTAINER_OF(host, struct audio, host);
}

/* This process cannot start a new decoder, so it exits, and the next process starts one. */
static void on_decoder_lost(void *data)
{
    struct audio *audio = data;

    service_retire(audio->host.service, "the decoder ended");
}

static int audio_start(struct model_host *host)
{
    return decoder_attach(audio_of(host)->decoder, host->loop, on_decoder_lost, host);
}

static void audio_stop(struct model_host *host)
{
    audio_of(host)->decoder = decoder_close(audio_of(host)->decoder);
}

static int audio_run(struct audio *audio, const struct options *options)
{
    const struct config *config = options->config;

    return model_host_run(&audio->host,
                          &(struct model_host_params){
                              .name = "audio",
                              .routes = audio_routes,
                              .n_routes = n_audio_routes,
                              .residents = &audio_residents_ops,
                              .max_models = config->audio.max_models,
                              .max_connections = AUDIO_MAX_CONNECTIONS,
                              .max_requests = config->audio.max_queue,
                              .max_body = config->audio.max_body,
                              .idle_timeout_usec = config->audio.idle_timeout_usec,
                              .request_timeout_usec = config->audio.request_timeout_usec,
                              .status = audio_status,
                              .begin = transcription_new,
                              .start = audio_start,
                              .stop = audio_stop,
                          },
                          options);
}

/* Starts the decoder, before this process loses the right to do so. */
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
