/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The transcriber's thread, and what waits for it
 *
 * Requests run as many together as may, in the order in which they came. Windows that wait pass the
 * encoder together, in turns, and between two of its products the texts of all others go on by a
 * token: a step of either reads its weights once for all of them.
 */

#include <pthread.h>

#include "core/file.h"
#include "model/whisper-model.h"
#include "transcribe/encode-window.h"
#include "transcribe/hearing.h"

enum {
    TRANSCRIBER_MAX_RUNNING = 64,
    TRANSCRIBER_MAX_WINDOWS = 4,           /* more gain nothing, and the first text waits for all */
    TRANSCRIBER_MAX_HELD = 130 * MEL_RATE, /* samples of a request; one piece more is taken */
};

struct transcriber_params {
    const struct whisper_model *model;
    const struct inf_tokenizer *tok;
    const char *vad_path; /* or NULL */
    uint32_t max_running, max_waiting;
    bool exact;
    struct file_set files; /* of the weights: when they change nothing is computed any more */
};

struct transcriber {
    struct transcriber_params params;
    struct backend *backend;
    struct reformat weights; /* of the encoder and of memories, in formats of their own */
    struct speech_tokens tokens;
    struct mel *mel;
    struct vad_model *vad; /* or NULL */
    uint64_t *masks;       /* [n_text_layers], of heads that tell times */
    uint32_t n_heads;
    /* Of the thread. */
    struct encode *encode;
    struct decode decode;
    struct attempt_space space;
    struct hearing *running[TRANSCRIBER_MAX_RUNNING];
    uint32_t n_running;
    uint32_t max_windows;                              /* in the encoder at once, at most */
    struct hearing *encoding[TRANSCRIBER_MAX_WINDOWS]; /* whose are there; NULL: it left */
    uint32_t n_encoding;
    uint64_t encode_nsec, window_nsec; /* they took so far; one of the last ones took */
    uint32_t turn;                     /* of the next one */
    float *window;                     /* [max_windows, LONGFORM_WINDOW, n_mels] */
    float *rows;                       /* [max_windows, n_audio, n_embd] */
    float *logits;                     /* of a step */
    struct decode_item *items;         /* of a step */
    int32_t *said;                     /* [n_text_ctx]: text of a window that stands */
    int fd;                            /* events wait */
    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* of everything below, of the list of those that run, and of parts of
                             each request */
    pthread_cond_t wake;
    bool stop, dirty; /* dirty: there is something new for the thread */
    struct hearing *waiting, **waiting_tail;
    struct event_item *events, **events_tail;
    uint64_t last_id;
    struct inf_transcriber_stats stats;
};

/* Takes *@backend on success. -EOPNOTSUPP with the reason, errors of the VAD's file, -ENOMEM,
 * -EAGAIN. */
int transcriber_new(struct backend **backend, const struct transcriber_params *params,
                    struct transcriber **ret_transcriber, struct inf_err *reterr);
struct transcriber *transcriber_free(struct transcriber *t);
DEFINE_CLEANUP(struct transcriber *, transcriber_free);

/* As inf_transcriber_*(). */
int transcriber_submit(struct transcriber *t, const struct inf_audio_request *request,
                       uint64_t *ret_id, struct inf_err *reterr);
int transcriber_feed(struct transcriber *t, uint64_t id, const float *samples, size_t n);
void transcriber_finish(struct transcriber *t, uint64_t id);
void transcriber_cancel(struct transcriber *t, uint64_t id);
struct inf_audio_event *transcriber_next(struct transcriber *t);
void transcriber_stats(struct transcriber *t, struct inf_transcriber_stats *ret_stats);

/* transcriber-work.c, on the thread, without the lock. */
/* Takes a request on as far as that needs no device: true when something changed. */
bool transcriber_listen(struct transcriber *t, struct hearing *h);
/* A piece of windows through the encoder; a step of all texts. True: there was something to do. */
bool transcriber_encode(struct transcriber *t);
bool transcriber_step(struct transcriber *t);

/* transcriber.c: @event leaves; a NULL is lost memory, and the request fails with it. */
void transcriber_tell(struct transcriber *t, struct hearing *h, struct inf_audio_event *event);

/* speech-event.c; NULL when out of memory. Texts and lists are copied into the event. */
struct inf_audio_event *speech_event_new(const struct hearing *h, enum inf_audio_event_kind kind);
struct inf_audio_event *speech_event_segment(const struct hearing *h,
                                             const struct inf_audio_event *from);
