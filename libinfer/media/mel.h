/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes log-mel frames for Whisper.
 *
 * Speech at 16 kHz becomes a frame every 160 samples. Frame i is computed from the 400 samples
 * around sample 160 × i, multiplied by a Hann window. Their power spectrum is summed under
 * triangles, which have equal areas and equal widths on Slaney's mel scale. The frame is the
 * decimal logarithm of these sums. Before the first sample the signal is mirrored; after the last
 * it is silent. Frames are then clipped to 8 below the largest value of all and scaled to about
 * -1…1 (mel_scale()). That is a separate step, because the largest value must be known first.
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

/* A part of a signal. Samples outside of it count as silence, except for the mirror at 0. */
struct mel_signal {
    const float *samples; /* -1…1 */
    uint64_t start;       /* index of its first sample in the whole signal */
    uint64_t n;
};

/* @n_bins: 1…MEL_MAX_BINS; models have 80 or 128. @cpu: flags of core/cpu.h. -EINVAL, -ENOMEM. */
int mel_new(uint32_t n_bins, unsigned cpu, struct mel **ret_mel);
struct mel *mel_free(struct mel *mel);
DEFINE_CLEANUP(struct mel *, mel_free);

uint32_t mel_n_bins(const struct mel *mel);
/* Number of frames of a signal of @n_samples, as the reference counts them. */
uint64_t mel_n_frames(uint64_t n_samples);
/* Computes frames @first … @first + @n - 1 into @out, [n][n_bins]: logarithms of at least -10.
 * Several threads may call it at once. */
void mel_frames(const struct mel *mel, const struct mel_signal *signal, uint64_t first, uint32_t n,
                float *out);
/* The largest of @n values. */
float mel_peak(const float *x, size_t n);
/* Clips @n values to @peak - 8, then x := (x + 4) / 4. */
void mel_scale(float *x, size_t n, float peak);
