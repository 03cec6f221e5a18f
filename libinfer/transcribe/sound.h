/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is left to hear of a recording that still comes in
 *
 * Samples become frames as they come, and leave; frames leave with their window. With voice
 * activity detection only spans of speech become frames, one behind the other: sound_time() tells
 * where in the recording they were.
 *
 * Frames are scaled by the largest value of the first SOUND_AHEAD frames behind the window, and of
 * all before: of recordings that are not longer that is the largest of all, as the reference has
 * it.
 */

#include <infer/audio.h>

#include "media/mel.h"
#include "media/speech.h"
#include "media/vad.h"
#include "transcribe/longform.h"

enum {
    SOUND_AHEAD = 2 * LONGFORM_WINDOW, /* frames */
};

struct sound_piece; /* where a span of speech lies */

struct sound {
    const struct mel *mel;       /* borrowed */
    const struct vad_model *vad; /* NULL: everything is heard */
    struct vad_state vad_state;
    struct speech_finder finder;
    /* Samples that came, from raw_start on; without detection they are heard. */
    float *raw;
    size_t n_raw, raw_cap;
    uint64_t raw_start, judged;
    bool ended; /* no more will come */
    /* Samples that are heard, from heard_start on. */
    float *heard;
    size_t n_heard, heard_cap;
    uint64_t heard_start;
    /* Frames that were not dropped, from first_frame on. */
    float *frames;
    size_t frames_cap;
    uint64_t first_frame, n_frames; /* n_frames: made in all */
    uint64_t n_peaked;
    float peak;
    struct sound_piece *pieces;
    size_t n_pieces, pieces_cap;
};

/* @rules: of @vad, checked; members that are 0 have their usual values. */
void sound_init(struct sound *s, const struct mel *mel, const struct vad_model *vad,
                const struct inf_audio_vad *rules);
void sound_done(struct sound *s);

/* -ENOMEM. */
int sound_put(struct sound *s, const float *samples, size_t n);
int sound_end(struct sound *s);
/* Whether the window at frame @seek can be heard, or that the recording is over is known. */
bool sound_is_ready(const struct sound *s, uint64_t seek);
/* Frames @seek … @seek + @n - 1, scaled; zeros follow up to the window's end. @out:
 * [LONGFORM_WINDOW, n_bins]. */
void sound_window(struct sound *s, uint64_t seek, uint32_t n, float *out);
/* Drops frames before @seek. Returns how many samples are held. */
uint64_t sound_drop(struct sound *s, uint64_t seek);
/* Where in the recording @seconds of what is heard are; @end: it is the end of something. */
double sound_time(const struct sound *s, double seconds, bool end);
/* Where a word is that is heard from *start to *end: no span of speech ends within it, so that it
 * lies in the one that has its middle. */
void sound_place_word(const struct sound *s, double *start, double *end);
