/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses windows, refuses texts, cuts texts into segments, and keeps the tokens that become the
 * next prompt. */
#include "transcribe/longform.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "core/array.h"

enum {
    FRAMES_PER_TIME = 2, /* frames per step of the time tokens */
};

struct longform {
    struct longform_params params;
    uint64_t seek;
    uint64_t window_start;
    uint32_t window_frames;
    uint32_t i_temperature;
    bool silent_end; /* the last window ended with a single time token, or was silent */
    int32_t *said;   /* the initial prompt, then all text so far */
    size_t n_said, said_cap, n_initial;
    size_t n_forgotten; /* the first n_forgotten tokens of said no longer serve as prompt */
    struct longform_segment *segments;
    size_t n_segments, segments_cap;
};

/* Makes room for @n more tokens. */
static int reserve_said(struct longform *lf, size_t n)
{
    return ARRAY_GROW(lf->said, lf->said_cap, lf->n_said + n);
}

static void remember_tokens(struct longform *lf, const int32_t *tokens, size_t n)
{
    if (n > 0)
        memcpy(lf->said + lf->n_said, tokens, n * sizeof(*tokens));
    lf->n_said += n;
}

int longform_new(const struct longform_params *params, const int32_t *initial, size_t n_initial,
                 struct longform **ret_lf)
{
    _cleanup_(longform_freep) struct longform *lf = NEW(struct longform, 1);

    if (!lf)
        return -ENOMEM;
    assert(params->n_temperatures > 0 && params->n_temperatures <= LONGFORM_MAX_TEMPERATURES);
    lf->params = *params;
    if (reserve_said(lf, n_initial) < 0)
        return -ENOMEM;
    remember_tokens(lf, initial, n_initial);
    lf->n_initial = n_initial;
    *ret_lf = STEAL(lf);
    return 0;
}

struct longform *longform_free(struct longform *lf)
{
    if (!lf)
        return NULL;
    free(lf->said);
    free(lf->segments);
    free(lf);
    return NULL;
}

uint64_t longform_seek(const struct longform *lf)
{
    return lf->seek;
}

/* Sets window->more to the text before the window: the last @max tokens of said, but none before
 * index @first. */
static void set_more(const struct longform *lf, size_t first, size_t max,
                     struct longform_window *window)
{
    const size_t n = lf->n_said - first;

    window->n_more = MIN(n, max);
    window->more = window->n_more > 0 ? lf->said + lf->n_said - window->n_more : NULL;
}

/* Sets the window's prompt. The prompt takes at most half of the context, minus the token that
 * begins a prompt. The initial prompt is kept whole if it fits; otherwise its beginning is dropped,
 * as in OpenAI's whisper. */
static void set_prompt(const struct longform *lf, struct longform_window *window)
{
    const size_t max = lf->params.n_context / 2 - 1;

    if (!lf->params.keep_initial) {
        set_more(lf, lf->n_forgotten, max, window);
        return;
    }
    window->n_prompt = MIN(lf->n_initial, max);
    window->prompt = lf->said + lf->n_initial - window->n_prompt;
    set_more(lf, MAX(lf->n_initial, lf->n_forgotten), max - window->n_prompt, window);
}

int longform_next(struct longform *lf, uint64_t n_frames, struct longform_window *ret_window)
{
    struct longform_window window = {.seek = lf->seek};

    if (lf->seek >= n_frames)
        return LONGFORM_END;
    window.n_frames = (uint32_t)MIN((uint64_t)LONGFORM_WINDOW, n_frames - lf->seek);
    window.temperature = lf->params.temperatures[lf->i_temperature];
    set_prompt(lf, &window);
    lf->window_start = lf->seek;
    lf->window_frames = window.n_frames;
    *ret_window = window;
    return 0;
}

/* Returns whether a text is too improbable. Comparisons with NAN are false, so a limit of NAN
 * refuses nothing. */
static bool is_improbable(const struct longform *lf, const struct longform_result *result)
{
    return result->log_probability < lf->params.min_log_probability;
}

static bool has_no_speech(const struct longform *lf, const struct longform_result *result)
{
    return result->no_speech > lf->params.max_no_speech;
}

static bool is_refused(const struct longform *lf, const struct longform_result *result)
{
    if (has_no_speech(lf, result) && is_improbable(lf, result))
        return false;
    return is_improbable(lf, result) || result->compression > lf->params.max_compression;
}

static bool is_silence(const struct longform *lf, const struct longform_result *result)
{
    return has_no_speech(lf, result) && !(result->log_probability > lf->params.min_log_probability);
}

static bool is_time(const struct longform *lf, int32_t token)
{
    return token >= lf->params.timestamp_begin;
}

/* Returns the time of a time token in frames from the start of the window. Returns 0 for other
 * tokens, because a text without a time at its beginning starts when the window starts. */
static int64_t frames_of(const struct longform *lf, int32_t token)
{
    return MAX((int64_t)token - lf->params.timestamp_begin, 0) * FRAMES_PER_TIME;
}

static void add_segment(struct longform *lf, size_t *n, int64_t start, int64_t end, size_t first,
                        size_t n_tokens)
{
    const int64_t base = (int64_t)lf->window_start;

    lf->segments[(*n)++] =
        (struct longform_segment){base + start, base + end, first, n_tokens, false};
}

