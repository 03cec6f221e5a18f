/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Derives the error bounds of attention.
 *
 * A weight of the softmax is exp(s - max) ÷ Σ. An error d of a score causes a relative error d of
 * its weight. For weights p with the sum 1 the output is out = Σ p v. Relative errors r of the
 * weights change the output by at most Σ p |v - out| r.
 */

#include "checkkern/devices/bound-attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"

struct attn {
    const struct attn_params *p;
    size_t n; /* rows */
    enum bound_rounding rounding;
    const double *q, *k, *v;
    double *dq, *dk, *dv;
    double *scores, *errors; /* [n] for one row: scores, then weights; their errors */
};

static double *copy_of(const double *x, size_t n)
{
    double *y = calloc(n, sizeof(*y));

    if (!y)
        abort();
    memcpy(y, x, n * sizeof(*y));
    return y;
}

static enum bound_rounding stored_as(enum codec kv)
{
    return kv == CODEC_F16    ? BOUND_F16
           : kv == CODEC_BF16 ? BOUND_BF16
           : kv == CODEC_Q8_0 ? BOUND_Q8
                              : BOUND_EXACT;
}

/* Returns the errors of stored keys or values. A head has blocks of 32; the scale of a block is a
 * binary16. */
static double *stored(const double *x, const double *dx, size_t n_heads, size_t hd, enum codec kv)
{
    double *d = copy_of(dx, n_heads * hd);

    for (size_t h = 0; h < n_heads; h++)
        bound_round(stored_as(kv), x + h * hd, d + h * hd, hd);
    for (size_t i = 0; kv == CODEC_Q8_0 && i < n_heads * hd; i++)
        d[i] += fabs(x[i]) * 0x1p-11;
    return d;
}

/* Adds the errors of stored numbers that are multiplied as binary16. The numbers of a block share a
 * scale, which brings the largest one to at least 2^14. Stored binary16 numbers are not rounded
 * again. */
static void halved(const double *x, size_t n, enum codec kv, double *d)
{
    double max = 0;

    for (size_t i = 0; i < n; i++)
        max = fmax(max, fabs(x[i]) + d[i]);
    for (size_t i = 0; kv != CODEC_F16 && i < n; i++)
        d[i] += (fabs(x[i]) + d[i]) * 0x1p-11 + max * 0x1p-39 + BOUND_FLUSH;
}

static double score(const struct attn *a, size_t q, size_t k, double *ret_error)
{
    const uint32_t hd = a->p->head_dim;
    double sum = 0, magnitude = 0, through = 0;

    for (uint32_t d = 0; d < hd; d++) {
        sum += a->q[q + d] * a->k[k + d];
        magnitude += fabs(a->q[q + d] * a->k[k + d]);
        through +=
            fabs(a->q[q + d]) * a->dk[k + d] + (fabs(a->k[k + d]) + a->dk[k + d]) * a->dq[q + d];
    }
    *ret_error =
        fabs((double)a->p->scale) * (through + (hd + 8) * BOUND_UNIT * magnitude + BOUND_FLUSH);
    sum *= (double)a->p->scale;
    if (a->p->softcap > 0) {
        sum = (double)a->p->softcap * tanh(sum / (double)a->p->softcap);
        *ret_error += fabs(sum) * BOUND_UNIT * 24;
    }
    return sum;
}

/* Turns scores into weights with the sum 1, and errors of scores into relative errors of the
 * weights. */
static void soften(struct attn *a, size_t first, size_t pos, double sink)
{
    /* Kernels for matrix units compute the weights relative to a number that is up to 2^15 times
     * smaller than the largest weight, so that the arguments of exp2() are larger. */
    const double base = a->rounding == BOUND_F16_ROWS ? 64 : 0;
    double max = sink, worst = 0, sum = 0;

    for (size_t j = first; j <= pos; j++)
        if (a->scores[j] > max)
            max = a->scores[j];
    for (size_t j = first; j <= pos; j++) {
        const double x = a->scores[j] - max;

        a->scores[j] = exp(x);
        /* exp() of 0 is exact; other results have an error of 3 + 2 |x| ulp. */
        a->errors[j] +=
            BOUND_UNIT * (6 + base + 6 * fabs(x)) + (a->rounding == BOUND_BF16 ? 0x1p-8 : 0);
        sum += a->scores[j];
    }
    sum += exp(sink - max);
    if (isfinite(sink))
        worst = exp(sink - max) / sum * BOUND_UNIT * (6 + base + 6 * fabs(sink - max));
    /* The division by the sum adds the mean of the errors, in which each error counts with its
     * weight. */
    for (size_t j = first; j <= pos; j++) {
        a->scores[j] /= sum;
        worst += a->scores[j] * a->errors[j];
    }
    for (size_t j = first; j <= pos; j++)
        a->errors[j] += worst;
}

