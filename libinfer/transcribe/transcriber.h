/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the transcriber, its thread and its requests.
 *
 * Requests run concurrently up to a limit, in order of arrival. Waiting windows pass through the
 * encoder together, and requests take turns. The encoder runs in slices of time; between two
 * slices, the texts of all other windows advance by a token. A run of the encoder and a step of the
 * decoder each read their weights once for all requests in it.
 */

#include "core/file.h"
#include "core/loop-thread.h"
#include "core/outbox.h"
#include "model/whisper-model.h"
#include "transcribe/encode-window.h"
#include "transcribe/hearing.h"

enum {
    TRANSCRIBER_MAX_RUNNING = 64,
    TRANSCRIBER_MAX_WINDOWS = 4,           /* more windows gain nothing, and the first text has to
                                              wait for all of them */
    TRANSCRIBER_MAX_HELD = 130 * MEL_RATE, /* limit of samples per request; the last accepted piece
                                              may exceed it */
};

struct transcriber_params {
    const struct whisper_model *model;
    const struct inf_tokenizer *tok;
    const char *vad_path; /* model for voice activity detection; NULL: none */
    uint32_t max_running, max_waiting;
    bool exact;
    struct file_set files; /* files of the weights: if they change, all computing stops */
};

struct transcriber {
    struct transcriber_params params;
    struct backend *backend;
    struct reformat weights; /* copies of weights of the encoder and of memories, in the
                                backend's fastest format */
    struct speech_tokens tokens;
    struct mel *mel;
    struct vad_model *vad; /* NULL: none */
    uint64_t *masks;       /* [n_text_layers], bits of the heads that give times */
    uint32_t n_heads;
    /* Used only by the thread. */
    struct encode *encode;
    struct decode decode;
    struct attempt_space space;
    struct hearing *running[TRANSCRIBER_MAX_RUNNING];
    uint32_t n_running;
    uint32_t max_windows; /* limit of windows that are in the encoder at the same time */
    /* Requests of the windows in the encoder; NULL: the request is gone. */
    struct hearing *encoding[TRANSCRIBER_MAX_WINDOWS];
    uint32_t n_encoding;
    uint64_t encode_nsec, window_nsec; /* encode_nsec: time spent so far on the windows in the
                                          encoder; window_nsec: time per window of the last run */
    uint32_t turn;                     /* index in `running` of the request whose turn is next */
    float *window;                     /* [max_windows, LONGFORM_WINDOW, n_mels] */
    float *rows;                       /* [max_windows, n_audio, n_embd] */
    float *logits;                     /* logits of a step */
    struct decode_item *items;         /* items of a step */
    int32_t *said;                     /* [n_text_ctx]: text of an accepted window */
    struct loop_thread thread;         /* its lock protects all members below, the list of running
                                          requests, and parts of each request */
    bool dirty;                        /* the thread has new work */
    struct fifo waiting;               /* requests that wait for their turn */
    struct outbox events;              /* events (struct event_item) */
    uint64_t last_id;
    struct inf_transcriber_stats stats;
};

/* Takes ownership of *@backend on success. Returns -EOPNOTSUPP with the reason, an error of reading
 * the weights for voice activity detection, -ENOMEM, or -EAGAIN. */
int transcriber_new(struct backend **backend, const struct transcriber_params *params,
                    struct transcriber **ret_transcriber, struct inf_err *reterr);
struct transcriber *transcriber_free(struct transcriber *t);
DEFINE_CLEANUP(struct transcriber *, transcriber_free);

/* Implement the functions inf_transcriber_*(). */
int transcriber_submit(struct transcriber *t, const struct inf_audio_request *request,
                       uint64_t *ret_id, struct inf_err *reterr);
int transcriber_feed(struct transcriber *t, uint64_t id, const float *samples, size_t n);
void transcriber_finish(struct transcriber *t, uint64_t id);
void transcriber_cancel(struct transcriber *t, uint64_t id);
struct inf_audio_event *transcriber_next(struct transcriber *t);
void transcriber_stats(struct transcriber *t, struct inf_transcriber_stats *ret_stats);

/* transcriber-work.c; called on the thread, without the lock. */
/* Advances a request as far as possible without the device. Returns true if something changed. */
bool transcriber_listen(struct transcriber *t, struct hearing *h);
/* transcriber_encode() runs the encoder for a slice of time, transcriber_step() runs one step of
 * all texts. Both return true if there was work. */
bool transcriber_encode(struct transcriber *t);
bool transcriber_step(struct transcriber *t);

/* transcriber.c: sends @event. NULL means that memory was short, and the request fails. */
void transcriber_tell(struct transcriber *t, struct hearing *h, struct inf_audio_event *event);

/* speech-event.c: makes an event. Returns NULL if memory is short. Texts and lists are copied into
 * the event. */
struct inf_audio_event *speech_event_new(const struct hearing *h, enum inf_audio_event_kind kind);
struct inf_audio_event *speech_event_segment(const struct hearing *h,
                                             const struct inf_audio_event *from);
