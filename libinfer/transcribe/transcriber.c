/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the transcriber's thread with its queue and its events, and takes the input of callers. */
#include "transcribe/transcriber.h"

#include <errno.h>
#include <string.h>

#include "core/array.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/err.h"

static struct hearing *hearing_of(struct fifo_link *link)
{
    return link ? CONTAINER_OF(link, struct hearing, link) : NULL;
}

static struct hearing *first_waiting(const struct transcriber *t)
{
    return hearing_of(t->waiting.head);
}

static struct hearing *next_waiting(const struct hearing *h)
{
    return hearing_of(h->link.next);
}

/* Sends @event and returns true. If memory is short or @event is NULL, frees @event and returns
 * false. The lock must be held. */
static bool push_event(struct transcriber *t, struct inf_audio_event *event)
{
    struct event_item *item = event ? NEW(struct event_item, 1) : NULL;

    if (!item) {
        free(event);
        return false;
    }
    item->event = event;
    outbox_put(&t->events, &item->link);
    return true;
}

void transcriber_tell(struct transcriber *t, struct hearing *h, struct inf_audio_event *event)
{
    bool told;

    loop_thread_lock(&t->thread);
    told = push_event(t, event);
    loop_thread_unlock(&t->thread);
    if (told)
        return;
    h->error = -ENOMEM;
    h->state = HEARING_OVER;
}

/* Sends the last event of a request and frees the request. The lock must be held. */
static void end_request(struct transcriber *t, struct hearing *h)
{
    struct event_item *item = STEAL(h->last);

    *item->event = (struct inf_audio_event){
        .request = h->id,
        .user = h->user,
        .kind = h->error < 0 ? INF_AUDIO_FAILED : INF_AUDIO_DONE,
        .error = h->error,
        .language = h->language >= 0 ? t->tokens.codes[h->language] : NULL,
        .seconds = (double)h->n_samples / MEL_RATE,
    };
    t->stats.audio_seconds += item->event->seconds;
    outbox_put(&t->events, &item->link);
    hearing_free(h);
}

/* Finds a request by its id; NULL: there is none. The lock must be held. */
static struct hearing *find_request(struct transcriber *t, uint64_t id)
{
    for (uint32_t i = 0; i < t->n_running; i++)
        if (t->running[i]->id == id)
            return t->running[i];
    for (struct hearing *h = first_waiting(t); h; h = next_waiting(h))
        if (h->id == id)
            return h;
    return NULL;
}

/* Starts requests of the queue until the maximum number of requests run. The lock must be held. */
static void admit_requests(struct transcriber *t)
{
    while (t->waiting.head && t->n_running < t->params.max_running) {
        struct hearing *h = hearing_of(fifo_pop(&t->waiting));

        if (hearing_open(h, &t->decode, &t->tokens, t->mel, t->vad) < 0) {
            h->error = -ENOMEM;
            h->state = HEARING_OVER;
        }
        t->running[t->n_running++] = h;
    }
}

/* Moves new input to the members of @h that only the thread uses. Releases the lock meanwhile.
 * Returns true if something changed. */
static bool take_input(struct transcriber *t, struct hearing *h)
{
    _cleanup_free_ float *samples = STEAL(h->incoming);
    const size_t n = h->n_incoming;
    const bool finished = h->finished;
    uint64_t n_held = 0;
    int r = 0;

    h->incoming_cap = h->n_incoming = 0;
    h->n_held += n;
    if (h->cancelled) {
        h->error = -ECANCELED;
        h->state = HEARING_OVER;
    }
    if (h->state == HEARING_OVER || (n == 0 && (!finished || h->sound.ended)))
        return false;
    loop_thread_unlock(&t->thread);
    h->n_samples += n;
    if (n > 0)
        r = sound_put(&h->sound, samples, n);
    if (r == 0 && finished)
        r = sound_end(&h->sound);
    n_held = sound_drop(&h->sound, longform_seek(h->lf));
    loop_thread_lock(&t->thread);
    h->n_held = n_held;
    if (r < 0) {
        h->error = r;
        h->state = HEARING_OVER;
    }
    return true;
}

