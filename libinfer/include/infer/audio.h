/* SPDX-License-Identifier: Apache-2.0 */
#ifndef INFER_AUDIO_H
#define INFER_AUDIO_H

/*
 * Text of speech
 *
 * A transcriber owns a thread that computes windows of 30 seconds: of several requests together,
 * and none waits for all windows of another. Samples come piece by piece and leave memory when
 * their window is done, so that hours fit. The rules of what is heard are those of OpenAI's
 * whisper.
 *
 * All functions but next_event and wait_event may be called by any thread, these two by one at a
 * time.
 */

#include <infer/model.h>
#include <infer/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct inf_transcriber;

/* Positive conditions. */
enum {
    INF_AUDIO_FULL = 1, /* as much waits as may: of samples, INF_AUDIO_ROOM tells when to go on */
};

struct inf_transcriber_params {
    struct inf_model *model; /* a Whisper model; the transcriber takes its own reference */
    const char *device;      /* "cpu", or NULL or "auto", which are the same: others do not compute
                                such models */
    const char *cache_dir;   /* as in infer/embed.h */
    const char *isa;
    uint32_t n_threads;
    bool exact;            /* weights of F16 are multiplied as such, as in infer/embed.h */
    const char *vad_path;  /* Silero VAD weights; NULL: none */
    uint32_t max_requests; /* that run together, at most 64; 0: 4 */
    uint32_t max_queue;    /* that wait; 0: 64 */
};

enum inf_audio_task {
    INF_AUDIO_TRANSCRIBE,
    INF_AUDIO_TRANSLATE, /* to English */
};

enum {
    INF_AUDIO_MAX_PAD_MS = 5000,
    INF_AUDIO_MAX_SILENCE_MS = 20000,
};

/* How speech is told from silence: Silero's rules. Members that are 0 have their usual values. */
struct inf_audio_vad {
    float threshold;     /* of its probability, below 1; 0: 0.5 */
    uint32_t pad_ms;     /* of silence that is kept on either side; 0: 400 */
    uint32_t silence_ms; /* a shorter one is a pause; 0: 2000 */
};

/* Everything is copied by submit. */
struct inf_audio_request {
    enum inf_audio_task task;
    const char *language;        /* "en", "english"; NULL: found out by the first window */
    const char *prompt;          /* what came before; NULL: nothing */
    const char *hotwords;        /* words that are likely; NULL: none */
    const float *temperatures;   /* tried in turn until a window is good; NULL: 0, 0.2 … 1 */
    size_t n_temperatures;       /* at most 8, each 0 … 2 */
    uint32_t beam_size, best_of; /* at most 16; 0: 1 and 5 */
    bool words;                  /* times of words */
    bool skip_silence;           /* by VAD, where there are weights */
    struct inf_audio_vad vad;    /* of skip_silence */
    bool no_carry;               /* the text of one window is no prompt for the next */
    uint64_t seed;
    void *user; /* comes back in events */
};

enum inf_audio_event_kind {
    INF_AUDIO_LANGUAGE, /* language, language_probability: once, before any segment */
    INF_AUDIO_SEGMENT,
    INF_AUDIO_ROOM,   /* feed() will take samples again */
    INF_AUDIO_DONE,   /* the last event of a request: all is done; error: 0 */
    INF_AUDIO_FAILED, /* the last event: error, -ECANCELED and -ESTALE among them */
};

struct inf_audio_word {
    const char *text;  /* with its leading space */
    double start, end; /* seconds from the beginning */
    float probability;
};

struct inf_audio_event {
    uint64_t request;
    void *user;
    enum inf_audio_event_kind kind;
    int error;
    const char *language;       /* "en"; NULL: not known yet */
    float language_probability; /* 1 when the request or the model told */
    /* SEGMENT */
    uint32_t id, seek; /* its number; where its window begins, in frames of 10 ms */
    double start, end;
    const char *text;
    const int32_t *tokens; /* times included */
    size_t n_tokens;
    float temperature, avg_logprob, compression_ratio;
    float no_speech_prob; /* 0 when the model does not tell */
    const struct inf_audio_word *words;
    size_t n_words;
    /* DONE */
    double seconds; /* of audio */
};

/* -EOPNOTSUPP: no Whisper model, or another device; -ESTALE: the model's files changed; -ENOMEM;
 * -EINVAL; errors of the VAD's file. */
INF_PUBLIC int inf_transcriber_new(const struct inf_transcriber_params *params,
                                   struct inf_transcriber **ret_transcriber,
                                   struct inf_err *reterr);
/* Drops what runs and joins the thread. NULL is fine; returns NULL. */
INF_PUBLIC struct inf_transcriber *inf_transcriber_free(struct inf_transcriber *transcriber);

/* 0 and *ret_id (never 0); INF_AUDIO_FULL; -EINVAL with the reason (an unknown language,
 * translating with an English-only model); -ESTALE: the model's files changed; -ENOMEM. */
INF_PUBLIC int inf_transcriber_submit(struct inf_transcriber *transcriber,
                                      const struct inf_audio_request *request, uint64_t *ret_id,
                                      struct inf_err *reterr);
/* Mono, 16 kHz, -1 … 1; copied. INF_AUDIO_FULL: nothing of it was taken. A request holds about 130
 * seconds and the last piece. -ENOENT: the request is over, or finished; -ENOMEM. */
INF_PUBLIC int inf_transcriber_feed(struct inf_transcriber *transcriber, uint64_t id,
                                    const float *samples, size_t n);
/* No more samples will come. Unknown ids are ignored, here and below. */
INF_PUBLIC void inf_transcriber_finish(struct inf_transcriber *transcriber, uint64_t id);
INF_PUBLIC void inf_transcriber_cancel(struct inf_transcriber *transcriber, uint64_t id);

/* An eventfd that is readable while events wait; the transcriber owns it. */
INF_PUBLIC int inf_transcriber_event_fd(const struct inf_transcriber *transcriber);
/* The next event, which the caller frees, or NULL. Never blocks. */
INF_PUBLIC struct inf_audio_event *inf_transcriber_next_event(struct inf_transcriber *transcriber);
/* Waits up to @timeout_msec (-1: for ever). For callers without a loop. */
INF_PUBLIC struct inf_audio_event *inf_transcriber_wait_event(struct inf_transcriber *transcriber,
                                                              int timeout_msec);
/* NULL is fine; returns NULL. */
INF_PUBLIC struct inf_audio_event *inf_audio_event_free(struct inf_audio_event *event);

struct inf_transcriber_stats {
    uint64_t n_requests, n_rejected;
    uint64_t n_windows, n_tokens; /* that were heard; that were said, in all attempts */
    uint64_t n_passes;    /* of the encoder, which takes windows of several requests at once */
    uint64_t n_fallbacks; /* attempts at another temperature */
    uint32_t n_waiting, n_running;
    double audio_seconds, busy_seconds;
};

INF_PUBLIC void inf_transcriber_stats(struct inf_transcriber *transcriber,
                                      struct inf_transcriber_stats *ret_stats);
INF_PUBLIC bool inf_transcriber_is_multilingual(const struct inf_transcriber *transcriber);
/* Whether it has weights for skip_silence. */
INF_PUBLIC bool inf_transcriber_has_vad(const struct inf_transcriber *transcriber);
/* The device in use, "cpu"; borrowed. */
INF_PUBLIC const char *inf_transcriber_device(const struct inf_transcriber *transcriber);

#ifdef __cplusplus
}
#endif
#endif
