/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares a transcription request in progress.
 *
 * The transcriber's thread processes the request window by window. The transcriber's lock protects
 * only the members that callers write.
 */

#include <infer/audio.h>

#include "core/fifo.h"
#include "transcribe/attempt.h"
#include "transcribe/longform.h"
#include "transcribe/sound.h"
#include "transcribe/tokens.h"

enum hearing_state {
    HEARING_LISTEN,   /* waits for the samples of the next window */
    HEARING_ENCODE,   /* waits for the encoder, or is in the encoder */
    HEARING_LANGUAGE, /* the decoder detects the language */
    HEARING_TEXT,     /* the decoder writes the text */
    HEARING_OVER,     /* has ended; error is 0 or the reason */
};

struct event_item {
    struct fifo_link link;
    struct inf_audio_event *event;
};

struct hearing {
    struct fifo_link link; /* place in the queue of waiting requests */
    uint64_t id;
    struct event_item *last; /* the final event, allocated in advance */
    void *user;
    /* Parameters of the request. */
    bool translate, words, skip_silence;
    struct inf_audio_vad vad;
    uint32_t beam_size, best_of;
    int language; /* index into the languages of the tokens; -1: unknown */
    int32_t *hot; /* tokens of hotwords */
    size_t n_hot;
    struct rng rng;
    struct longform *lf;
    /* Protected by the lock. */
    float *incoming;
    size_t n_incoming, incoming_cap;
    uint64_t n_held; /* samples that were accepted and are no longer in incoming */
    bool finished, cancelled, told_full;
    /* Used only by the thread. */
    enum hearing_state state;
    int error;
    bool has_sound, has_tables, told_language;
    struct sound sound;
    uint64_t n_samples;
    struct kv_table memory;
    struct attempt attempt;
    int32_t *prompt; /* [n_context] */
    uint32_t n_prompt, i_start, n_start;
    struct longform_window window;
    double last_speech; /* end of the last word, in seconds of the audio without skipped silence */
    uint32_t n_segments;
};

/* Checks @request and copies it. -EINVAL with the reason; -ENOMEM. */
int hearing_new(const struct inf_audio_request *request, const struct speech_tokens *tokens,
                const struct inf_tokenizer *tok, uint32_t n_context, struct hearing **ret_hearing,
                struct inf_err *reterr);
struct hearing *hearing_free(struct hearing *h);
DEFINE_CLEANUP(struct hearing *, hearing_free);

/* Allocates what the thread needs for the request. -ENOMEM. */
int hearing_open(struct hearing *h, struct decode *d, const struct speech_tokens *tokens,
                 const struct mel *mel, const struct vad_model *vad);

/* Begins an attempt at the window: sets the prompt and the number of texts. */
void hearing_begin_text(struct hearing *h, const struct speech_tokens *tokens, uint32_t n_context);
