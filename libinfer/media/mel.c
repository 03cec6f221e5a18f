/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes log-mel frames. The window is applied before the spectrum is computed; triangles and
 * logarithms are applied after that.
 *
 * The mel scale is Slaney's (Auditory Toolbox, 1998): linear below 1 kHz, and logarithmic above. A
 * triangle covers few frequencies, so its weights are stored as one run.
 */
#include "media/mel.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "media/spectrum.h"

struct triangle {
    uint32_t first, n; /* frequencies with a weight */
    uint32_t at;       /* index of the first weight */
};

struct mel {
    const struct spectrum_kernel *kernel;
    struct spectrum_plan plan;
    double window[SPECTRUM_N];
    uint32_t n_bins;
    struct triangle triangles[MEL_MAX_BINS];
    double weights[2 * SPECTRUM_BINS]; /* no frequency is under more than two triangles */
};

#define MEL_LINEAR_HZ (200.0 / 3)            /* Hz per mel below MEL_BREAK_HZ */
#define MEL_BREAK_HZ  1000.0                 /* this is 15 mel */
#define MEL_LOG_STEP  (0.068751777420949123) /* ln of the ratio per mel above 1 kHz: ln 6.4 / 27 */

static double mel_of_hz(double hz)
{
    if (hz < MEL_BREAK_HZ)
        return hz / MEL_LINEAR_HZ;
    return MEL_BREAK_HZ / MEL_LINEAR_HZ + log(hz / MEL_BREAK_HZ) / MEL_LOG_STEP;
}

static double hz_of_mel(double mel)
{
    const double at_break = MEL_BREAK_HZ / MEL_LINEAR_HZ;

    return mel < at_break ? mel * MEL_LINEAR_HZ
                          : MEL_BREAK_HZ * exp(MEL_LOG_STEP * (mel - at_break));
}

/* Returns the i-th of n_bins + 2 corners, in Hz: triangle i has the corners i, i + 1 and i + 2. */
static double mel_corner(const struct mel *mel, uint32_t i)
{
    return hz_of_mel(mel_of_hz(MEL_RATE / 2.0) * i / (mel->n_bins + 1));
}

static void triangle_init(struct mel *mel, uint32_t i, uint32_t *n_weights)
{
    const double low = mel_corner(mel, i), top = mel_corner(mel, i + 1),
                 high = mel_corner(mel, i + 2);
    struct triangle *t = &mel->triangles[i];

    *t = (struct triangle){.at = *n_weights};
    for (uint32_t k = 0; k < SPECTRUM_BINS; k++) {
        const double hz = (double)k * MEL_RATE / SPECTRUM_N;
        const double height = MIN((hz - low) / (top - low), (high - hz) / (high - top));

        if (height <= 0)
            continue;
        if (t->n == 0)
            t->first = k;
        t->n++;
        /* OpenAI's whisper stores its weights in single precision. */
        mel->weights[(*n_weights)++] = (double)(float)(height * 2 / (high - low));
    }
}

int mel_new(uint32_t n_bins, unsigned cpu, struct mel **ret_mel)
{
    uint32_t n_weights = 0;
    struct mel *mel;

    if (n_bins == 0 || n_bins > MEL_MAX_BINS)
        return -EINVAL;
    mel = NEW(struct mel, 1);
    if (!mel)
        return -ENOMEM;
    mel->n_bins = n_bins;
    mel->kernel = spectrum_kernel_get(cpu);
    spectrum_plan_init(&mel->plan);
    for (uint32_t i = 0; i < SPECTRUM_N; i++)
        mel->window[i] = 0.5 - 0.5 * cos(2 * M_PI * i / SPECTRUM_N);
    for (uint32_t i = 0; i < n_bins; i++)
        triangle_init(mel, i, &n_weights);
    *ret_mel = mel;
    return 0;
}

struct mel *mel_free(struct mel *mel)
{
    free(mel);
    return NULL;
}

uint32_t mel_n_bins(const struct mel *mel)
{
    return mel->n_bins;
}

uint64_t mel_n_frames(uint64_t n_samples)
{
    return n_samples / MEL_HOP;
}

static float sample_at(const struct mel_signal *signal, int64_t at)
{
    const uint64_t i = (uint64_t)(at < 0 ? -at : at) - signal->start;

    return i < signal->n ? signal->samples[i] : 0;
}

/* Loads the windowed samples of one frame into @lane of @x, [SPECTRUM_N][width]. */
static void load_frame(const struct mel *mel, const struct mel_signal *signal, uint64_t frame,
                       uint32_t lane, double *x)
{
    const int64_t first = (int64_t)(frame * MEL_HOP) - MEL_REACH;
    const uint32_t width = mel->kernel->width;
    float part[SPECTRUM_N];
    const float *from = part;

    if (first >= (int64_t)signal->start &&
        (uint64_t)first - signal->start + SPECTRUM_N <= signal->n)
        from = signal->samples + ((uint64_t)first - signal->start);
    else
        for (uint32_t i = 0; i < SPECTRUM_N; i++)
            part[i] = sample_at(signal, first + i);
    for (uint32_t i = 0; i < SPECTRUM_N; i++)
        x[i * width + lane] = (double)from[i] * mel->window[i];
}

/* Computes the logarithms of the triangles over @power, [SPECTRUM_BINS][width], for the first @n
 * lanes. */
static void store_frames(const struct mel *mel, const double *power, uint32_t n, float *out)
{
    const uint32_t width = mel->kernel->width;

    for (uint32_t i = 0; i < mel->n_bins; i++) {
        const struct triangle *t = &mel->triangles[i];
        double sum[SPECTRUM_MAX_WIDTH] = {0};

        for (uint32_t k = 0; k < t->n; k++)
            for (uint32_t lane = 0; lane < width; lane++)
                sum[lane] += mel->weights[t->at + k] * power[(t->first + k) * width + lane];
        for (uint32_t lane = 0; lane < n; lane++)
            out[(size_t)lane * mel->n_bins + i] = log10f(MAX((float)sum[lane], 1e-10f));
    }
}

void mel_frames(const struct mel *mel, const struct mel_signal *signal, uint64_t first, uint32_t n,
                float *out)
{
    _Alignas(64) double x[SPECTRUM_N * SPECTRUM_MAX_WIDTH];
    _Alignas(64) double power[SPECTRUM_BINS * SPECTRUM_MAX_WIDTH];
    const uint32_t width = mel->kernel->width;

    memset(x, 0, sizeof(x));
    for (uint32_t i = 0; i < n; i += width) {
        const uint32_t n_lanes = MIN(width, n - i);

        for (uint32_t lane = 0; lane < n_lanes; lane++)
            load_frame(mel, signal, first + i + lane, lane, x);
        mel->kernel->powers(&mel->plan, x, power);
        store_frames(mel, power, n_lanes, out + (size_t)i * mel->n_bins);
    }
}

float mel_peak(const float *x, size_t n)
{
    float peak = -INFINITY;

    for (size_t i = 0; i < n; i++)
        peak = MAX(peak, x[i]);
    return peak;
}

void mel_scale(float *x, size_t n, float peak)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (MAX(x[i], peak - 8) + 4) / 4;
}
