/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests sound that arrives in pieces. The frames must not depend on the pieces. With voice activity
 * detection, only speech remains, and keeps its original times.
 */
#include "transcribe/sound.h"

#include <math.h>
#include <string.h>

#include "core/cpu.h"
#include "lib/test.h"
#include "unit/media/wav.h"

#define WEIGHTS "vad/silero_vad_16k.safetensors"
#define SPEECH  "speech/jfk.wav"

enum { N_BINS = 80, N = 41 * MEL_RATE + 77 };

static const struct inf_audio_vad usual = {0};

static float *noise(size_t n)
{
    float *x = NEW(float, n);
    uint32_t state = 5;

    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
    return x;
}

static void put_pieces(struct sound *s, const float *x, size_t n, size_t piece)
{
    for (size_t at = 0; at < n; at += piece)
        ASSERT_OK(sound_put(s, x + at, MIN(piece, n - at)));
}

TEST(pieces_change_no_frame)
{
    static const size_t pieces[] = {N, 16000, 333, 1};
    _cleanup_free_ float *x = noise(N);
    _cleanup_free_ float *want = NEW(float, (size_t)LONGFORM_WINDOW *N_BINS);
    _cleanup_free_ float *got = NEW(float, (size_t)LONGFORM_WINDOW *N_BINS);
    struct mel *mel = NULL;

    ASSERT_OK(mel_new(N_BINS, cpu_flags(), &mel));
    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        struct sound s;

        sound_init(&s, mel, NULL, &usual);
        put_pieces(&s, x, N, pieces[i]);
        assert_false(sound_is_ready(&s, 0));
        ASSERT_OK(sound_end(&s));
        assert_true(sound_is_ready(&s, 0));
        assert_int_equal(s.n_frames, mel_n_frames(N));
        sound_window(&s, 0, LONGFORM_WINDOW, i == 0 ? want : got);
        if (i > 0)
            assert_memory_equal(got, want, (size_t)LONGFORM_WINDOW * N_BINS * sizeof(*got));
        sound_drop(&s, 4000);
        sound_window(&s, 4000, 100, got);
        for (size_t j = (size_t)100 * N_BINS; j < (size_t)LONGFORM_WINDOW * N_BINS; j++)
            assert_true(got[j] == 0);
        assert_true(sound_time(&s, 12.5, false) == 12.5);
        sound_done(&s);
    }
    mel_free(mel);
}

/* The buffered amount does not grow with the recording. */
TEST(processed_sound_is_freed)
{
    _cleanup_free_ float *x = noise(N);
    struct mel *mel = NULL;
    struct sound s;

    ASSERT_OK(mel_new(N_BINS, cpu_flags(), &mel));
    sound_init(&s, mel, NULL, &usual);
    for (int i = 0; i < 10; i++) {
        put_pieces(&s, x, N, 48000);
        assert_true(sound_drop(&s, s.n_frames) <= MEL_RATE);
    }
    assert_true(s.heard_cap < (size_t)2 * N && s.frames_cap < (size_t)2 * N);
    sound_done(&s);
    mel_free(mel);
}

/* The sound is half a minute of silence, then speech, then silence again. */
TEST(silence_is_skipped)
{
    enum { SILENCE = 30 * MEL_RATE };
    _cleanup_(vad_model_closep) struct vad_model *vad = NULL;
    _cleanup_free_ float *speech = NULL, *x = NULL;
    struct mel *mel = NULL;
    struct inf_err err;
    struct sound s;
    double seconds;
    size_t n = 0;

    if (!test_data(WEIGHTS) || !test_data(SPEECH))
        skip();
    ASSERT_OK_ERR(vad_model_open(test_data(WEIGHTS), cpu_flags(), &vad, &err), err);
    speech = wav_read(test_data(SPEECH), &n);
    x = NEW(float, n + 2 * SILENCE);
    assert_true(speech && x);
    memcpy(x + SILENCE, speech, n * sizeof(*x));
    ASSERT_OK(mel_new(N_BINS, cpu_flags(), &mel));
    sound_init(&s, mel, vad, &usual);
    put_pieces(&s, x, n + 2 * SILENCE, 5000);
    assert_true(s.n_raw < (size_t)4 * MEL_RATE);
    ASSERT_OK(sound_end(&s));
    seconds = (double)s.n_frames / 100;
    assert_true(fabs(seconds - (double)n / MEL_RATE) < 1.5);
    assert_true(fabs(sound_time(&s, 0, false) - 30) < 1);
    assert_true(fabs(sound_time(&s, seconds, true) - 30 - (double)n / MEL_RATE) < 1.5);
    sound_done(&s);
    mel_free(mel);
}

