/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The audio service transcribes speech for clients of OpenAI's HTTP API.
 *
 * The thread of the event loop owns all objects. Two threads open and load models, and each
 * transcriber has its own threads. A separate program decodes files (see decoder-client.h).
 */

#include "host/model-host.h"

struct decoder;

struct audio_stats {
    uint64_t n_answered;
    uint64_t n_undecodable, n_crashes; /* numbers of undecodable files and of crashed decoders */
    double seconds;                    /* seconds of audio in answered requests */
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
/* Answers GET /api/ps with the loaded models. */
void audio_loaded(struct model_host *host, struct http_request *request);
/* The callback params.status of the host. */
void audio_status(void *host, char *text, size_t size);