static void row(struct attn *a, size_t pos, size_t q, size_t kv, double sink, double *error)
{
    const size_t stride = (size_t)a->p->n_kv_heads * a->p->head_dim;
    const uint32_t window = a->p->window;
    const size_t first = window && pos + 1 > window ? pos + 1 - window : 0;
    /* Matrix units multiply rounded weights, but the sum is that of the weights before rounding. */
    const double rounding = a->rounding == BOUND_F16_ROWS ? 0x1p-11 : 0;
    const double units = (double)(pos - first + 16) * BOUND_UNIT + rounding;
    /* Weights are rounded to multiples of a step. With BOUND_Q8 the step is 2^-15 of the largest
     * weight. Matrix units round to binary16, whose smallest number is 2^-24, and their largest
     * weight is at least 2^6. */
    const double step = a->rounding == BOUND_Q8         ? 0x1p-15
                        : a->rounding == BOUND_F16_ROWS ? 0x1p-31
                                                        : 0;

    for (size_t j = first; j <= pos; j++)
        a->scores[j] = score(a, q, kv + j * stride, &a->errors[j]);
    soften(a, first, pos, sink);
    for (uint32_t d = 0; d < a->p->head_dim; d++) {
        double out = 0, sum = 0;

        for (size_t j = first; j <= pos; j++)
            out += a->scores[j] * a->v[kv + j * stride + d];
        for (size_t j = first; j <= pos; j++) {
            const double v = a->v[kv + j * stride + d], dv = a->dv[kv + j * stride + d];

            /* With a sink, the weights of the values do not have the sum 1. */
            sum += a->scores[j] *
                       ((isfinite(sink) ? fabs(v) + fabs(out) : fabs(v - out)) * a->errors[j] + dv +
                        units * fabs(v)) +
                   step * fabs(v);
        }
        error[d] = sum + BOUND_FLUSH * (double)(pos + 1);
    }
}

/* Returns the node whose keys and values the node reads. */
static const struct graph_node *keys_of(const struct bound *b, const struct graph_node *node)
{
    for (graph_ref i = 0; node->attn.shared; i++) {
        const struct graph_node *n = graph_node(b->g, i);

        if (n->op == GRAPH_ATTENTION && !n->attn.shared && n->attn.i_group == node->attn.i_group &&
            n->attn.i_layer == node->attn.i_layer)
            return n;
    }
    return node;
}

void bound_attention(const struct bound *b, const struct graph_node *node,
                     const struct bound_rules *rules, double *error)
{
    const struct attn_params *p = &node->attn;
    const struct graph_node *kv = keys_of(b, node);
    float *sinks = NEW(float, p->n_heads);
    const size_t n_q = b->n * p->n_heads, n_kv = b->n * p->n_kv_heads;
    struct attn a = {
        .p = p,
        .n = b->n,
        .rounding = rules->attention,
        .q = b->values[node->src[0]],
        .k = b->values[kv->src[1]],
        .v = b->values[kv->src[2]],
        .dq = copy_of(b->errors[node->src[0]], n_q * p->head_dim),
        .dk = stored(b->values[kv->src[1]], b->errors[kv->src[1]], n_kv, p->head_dim, rules->k),
        .dv = stored(b->values[kv->src[2]], b->errors[kv->src[2]], n_kv, p->head_dim, rules->v),
        .scores = copy_of(b->values[node->src[0]], b->n),
        .errors = copy_of(b->values[node->src[0]], b->n),
    };

    if (p->sinks.data)
        dtype_info(p->sinks.dtype)->decode(p->sinks.data, sinks, p->n_heads);
    if (rules->attention == BOUND_F16_ROWS) {
        halved(a.k, n_kv * p->head_dim, rules->k, a.dk);
        halved(a.v, n_kv * p->head_dim, rules->v, a.dv);
    }
    for (size_t h = 0; h < n_q; h++)
        bound_round(rules->attention, a.q + h * p->head_dim, a.dq + h * p->head_dim, p->head_dim);
    for (size_t i = 0; i < b->n; i++)
        for (uint32_t h = 0; h < p->n_heads; h++) {
            const size_t at = i * node->width + (size_t)h * p->head_dim;

            row(&a, i, at, (size_t)(h / (p->n_heads / p->n_kv_heads)) * p->head_dim,
                p->sinks.data ? (double)sinks[h] : -INFINITY, error + at);
        }
    free(sinks);
    free(a.dq);
    free(a.dk);
    free(a.dv);
    free(a.scores);
    free(a.errors);
}
