/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies the parameters of a transcriber's requests, and builds the prompts of windows.
 */
#include "transcribe/hearing.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "core/str.h"
#include "transcribe/words.h"

static const float usual_temperatures[] = {0, 0.2f, 0.4f, 0.6f, 0.8f, 1};

enum {
    USUAL_BEST_OF = 5,
    MAX_TEMPERATURE = 2,
};

/* Encodes a text like the words of a prompt, with a space before it. */
static int encode_words(const struct inf_tokenizer *tok, const char *text, int32_t **ret_ids,
                        size_t *ret_n)
{
    _cleanup_str_ struct str spaced = {0};
    size_t len = strlen(text);

    words_strip(&text, &len);
    *ret_ids = NULL;
    *ret_n = 0;
    if (len == 0)
        return 0;
    if (str_putc(&spaced, ' ') < 0 || str_append(&spaced, text, len) < 0)
        return -ENOMEM;
    return inf_tokenizer_encode(tok, spaced.data, spaced.len, 0, 0, ret_ids, ret_n);
}

static int check_request(const struct inf_audio_request *q, const struct speech_tokens *tokens,
                         struct inf_err *reterr)
{
    if ((unsigned)q->task > INF_AUDIO_TRANSLATE)
        return err_set(reterr, EINVAL, "unknown task");
    if (q->task == INF_AUDIO_TRANSLATE && !tokens->multilingual)
        return err_set(reterr, EINVAL, "this model only knows English and cannot translate");
    if (q->n_temperatures > LONGFORM_MAX_TEMPERATURES || (q->temperatures && !q->n_temperatures))
        return err_set(reterr, EINVAL, "the number of temperatures must be 1 … %d",
                       LONGFORM_MAX_TEMPERATURES);
    for (size_t i = 0; q->temperatures && i < q->n_temperatures; i++)
        if (!(q->temperatures[i] >= 0 && q->temperatures[i] <= MAX_TEMPERATURE))
            return err_set(reterr, EINVAL, "temperatures must be 0 … %d", MAX_TEMPERATURE);
    if (q->beam_size > ATTEMPT_MAX_TEXTS || q->best_of > ATTEMPT_MAX_TEXTS)
        return err_set(reterr, EINVAL, "beam_size and best_of must not be above %d",
                       ATTEMPT_MAX_TEXTS);
    if (!(q->vad.threshold >= 0 && q->vad.threshold < 1))
        return err_set(reterr, EINVAL, "the threshold of the VAD must be 0 … 1");
    if (q->vad.pad_ms > INF_AUDIO_MAX_PAD_MS || q->vad.silence_ms > INF_AUDIO_MAX_SILENCE_MS)
        return err_set(reterr, EINVAL, "pad_ms must not be above %d, and silence_ms not above %d",
                       INF_AUDIO_MAX_PAD_MS, INF_AUDIO_MAX_SILENCE_MS);
    return 0;
}

static int set_language(struct hearing *h, const struct inf_audio_request *q,
                        const struct speech_tokens *tokens, struct inf_err *reterr)
{
    h->language = q->language ? speech_language(tokens, q->language) : -1;
    if (!tokens->multilingual) {
        const int english = speech_language(tokens, "en");

        if (q->language && (h->language != english || english < 0))
            return err_set(reterr, EINVAL, "this model only knows English, not \"%.40s\"",
                           q->language);
        h->language = english;
        return 0;
    }
    if (q->language && h->language < 0)
        return err_set(reterr, EINVAL, "the model knows no language \"%.40s\"", q->language);
    return 0;
}

static int make_longform(struct hearing *h, const struct inf_audio_request *q,
                         const struct speech_tokens *tokens, const struct inf_tokenizer *tok,
                         uint32_t n_context)
{
    const float *temperatures = q->temperatures ? q->temperatures : usual_temperatures;
    struct longform_params p = {
        .timestamp_begin = tokens->timestamp_begin,
        .n_context = n_context,
        .n_temperatures = q->temperatures ? (uint32_t)q->n_temperatures
                                          : (uint32_t)ARRAY_SIZE(usual_temperatures),
        .max_compression = 2.4,
        .min_log_probability = -1,
        .max_no_speech = 0.6,
        .carry = !q->no_carry,
    };
    _cleanup_free_ int32_t *initial = NULL;
    size_t n = 0;
    int r = 0;

    for (uint32_t i = 0; i < p.n_temperatures; i++)
        p.temperatures[i] = (double)temperatures[i];
    if (q->prompt)
        r = encode_words(tok, q->prompt, &initial, &n);
    return r == 0 ? longform_new(&p, initial, n, &h->lf) : r;
}

