/* SPDX-License-Identifier: Apache-2.0 */
/* Processes windows: runs the encoder, detects the language, and decodes the text. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "transcribe/heard.h"

/* Time slices of the encoder: the first while the decoder has work, the second while it has
 * none. */
#define SLICE_NSEC      UINT64_C(20000000)
#define SLICE_LONG_NSEC UINT64_C(100000000)
/* All windows in the encoder wait until the last of them is computed. If one window takes this
 * long, the device is limited by arithmetic, and computing several windows together gains
 * nothing. */
#define TOGETHER_NSEC UINT64_C(1000000000)

static void fail_request(struct hearing *h, int error)
{
    h->error = error;
    h->state = HEARING_OVER;
}

static void tell_language(struct transcriber *t, struct hearing *h, double probability)
{
    struct inf_audio_event *e = speech_event_new(h, INF_AUDIO_LANGUAGE);

    if (e) {
        e->language = h->language >= 0 ? t->tokens.codes[h->language] : NULL;
        e->language_probability = (float)probability;
    }
    h->told_language = true;
    transcriber_tell(t, h, e);
}

bool transcriber_listen(struct transcriber *t, struct hearing *h)
{
    if (h->state != HEARING_LISTEN || !sound_is_ready(&h->sound, longform_seek(h->lf)))
        return false;
    if (longform_next(h->lf, h->sound.n_frames, &h->window) == LONGFORM_END) {
        h->state = HEARING_OVER;
        return true;
    }
    h->state = HEARING_ENCODE;
    if (!h->told_language && h->language >= 0)
        tell_language(t, h, 1);
    return true;
}

/* Returns how many windows to encode together, by the time that earlier windows took; 1 until a
 * time was measured. */
static uint32_t windows_together(const struct transcriber *t)
{
    const uint64_t n = t->window_nsec > 0 ? TOGETHER_NSEC / t->window_nsec : 1;

    return (uint32_t)MAX(1, MIN(n, t->max_windows));
}

/* Begins to encode the windows that wait, several together if possible. Requests take turns. */
static void begin_windows(struct transcriber *t)
{
    const uint32_t n_running = t->n_running, first = t->turn, most = windows_together(t);
    const struct whisper_config *c = t->params.model->config;

    for (uint32_t i = 0; i < n_running && t->n_encoding < most; i++) {
        const uint32_t at = (first + i) % n_running;
        struct hearing *h = t->running[at];

        if (h->state != HEARING_ENCODE)
            continue;
        t->turn = at + 1;
        sound_window(&h->sound, h->window.seek, h->window.n_frames,
                     t->window + (size_t)t->n_encoding * LONGFORM_WINDOW * c->n_mels);
        t->encoding[t->n_encoding++] = h;
    }
    t->encode_nsec = 0;
    if (t->n_encoding > 0)
        encode_begin(t->encode, t->window, t->n_encoding);
}

/* Returns whether the encoder has a window of a request that was not canceled. */
static bool is_encoding(const struct transcriber *t)
{
    for (uint32_t i = 0; i < t->n_encoding; i++)
        if (t->encoding[i] && t->encoding[i]->state == HEARING_ENCODE)
            return true;
    return false;
}

static bool is_writing(const struct transcriber *t)
{
    for (uint32_t i = 0; i < t->n_running; i++)
        if (t->running[i]->state == HEARING_TEXT || t->running[i]->state == HEARING_LANGUAGE)
            return true;
    return false;
}

/* Takes the encoder's output for one window, @rows, or its error @r. */
static void end_window(struct transcriber *t, struct hearing *h, const float *rows, int r)
{
    if (r >= 0)
        r = decode_remember(&t->decode, &h->memory, rows);
    if (r < 0) {
        fail_request(h, r);
        return;
    }
    loop_thread_lock(&t->thread);
    t->stats.n_windows++;
    loop_thread_unlock(&t->thread);
    if (t->tokens.multilingual && h->language < 0)
        h->state = HEARING_LANGUAGE;
    else
        hearing_begin_text(h, &t->tokens, t->params.model->config->n_text_ctx);
}

