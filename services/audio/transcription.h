/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request, from its form to its answer
 *
 * The form is read, the model is waited for, the file goes to the decoder. With its first samples
 * the request enters the transcriber's queue, so that a file that is none never does. From there
 * samples go in as fast as they are taken and segments come out, until both sides are done.
 */

#include <infer/audio.h>

#include "audio/decoder-client.h"
#include "audio/audio-resident.h"
#include "audio/transcript.h"
#include "common/request-id.h"

struct audio;
struct http_request;

struct transcription {
    struct audio *audio;
    struct http_request *http; /* NULL: over */
    unsigned n_refs;
    char request_id[REQUEST_ID_SIZE];
    struct audio_params params;
    struct resident_waiter waiter;
    struct resident *resident;
    struct decoding *decoding; /* NULL: not begun, or over */
    uint64_t audio_id;         /* 0: not submitted, or over */
    struct transcript transcript;
    struct loop_timer timer;
    uint64_t start_usec, deadline_usec;
    bool streaming; /* the answer has begun */
    bool any_text;
    bool ended, failed;
    struct transcription *prev, *next;
};

void transcription_new(struct audio *audio, enum inf_audio_task task, struct http_request *request);
/* From a transcriber; the event stays the caller's. */
void transcription_on_event(struct transcription *t, const struct inf_audio_event *event);
void transcription_fail(struct transcription *t, int status, const char *code, const char *format,
                        ...) PRINTF(4, 5);
