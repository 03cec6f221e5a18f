/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the computation of log-mel frames: bench-mel BINS <SAMPLES >FRAMES
 *
 * Converts floats at 16 kHz to the frames that the encoder receives, [frames][BINS] floats, and
 * prints the time in ms to standard error.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/cpu.h"
#include "media/mel.h"

static float *read_all(size_t *ret_n)
{
    size_t cap = 1 << 16, n = 0, got;
    float *samples = malloc(cap * sizeof(*samples));

    while (samples && (got = fread(samples + n, sizeof(*samples), cap - n, stdin)) > 0) {
        n += got;
        if (n == cap)
            samples = realloc(samples, (cap *= 2) * sizeof(*samples));
    }
    *ret_n = n;
    return samples;
}

int main(int argc, char **argv)
{
    const uint32_t n_bins = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    _cleanup_(mel_freep) struct mel *mel = NULL;
    _cleanup_free_ float *samples = NULL, *frames = NULL;
    uint32_t n_frames;
    uint64_t begin;
    size_t n = 0;

    if (mel_new(n_bins, cpu_flags(), &mel) < 0) {
        fprintf(stderr, "usage: bench-mel BINS <SAMPLES >FRAMES\n");
        return 2;
    }
    samples = read_all(&n);
    n_frames = (uint32_t)mel_n_frames(n);
    frames = NEW(float, (size_t)n_frames *n_bins + 1);
    if (!samples || !frames)
        return 1;
    begin = clock_nsec();
    mel_frames(mel, &(struct mel_signal){samples, 0, n}, 0, n_frames, frames);
    mel_scale(frames, (size_t)n_frames * n_bins, mel_peak(frames, (size_t)n_frames * n_bins));
    fprintf(stderr, "%.3f\n", (double)(clock_nsec() - begin) * 1e-6);
    return fwrite(frames, sizeof(*frames) * n_bins, n_frames, stdout) == n_frames ? 0 : 1;
}
