/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_AUDIO_H
#define INFER_AUDIO_H

/*
 * Speech to text
 *
 * A transcriber owns a thread that computes windows of 30 seconds. Windows of several requests are
 * computed together, and no request waits for all windows of another request. Samples arrive piece
 * by piece and are freed when their window is done, so recordings of several hours fit in memory.
 * Decoding follows the rules of OpenAI's whisper.
 *
 * Any thread may call any function, but only one thread at a time may call
 * inf_transcriber_next_event() and inf_transcriber_wait_event().
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_transcriber;

/* Conditions that functions return as positive numbers. */
enum {
    INF_AUDIO_FULL = 1, /* a limit is reached: the queue of inf_transcriber_submit() is full, or
                           inf_transcriber_feed() accepts no samples until the event
                           INF_AUDIO_ROOM */
};

struct inf_transcriber_params {
    struct inf_model *model; /* a Whisper model; the transcriber takes its own reference */
    const char *device;      /* "cpu", NULL or "auto", which mean the same: no other device runs
                                these models */
    const char *cache_dir;   /* as in infer/embed.h */
    const char *isa;
    uint32_t n_threads;
    bool exact;            /* multiply F16 weights as floats, as in infer/embed.h */
    const char *vad_path;  /* weights of Silero's voice activity detection (VAD); NULL: none, and
                              skip_silence has no effect */
    uint32_t max_requests; /* requests that run together, at most 64; 0: 4 */
    uint32_t max_queue;    /* requests that wait; 0: 64 */
};

enum inf_audio_task {
    INF_AUDIO_TRANSCRIBE,
    INF_AUDIO_TRANSLATE, /* translate to English */
};

enum {
    INF_AUDIO_MAX_PAD_MS = 5000,
    INF_AUDIO_MAX_SILENCE_MS = 20000,
};

/* Voice activity detection, by Silero's rules. A member that is 0 takes its default value. */
struct inf_audio_vad {
    float threshold;     /* sound with at least this probability is speech; below 1; 0: 0.5 */
    uint32_t pad_ms;     /* silence that is kept on either side of speech; 0: 400 */
    uint32_t silence_ms; /* a shorter silence is only a pause in speech; 0: 2000 */
};

/* inf_transcriber_submit() copies a request and everything that it points to, except @user. */
struct inf_audio_request {
    enum inf_audio_task task;
    const char *language;        /* "en" or "english"; NULL: detect it in the first window */
    const char *prompt;          /* text that precedes the recording, as context; NULL: none */
    const char *hotwords;        /* words that are likely to occur; NULL: none */
    const float *temperatures;   /* temperatures of sampling, tried in turn until whisper's checks
                                    accept the text of a window; NULL: 0, 0.2 … 1 */
    size_t n_temperatures;       /* at most 8, each from 0 to 2 */
    uint32_t beam_size, best_of; /* at most 16 each; 0: beam size 1, best of 5 */
    bool words;                  /* report the times of words */
    bool skip_silence;           /* skip silence that the VAD finds, if there are VAD weights */
    struct inf_audio_vad vad;    /* parameters of skip_silence */
    bool no_carry;               /* do not use the text of one window as prompt for the next */
    uint64_t seed;
    void *user; /* returned in the events of this request */
};

enum inf_audio_event_kind {
    INF_AUDIO_LANGUAGE, /* sets `language` and `language_probability`; sent once, before any
                           segment */
    INF_AUDIO_SEGMENT,
    INF_AUDIO_ROOM,   /* inf_transcriber_feed() accepts samples again */
    INF_AUDIO_DONE,   /* the last event of a successful request; error is 0 */
    INF_AUDIO_FAILED, /* the last event of a failed request; error may be -ECANCELED or -ESTALE */
};

struct inf_audio_word {
    const char *text;  /* with its leading space */
    double start, end; /* seconds from the beginning of the recording */
    float probability;
};

