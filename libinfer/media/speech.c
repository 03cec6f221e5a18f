/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds spans of speech with a state machine that reads probabilities. A finished span waits in
 * `pending` until its end is final, because its end depends on where the next span begins.
 */
#include "media/speech.h"

#include "core/macros.h"
#include "media/vad.h"

enum { SAMPLES_PER_MS = 16 };

static uint64_t samples_of(uint32_t ms)
{
    return (uint64_t)ms * SAMPLES_PER_MS;
}

void speech_finder_init(struct speech_finder *f, const struct speech_params *params)
{
    *f = (struct speech_finder){.params = *params};
    if (f->params.low_threshold < 0)
        f->params.low_threshold = MAX(params->threshold - 0.15f, 0.01f);
}

static uint64_t pad_of(const struct speech_finder *f)
{
    return samples_of(f->params.pad_ms);
}

static uint64_t subtract_floor(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Widens the pending span and returns it. Also widens the next span, by moving its beginning
 * *@next. If the pause between the two spans is short, each span gets half of the pause. */
static struct speech_span settle_pending(struct speech_finder *f, uint64_t *next)
{
    const uint64_t silence = *next - f->pending.end, pad = pad_of(f);
    const uint64_t wider = silence < 2 * pad ? silence / 2 : pad;

    f->pending.end += wider;
    *next = subtract_floor(*next, wider);
    f->has_pending = false;
    return f->pending;
}

/* Ends a span. Returns true if the previous span thereby becomes final. */
static bool close_span(struct speech_finder *f, uint64_t start, uint64_t end,
                       struct speech_span *ret_span)
{
    const bool told = f->has_pending;

    if (told)
        *ret_span = settle_pending(f, &start);
    else
        start = subtract_floor(start, pad_of(f));
    f->has_pending = true;
    f->pending = (struct speech_span){start, end};
    return told;
}

/* Returns whether the pending span is final: any next span begins so late that both spans get their
 * full padding, and the signal is long enough for the padding of the pending span. */
static bool is_settled(const struct speech_finder *f)
{
    const uint64_t next = f->speaking ? f->start : f->at + VAD_CHUNK, end = f->pending.end;

    return f->has_pending && next >= end + 2 * pad_of(f) && f->at >= end + pad_of(f);
}

static void begin_span(struct speech_finder *f, uint64_t start)
{
    f->speaking = true;
    f->start = start;
    f->pause = f->cut_size = 0;
}

static void end_span(struct speech_finder *f)
{
    f->speaking = false;
    f->pause = f->cut_size = 0;
}

/* Continues a span after a pause that did not end it. */
static void resume_span(struct speech_finder *f)
{
    const uint64_t size = f->at - f->pause;

    if (size > samples_of(f->params.min_pause_ms) && size > f->cut_size) {
        f->cut = f->pause;
        f->cut_size = size;
    }
    f->pause = 0;
}

static bool is_too_long(const struct speech_finder *f)
{
    const uint64_t max = samples_of(f->params.max_speech_ms), rest = VAD_CHUNK + 2 * pad_of(f);

    return f->params.max_speech_ms > 0 && f->at - f->start + rest > max;
}

/* Cuts a span that is too long, in its longest pause or at its current end. The next span begins
 * after the pause. */
static bool cut_span(struct speech_finder *f, struct speech_span *ret_span)
{
    const uint64_t end = f->cut_size > 0 ? f->cut : f->at, next = f->cut + f->cut_size;
    const uint64_t start = f->start;

    if (f->cut_size > 0)
        begin_span(f, next);
    else
        end_span(f);
    return close_span(f, start, end, ret_span);
}

/* Handles a chunk of a pause. Returns true if the pause ended a span and the previous span thereby
 * became final. */
static bool pause_on(struct speech_finder *f, struct speech_span *ret_span)
{
    const uint64_t start = f->start, end = f->pause > 0 ? f->pause : f->at;

    f->pause = end;
    if (f->at - end < samples_of(f->params.min_silence_ms))
        return false;
    end_span(f);
    return end - start > samples_of(f->params.min_speech_ms) && close_span(f, start, end, ret_span);
}

static bool step_chunk(struct speech_finder *f, float probability, struct speech_span *ret_span)
{
    bool told = false;

    if (probability >= f->params.threshold && f->pause > 0)
        resume_span(f);
    if (probability >= f->params.threshold && !f->speaking) {
        begin_span(f, f->at);
        return false;
    }
    if (f->speaking && is_too_long(f))
        told = cut_span(f, ret_span);
    if (probability < f->params.low_threshold && f->speaking)
        told |= pause_on(f, ret_span);
    return told;
}

bool speech_finder_push(struct speech_finder *f, float probability, struct speech_span *ret_span)
{
    bool told = step_chunk(f, probability, ret_span);

    if (!told && is_settled(f)) {
        f->pending.end += pad_of(f);
        f->has_pending = false;
        *ret_span = f->pending;
        told = true;
    }
    f->at += VAD_CHUNK;
    return told;
}

bool speech_finder_end(struct speech_finder *f, uint64_t n_samples, struct speech_span *ret_span)
{
    if (f->speaking) {
        const bool whole =
            subtract_floor(n_samples, f->start) > samples_of(f->params.min_speech_ms);

        f->speaking = false;
        if (whole && close_span(f, f->start, n_samples, ret_span))
            return true;
    }
    if (!f->has_pending)
        return false;
    f->pending.end = MIN(n_samples, f->pending.end + pad_of(f));
    f->has_pending = false;
    *ret_span = f->pending;
    return true;
}
