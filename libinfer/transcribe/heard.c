/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the result of an attempt: accepts or refuses the text of the window, and sends its segments
 * and words.
 */
#include "transcribe/heard.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "transcribe/timing.h"

#define FRAMES_PER_SECOND 100.0

enum { WORDS_LOGITS = 32 }; /* rows per step when a text is read again */

/* An accepted text of a window. */
struct heard {
    struct transcriber *t;
    struct hearing *h;
    struct longform_result result;
    const struct longform_segment *segments;
    size_t n_segments;
    int32_t *said; /* only the text tokens, for words */
    struct timing timing;
    size_t i_word; /* the first word that no segment has taken */
};

/* Returns whether the language @code is written with blanks between words. */
static bool has_blanks(const char *code)
{
    static const char *const without[] = {"zh", "ja", "th", "lo", "my", "yue"};

    for (size_t i = 0; code && i < ARRAY_SIZE(without); i++)
        if (strcmp(code, without[i]) == 0)
            return false;
    return true;
}

/* Selects the text tokens. @out: [n]. Returns how many there are. */
static size_t text_tokens(const struct transcriber *t, const int32_t *tokens, size_t n,
                          int32_t *out)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++)
        if (tokens[i] < t->tokens.end)
            out[m++] = tokens[i];
    return m;
}

/* Returns the text of the tokens that are not times. The caller frees it. NULL if memory is
 * short. */
static char *text_of(const struct transcriber *t, const int32_t *tokens, size_t n, size_t *ret_len)
{
    _cleanup_free_ int32_t *said = NEW(int32_t, n + 1);
    char *text = NULL;

    if (!said)
        return NULL;
    n = text_tokens(t, tokens, n, said);
    return inf_tokenizer_decode(t->params.tok, said, n, false, &text, ret_len) == 0 ? text : NULL;
}

static bool is_blank(void *arg, const int32_t *tokens, size_t n)
{
    size_t len = 0;
    _cleanup_free_ char *text = text_of(arg, tokens, n, &len);
    const char *stripped = text;

    if (!text)
        return false;
    words_strip(&stripped, &len);
    return len == 0;
}

/* Copies the result of the attempt, whose memory may then be reused. */
static int take_result(struct heard *x)
{
    struct transcriber *t = x->t;
    const struct attempt_text *best = attempt_best(&x->h->attempt);
    _cleanup_free_ char *text = NULL;
    const char *stripped;
    size_t len = 0;

    memcpy(t->said, best->said, best->n_said * sizeof(*t->said));
    x->result = (struct longform_result){
        .tokens = t->said,
        .n_tokens = best->n_said,
        .log_probability = best->log_probability / (best->n_said + 1),
        .no_speech = x->h->attempt.no_speech,
    };
    text = text_of(t, t->said, best->n_said, &len);
    if (!text)
        return -ENOMEM;
    stripped = text;
    words_strip(&stripped, &len);
    return longform_compression(stripped, len, &x->result.compression);
}

static int make_words(struct heard *x)
{
    struct transcriber *t = x->t;
    struct hearing *h = x->h;
    _cleanup_free_ float *logits = NEW(float, (size_t)WORDS_LOGITS * t->tokens.n_vocab);
    const struct timing_params p = {
        .decode = &t->decode,
        .memory = &h->memory,
        .text = &h->attempt.texts[0].table,
        .tok = t->params.tok,
        .tokens = &t->tokens,
        .start = h->prompt + h->i_start,
        .n_start = h->n_start,
        .n_heads = t->n_heads,
        .n_frames = h->window.n_frames,
        .has_blanks = has_blanks(h->language >= 0 ? t->tokens.codes[h->language] : NULL),
        .logits = logits,
        .n_logits = WORDS_LOGITS,
    };
    size_t n = 0;

    x->said = NEW(int32_t, x->result.n_tokens + 1);
    if (!x->said || !logits)
        return -ENOMEM;
    for (size_t i = 0; i < x->n_segments; i++)
        n += text_tokens(t, x->result.tokens + x->segments[i].first, x->segments[i].n_tokens,
                         x->said + n);
    return timing_make(&p, x->said, (uint32_t)n, &x->timing);
}

/* Takes the words of a segment and moves the segment's borders to them. Returns how many there
 * are. */
static size_t take_words(struct heard *x, const struct longform_segment *segment,
                         struct words_segment *borders)
{
    const int32_t *tokens = x->result.tokens + segment->first;
    struct word *words = x->timing.n_words ? x->timing.words + x->i_word : NULL;
    size_t n_text = 0, n_taken = 0, n;

    for (size_t i = 0; i < segment->n_tokens; i++)
        n_text += tokens[i] < x->t->tokens.end;
    n = words_take(words, x->timing.n_words - x->i_word, n_text,
                   (double)x->h->window.seek / FRAMES_PER_SECOND, &n_taken);
    x->i_word += n_taken;
    x->h->last_speech = words_fit(words, n, borders, x->h->last_speech, &x->timing.lengths);
    return n;
}

