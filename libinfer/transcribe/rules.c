/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the rules in the order of OpenAI's whisper: lists of tokens, pairs of times, order of
 * times, the beginning. Finally, text tokens are forbidden if all times together are more likely
 * than the most likely text token. */
#include "transcribe/rules.h"

#include <math.h>

#include "core/macros.h"

static void forbid_range(float *logits, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        logits[i] = -INFINITY;
}

static void forbid_all(float *logits, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        logits[ids[i]] = -INFINITY;
}

static bool is_time(const struct rules *r, int32_t token)
{
    return token >= r->timestamp_begin;
}

/* Returns the last time token, or -1. */
static int32_t last_time(const struct rules *r, const int32_t *said, size_t n)
{
    while (n > 0 && !is_time(r, said[n - 1]))
        n--;
    return n > 0 ? said[n - 1] : -1;
}

static void apply_pairs(const struct rules *r, const int32_t *said, size_t n, float *logits)
{
    const bool after_time = n >= 1 && is_time(r, said[n - 1]);
    const bool after_pair = n < 2 || is_time(r, said[n - 2]);
    const int32_t last = last_time(r, said, n);

    if (after_time && after_pair)
        forbid_range(logits, (uint32_t)r->timestamp_begin, r->n_vocab);
    else if (after_time)
        forbid_range(logits, 0, (uint32_t)r->end_of_text);
    if (last < 0)
        return;
    /* A segment may begin where the segment before it ends, but must not end where it begins
     * itself. */
    forbid_range(logits, (uint32_t)r->timestamp_begin,
                 (uint32_t)last + (after_time && !after_pair ? 0 : 1));
}

static void apply_first(const struct rules *r, float *logits)
{
    const uint32_t begin = (uint32_t)r->timestamp_begin;

    forbid_range(logits, 0, begin);
    if (r->max_first_at < r->n_vocab - begin)
        forbid_range(logits, begin + r->max_first_at + 1, r->n_vocab);
}

static float peak_logit(const float *x, uint32_t n)
{
    float max = -INFINITY;

    for (uint32_t i = 0; i < n; i++)
        max = MAX(max, x[i]);
    return max;
}

/* Returns log Σ exp x. */
static double log_sum(const float *x, uint32_t n)
{
    const float max = peak_logit(x, n);
    double sum = 0;

    if (max == -INFINITY)
        return -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i] - (double)max);
    return log(sum) + (double)max;
}

static void apply_times(const struct rules *r, const int32_t *said, size_t n_said, float *logits)
{
    const uint32_t begin = (uint32_t)r->timestamp_begin;

    if (r->no_timestamps >= 0)
        logits[r->no_timestamps] = -INFINITY;
    apply_pairs(r, said, n_said, logits);
    if (n_said == 0)
        apply_first(r, logits);
    if (log_sum(logits + begin, r->n_vocab - begin) > (double)peak_logit(logits, begin))
        forbid_range(logits, 0, begin);
}

void rules_apply(const struct rules *r, const int32_t *said, size_t n_said, float *logits)
{
    if (n_said == 0)
        forbid_all(logits, r->not_first, r->n_not_first);
    forbid_all(logits, r->forbidden, r->n_forbidden);
    if (r->timestamps)
        apply_times(r, said, n_said, logits);
}

int32_t rules_likeliest(const float *logits, const int32_t *ids, size_t n_ids)
{
    int32_t best = -1;

    for (size_t i = 0; i < n_ids; i++)
        if (best < 0 || logits[ids[i]] > logits[ids[best]])
            best = (int32_t)i;
    return best;
}
