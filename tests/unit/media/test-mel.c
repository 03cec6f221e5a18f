/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares log-mel frames with a reference in double precision (tests/golden/make_audio.py). The
 * frames must be the same bit for bit on all instruction sets of this CPU, and for any division of
 * the signal into pieces.
 */
#include "lib/test.h"

#include <math.h>

#include "core/cpu.h"
#include "core/macros.h"
#include "media/mel.h"
#include "unit/media/wav.h"

static const unsigned rungs[] = {0, CPU_AVX2, CPU_AVX2 | CPU_AVX512};

static float *noise(size_t n)
{
    static const int gains[] = {0, 1, 64, 1024};
    float *out = NEW(float, n);
    uint32_t x = 1;

    assert_non_null(out);
    for (size_t i = 0; i < n; i++) {
        const int gain = gains[i * 4 / n];
        int v;

        x = x * 1664525 + 1013904223;
        v = (int)(x >> 16) - 32768;
        /* The division rounds down, also below zero. */
        out[i] = gain == 0 ? 0 : (float)(v >= 0 ? v / gain : -((-v + gain - 1) / gain)) / 32768;
    }
    return out;
}

static float *read_signal(const char *name, size_t *ret_n)
{
    char path[64];

    if (strcmp(name, "noise") == 0) {
        *ret_n = 16100;
        return noise(*ret_n);
    }
    snprintf(path, sizeof(path), "speech/%s.wav", name);
    return test_data(path) ? wav_read(test_data(path), ret_n) : NULL;
}

static float worst_error(const struct mel *mel, const float *samples, size_t n, uint32_t n_picked,
                         FILE *f)
{
    const struct mel_signal signal = {samples, 0, n};
    const uint32_t n_bins = mel_n_bins(mel), n_frames = (uint32_t)mel_n_frames(n) + 1;
    _cleanup_free_ float *got = NEW(float, (size_t)n_frames *n_bins);
    float worst = 0;

    assert_non_null(got);
    mel_frames(mel, &signal, 0, n_frames, got);
    mel_scale(got, (size_t)n_frames * n_bins, mel_peak(got, (size_t)n_frames * n_bins));
    for (uint32_t i = 0; i < n_picked; i++) {
        float want[MEL_MAX_BINS];
        uint32_t frame;

        assert_int_equal(fread(&frame, sizeof(frame), 1, f), 1);
        assert_int_equal(fread(want, sizeof(*want), n_bins, f), n_bins);
        assert_true(frame < n_frames);
        for (uint32_t k = 0; k < n_bins; k++)
            worst = fmaxf(worst, fabsf(got[(size_t)frame * n_bins + k] - want[k]));
    }
    return worst;
}

TEST(frames_are_those_of_the_reference)
{
    struct {
        char name[16];
        uint32_t n_bins, n_frames;
    } head;
    FILE *f = fopen(test_golden("audio/mel.bin"), "rb");

    assert_non_null(f);
    while (fread(&head, sizeof(head), 1, f) == 1) {
        _cleanup_(mel_freep) struct mel *mel = NULL;
        _cleanup_free_ float *samples = NULL;
        size_t n = 0;
        float worst;

        samples = read_signal(head.name, &n);
        if (!samples) {
            fseek(f, (long)head.n_frames * (1 + head.n_bins) * 4, SEEK_CUR);
            continue;
        }
        ASSERT_OK(mel_new(head.n_bins, cpu_flags(), &mel));
        worst = worst_error(mel, samples, n, head.n_frames, f);
        print_message("%s, %u bins: %g\n", head.name, head.n_bins, (double)worst);
        assert_true(worst <= 2e-6f);
    }
    fclose(f);
}

TEST(instruction_sets_and_cuts_give_the_same_bits)
{
    enum { N = 16100, FRAMES = N / MEL_HOP, BINS = 80 };
    static float want[FRAMES * BINS], got[FRAMES * BINS];
    _cleanup_free_ float *samples = noise(N);

    for (size_t r = 0; r < ARRAY_SIZE(rungs) && (cpu_flags() & rungs[r]) == rungs[r]; r++) {
        _cleanup_(mel_freep) struct mel *mel = NULL;
        uint32_t step = 1;

        ASSERT_OK(mel_new(BINS, rungs[r], &mel));
        if (r == 0)
            mel_frames(mel, &(struct mel_signal){samples, 0, N}, 0, FRAMES, want);
        for (uint32_t i = 0; i < FRAMES; i += step, step = step % 11 + 1) {
            const uint32_t n = MIN(step, FRAMES - i);
            const uint64_t at = (uint64_t)i * MEL_HOP;
            /* Only these frames are affected; the first frames also see the mirrored start. */
            const uint64_t start = at < MEL_REACH ? 0 : at - MEL_REACH;
            const uint64_t end = MIN((uint64_t)(i + n - 1) * MEL_HOP + MEL_REACH + 1, (uint64_t)N);

            mel_frames(mel, &(struct mel_signal){samples + start, start, end - start}, i, n,
                       got + (size_t)i * BINS);
        }
        assert_memory_equal(want, got, sizeof(want));
    }
}

TEST(silence_is_flat)
{
    _cleanup_(mel_freep) struct mel *mel = NULL;
    float frame[MEL_MAX_BINS];

    ASSERT_ERROR(mel_new(0, 0, &mel), EINVAL);
    ASSERT_ERROR(mel_new(MEL_MAX_BINS + 1, 0, &mel), EINVAL);
    ASSERT_OK(mel_new(MEL_MAX_BINS, cpu_flags(), &mel));
    mel_frames(mel, &(struct mel_signal){NULL, 0, 0}, 7, 1, frame);
    for (uint32_t i = 0; i < MEL_MAX_BINS; i++)
        assert_true(frame[i] == -10);
    mel_scale(frame, MEL_MAX_BINS, mel_peak(frame, MEL_MAX_BINS));
    assert_true(frame[0] == -1.5f && frame[127] == -1.5f);
}

RUN_TESTS(cmocka_unit_test(frames_are_those_of_the_reference),
          cmocka_unit_test(instruction_sets_and_cuts_give_the_same_bits),
          cmocka_unit_test(silence_is_flat))