/* Tells the caller that a request has room for more samples again. The lock must be held. */
static void tell_room(struct transcriber *t, struct hearing *h)
{
    if (!h->told_full || h->finished || h->n_held + h->n_incoming >= TRANSCRIBER_MAX_HELD)
        return;
    /* If memory is short, the event is sent later. */
    h->told_full = !push_event(t, speech_event_new(h, INF_AUDIO_ROOM));
}

/* Takes the new input of all running requests. The lock must be held, and is released meanwhile.
 * Returns true if something changed. */
static bool listen_all(struct transcriber *t)
{
    bool any = false;

    for (uint32_t i = 0; i < t->n_running; i++) {
        struct hearing *h = t->running[i];

        any |= take_input(t, h);
        loop_thread_unlock(&t->thread);
        any |= transcriber_listen(t, h);
        loop_thread_lock(&t->thread);
        if (h->state != HEARING_OVER)
            tell_room(t, h);
    }
    return any;
}

static void leave_encoder(struct transcriber *t, const struct hearing *h)
{
    for (uint32_t i = 0; i < t->n_encoding; i++)
        if (t->encoding[i] == h)
            t->encoding[i] = NULL;
}

/* Removes the requests that have ended. The lock must be held. Returns true if there were any. */
static bool drop_ended(struct transcriber *t)
{
    const uint32_t n = t->n_running;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < t->n_running; i++) {
        struct hearing *h = t->running[i];

        if (h->state != HEARING_OVER) {
            t->running[kept++] = h;
            continue;
        }
        leave_encoder(t, h);
        end_request(t, h);
    }
    t->n_running = kept;
    return kept < n;
}

/* Ends all requests if the files of the weights changed. The lock must be held. */
static bool end_stale(struct transcriber *t)
{
    struct hearing *h;

    if (LIKELY(!file_set_is_lost(&t->params.files)))
        return false;
    for (uint32_t i = 0; i < t->n_running; i++) {
        t->running[i]->error = -ESTALE;
        t->running[i]->state = HEARING_OVER;
    }
    while ((h = hearing_of(fifo_pop(&t->waiting)))) {
        h->error = -ESTALE;
        end_request(t, h);
    }
    return t->n_running > 0;
}

static void run_thread(void *arg)
{
    struct transcriber *t = arg;

    loop_thread_lock(&t->thread);
    while (!t->thread.stop) {
        const uint64_t begin = clock_nsec();
        bool any;

        t->dirty = false;
        any = end_stale(t);
        admit_requests(t);
        any |= listen_all(t);
        loop_thread_unlock(&t->thread);
        any |= transcriber_encode(t);
        any |= transcriber_step(t);
        loop_thread_lock(&t->thread);
        any |= drop_ended(t);
        if (any)
            t->stats.busy_seconds += (double)(clock_nsec() - begin) * 1e-9;
        if (any || t->dirty || t->thread.stop)
            continue;
        if (t->n_running == 0) {
            kv_pool_rest(t->decode.pool);
            encode_rest(t->encode);
        }
        loop_thread_wait(&t->thread);
    }
    loop_thread_unlock(&t->thread);
}

