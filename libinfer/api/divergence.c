/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the predictions of two models (divergence.h). */
#include "api/divergence.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

int divergence_init(struct divergence *d, uint64_t max)
{
    *d = (struct divergence){.max = max};
    if (max > SIZE_MAX / sizeof(float))
        return -ENOMEM;
    d->kld = NEW(float, max);
    d->p_diff = NEW(float, max);
    return d->kld && d->p_diff ? 0 : -ENOMEM;
}

void divergence_done(struct divergence *d)
{
    free(d->kld);
    free(d->p_diff);
}

/* Describes a row of logits. */
struct softmax {
    double log_sum; /* ln of the sum of exp(logit) */
    uint32_t top;   /* the first of the largest logits */
};

static struct softmax softmax_of(const float *logits, uint32_t n_vocab)
{
    struct softmax s = {0};
    double sum = 0;

    for (uint32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[s.top])
            s.top = i;
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - (double)logits[s.top]);
    s.log_sum = log(sum) + (double)logits[s.top];
    return s;
}

double divergence_nll(const float *logits, uint32_t n_vocab, int32_t token)
{
    return softmax_of(logits, n_vocab).log_sum - (double)logits[token];
}

double divergence_add(struct divergence *d, const float *base, const float *logits,
                      uint32_t n_vocab, int32_t token)
{
    const struct softmax b = softmax_of(base, n_vocab), p = softmax_of(logits, n_vocab);
    const double base_nll = b.log_sum - (double)base[token];
    const double nll = p.log_sum - (double)logits[token];
    const double diff = exp(-nll) - exp(-base_nll);
    double kld = 0;

    assert(d->n < d->max);
    for (uint32_t i = 0; i < n_vocab; i++) {
        const double log_b = (double)base[i] - b.log_sum, probability = exp(log_b);

        if (probability > 0)
            kld += probability * (log_b - ((double)logits[i] - p.log_sum));
    }
    d->kld[d->n] = (float)kld;
    d->p_diff[d->n++] = (float)diff;
    d->n_same_top += b.top == p.top;
    d->nll += nll;
    d->nll2 += nll * nll;
    d->base += base_nll;
    d->base2 += base_nll * base_nll;
    d->both += nll * base_nll;
    d->sum_kld += kld;
    d->kld2 += kld * kld;
    d->diff += diff;
    d->diff2 += diff * diff;
    d->diff4 += diff * diff * diff * diff;
    return nll;
}

/* Estimates a mean from the sums of @n numbers and of their squares. */
static struct inf_estimate estimate_mean(double sum, double squares, double n)
{
    const double mean = sum / n, variance = squares / n - mean * mean;

    return (struct inf_estimate){mean, n > 1 && variance > 0 ? sqrt(variance / (n - 1)) : 0};
}

/* Returns the error of a - b, if @covariance is that of the errors of a and b. */
static double estimate_error(double a, double b, double covariance)
{
    return sqrt(fmax(0, a * a + b * b - 2 * covariance));
}

void divergence_estimate(const struct divergence *d, struct inf_divergence *ret)
{
    const double n = (double)d->n;
    const struct inf_estimate nll = estimate_mean(d->nll, d->nll2, n);
    const struct inf_estimate base = estimate_mean(d->base, d->base2, n);
    const double cov = n > 1 ? (d->both / n - nll.value * base.value) / (n - 1) : 0;
    const double ppl = exp(nll.value), base_ppl = exp(base.value);
    const struct inf_estimate diff2 = estimate_mean(d->diff2, d->diff4, n);
    const double same = (double)d->n_same_top / n;

    ret->base_ppl = (struct inf_estimate){base_ppl, base_ppl * base.error};
    ret->log_ratio =
        (struct inf_estimate){nll.value - base.value, estimate_error(nll.error, base.error, cov)};
    ret->ratio.value = exp(ret->log_ratio.value);
    ret->ratio.error = ret->ratio.value * ret->log_ratio.error;
    ret->difference =
        (struct inf_estimate){ppl - base_ppl, estimate_error(ppl * nll.error, base_ppl * base.error,
                                                             ppl * base_ppl * cov)};
    ret->correlation = nll.error > 0 && base.error > 0 ? cov / (nll.error * base.error) : 0;
    ret->kld = estimate_mean(d->sum_kld, d->kld2, n);
    ret->p_diff = estimate_mean(d->diff, d->diff2, n);
    ret->p_diff_rms.value = sqrt(diff2.value);
    ret->p_diff_rms.error = diff2.value > 0 ? diff2.error / (2 * ret->p_diff_rms.value) : 0;
    ret->same_top = (struct inf_estimate){same, n > 1 ? sqrt(same * (1 - same) / (n - 1)) : 0};
}

static int floats_compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static void floats_quantiles(float *v, uint64_t n, double dst[INF_N_QUANTILES])
{
    static const double percents[] = INF_QUANTILES;

    static_assert(ARRAY_SIZE(percents) == INF_N_QUANTILES, "as many");
    qsort(v, n, sizeof(*v), floats_compare);
    for (unsigned i = 0; i < INF_N_QUANTILES; i++) {
        const double at = percents[i] / 100 * (double)(n - 1);
        const uint64_t below = MIN((uint64_t)at, n - 1), above = MIN(below + 1, n - 1);
        const double part = at - (double)below;

        dst[i] = (1 - part) * (double)v[below] + part * (double)v[above];
    }
}

void divergence_quantiles(struct divergence *d, struct inf_divergence *ret)
{
    floats_quantiles(d->kld, d->n, ret->kld_quantiles);
    floats_quantiles(d->p_diff, d->n, ret->p_diff_quantiles);
}
