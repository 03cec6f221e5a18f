/* SPDX-License-Identifier: Apache-2.0 */
/* Computes times from attention scores: softmax over frames, normalization to mean 0 and deviation
 * 1 over tokens, a median of seven frames, the mean over heads, and the cheapest path. */
#include "transcribe/align.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/macros.h"

enum {
    MEDIAN_WIDTH = 7,
    MEDIAN_REACH = MEDIAN_WIDTH / 2,
};

enum step {
    STEP_BOTH,
    STEP_TOKEN,
    STEP_FRAME,
};

static void softmax_row(float *row, uint32_t n)
{
    float max = -INFINITY;
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        max = MAX(max, row[i]);
    for (uint32_t i = 0; i < n; i++) {
        row[i] = expf(row[i] - max);
        sum += (double)row[i];
    }
    for (uint32_t i = 0; i < n; i++)
        row[i] = (float)((double)row[i] / sum);
}

/* Standardizes a frame over all tokens. A frame with equal scores for all tokens becomes 0. */
static void standardize_column(float *column, uint32_t n, size_t stride)
{
    double sum = 0, squares = 0, mean, deviation;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)column[i * stride];
    mean = sum / n;
    for (uint32_t i = 0; i < n; i++) {
        const double d = (double)column[i * stride] - mean;

        squares += d * d;
    }
    deviation = sqrt(squares / n);
    for (uint32_t i = 0; i < n; i++)
        column[i * stride] =
            deviation > 0 ? (float)(((double)column[i * stride] - mean) / deviation) : 0;
}

static float median_frame(const float *x)
{
    float sorted[MEDIAN_WIDTH];

    for (uint32_t i = 0; i < MEDIAN_WIDTH; i++) {
        uint32_t at = i;

        for (; at > 0 && sorted[at - 1] > x[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = x[i];
    }
    return sorted[MEDIAN_REACH];
}

/* Smooths a row with a median filter, for which the row is mirrored at its ends. A row that is too
 * short to be mirrored is not changed. @padded has room for n + 2 × MEDIAN_REACH values. */
static void smooth_row(float *row, uint32_t n, float *padded)
{
    if (n <= MEDIAN_REACH)
        return;
    memcpy(padded + MEDIAN_REACH, row, n * sizeof(*row));
    for (uint32_t i = 1; i <= MEDIAN_REACH; i++) {
        padded[MEDIAN_REACH - i] = row[i];
        padded[MEDIAN_REACH + n - 1 + i] = row[n - 1 - i];
    }
    for (uint32_t i = 0; i < n; i++)
        row[i] = median_frame(padded + i);
}

static void prepare_head(const struct align_params *p, float *head, float *padded)
{
    for (uint32_t t = 0; t < p->n_tokens; t++)
        softmax_row(head + (size_t)t * p->n_frames, p->n_frames);
    for (uint32_t f = 0; f < p->n_frames; f++)
        standardize_column(head + f, p->n_tokens, p->n_frames);
    for (uint32_t t = 0; t < p->n_tokens; t++)
        smooth_row(head + (size_t)t * p->n_frames, p->n_frames, padded);
}

/*
 * Computes the cost of the cheapest path to each element of @x, [n][m], and writes the last step of
 * each path to @steps. The path starts from a border: a row and a column of costs before the first
 * row and the first column. Only two rows of costs are kept.
 */
static void find_steps(const float *x, uint32_t n, uint32_t m, float *cost, uint8_t *steps)
{
    float *above = cost, *here = cost + m + 1;

    for (uint32_t j = 0; j <= m; j++)
        above[j] = j == 0 ? 0 : INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        here[0] = INFINITY;
        for (uint32_t j = 0; j < m; j++) {
            const float both = above[j], token = above[j + 1], frame = here[j];
            enum step step = STEP_FRAME;
            float least = frame;

            if (both < token && both < frame) {
                step = STEP_BOTH;
                least = both;
            } else if (token < both && token < frame) {
                step = STEP_TOKEN;
                least = token;
            }
            here[j + 1] = (float)((double)least - (double)x[(size_t)i * m + j]);
            steps[(size_t)i * m + j] = (uint8_t)step;
        }
        float *const swap = above;

        above = here;
        here = swap;
    }
}

/* Walks back from the last token and frame, and finds the first frame of each token on the path. */
static void walk_back(const uint8_t *steps, uint32_t n, uint32_t m, uint32_t *ret_frames)
{
    uint32_t i = n - 1, j = m - 1;

    for (;;) {
        ret_frames[i] = j;
        if (i == 0 && j == 0)
            return;
        const enum step step = i == 0   ? STEP_FRAME
                               : j == 0 ? STEP_TOKEN
                                        : (enum step)steps[(size_t)i * m + j];

        i -= step != STEP_FRAME;
        j -= step != STEP_TOKEN;
    }
}

int align_add(const struct align_params *p, float *scores, float *sum)
{
    const size_t n = (size_t)p->n_tokens * p->n_frames;
    _cleanup_free_ float *padded = NEW(float, (size_t)p->n_frames + 2 * MEDIAN_REACH);

    if (!padded)
        return -ENOMEM;
    for (uint32_t h = 0; h < p->n_heads; h++) {
        prepare_head(p, scores + h * n, padded);
        for (size_t i = 0; i < n; i++)
            sum[i] += scores[h * n + i];
    }
    return 0;
}

int align_path(const struct align_params *p, float *sum, uint32_t *ret_frames)
{
    const uint32_t n = p->n_tokens - p->n_skip - 1, m = p->n_frames;
    _cleanup_free_ float *cost = NEW(float, 2 * ((size_t)m + 1));
    _cleanup_free_ uint8_t *steps = NEW(uint8_t, (size_t)n * m);

    if (!cost || !steps)
        return -ENOMEM;
    for (size_t i = 0; i < (size_t)p->n_tokens * m; i++)
        sum[i] /= (float)p->n_heads;
    find_steps(sum + (size_t)p->n_skip * m, n, m, cost, steps);
    walk_back(steps, n, m, ret_frames);
    return 0;
}

int align_tokens(const struct align_params *p, float *scores, uint32_t *ret_frames)
{
    _cleanup_free_ float *sum = NEW(float, (size_t)p->n_tokens * p->n_frames);
    int r = sum ? 0 : -ENOMEM;

    if (r == 0)
        r = align_add(p, scores, sum);
    return r == 0 ? align_path(p, sum, ret_frames) : r;
}