static int make_decode(struct transcriber *t, struct inf_err *reterr)
{
    const struct whisper_config *c = t->params.model->config;
    const bool exact = whisper_model_dtype(t->params.model) == INF_DTYPE_F32;
    const uint32_t max_texts = t->params.max_running * ATTEMPT_MAX_TEXTS;
    const uint32_t max_logits = 2 * max_texts;
    struct decode_params p = {
        .backend = t->backend,
        .decoder = t->params.model->decoder,
        .n_audio = c->n_audio_ctx,
        .max_memories = t->params.max_running,
        .max_texts = max_texts,
        .max_rows = c->n_text_ctx + max_texts,
        .max_logits = max_logits,
        .codec = exact ? CODEC_F32 : CODEC_F16,
        .weights = t->params.exact ? NULL : &t->weights,
    };

    t->masks = NEW(uint64_t, c->n_text_layers);
    t->items = NEW(struct decode_item, max_texts);
    t->logits = NEW(float, (size_t)max_logits * c->n_vocab);
    t->window = NEW(float, (size_t)t->max_windows *LONGFORM_WINDOW * c->n_mels);
    t->rows = NEW(float, (size_t)t->max_windows * c->n_audio_ctx * c->n_embd);
    t->said = NEW(int32_t, c->n_text_ctx);
    if (!t->said || !t->masks || !t->items || !t->logits || !t->window || !t->rows ||
        attempt_space_init(&t->space, row_kernels_get(cpu_flags()), c->n_vocab) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    t->n_heads = whisper_model_heads(t->params.model, t->masks);
    p.kept.masks = t->masks;
    return decode_init(&t->decode, &p, reterr);
}

static int make_parts(struct transcriber *t, struct inf_err *reterr)
{
    const struct transcriber_params *p = &t->params;
    int r;

    r = speech_tokens_init(&t->tokens, p->tok, p->model->config, reterr);
    if (r == 0 && mel_new(p->model->config->n_mels, cpu_flags(), &t->mel) < 0)
        r = err_set(reterr, ENOMEM, "out of memory");
    if (r == 0 && p->vad_path)
        r = vad_model_open(p->vad_path, cpu_flags(), &t->vad, reterr);
    if (r == 0)
        r = encode_new(t->backend, p->model->encoder, p->exact ? NULL : &t->weights, t->max_windows,
                       &t->encode, reterr);
    return r == 0 ? make_decode(t, reterr) : r;
}

int transcriber_new(struct backend **backend, const struct transcriber_params *params,
                    struct transcriber **ret_transcriber, struct inf_err *reterr)
{
    struct transcriber *t = NEW(struct transcriber, 1);
    int r;

    if (!t)
        return err_set(reterr, ENOMEM, "out of memory");
    t->params = *params;
    t->backend = *backend;
    t->max_windows = MIN(params->max_running, TRANSCRIBER_MAX_WINDOWS);
    loop_thread_init(&t->thread);
    fifo_init(&t->waiting);
    r = outbox_init(&t->events);
    if (r < 0)
        err_set(reterr, -r, "eventfd: %s", strerror(-r));
    else
        r = make_parts(t, reterr);
    if (r == 0) {
        r = loop_thread_start(&t->thread, "infer-speech", run_thread, t);
        if (r < 0)
            err_set(reterr, -r, "the transcriber's thread could not be started: %s", strerror(-r));
    }
    if (r < 0) {
        t->backend = NULL; /* still owned by the caller */
        transcriber_free(t);
        return r;
    }
    *backend = NULL;
    *ret_transcriber = t;
    return 0;
}

static void free_requests(struct transcriber *t)
{
    struct inf_audio_event *e;
    struct hearing *h;

    for (uint32_t i = 0; i < t->n_running; i++)
        hearing_free(t->running[i]);
    while ((h = hearing_of(fifo_pop(&t->waiting))))
        hearing_free(h);
    while ((e = transcriber_next(t)))
        free(e);
}

struct transcriber *transcriber_free(struct transcriber *t)
{
    if (!t)
        return NULL;
    loop_thread_stop(&t->thread);
    free_requests(t);
    if (t->decode.params.backend)
        decode_done(&t->decode);
    encode_free(t->encode);
    attempt_space_done(&t->space);
    backend_free(t->backend);
    speech_tokens_done(&t->tokens);
    mel_free(t->mel);
    vad_model_close(t->vad);
    reformat_done(&t->weights);
    free(t->masks);
    free(t->items);
    free(t->logits);
    free(t->window);
    free(t->rows);
    free(t->said);
    outbox_done(&t->events);
    loop_thread_done(&t->thread);
    free(t);
    return NULL;
}

/* Tells the thread that it has new work. The lock must be held. */
static void wake_thread(struct transcriber *t)
{
    t->dirty = true;
    loop_thread_wake(&t->thread);
}

static uint32_t count_waiting(const struct transcriber *t)
{
    uint32_t n = 0;

    for (const struct hearing *h = first_waiting(t); h; h = next_waiting(h))
        n++;
    return n;
}

int transcriber_submit(struct transcriber *t, const struct inf_audio_request *request,
                       uint64_t *ret_id, struct inf_err *reterr)
{
    _cleanup_(hearing_freep) struct hearing *h = NULL;
    bool full;
    int r;

    r = hearing_new(request, &t->tokens, t->params.tok, t->params.model->config->n_text_ctx, &h,
                    reterr);
    if (r < 0)
        return r;
    loop_thread_lock(&t->thread);
    full = count_waiting(t) >= t->params.max_waiting && t->n_running >= t->params.max_running;
    if (full) {
        t->stats.n_rejected++;
    } else {
        t->stats.n_requests++;
        *ret_id = h->id = ++t->last_id;
        fifo_push(&t->waiting, &STEAL(h)->link);
        wake_thread(t);
    }
    loop_thread_unlock(&t->thread);
    return full ? INF_AUDIO_FULL : 0;
}

/* Appends samples to the input of a request. The lock must be held. */
static int append_samples(struct hearing *h, const float *samples, size_t n)
{
    if (ARRAY_GROW(h->incoming, h->incoming_cap, h->n_incoming + n) < 0)
        return -ENOMEM;
    memcpy(h->incoming + h->n_incoming, samples, n * sizeof(*samples));
    h->n_incoming += n;
    return 0;
}

int transcriber_feed(struct transcriber *t, uint64_t id, const float *samples, size_t n)
{
    struct hearing *h;
    int r = 0;

    if (n > SIZE_MAX / sizeof(*samples) / 4)
        return -ENOMEM;
    loop_thread_lock(&t->thread);
    h = find_request(t, id);
    if (!h || h->finished || h->cancelled) {
        r = -ENOENT;
    } else if (h->n_held + h->n_incoming >= TRANSCRIBER_MAX_HELD) {
        h->told_full = true;
        r = INF_AUDIO_FULL;
    } else if (n > 0) {
        r = append_samples(h, samples, n);
        wake_thread(t);
    }
    loop_thread_unlock(&t->thread);
    return r;
}

void transcriber_finish(struct transcriber *t, uint64_t id)
{
    struct hearing *h;

    loop_thread_lock(&t->thread);
    h = find_request(t, id);
    if (h) {
        h->finished = true;
        wake_thread(t);
    }
    loop_thread_unlock(&t->thread);
}

void transcriber_cancel(struct transcriber *t, uint64_t id)
{
    loop_thread_lock(&t->thread);
    for (struct hearing *h = first_waiting(t); h; h = next_waiting(h)) {
        if (h->id != id)
            continue;
        fifo_remove(&t->waiting, &h->link);
        h->error = -ECANCELED;
        end_request(t, h);
        break;
    }
    for (uint32_t i = 0; i < t->n_running; i++)
        if (t->running[i]->id == id)
            t->running[i]->cancelled = true;
    wake_thread(t);
    loop_thread_unlock(&t->thread);
}

struct inf_audio_event *transcriber_next(struct transcriber *t)
{
    struct inf_audio_event *event;
    struct event_item *item;
    struct fifo_link *link;

    loop_thread_lock(&t->thread);
    link = outbox_take(&t->events);
    loop_thread_unlock(&t->thread);
    if (!link)
        return NULL;
    item = CONTAINER_OF(link, struct event_item, link);
    event = item->event;
    free(item);
    return event;
}

void transcriber_stats(struct transcriber *t, struct inf_transcriber_stats *ret_stats)
{
    loop_thread_lock(&t->thread);
    *ret_stats = t->stats;
    ret_stats->n_waiting = count_waiting(t);
    ret_stats->n_running = t->n_running;
    loop_thread_unlock(&t->thread);
}