static void end_windows(struct transcriber *t, int r)
{
    const struct whisper_config *c = t->params.model->config;

    for (uint32_t i = 0; i < t->n_encoding; i++)
        if (t->encoding[i] && t->encoding[i]->state == HEARING_ENCODE)
            end_window(t, t->encoding[i], t->rows + (size_t)i * c->n_audio_ctx * c->n_embd, r);
    loop_thread_lock(&t->thread);
    t->stats.n_passes += r > 0;
    loop_thread_unlock(&t->thread);
    if (r > 0)
        t->window_nsec = t->encode_nsec / t->n_encoding;
    t->n_encoding = 0;
}

bool transcriber_encode(struct transcriber *t)
{
    const uint64_t begin = clock_nsec();
    const uint64_t end = begin + (is_writing(t) ? SLICE_NSEC : SLICE_LONG_NSEC);
    int r = 0;

    if (!is_encoding(t)) {
        t->n_encoding = 0;
        begin_windows(t);
    }
    if (t->n_encoding == 0)
        return false;
    do
        r = encode_go_on(t->encode, t->rows);
    while (r == 0 && clock_nsec() < end);
    t->encode_nsec += clock_nsec() - begin;
    if (r != 0)
        end_windows(t, r);
    return true;
}

static void take_language(struct transcriber *t, struct hearing *h, const float *logits)
{
    const struct speech_tokens *k = &t->tokens;
    const int32_t best = rules_likeliest(logits, k->languages, k->n_languages);
    double sum = 0;

    kv_table_truncate(&h->attempt.texts[0].table, 0);
    for (uint32_t i = 0; i < k->n_languages; i++)
        sum += exp((double)logits[k->languages[i]] - (double)logits[k->languages[best]]);
    h->language = best;
    tell_language(t, h, 1 / sum);
    if (h->state != HEARING_OVER)
        hearing_begin_text(h, k, t->params.model->config->n_text_ctx);
}

/* A request's part of a step: how many rows of logits its items (struct decode_item) have. */
struct part {
    struct hearing *h;
    uint32_t n_logits;
};

/* Adds the items of one request to a step, and returns how many; 0: it has none, or the step has no
 * room for them. */
static uint32_t add_items(struct transcriber *t, struct hearing *h, struct decode_item *items,
                          uint32_t *n_rows)
{
    uint32_t n = 0, rows = 0;

    if (h->state == HEARING_LANGUAGE) {
        items[0] = (struct decode_item){
            &h->attempt.texts[0].table, &h->memory, &t->tokens.start, 1, 1, -1};
        n = 1;
    } else if (h->state == HEARING_TEXT) {
        n = attempt_items(&h->attempt, &h->memory, items);
    }
    for (uint32_t i = 0; i < n; i++)
        rows += items[i].n_tokens;
    if (rows > t->decode.params.max_rows - *n_rows)
        return 0;
    *n_rows += rows;
    return n;
}

static void count_tokens(struct transcriber *t, uint64_t n)
{
    loop_thread_lock(&t->thread);
    t->stats.n_tokens += n;
    loop_thread_unlock(&t->thread);
}

static void take_part(struct transcriber *t, struct hearing *h, float *logits)
{
    if (h->state == HEARING_LANGUAGE)
        take_language(t, h, logits);
    else if (attempt_take(&h->attempt, &t->space, &h->rng, logits))
        heard_take(t, h);
}

bool transcriber_step(struct transcriber *t)
{
    struct part parts[TRANSCRIBER_MAX_RUNNING];
    uint32_t n_parts = 0, n_items = 0, n_rows = 0;
    float *logits = t->logits;
    int r;

    for (uint32_t i = 0; i < t->n_running; i++) {
        const uint32_t n = add_items(t, t->running[i], t->items + n_items, &n_rows);
        struct part *p = &parts[n_parts];

        if (n == 0)
            continue;
        *p = (struct part){.h = t->running[i]};
        for (uint32_t j = n_items; j < n_items + n; j++)
            p->n_logits += t->items[j].n_logits + (t->items[j].i_first_logit >= 0);
        n_items += n;
        n_parts++;
    }
    if (n_items == 0)
        return false;
    r = decode_run(&t->decode, t->items, n_items, t->logits, NULL);
    if (r == 0 && file_set_is_lost(&t->params.files))
        r = -ESTALE;
    for (uint32_t i = 0; i < n_parts; i++) {
        if (r < 0)
            fail_request(parts[i].h, r);
        else
            take_part(t, parts[i].h, logits);
        logits += (size_t)parts[i].n_logits * t->tokens.n_vocab;
    }
    count_tokens(t, n_items);
    return true;
}
