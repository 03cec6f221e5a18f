/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The audio service: text of speech behind OpenAI's API
 *
 * One loop thread owns everything here. Beside it run one thread that loads models and those of
 * the transcribers; files are decoded by another program, see decoder-client.h.
 */

#include "host/model-host.h"

struct decoder;

struct audio_stats {
    uint64_t n_answered;
    uint64_t n_undecodable, n_crashes; /* files, decoders */
    double seconds;                    /* of sound that was answered */
    struct metrics_histogram first_text;
};

struct audio {
    struct model_host host;
    struct decoder *decoder;
    struct audio_stats stats;
};

/* audio-router.c */
extern const struct model_route audio_routes[];
extern const size_t n_audio_routes;

/* audio-report.c */
void audio_health(struct model_host *host, struct http_request *request);
void audio_metrics(struct model_host *host, struct http_request *request);
/* For params.status. */
void audio_status(void *host, char *text, size_t size);