struct inf_audio_event {
    uint64_t request;
    void *user;
    enum inf_audio_event_kind kind;
    int error;
    const char *language;       /* "en"; NULL: not known yet */
    float language_probability; /* 1 if the request or the model fixes the language */
    /* Members that only INF_AUDIO_SEGMENT sets */
    uint32_t id, seek; /* number of the segment; start of its window in frames of 10 ms */
    double start, end;
    const char *text;
    const int32_t *tokens; /* timestamp tokens included */
    size_t n_tokens;
    float temperature, avg_logprob, compression_ratio;
    float no_speech_prob; /* 0 if the model does not compute it */
    const struct inf_audio_word *words;
    size_t n_words;
    /* A member that only INF_AUDIO_DONE sets */
    double seconds; /* duration of the audio */
};

/* Creates a transcriber and starts its thread. Returns 0; -EOPNOTSUPP: the model is not a Whisper
 * model, or the device is not supported; -ESTALE: the model's files changed; -ENOMEM; -EINVAL; or
 * the error of reading the VAD weights. */
INF_PUBLIC int inf_transcriber_new(const struct inf_transcriber_params *params,
                                   struct inf_transcriber **ret_transcriber,
                                   struct inf_err *reterr);
/* Cancels all requests and joins the thread. NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_transcriber *inf_transcriber_free(struct inf_transcriber *transcriber);

/* Returns 0 and sets *ret_id (never 0); INF_AUDIO_FULL; -EINVAL with the reason (an unknown
 * language, or translation with an English-only model); -ESTALE: the model's files changed;
 * -ENOMEM. */
INF_PUBLIC int inf_transcriber_submit(struct inf_transcriber *transcriber,
                                      const struct inf_audio_request *request, uint64_t *ret_id,
                                      struct inf_err *reterr);
/* Adds a copy of samples: mono, 16 kHz, -1 … 1. INF_AUDIO_FULL: none of the samples was accepted. A
 * request holds about 130 seconds of samples plus the samples of the last call. -ENOENT: the
 * request has ended or was finished; -ENOMEM. */
INF_PUBLIC int inf_transcriber_feed(struct inf_transcriber *transcriber, uint64_t id,
                                    const float *samples, size_t n);
/* Says that no more samples follow. inf_transcriber_finish() and inf_transcriber_cancel() ignore an
 * unknown id. */
INF_PUBLIC void inf_transcriber_finish(struct inf_transcriber *transcriber, uint64_t id);
INF_PUBLIC void inf_transcriber_cancel(struct inf_transcriber *transcriber, uint64_t id);

/* Returns an eventfd that is readable while events wait. The transcriber owns the descriptor. */
INF_PUBLIC int inf_transcriber_event_fd(const struct inf_transcriber *transcriber);
/* Returns the next event, which the caller frees, or NULL. Never blocks. */
INF_PUBLIC struct inf_audio_event *inf_transcriber_next_event(struct inf_transcriber *transcriber);
/* Waits up to @timeout_msec for an event (-1: without limit). The function is for callers without
 * an event loop. */
INF_PUBLIC struct inf_audio_event *inf_transcriber_wait_event(struct inf_transcriber *transcriber,
                                                              int timeout_msec);
/* NULL is allowed; returns NULL. */
INF_PUBLIC struct inf_audio_event *inf_audio_event_free(struct inf_audio_event *event);

struct inf_transcriber_stats {
    uint64_t n_requests, n_rejected;
    uint64_t n_windows, n_tokens; /* windows that were transcribed; tokens that were sampled in
                                     all attempts */
    uint64_t n_passes;    /* runs of the encoder; one run may take windows of several requests */
    uint64_t n_fallbacks; /* further attempts, at another temperature */
    uint32_t n_waiting, n_running;
    double audio_seconds, busy_seconds;
};

INF_PUBLIC void inf_transcriber_stats(struct inf_transcriber *transcriber,
                                      struct inf_transcriber_stats *ret_stats);
INF_PUBLIC bool inf_transcriber_is_multilingual(const struct inf_transcriber *transcriber);
/* Returns whether the transcriber has the VAD weights that skip_silence needs. */
INF_PUBLIC bool inf_transcriber_has_vad(const struct inf_transcriber *transcriber);
/* Returns the device in use, "cpu". Borrowed. */
INF_PUBLIC const char *inf_transcriber_device(const struct inf_transcriber *transcriber);

#ifdef __cplusplus
}
#endif
#endif
