/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A request on its way: what is to be heard, and what was
 *
 * The transcriber's thread takes it from window to window; only what its callers put in is under
 * the lock.
 */

#include <infer/audio.h>

#include "transcribe/attempt.h"
#include "transcribe/longform.h"
#include "transcribe/sound.h"
#include "transcribe/tokens.h"

enum hearing_state {
    HEARING_LISTEN,   /* for the next window, or for more of it */
    HEARING_ENCODE,   /* it waits for the encoder, or is in it */
    HEARING_LANGUAGE, /* the decoder is asked for the language */
    HEARING_TEXT,     /* … for the text */
    HEARING_OVER,     /* error: 0, or why */
};

struct event_item {
    struct event_item *next;
    struct inf_audio_event *event;
};

struct hearing {
    struct hearing *next;
    uint64_t id;
    struct event_item *last; /* the event that ends it: there is memory for that one */
    void *user;
    /* Of the request. */
    bool translate, words, skip_silence;
    struct inf_audio_vad vad;
    uint32_t beam_size, best_of;
    int language; /* index into those of the tokens; -1: not known yet */
    int32_t *hot; /* tokens of hotwords */
    size_t n_hot;
    struct rng rng;
    struct longform *lf;
    /* Under the lock. */
    float *incoming;
    size_t n_incoming, incoming_cap;
    uint64_t n_held; /* samples behind incoming */
    bool finished, cancelled, told_full;
    /* Of the thread. */
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
    double last_speech; /* where words ended, in seconds of what is heard */
    uint32_t n_segments;
};

/* Checks @request and copies it. -EINVAL with the reason; -ENOMEM. */
int hearing_new(const struct inf_audio_request *request, const struct speech_tokens *tokens,
                const struct inf_tokenizer *tok, uint32_t n_context, struct hearing **ret_hearing,
                struct inf_err *reterr);
struct hearing *hearing_free(struct hearing *h);
DEFINE_CLEANUP(struct hearing *, hearing_free);

/* What the thread needs of it: -ENOMEM. */
int hearing_open(struct hearing *h, struct decode *d, const struct speech_tokens *tokens,
                 const struct mel *mel, const struct vad_model *vad);

/* Begins an attempt at the window: the prompt, and how many texts. */
void hearing_begin_text(struct hearing *h, const struct speech_tokens *tokens, uint32_t n_context);
