/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes incoming samples: detects speech, computes mel frames, and maps times back to the
 * recording.
 */
#include "transcribe/sound.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/array.h"

enum { MAX_SPEECH_MS = 28000 };

struct sound_piece {
    uint64_t heard, start; /* index of the first sample: `heard` in the audio without skipped
                              silence, `start` in the recording */
    uint64_t n;
};

void sound_init(struct sound *s, const struct mel *mel, const struct vad_model *vad,
                const struct inf_audio_vad *rules)
{
    const struct speech_params params = {
        .threshold = rules->threshold > 0 ? rules->threshold : 0.5f,
        .low_threshold = -1,
        .min_speech_ms = 0,
        .max_speech_ms = MAX_SPEECH_MS,
        .min_silence_ms = rules->silence_ms > 0 ? rules->silence_ms : 2000,
        .min_pause_ms = 98,
        .pad_ms = rules->pad_ms > 0 ? rules->pad_ms : 400,
    };

    *s = (struct sound){.mel = mel, .vad = vad, .peak = -INFINITY};
    speech_finder_init(&s->finder, &params);
}

void sound_done(struct sound *s)
{
    free(s->raw);
    free(s->heard);
    free(s->frames);
    free(s->pieces);
    *s = (struct sound){0};
}

/* Drops the floats of @x that come before float @first of the whole signal. @x holds *@n floats;
 * *@start is the index of the first one in the whole signal. */
static void drop_before(float *x, size_t *n, uint64_t *start, uint64_t first)
{
    size_t gone;

    if (first <= *start)
        return;
    gone = (size_t)MIN(first - *start, (uint64_t)*n);
    memmove(x, x + gone, (*n - gone) * sizeof(*x));
    *n -= gone;
    *start += gone;
}

/* Computes the frames for which all samples have arrived. */
static int make_frames(struct sound *s, bool last)
{
    const uint32_t n_bins = mel_n_bins(s->mel);
    const uint64_t n_samples = s->heard_start + s->n_heard;
    const struct mel_signal signal = {s->heard, s->heard_start, s->n_heard};
    uint64_t end = n_samples > MEL_REACH ? (n_samples - MEL_REACH) / MEL_HOP + 1 : 0;
    uint32_t n;

    end = MIN(end, mel_n_frames(n_samples));
    if (last)
        end = mel_n_frames(n_samples);
    if (end <= s->n_frames)
        return 0;
    n = (uint32_t)(end - s->n_frames);
    if (ARRAY_GROW(s->frames, s->frames_cap, (size_t)(end - s->first_frame) * n_bins) < 0)
        return -ENOMEM;
    mel_frames(s->mel, &signal, s->n_frames, n,
               s->frames + (size_t)(s->n_frames - s->first_frame) * n_bins);
    s->n_frames = end;
    drop_before(s->heard, &s->n_heard, &s->heard_start,
                end * MEL_HOP > MEL_REACH ? end * MEL_HOP - MEL_REACH : 0);
    return 0;
}

static int put_heard(struct sound *s, const float *samples, size_t n)
{
    if (ARRAY_GROW(s->heard, s->heard_cap, s->n_heard + n) < 0)
        return -ENOMEM;
    memcpy(s->heard + s->n_heard, samples, n * sizeof(*samples));
    s->n_heard += n;
    return make_frames(s, false);
}

static int hear_span(struct sound *s, struct speech_span span)
{
    const uint64_t end = MIN(span.end, s->raw_start + s->n_raw);
    struct sound_piece *piece;

    if (end <= span.start)
        return 0;
    assert(span.start >= s->raw_start);
    if (ARRAY_GROW(s->pieces, s->pieces_cap, s->n_pieces + 1) < 0)
        return -ENOMEM;
    piece = &s->pieces[s->n_pieces++];
    *piece = (struct sound_piece){s->heard_start + s->n_heard, span.start, end - span.start};
    return put_heard(s, s->raw + (span.start - s->raw_start), (size_t)piece->n);
}

/* Returns the first sample with which a future span may begin. */
static uint64_t first_needed(const struct speech_finder *f)
{
    const uint64_t pad = (uint64_t)f->params.pad_ms * MEL_RATE / 1000 + VAD_CHUNK;
    const uint64_t at = f->speaking ? f->start : f->at, start = at > pad ? at - pad : 0;

    return f->has_pending ? MIN(f->pending.start, start) : start;
}

