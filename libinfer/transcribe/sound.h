/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Holds the audio of a recording that is still arriving and is not transcribed yet.
 *
 * Samples become frames as they arrive, and are then dropped. Frames are dropped after their
 * window. With voice activity detection only spans of speech become frames, one directly after
 * another; sound_time() maps their times back to the recording.
 *
 * Frames are scaled by the largest value of all earlier frames and of the SOUND_AHEAD frames that
 * begin where the window begins. For recordings of up to SOUND_AHEAD frames this is the largest
 * value of the whole recording, as in OpenAI's whisper.
 */

#include <infer/audio.h>

#include "media/mel.h"
#include "media/speech.h"
#include "media/vad.h"
#include "transcribe/longform.h"

enum {
    SOUND_AHEAD = 2 * LONGFORM_WINDOW, /* frames */
};

struct sound_piece; /* position of a span of speech */

struct sound {
    const struct mel *mel;       /* borrowed */
    const struct vad_model *vad; /* NULL: nothing is skipped */
    struct vad_state vad_state;
    struct speech_finder finder;
    /* Samples that have arrived, from raw_start on; used only with voice activity detection, which
     * has read the samples before `judged`. */
    float *raw;
    size_t n_raw, raw_cap;
    uint64_t raw_start, judged;
    bool ended; /* no more samples will arrive */
    /* Samples to transcribe, from heard_start on. */
    float *heard;
    size_t n_heard, heard_cap;
    uint64_t heard_start;
    /* Frames that were not dropped, from first_frame on. */
    float *frames;
    size_t frames_cap;
    uint64_t first_frame, n_frames; /* n_frames: frames computed so far, including dropped frames */
    uint64_t n_peaked;
    float peak;
    struct sound_piece *pieces;
    size_t n_pieces, pieces_cap;
};

/* Initializes @s. @rules: parameters of voice activity detection, already checked; members that are
 * 0 take their default values. */
void sound_init(struct sound *s, const struct mel *mel, const struct vad_model *vad,
                const struct inf_audio_vad *rules);
void sound_done(struct sound *s);

/* sound_put() adds samples; sound_end() says that no more will arrive. -ENOMEM. */
int sound_put(struct sound *s, const float *samples, size_t n);
int sound_end(struct sound *s);
/* Returns whether SOUND_AHEAD frames from frame @seek on were computed, or the recording has ended.
 * Then the window at @seek can be transcribed. */
bool sound_is_ready(const struct sound *s, uint64_t seek);
/* Copies frames @seek … @seek + @n - 1, scaled, and fills up with zeros to the window's end. @out:
 * [LONGFORM_WINDOW, n_bins]. */
void sound_window(struct sound *s, uint64_t seek, uint32_t n, float *out);
/* Drops frames before @seek. Returns the number of samples that are still held. */
uint64_t sound_drop(struct sound *s, uint64_t seek);
/* Converts @seconds of the audio without silence to a time in the recording. @end: this time is the
 * end of a segment, not the start. */
double sound_time(const struct sound *s, double seconds, bool end);
/* Converts the times of a word like sound_time(), but limits both times to the span of speech that
 * contains the middle of the word. */
void sound_place_word(const struct sound *s, double *start, double *end);
