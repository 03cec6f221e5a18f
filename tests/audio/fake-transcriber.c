/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Provides a fake transcriber for tests of the service. Its text depends only on the length of the
 * sound.
 *
 * A program that is linked with this file uses it instead of the transcriber of the library. It
 * accepts any model and writes a segment of two words for every five seconds: " Segment N.". In
 * translations the text is " Part N.", and if silence is skipped it is " Speech N.". The prompt
 * "wait MSEC" makes the transcriber slow, and "fail" makes it fail. The language must have two
 * letters.
 */
#include <infer/audio.h>

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "core/err.h"
#include "core/macros.h"

enum { RATE = 16000, WINDOW = 5 * RATE, ROOM = 30 * RATE };

struct fake_request {
    uint64_t id, n_samples, n_fed, n_done;
    struct inf_audio_request params;
    unsigned wait_msec, n_segments;
    bool finished, cancelled, fails, full, told;
    double sum;
    struct fake_request *next;
};

struct fake_event {
    struct inf_audio_event event;
    char text[64];
    struct inf_audio_word words[2];
    char word_text[2][16];
    int32_t tokens[2];
    struct fake_event *next;
};

struct inf_transcriber {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int fd;
    bool ending, has_vad;
    uint64_t last_id;
    uint32_t max_requests;
    struct fake_request *requests, **end;
    struct fake_event *events, **events_end;
    struct inf_transcriber_stats stats;
};

static void put(struct inf_transcriber *t, struct fake_event *e)
{
    *t->events_end = e;
    t->events_end = &e->next;
    eventfd_write(t->fd, 1);
}

static struct fake_event *event_of(const struct fake_request *r, enum inf_audio_event_kind kind)
{
    struct fake_event *e = calloc(1, sizeof(*e));

    e->event.request = r->id;
    e->event.user = r->params.user;
    e->event.kind = kind;
    e->event.language = r->params.language ? "de" : "en";
    return e;
}

static void put_segment(struct inf_transcriber *t, struct fake_request *r, uint64_t n)
{
    const char *word = r->params.task == INF_AUDIO_TRANSLATE  ? " Part"
                       : r->params.skip_silence && t->has_vad ? " Speech"
                                                              : " Segment";
    struct fake_event *e = event_of(r, INF_AUDIO_SEGMENT);
    struct inf_audio_event *v = &e->event;

    v->id = r->n_segments;
    v->seek = (uint32_t)(r->n_done / 160);
    v->start = (double)r->n_done / RATE;
    v->end = (double)(r->n_done + n) / RATE;
    snprintf(e->word_text[0], sizeof(e->word_text[0]), "%s", word);
    snprintf(e->word_text[1], sizeof(e->word_text[1]), " %u.", r->n_segments);
    snprintf(e->text, sizeof(e->text), "%s%s", e->word_text[0], e->word_text[1]);
    v->text = e->text;
    v->tokens = e->tokens;
    v->n_tokens = 2;
    e->tokens[0] = 50364;
    e->tokens[1] = (int32_t)r->n_segments;
    v->avg_logprob = -0.25f;
    v->compression_ratio = 1.5f;
    v->no_speech_prob = 0.125f;
    if (r->params.n_temperatures)
        v->temperature = 0.5f;
    if (r->params.words) {
        v->words = e->words;
        v->n_words = 2;
        for (int i = 0; i < 2; i++)
            e->words[i] =
                (struct inf_audio_word){e->word_text[i], v->start + i * (v->end - v->start) / 2,
                                        v->start + (i + 1) * (v->end - v->start) / 2, 0.9f};
    }
    r->n_segments++;
    put(t, e);
}

/* Computes the next window of one request and writes its segment. The caller holds the lock.
 * Returns true when the request has ended. */
static bool step(struct inf_transcriber *t, struct fake_request *r)
{
    const uint64_t left = r->n_fed - r->n_done;
    const uint64_t n = left >= WINDOW ? WINDOW : r->finished ? left : 0;

    if (r->cancelled || r->fails) {
        struct fake_event *e = event_of(r, INF_AUDIO_FAILED);

        e->event.error = r->cancelled ? -ECANCELED : -EIO;
        put(t, e);
        return true;
    }
    if (n) {
        const struct timespec nap = {r->wait_msec / 1000, r->wait_msec % 1000 * 1000000L};

        if (r->wait_msec) {
            pthread_mutex_unlock(&t->lock);
            nanosleep(&nap, NULL);
            pthread_mutex_lock(&t->lock);
        }
        if (!r->told)
            put(t, event_of(r, INF_AUDIO_LANGUAGE));
        r->told = true;
        put_segment(t, r, n);
        r->n_done += n;
        t->stats.n_windows++;
        t->stats.n_passes++;
        if (r->full && r->n_fed - r->n_done < ROOM / 2) {
            r->full = false;
            put(t, event_of(r, INF_AUDIO_ROOM));
        }
        return false;
    }
    if (r->finished) {
        struct fake_event *e = event_of(r, INF_AUDIO_DONE);

        e->event.seconds = (double)r->n_fed / RATE;
        t->stats.audio_seconds += e->event.seconds;
        put(t, e);
    }
    return r->finished;
}

static bool has_work(const struct fake_request *r)
{
    return r->cancelled || r->fails || r->finished || r->n_fed - r->n_done >= WINDOW;
}