/* Makes the words of an event; the caller frees their texts. Returns false if memory is short. */
static bool spell_words(const struct heard *x, const struct word *words, size_t n,
                        struct inf_audio_word *out)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = 0;

        out[i] = (struct inf_audio_word){
            .text = text_of(x->t, x->said + words[i].token, words[i].n_tokens, &len),
            .start = words[i].start,
            .end = words[i].end,
            .probability = (float)words[i].probability,
        };
        if (!out[i].text)
            return false;
        sound_place_word(&x->h->sound, &out[i].start, &out[i].end);
    }
    return true;
}

static void free_words(struct inf_audio_word *words, size_t n)
{
    for (size_t i = 0; words && i < n; i++)
        free((char *)words[i].text);
    free(words);
}

static void tell_segment(struct heard *x, const struct longform_segment *segment,
                         const struct words_segment *borders, const struct word *words, size_t n)
{
    struct hearing *h = x->h;
    struct inf_audio_word *out = NEW(struct inf_audio_word, n + 1);
    size_t len = 0;
    _cleanup_free_ char *text =
        text_of(x->t, x->result.tokens + segment->first, segment->n_tokens, &len);
    struct inf_audio_event e;

    if (!out || !text || !spell_words(x, words, n, out)) {
        free_words(out, n);
        transcriber_tell(x->t, h, NULL);
        return;
    }
    e = (struct inf_audio_event){
        .language = h->language >= 0 ? x->t->tokens.codes[h->language] : NULL,
        .id = h->n_segments++,
        .seek = (uint32_t)lrint(
            sound_time(&h->sound, (double)h->window.seek / FRAMES_PER_SECOND, false) *
            FRAMES_PER_SECOND),
        .start = sound_time(&h->sound, borders->start, false),
        .end = sound_time(&h->sound, borders->end, true),
        .text = text,
        .tokens = x->result.tokens + segment->first,
        .n_tokens = segment->n_tokens,
        .temperature = (float)h->window.temperature,
        .avg_logprob = (float)x->result.log_probability,
        .compression_ratio = (float)x->result.compression,
        .no_speech_prob = isnan(x->result.no_speech) ? 0 : (float)x->result.no_speech,
        .words = out,
        .n_words = n,
    };
    /* sound_place_word() may have moved the times of words. If a border of the segment is the
     * border of a word, it moves with that word. */
    if (n > 0 && borders->start == words[0].start)
        e.start = out[0].start;
    if (n > 0 && borders->end == words[n - 1].end)
        e.end = out[n - 1].end;
    transcriber_tell(x->t, h, speech_event_segment(h, &e));
    free_words(out, n);
}

/* Sends segments. Segments without text or duration are skipped. */
static void tell_segments(struct heard *x)
{
    struct hearing *h = x->h;
    double end = NAN;

    for (size_t i = 0; i < x->n_segments && h->state != HEARING_OVER; i++) {
        const struct longform_segment *s = &x->segments[i];
        struct words_segment borders = {(double)s->start / FRAMES_PER_SECOND,
                                        (double)s->end / FRAMES_PER_SECOND};
        const size_t first = x->i_word;
        const size_t n = h->words ? take_words(x, s, &borders) : 0;

        if (n > 0)
            end = x->timing.words[first + n - 1].end;
        if (borders.start == borders.end ||
            is_blank(x->t, x->result.tokens + s->first, s->n_tokens))
            longform_forget(h->lf, i);
        else
            tell_segment(x, s, &borders, n > 0 ? x->timing.words + first : NULL, n);
        if (isnan(end) && i + 1 == x->n_segments)
            end = borders.end;
    }
    if (!h->words || isnan(end))
        return;
    longform_words_end(h->lf, lrint(end * FRAMES_PER_SECOND));
    h->last_speech = end;
}

/* Accepts the text: sends its segments, drops the sound before the next window, and makes the
 * request wait for that window. */
static int accept_text(struct heard *x)
{
    struct hearing *h = x->h;
    uint64_t n_held;
    int r = 0;

    attempt_clear(&h->attempt);
    if (h->words && x->n_segments > 0)
        r = make_words(x);
    /* If the files were written to while they were read, the text may be wrong. */
    if (r == 0)
        r = file_set_check(&x->t->params.files, NULL);
    if (r == 0)
        tell_segments(x);
    timing_done(&x->timing);
    free(x->said);
    if (r < 0)
        return r;
    n_held = sound_drop(&h->sound, longform_seek(h->lf));
    loop_thread_lock(&x->t->thread);
    h->n_held = n_held;
    loop_thread_unlock(&x->t->thread);
    if (h->state != HEARING_OVER)
        h->state = HEARING_LISTEN;
    return 0;
}

static void try_again(struct transcriber *t, struct hearing *h)
{
    loop_thread_lock(&t->thread);
    t->stats.n_fallbacks++;
    loop_thread_unlock(&t->thread);
    longform_next(h->lf, h->sound.n_frames, &h->window);
    hearing_begin_text(h, &t->tokens, t->params.model->config->n_text_ctx);
}

void heard_take(struct transcriber *t, struct hearing *h)
{
    struct heard x = {.t = t, .h = h};
    int r;

    r = take_result(&x);
    if (r == 0)
        r = longform_take(h->lf, &x.result, is_blank, t, &x.segments, &x.n_segments);
    if (r == LONGFORM_AGAIN) {
        try_again(t, h);
        return;
    }
    if (r == 0)
        r = accept_text(&x);
    if (r < 0) {
        h->error = r;
        h->state = HEARING_OVER;
    }
}
