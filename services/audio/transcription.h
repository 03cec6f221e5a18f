/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Struct transcription is a request to transcribe or translate speech (see model-request.h).
 *
 * The form is read, the request waits for the model, and the file goes to the decoder. The request
 * enters the transcriber's queue with its first samples, so a file that is not a sound file never
 * occupies the queue. From then on the transcriber gets samples as fast as it takes them, and
 * returns segments, until it has taken the last sample and returned the last segment.
 */

#include <infer/audio.h>

#include "audio/audio-resident.h"
#include "audio/decoder-client.h"
#include "audio/transcript.h"
#include "host/model-request.h"

struct audio;
struct http_request;

struct transcription {
    struct model_request request;
    struct audio *audio;
    struct audio_params params;
    struct audio_resident *resident;
    struct decoding *decoding; /* NULL: not started, or finished */
    uint64_t audio_id;         /* 0: not submitted, or finished */
    struct transcript transcript;
    uint64_t first_usec; /* when the first text came; 0: not yet */
};

/* The callback params.begin of the host. @task points to an enum inf_audio_task. */
void transcription_new(struct model_host *host, const void *task, struct http_request *http);
/* Handles an event of the transcriber; the caller frees the event. */
void transcription_on_event(struct transcription *t, const struct inf_audio_event *event);