int hearing_new(const struct inf_audio_request *q, const struct speech_tokens *tokens,
                const struct inf_tokenizer *tok, uint32_t n_context, struct hearing **ret_hearing,
                struct inf_err *reterr)
{
    _cleanup_(hearing_freep) struct hearing *h = NULL;
    int r;

    r = check_request(q, tokens, reterr);
    if (r < 0)
        return r;
    h = NEW(struct hearing, 1);
    if (!h)
        return err_set(reterr, ENOMEM, "out of memory");
    r = set_language(h, q, tokens, reterr);
    if (r < 0)
        return r;
    h->user = q->user;
    h->translate = q->task == INF_AUDIO_TRANSLATE;
    h->words = q->words;
    h->skip_silence = q->skip_silence;
    h->vad = q->vad;
    h->beam_size = MAX(q->beam_size, 1u);
    h->best_of = q->best_of > 0 ? q->best_of : USUAL_BEST_OF;
    rng_seed(&h->rng, q->seed);
    h->prompt = NEW(int32_t, n_context);
    h->last = NEW(struct event_item, 1);
    if (h->last)
        h->last->event = NEW(struct inf_audio_event, 1);
    r = h->prompt && h->last && h->last->event ? make_longform(h, q, tokens, tok, n_context)
                                               : -ENOMEM;
    if (r == 0 && q->hotwords)
        r = encode_words(tok, q->hotwords, &h->hot, &h->n_hot);
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    *ret_hearing = STEAL(h);
    return 0;
}

struct hearing *hearing_free(struct hearing *h)
{
    if (!h)
        return NULL;
    if (h->has_tables && h->memory.pool)
        kv_table_done(&h->memory);
    if (h->has_tables)
        attempt_done(&h->attempt);
    if (h->has_sound)
        sound_done(&h->sound);
    longform_free(h->lf);
    if (h->last)
        free(h->last->event);
    free(h->last);
    free(h->incoming);
    free(h->hot);
    free(h->prompt);
    free(h);
    return NULL;
}

int hearing_open(struct hearing *h, struct decode *d, const struct speech_tokens *tokens,
                 const struct mel *mel, const struct vad_model *vad)
{
    sound_init(&h->sound, mel, h->skip_silence ? vad : NULL, &h->vad);
    h->has_sound = h->has_tables = true;
    if (decode_memory_init(d, &h->memory) < 0)
        return -ENOMEM;
    return attempt_init(&h->attempt, d, tokens, MAX(h->beam_size, h->best_of));
}

static void put_tokens(struct hearing *h, const int32_t *tokens, size_t n)
{
    if (n > 0)
        memcpy(h->prompt + h->n_prompt, tokens, n * sizeof(*tokens));
    h->n_prompt += (uint32_t)n;
}

/* Adds hotwords and the previous text to the prompt. Together they take at most half of the
 * context, and hotwords alone at most a quarter. */
static void put_past(struct hearing *h, const struct speech_tokens *tokens, uint32_t n_context)
{
    const struct longform_window *w = &h->window;
    const size_t max = n_context / 2 - 1, n_hot = MIN(h->n_hot, max / 2);
    const size_t n_prompt = MIN(w->n_prompt, max - n_hot);
    const size_t n_more = MIN(w->n_more, max - n_hot - n_prompt);

    if (n_hot + n_prompt + n_more == 0)
        return;
    put_tokens(h, &tokens->previous, 1);
    put_tokens(h, h->hot, n_hot);
    if (n_prompt > 0)
        put_tokens(h, w->prompt + w->n_prompt - n_prompt, n_prompt);
    if (n_more > 0)
        put_tokens(h, w->more + w->n_more - n_more, n_more);
}

void hearing_begin_text(struct hearing *h, const struct speech_tokens *tokens, uint32_t n_context)
{
    const double temperature = h->window.temperature;

    h->n_prompt = 0;
    put_past(h, tokens, n_context);
    h->i_start = h->n_prompt;
    put_tokens(h, &tokens->start, 1);
    if (tokens->multilingual) {
        put_tokens(h, &tokens->languages[h->language], 1);
        put_tokens(h, h->translate ? &tokens->translate : &tokens->transcribe, 1);
    }
    h->n_start = h->n_prompt - h->i_start;
    attempt_begin(&h->attempt, &(struct attempt_params){
                                   .prompt = h->prompt,
                                   .n_prompt = h->n_prompt,
                                   .i_start = h->i_start,
                                   .temperature = temperature,
                                   .n_texts = temperature > 0 ? h->best_of : h->beam_size,
                                   .n_context = n_context,
                               });
    h->state = HEARING_TEXT;
}