/* Returns the number of frames of the speech that @rules keep. */
static uint64_t n_heard(const struct vad_model *vad, const struct mel *mel,
                        const struct inf_audio_vad *rules)
{
    size_t n = 0;
    _cleanup_free_ float *speech = wav_read(test_data(SPEECH), &n);
    uint64_t n_frames;
    struct sound s;

    assert_non_null(speech);
    sound_init(&s, mel, vad, rules);
    put_pieces(&s, speech, n, 5000);
    ASSERT_OK(sound_end(&s));
    n_frames = s.n_frames;
    assert_true(sound_time(&s, (double)n_frames / 100, true) <= (double)n / MEL_RATE);
    sound_done(&s);
    return n_frames;
}

/* The sound is speech, half a minute of silence, and the same speech again. A word that extends
 * beyond the speech in which its middle lies is clamped to this speech. */
TEST(words_lie_in_speech)
{
    enum { SILENCE = 30 * MEL_RATE };
    _cleanup_(vad_model_closep) struct vad_model *vad = NULL;
    _cleanup_free_ float *speech = NULL, *x = NULL;
    double start = -0.3, end = 0.5, length;
    struct mel *mel = NULL;
    struct inf_err err;
    struct sound s;
    size_t n = 0;

    if (!test_data(WEIGHTS) || !test_data(SPEECH))
        skip();
    ASSERT_OK_ERR(vad_model_open(test_data(WEIGHTS), cpu_flags(), &vad, &err), err);
    speech = wav_read(test_data(SPEECH), &n);
    x = NEW(float, 2 * n + SILENCE);
    assert_true(speech && x);
    memcpy(x, speech, n * sizeof(*x));
    memcpy(x + n + SILENCE, speech, n * sizeof(*x));
    ASSERT_OK(mel_new(N_BINS, cpu_flags(), &mel));
    sound_init(&s, mel, vad, &usual);
    put_pieces(&s, x, 2 * n + SILENCE, 5000);
    ASSERT_OK(sound_end(&s));
    sound_place_word(&s, &start, &end);
    assert_true(start == sound_time(&s, 0, false) && end == sound_time(&s, 0.5, true));
    /* The second speech starts in the middle of the kept sound, or near it. */
    length = (double)s.n_frames / 100;
    for (double at = length / 2 - 2; at < length / 2 + 2; at += 0.01) {
        start = at;
        end = at + 0.3;
        sound_place_word(&s, &start, &end);
        assert_true(end >= start && end - start <= 0.3 + 1e-6);
        assert_true(end <= (double)n / MEL_RATE + 0.5 || start >= (double)n / MEL_RATE + 29);
    }
    sound_done(&s);
    mel_free(mel);
}

/* A higher threshold, shorter pauses and less padding keep less sound. */
TEST(rules_of_silence_are_kept)
{
    static const struct inf_audio_vad rules[] = {
        {0},
        {.silence_ms = 100},
        {.silence_ms = 100, .pad_ms = 30},
        {.threshold = 0.95f, .silence_ms = 100, .pad_ms = 30}};
    _cleanup_(vad_model_closep) struct vad_model *vad = NULL;
    struct mel *mel = NULL;
    uint64_t before = UINT64_MAX;
    struct inf_err err;

    if (!test_data(WEIGHTS) || !test_data(SPEECH))
        skip();
    ASSERT_OK_ERR(vad_model_open(test_data(WEIGHTS), cpu_flags(), &vad, &err), err);
    ASSERT_OK(mel_new(N_BINS, cpu_flags(), &mel));
    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        const uint64_t n = n_heard(vad, mel, &rules[i]);

        assert_true(n > 300 && n < before);
        before = n;
    }
    mel_free(mel);
}

RUN_TESTS(cmocka_unit_test(pieces_change_no_frame), cmocka_unit_test(processed_sound_is_freed),
          cmocka_unit_test(silence_is_skipped), cmocka_unit_test(words_lie_in_speech),
          cmocka_unit_test(rules_of_silence_are_kept))