static void *run(void *data)
{
    struct inf_transcriber *t = data;

    pthread_mutex_lock(&t->lock);
    while (!t->ending) {
        struct fake_request **at = &t->requests;
        uint32_t i = 0;

        for (; *at && i < t->max_requests && !has_work(*at); i++)
            at = &(*at)->next;
        if (!*at || i == t->max_requests) {
            pthread_cond_wait(&t->wake, &t->lock);
            continue;
        }
        if (step(t, *at)) {
            struct fake_request *over = *at;

            /* Other threads may have appended to the list in the meantime. */
            *at = over->next;
            if (t->end == &over->next)
                t->end = at;
            free((char *)over->params.language);
            free(over);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* Accepts any model. */
int inf_model_suits(struct inf_model *model, enum inf_model_use use, struct inf_err *reterr)
{
    (void)model;
    (void)use;
    (void)reterr;
    return 0;
}

int inf_transcriber_new(const struct inf_transcriber_params *params, struct inf_transcriber **ret,
                        struct inf_err *reterr)
{
    struct inf_transcriber *t = calloc(1, sizeof(*t));

    (void)reterr;
    t->max_requests = params->max_requests;
    t->has_vad = params->vad_path;
    t->end = &t->requests;
    t->events_end = &t->events;
    t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_create(&t->thread, NULL, run, t);
    *ret = t;
    return 0;
}

struct inf_transcriber *inf_transcriber_free(struct inf_transcriber *t)
{
    struct inf_audio_event *e;

    if (!t)
        return NULL;
    pthread_mutex_lock(&t->lock);
    t->ending = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    while ((e = inf_transcriber_next_event(t)))
        inf_audio_event_free(e);
    while (t->requests) {
        struct fake_request *r = t->requests;

        t->requests = r->next;
        free((char *)r->params.language);
        free(r);
    }
    close(t->fd);
    free(t);
    return NULL;
}

int inf_transcriber_submit(struct inf_transcriber *t, const struct inf_audio_request *request,
                           uint64_t *ret_id, struct inf_err *reterr)
{
    struct fake_request *r;

    if (request->language && strlen(request->language) != 2)
        return err_set(reterr, EINVAL, "the language \"%s\" is unknown", request->language);
    r = calloc(1, sizeof(*r));
    r->params = *request;
    r->params.language = request->language ? strdup(request->language) : NULL;
    if (request->prompt)
        sscanf(request->prompt, "wait %u", &r->wait_msec);
    r->fails = request->prompt && strcmp(request->prompt, "fail") == 0;
    pthread_mutex_lock(&t->lock);
    r->id = ++t->last_id;
    *ret_id = r->id;
    *t->end = r;
    t->end = &r->next;
    t->stats.n_requests++;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    return 0;
}

static struct fake_request *find(struct inf_transcriber *t, uint64_t id)
{
    struct fake_request *r = t->requests;

    while (r && r->id != id)
        r = r->next;
    return r;
}

int inf_transcriber_feed(struct inf_transcriber *t, uint64_t id, const float *samples, size_t n)
{
    struct fake_request *r;
    int result = -ENOENT;

    pthread_mutex_lock(&t->lock);
    r = find(t, id);
    if (r && r->n_fed - r->n_done + n > ROOM) {
        r->full = true;
        result = INF_AUDIO_FULL;
    } else if (r) {
        for (size_t i = 0; i < n; i++)
            r->sum += fabs((double)samples[i]);
        r->n_fed += n;
        result = 0;
    }
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    return result;
}

static void mark(struct inf_transcriber *t, uint64_t id, bool cancelled)
{
    struct fake_request *r;

    pthread_mutex_lock(&t->lock);
    r = find(t, id);
    if (r && cancelled)
        r->cancelled = true;
    else if (r)
        r->finished = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

void inf_transcriber_finish(struct inf_transcriber *t, uint64_t id)
{
    mark(t, id, false);
}

void inf_transcriber_cancel(struct inf_transcriber *t, uint64_t id)
{
    mark(t, id, true);
}

int inf_transcriber_event_fd(const struct inf_transcriber *t)
{
    return t->fd;
}

struct inf_audio_event *inf_transcriber_next_event(struct inf_transcriber *t)
{
    struct fake_event *e;
    eventfd_t n;

    pthread_mutex_lock(&t->lock);
    e = t->events;
    if (e) {
        t->events = e->next;
        if (!t->events)
            t->events_end = &t->events;
    } else {
        eventfd_read(t->fd, &n);
    }
    pthread_mutex_unlock(&t->lock);
    return e ? &e->event : NULL;
}

struct inf_audio_event *inf_audio_event_free(struct inf_audio_event *e)
{
    free(e);
    return NULL;
}

void inf_transcriber_stats(struct inf_transcriber *t, struct inf_transcriber_stats *ret_stats)
{
    pthread_mutex_lock(&t->lock);
    *ret_stats = t->stats;
    pthread_mutex_unlock(&t->lock);
}

bool inf_transcriber_is_multilingual(const struct inf_transcriber *t)
{
    (void)t;
    return true;
}

bool inf_transcriber_has_vad(const struct inf_transcriber *t)
{
    return t->has_vad;
}

const char *inf_transcriber_device(const struct inf_transcriber *t)
{
    (void)t;
    return "cpu";
}
