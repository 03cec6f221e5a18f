/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Derives the error bounds of operations on streams (residual streams beside each other, as in
 * Gemma 3n) and on the statistics of rows.
 *
 * The root of a mean of squares is, up to a constant factor, the length of a vector. Its error is
 * at most the length of the vector of the errors, times the same factor. If squares leave the range
 * of floats, the errors are infinite, and the row is not compared.
 */

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "checkkern/devices/bound-ops.h"

/* The root of the mean of squares of @n numbers, and the bound of its error. */
struct length {
    double size, error;
};

static struct length length_of(const double *x, const double *dx, uint32_t n)
{
    double squares = 0, errors = 0;
    struct length l;

    for (uint32_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
        errors += dx[i] * dx[i];
    }
    l.size = sqrt(squares / n);
    l.error = sqrt(errors / n) + l.size * (n / 2.0 + 8) * BOUND_UNIT + sqrt(BOUND_FLUSH);
    if (!(squares < (double)FLT_MAX / 2))
        l.error = INFINITY;
    return l;
}

void bound_scale(const struct bound *b, const struct graph_node *node, const double *y,
                 double *error)
{
    const double *dx = b->errors[node->src[0]];
    float *w = bound_decoded(&node->w, node->width);

    for (size_t i = 0; i < b->n * bound_width(node); i++) {
        const double f = node->w.data ? (double)w[i % node->width] : (double)node->f;

        error[i] = fabs(f) * dx[i] + fabs(y[i]) * BOUND_UNIT + BOUND_FLUSH * (1 + fabs(f));
    }
    free(w);
}

void bound_blend(const struct bound *b, const struct graph_node *node, double *error)
{
    const double *x = b->values[node->src[0]], *dx = b->errors[node->src[0]];
    const uint32_t n_in = node->blend.n_in, n = n_in * node->blend.n_out;
    const uint32_t width = node->width / node->blend.n_out;
    float *w = bound_decoded(&node->w, n);

    for (size_t i = 0; i < b->n * node->width; i++) {
        const size_t t = i / node->width, j = i % node->width / width;
        double own = 0, size = 0;

        if (node->src[1] >= 0) {
            own = b->errors[node->src[1]][i];
            size = fabs(b->values[node->src[1]][i]);
        }
        for (size_t k = 0; k < n_in; k++) {
            const size_t from = (t * n_in + k) * width + i % width, at = j * n_in + k;
            double f = (double)w[at], df = 0;

            if (node->src[2] >= 0) {
                f += b->values[node->src[2]][t * n + at];
                df = b->errors[node->src[2]][t * n + at] + BOUND_UNIT * fabs(f) + BOUND_FLUSH;
            }
            own += (fabs(f) + df) * dx[from] + df * fabs(x[from]);
            size += fabs(f * x[from]);
        }
        error[i] = own + (n_in + 2) * (BOUND_UNIT * size + 2 * BOUND_FLUSH);
    }
    free(w);
}

void bound_level(const struct bound *b, const struct graph_node *node, double *error)
{
    const double *x = b->values[node->src[0]], *dx = b->errors[node->src[0]];
    const double *like = b->values[node->src[1]], *dlike = b->errors[node->src[1]];
    const uint32_t n = node->width;

    for (size_t at = 0; at < b->n * n; at += n) {
        const struct length own = length_of(x + at, dx + at, n);
        const struct length other = length_of(like + at, dlike + at, n);
        const double size = fmax(own.size, sqrt((double)node->f)), f = other.size / size;
        const double df = (other.error + f * own.error) / size + 6 * BOUND_UNIT * f;

        for (uint32_t i = 0; i < n; i++)
            error[at + i] = (f + df) * dx[at + i] + fabs(x[at + i]) * (df + BOUND_UNIT * f) +
                            BOUND_FLUSH * (2 + f + fabs(x[at + i]));
    }
}

/* Each number of a round is a sum of two products. */
static void bound_round_of_pairs(const struct turn_params *p, uint32_t i_round, double *x,
                                 double *error)
{
    for (uint32_t k = 0; k < p->width; k += 2) {
        const size_t at = (size_t)i_round * p->width + k;
        const uint32_t first = k / p->group * p->group;
        const uint32_t i = first + p->pairs[at], j = first + p->pairs[at + 1];
        const double c = (double)p->turns[at], s = (double)p->turns[at + 1], a = x[i], b = x[j];
        const double da = error[i], db = error[j];

        x[i] = a * c + b * s;
        x[j] = b * c - a * s;
        error[i] = fabs(c) * da + fabs(s) * db + 3 * BOUND_UNIT * (fabs(a * c) + fabs(b * s)) +
                   3 * BOUND_FLUSH;
        error[j] = fabs(c) * db + fabs(s) * da + 3 * BOUND_UNIT * (fabs(b * c) + fabs(a * s)) +
                   3 * BOUND_FLUSH;
    }
}

void bound_turn(const struct bound *b, const struct graph_node *node, double *error)
{
    const struct turn_params *p = node->turn;
    const double *x = b->values[node->src[0]], *dx = b->errors[node->src[0]];
    double *row = bound_doubles(p->width);

    for (size_t at = 0; at < b->n * bound_width(node); at += p->width) {
        for (uint32_t k = 0; k < p->width; k++) {
            const size_t from = at + (p->order ? p->order[k] : k);
            const double f = p->factors ? (double)p->factors[k] : 1;

            row[k] = x[from] * f;
            error[at + k] = dx[from] * fabs(f) + BOUND_UNIT * fabs(row[k]) + BOUND_FLUSH;
        }
        for (uint32_t i = 0; i < p->n_rounds; i++)
            bound_round_of_pairs(p, i, row, error + at);
    }
    free(row);
}

void bound_peaks(const struct bound *b, const struct graph_node *node, double *error)
{
    const double *x = b->values[node->src[0]], *dx = b->errors[node->src[0]];
    const double f = fabs((double)node->f);
    const uint32_t n = node->width;
    double *d = bound_doubles(n), *dd = bound_doubles(n);

    for (size_t at = 0; at < b->n * n; at += n) {
        double mean = 0, size = 0, dmean = 0, cut;
        struct length deviation;

        for (uint32_t i = 0; i < n; i++) {
            mean += x[at + i] / n;
            size += fabs(x[at + i]) / n;
            dmean += dx[at + i] / n;
        }
        dmean += (n + 2) * BOUND_UNIT * size + 2 * BOUND_FLUSH;
        for (uint32_t i = 0; i < n; i++) {
            d[i] = x[at + i] - mean;
            dd[i] = dx[at + i] + dmean + BOUND_UNIT * (fabs(x[at + i]) + fabs(mean));
        }
        deviation = length_of(d, dd, n);
        cut = fabs(mean) + f * deviation.size;
        for (uint32_t i = 0; i < n; i++)
            error[at + i] = dx[at + i] + dmean + f * deviation.error +
                            4 * BOUND_UNIT * (fabs(x[at + i]) + cut) + 4 * BOUND_FLUSH;
    }
    free(dd);
    free(d);
}
