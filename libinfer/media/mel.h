/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes log-mel frames for Whisper.
 *
 * Speech at 16 kHz becomes a frame every 160 samples. Frame i is computed from the 400 samples
 * around sample 160 × i, multiplied by a Hann window. The power spectrum of these samples is summed
 * under triangles, which have equal areas and equal widths on Slaney's mel scale. The frame
 * consists of the decimal logarithms of these sums. Before its first sample the signal is mirrored;
 * after its last sample it counts as silent. Then mel_scale() raises all values to at least the
 * largest value of all frames minus 8, and scales them to about -1…1. mel_scale() is a separate
 * step, because the largest value must be known first.
 */

#include <infer/types.h>

#include "core/macros.h"

enum {
    MEL_RATE = 16000, /* samples per second */
    MEL_HOP = 160,    /* samples from frame to frame */
    MEL_REACH = 200,  /* samples on each side of a frame's middle */
    MEL_MAX_BINS = 128,
};

struct mel;

/* A part of a signal. Samples outside of this part count as silence, except for the mirror before
 * sample 0. */
struct mel_signal {
    const float *samples; /* -1…1 */
    uint64_t start;       /* index of its first sample in the whole signal */
    uint64_t n;
};

/* Computes the tables for frames of @n_bins mel bins: 1…MEL_MAX_BINS; models have 80 or 128. @cpu:
 * flags of core/cpu.h. -EINVAL, -ENOMEM. */
int mel_new(uint32_t n_bins, unsigned cpu, struct mel **ret_mel);
struct mel *mel_free(struct mel *mel);
DEFINE_CLEANUP(struct mel *, mel_free);

uint32_t mel_n_bins(const struct mel *mel);
/* Returns the number of frames of a signal of @n_samples, as OpenAI's whisper counts them. */
uint64_t mel_n_frames(uint64_t n_samples);
/* Computes frames @first … @first + @n - 1 into @out, [n][n_bins]: logarithms of at least -10.
 * Several threads may call this function at once. */
void mel_frames(const struct mel *mel, const struct mel_signal *signal, uint64_t first, uint32_t n,
                float *out);
/* Returns the largest of @n values. */
float mel_peak(const float *x, size_t n);
/* Raises values that are below @peak - 8 to this limit, then sets each of the @n values x to (x +
 * 4) / 4. */
void mel_scale(float *x, size_t n, float peak);