/* Cuts a text into segments, between each two adjacent time tokens. Text after the last cut is
 * transcribed again in the next window, unless the text ends with a single time token. Returns the
 * number of segments; 0: there is no pair of time tokens. */
static size_t cut_at_pairs(struct longform *lf, const int32_t *tokens, size_t n_tokens)
{
    size_t first = 0, n = 0;

    for (size_t i = 1; i <= n_tokens; i++) {
        const bool cut = i < n_tokens ? is_time(lf, tokens[i - 1]) && is_time(lf, tokens[i])
                                      : lf->silent_end && n > 0;

        if (!cut)
            continue;
        add_segment(lf, &n, frames_of(lf, tokens[first]), frames_of(lf, tokens[i - 1]), first,
                    i - first);
        first = i;
    }
    /* The next window begins at the last pair of times, except if this pair is at the beginning of
     * the window, because then the same window would be computed again and again. */
    if (n > 0 && !lf->silent_end && frames_of(lf, tokens[first - 1]) > 0)
        lf->seek = lf->window_start + (uint64_t)frames_of(lf, tokens[first - 1]);
    return n;
}

/* Makes one segment of the whole window, up to its last time if there is one. */
static size_t take_whole(struct longform *lf, const int32_t *tokens, size_t n_tokens)
{
    int64_t end = lf->window_frames;
    size_t i = n_tokens, n = 0;

    while (i > 0 && !is_time(lf, tokens[i - 1]))
        i--;
    if (i > 0 && tokens[i - 1] != lf->params.timestamp_begin)
        end = frames_of(lf, tokens[i - 1]);
    add_segment(lf, &n, 0, end, 0, n_tokens);
    return n;
}

static bool is_empty(const struct longform_segment *segment, const int32_t *tokens,
                     longform_blank_fn is_blank, void *arg)
{
    return segment->start == segment->end || segment->n_tokens == 0 ||
           is_blank(arg, tokens + segment->first, segment->n_tokens);
}

/* Cuts the text into segments and moves on to the next window. */
static size_t take_segments(struct longform *lf, const struct longform_result *result)
{
    const int32_t *tokens = result->tokens;
    const size_t n_tokens = result->n_tokens;
    size_t n;

    lf->silent_end =
        n_tokens >= 2 && is_time(lf, tokens[n_tokens - 1]) && !is_time(lf, tokens[n_tokens - 2]);
    lf->seek = lf->window_start + lf->window_frames;
    n = cut_at_pairs(lf, tokens, n_tokens);
    return n > 0 ? n : take_whole(lf, tokens, n_tokens);
}

int longform_take(struct longform *lf, const struct longform_result *result,
                  longform_blank_fn is_blank, void *arg,
                  const struct longform_segment **ret_segments, size_t *ret_n)
{
    const double temperature = lf->params.temperatures[lf->i_temperature];
    size_t n = 0;

    if (is_refused(lf, result) && lf->i_temperature + 1 < lf->params.n_temperatures) {
        lf->i_temperature++;
        return LONGFORM_AGAIN;
    }
    if (reserve_said(lf, result->n_tokens) < 0 ||
        ARRAY_GROW(lf->segments, lf->segments_cap, result->n_tokens + 1) < 0)
        return -ENOMEM;

    /* Nothing below can fail. */
    lf->i_temperature = 0;
    *ret_segments = lf->segments;
    *ret_n = lf->n_segments = 0;
    if (is_silence(lf, result)) {
        lf->silent_end = true;
        lf->seek = lf->window_start + lf->window_frames;
        return 0;
    }
    n = take_segments(lf, result);
    for (size_t i = 0; i < n; i++) {
        struct longform_segment *s = &lf->segments[i];

        s->is_empty = is_empty(s, result->tokens, is_blank, arg);
        if (!s->is_empty)
            remember_tokens(lf, result->tokens + s->first, s->n_tokens);
    }
    if (!lf->params.carry || temperature > 0.5)
        lf->n_forgotten = lf->n_said;
    *ret_n = lf->n_segments = n;
    return 0;
}

void longform_forget(struct longform *lf, size_t i)
{
    struct longform_segment *s = &lf->segments[i];
    size_t behind = 0;

    assert(i < lf->n_segments);
    if (s->is_empty)
        return;
    for (size_t j = i + 1; j < lf->n_segments; j++)
        behind += lf->segments[j].is_empty ? 0 : lf->segments[j].n_tokens;
    memmove(lf->said + lf->n_said - behind - s->n_tokens, lf->said + lf->n_said - behind,
            behind * sizeof(*lf->said));
    lf->n_said -= s->n_tokens;
    lf->n_forgotten = MIN(lf->n_forgotten, lf->n_said);
    s->is_empty = true;
}

void longform_words_end(struct longform *lf, int64_t frame)
{
    if (!lf->silent_end && frame > (int64_t)lf->window_start)
        lf->seek = (uint64_t)frame;
}

int longform_compression(const char *text, size_t len, double *ret_ratio)
{
    uLongf size = compressBound(len);
    _cleanup_free_ Bytef *out = malloc(size);

    if (!out || compress(out, &size, (const Bytef *)text, len) != Z_OK)
        return -ENOMEM;
    *ret_ratio = (double)len / (double)size;
    return 0;
}