/* Runs voice activity detection on new samples, a chunk at a time; the last chunk may be short. */
static int detect_speech(struct sound *s, bool last)
{
    const uint64_t end = s->raw_start + s->n_raw;
    int r = 0;

    while (r == 0 && (s->judged + VAD_CHUNK <= end || (last && s->judged < end))) {
        const size_t n = (size_t)MIN((uint64_t)VAD_CHUNK, end - s->judged);
        float chunk[VAD_CHUNK] = {0};
        struct speech_span span;

        memcpy(chunk, s->raw + (s->judged - s->raw_start), n * sizeof(*chunk));
        s->judged += n;
        if (speech_finder_push(&s->finder, vad_step(s->vad, &s->vad_state, chunk), &span))
            r = hear_span(s, span);
    }
    if (r == 0)
        drop_before(s->raw, &s->n_raw, &s->raw_start, MIN(first_needed(&s->finder), s->judged));
    return r;
}

int sound_put(struct sound *s, const float *samples, size_t n)
{
    if (!s->vad)
        return put_heard(s, samples, n);
    if (ARRAY_GROW(s->raw, s->raw_cap, s->n_raw + n) < 0)
        return -ENOMEM;
    memcpy(s->raw + s->n_raw, samples, n * sizeof(*samples));
    s->n_raw += n;
    return detect_speech(s, false);
}

int sound_end(struct sound *s)
{
    struct speech_span span;
    int r = 0;

    if (s->vad)
        r = detect_speech(s, true);
    while (s->vad && r == 0 && speech_finder_end(&s->finder, s->raw_start + s->n_raw, &span))
        r = hear_span(s, span);
    if (r == 0)
        r = make_frames(s, true);
    s->ended = true;
    return r;
}

bool sound_is_ready(const struct sound *s, uint64_t seek)
{
    return s->ended || s->n_frames >= seek + SOUND_AHEAD;
}

void sound_window(struct sound *s, uint64_t seek, uint32_t n, float *out)
{
    const uint32_t n_bins = mel_n_bins(s->mel);
    const uint64_t ahead = MIN(seek + SOUND_AHEAD, s->n_frames);

    assert(seek >= s->first_frame && seek + n <= s->n_frames && n <= LONGFORM_WINDOW);
    if (ahead > s->n_peaked) {
        const uint64_t from = MAX(s->n_peaked, s->first_frame);

        s->peak = fmaxf(s->peak, mel_peak(s->frames + (size_t)(from - s->first_frame) * n_bins,
                                          (size_t)(ahead - from) * n_bins));
        s->n_peaked = ahead;
    }
    memcpy(out, s->frames + (size_t)(seek - s->first_frame) * n_bins,
           (size_t)n * n_bins * sizeof(*out));
    mel_scale(out, (size_t)n * n_bins, s->peak);
    memset(out + (size_t)n * n_bins, 0, (size_t)(LONGFORM_WINDOW - n) * n_bins * sizeof(*out));
}

uint64_t sound_drop(struct sound *s, uint64_t seek)
{
    const uint32_t n_bins = mel_n_bins(s->mel);
    const uint64_t first = MIN(seek, s->n_frames);

    if (first > s->first_frame) {
        memmove(s->frames, s->frames + (size_t)(first - s->first_frame) * n_bins,
                (size_t)(s->n_frames - first) * n_bins * sizeof(*s->frames));
        s->first_frame = first;
    }
    return s->n_raw + (s->n_frames - s->first_frame) * MEL_HOP;
}

/* Returns the piece that contains sample @at of the audio without silence; with @end, a piece that
 * ends at @at contains it, too. There must be a piece. */
static const struct sound_piece *piece_at(const struct sound *s, double at, bool end)
{
    size_t i = 0;

    while (i + 1 < s->n_pieces &&
           (end ? at > (double)s->pieces[i + 1].heard : at >= (double)s->pieces[i + 1].heard))
        i++;
    return &s->pieces[i];
}

/* Converts sample @at of the audio without silence to seconds of the recording, limited to the
 * piece. */
static double time_in(const struct sound_piece *piece, double at)
{
    const double within = fmin(fmax(at - (double)piece->heard, 0), (double)piece->n);

    return ((double)piece->start + within) / MEL_RATE;
}

double sound_time(const struct sound *s, double seconds, bool end)
{
    const double at = seconds * MEL_RATE;

    return s->n_pieces == 0 ? seconds : time_in(piece_at(s, at, end), at);
}

void sound_place_word(const struct sound *s, double *start, double *end)
{
    const struct sound_piece *piece;

    if (s->n_pieces == 0)
        return;
    piece = piece_at(s, (*start + *end) / 2 * MEL_RATE, false);
    *start = time_in(piece, *start * MEL_RATE);
    *end = time_in(piece, *end * MEL_RATE);
}
