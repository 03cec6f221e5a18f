/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The audio service: text of speech behind OpenAI's API
 *
 * One loop thread owns everything here. Beside it run one thread that loads models and those of
 * the transcribers; files are decoded by another program, see decoder-client.h.
 */

#include "common/loop.h"
#include "common/metrics.h"

struct config;
struct decoder;
struct http_request;
struct jobs;
struct models;
struct resident;
struct service;
struct transcription;

struct audio_stats {
    uint64_t n_requests, n_answered, n_failed, n_refused, n_cancelled, n_loads;
    uint64_t n_undecodable, n_crashes; /* files, decoders */
    double seconds;                    /* of sound that was answered */
    struct metrics_histogram first_text, duration;
};

struct audio {
    const struct config *config;
    struct service *service;
    struct loop *loop;
    struct jobs *loader;
    struct decoder *decoder;
    struct models *models; /* the last scan */
    uint64_t scanned_usec;
    struct resident *residents;
    struct resident *loading;
    struct loop_task schedule;
    uint32_t n_transcriptions;
    struct transcription *transcriptions;
    struct audio_stats stats;
    bool expired; /* the time to finish after SIGTERM is over */
};

/* router.c */
void audio_handle(void *data, struct http_request *request);
/* models.h's list, read again when it is older than a second; NULL when it cannot be read. */
const struct models *audio_models(struct audio *audio);

/* report.c */
void audio_health(struct audio *audio, struct http_request *request);
void audio_metrics(struct audio *audio, struct http_request *request);
void audio_status(void *data, char *text, size_t size);
