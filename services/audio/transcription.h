/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request, from its form to its answer (see model-request.h)
 *
 * The form is read, the model is waited for, the file goes to the decoder. With its first samples
 * the request enters the transcriber's queue, so that a file that is none never does. From there
 * samples go in as fast as they are taken and segments come out, until both sides are done.
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
    struct decoding *decoding; /* NULL: not begun, or over */
    uint64_t audio_id;         /* 0: not submitted, or over */
    struct transcript transcript;
    bool any_text;
};

/* For params.begin of the host; @task: an enum inf_audio_task. */
void transcription_new(struct model_host *host, const void *task, struct http_request *http);
/* From a transcriber; the event stays the caller's. */
void transcription_on_event(struct transcription *t, const struct inf_audio_event *event);
