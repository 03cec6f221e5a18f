/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Derives error bounds, node by node.
 *
 * u is the unit of float rounding. The bounds are of first order: products of two errors are left
 * out, because the constants are generous enough for them. Vulkan allows devices to treat operands
 * and results below the normal range as 0, so every product may have an error of the smallest
 * normal number.
 */

#include "checkkern/devices/bound.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkkern/devices/bound-attn.h"
#include "checkkern/devices/bound-ops.h"
#include "lib/graph_eval.h"
#include "quant/block.h"
#include "quant/dtype.h"
#include "checkkern/weights.h"

double *bound_doubles(size_t n)
{
    double *x = calloc(n > 0 ? n : 1, sizeof(*x));

    if (!x) {
        fprintf(stderr, "checkkern: out of memory\n");
        exit(2);
    }
    return x;
}

/* Returns the largest magnitude in the block of 32 that contains element @i. */
static double block_max(const double *x, size_t i, size_t n)
{
    double max = 0;

    for (size_t j = i / 32 * 32; j < MIN(i / 32 * 32 + 32, n); j++)
        max = fmax(max, fabs(x[j]));
    return max;
}

/* Replaces the errors of a row, whose values the node rounds to whole steps of 1/127 of the largest
 * magnitude. A value that is close to the middle between two steps may be rounded to the wrong
 * one. */
static void bound_steps(const double *x, double *error, size_t n, double row_max)
{
    const double step = fmax(row_max, 1e-5) / 127;
    double most_error = 0;

    for (size_t i = 0; i < n; i++)
        most_error = fmax(most_error, error[i]);
    for (size_t i = 0; i < n; i++) {
        const double v = fabs(x[i]) / step, relative = most_error / (127 * step) + 4 * BOUND_UNIT;
        const double apart = fabs(v - floor(v) - 0.5), dv = error[i] / step + v * relative;

        error[i] = step * (v * relative + (dv >= apart ? 1 + floor(dv - apart) : 0));
    }
}

/* Adds the errors of rounding to those of a row of @n numbers. */
void bound_round(enum bound_rounding how, const double *x, double *error, size_t n)
{
    double row_max = 0;

    for (size_t i = 0; i < n; i++)
        row_max = fmax(row_max, fabs(x[i]));
    if (how == BOUND_ROW8)
        bound_steps(x, error, n, row_max);
    for (size_t i = 0; i < n; i++) {
        double max;

        switch (how) {
        case BOUND_EXACT:
        case BOUND_ROW8:
            break;
        case BOUND_F16:
            error[i] += fabs(x[i]) * 0x1p-11 + 0x1p-25;
            break;
        case BOUND_F16_ROWS:
            /* The scale may bring the largest number of the row to only 2^9. */
            error[i] += fabs(x[i]) * 0x1p-11 + row_max * 0x1p-34 + 2 * BOUND_FLUSH;
            break;
        case BOUND_BF16:
            error[i] += fabs(x[i]) * 0x1p-8 + BOUND_FLUSH;
            break;
        case BOUND_F16_SUMS:
            max = block_max(x, i, n);
            error[i] += max < 0x1p-99 ? max : fabs(x[i]) * 0x1p-11 + max * 0x1p-18;
            break;
        case BOUND_Q8:
            max = block_max(x, i, n);
            /* Blocks of tiny values count as zero. */
            error[i] += max < 0x1p-99 ? max : max / 127 * 0.51;
            break;
        }
    }
}

/* Adds the magnitudes of an offset that kernels use for MXFP4: they multiply unsigned numbers, and
 * subtract the offset afterwards. @scales: the first scale of the row; @stride: bytes from one
 * scale to the next. */
static void fp4_magnitudes(const uint8_t *scales, size_t stride, uint32_t cols, float *dst)
{
    for (uint32_t j = 0; j < cols; j++)
        dst[j] += BLOCK_FP4_ZERO * block_e8m0_half(scales[j / BLOCK_ELEMS * stride]);
}

/* Does what weights_magnitudes() does for row @i of a weight with planes (graph/weight.h). */
static void planes_magnitudes(const struct weight *w, size_t i, float *dst)
{
    const struct plane_row row = weight_plane_row(w, (uint32_t)i);

    weights_planes_magnitudes(w->dtype, &row, dst, w->cols);
    if (w->dtype == INF_DTYPE_BITNET) /* kernels subtract 1 from the codes */
        for (uint32_t j = 0; j < w->cols; j++)
            dst[j] += fabsf(*(const float *)row.planes[WEIGHT_SCALES]);
    if (w->dtype == INF_DTYPE_FP4_PLANES)
        fp4_magnitudes(row.planes[WEIGHT_SCALES], 1, w->cols, dst);
}

/* Decodes a row of a weight, and sums up the magnitudes of the terms of each number. */
static void weight_row(const struct weight *w, size_t i, float *row, float *magnitudes)
{
    const struct dtype_info *info = dtype_info(w->dtype);
    uint64_t bytes = 0;
    const uint8_t *p;

    if (!dtype_row_bytes(w->dtype, w->cols, &bytes))
        abort();
    if (w->planes[WEIGHT_SCALES]) {
        weight_decode_row(w, (uint32_t)i, row);
        planes_magnitudes(w, i, magnitudes);
        return;
    }
    p = (const uint8_t *)w->data + i * bytes;
    info->decode(p, row, w->cols);
    for (uint32_t j = 0; j < w->cols; j += info->block_elems, p += info->block_bytes)
        weights_magnitudes(w->dtype, p, magnitudes + j);
    if (w->dtype == INF_DTYPE_MXFP4)
        fp4_magnitudes((const uint8_t *)w->data + i * bytes, sizeof(struct block_mxfp4), w->cols,
                       magnitudes);
}

static void embed(const struct bound *b, const struct graph_node *node, const int32_t *tokens,
                  double *error)
{
    float *row = NEW(float, node->width), *magnitudes = NEW(float, node->width);

    for (size_t i = 0; i < b->n; i++) {
        weight_row(&node->w, (uint32_t)tokens[i] < node->w.rows ? (size_t)tokens[i] : 0, row,
                   magnitudes);
        for (uint32_t j = 0; j < node->width; j++)
            error[i * node->width + j] =
                4 * BOUND_UNIT * (double)magnitudes[j] * fabs((double)node->f) + BOUND_FLUSH;
    }
    free(row);
    free(magnitudes);
}

/* For s = 1 / sqrt(mean + eps), a relative error e of the mean causes a relative error e / 2 of
 * s. */
static void rms_norm(const struct bound *b, const struct graph_node *node, const double *x,
                     const double *dx, double *error)
{
    const uint32_t n = node->group;
    float *w = NEW(float, n), *magnitudes = NEW(float, n);

    for (uint32_t j = 0; j < n; j++)
        w[j] = 1;
    if (node->w.data)
        weight_row(&node->w, 0, w, magnitudes);
    for (size_t at = 0; at < b->n * bound_width(node); at += n) {
        double squares = 0, along = 0, mean, s, own;

        for (uint32_t j = 0; j < n; j++) {
            squares += x[at + j] * x[at + j];
            along += fabs(x[at + j]) * dx[at + j];
        }
        mean = squares / n + (double)node->f;
        s = 1 / sqrt(mean);
        /* Squares may be flushed to zero as well. */
        own = (n / 2.0 + 8) * BOUND_UNIT + along / n / mean + BOUND_FLUSH / mean;
        for (uint32_t j = 0; j < n; j++)
            error[at + j] = fabs((double)w[j]) * s * (dx[at + j] + fabs(x[at + j]) * own) +
                            BOUND_FLUSH * (1 + s) * (1 + fabs((double)w[j]));
    }
    free(w);
    free(magnitudes);
}

void bound_matmul(const struct weight *w, const struct weight *bias, enum bound_rounding how,
                  size_t n, const double *x, const double *dx, double *error)
{
    const uint32_t K = w->cols, N = w->rows;
    /* The bound is derived as in tolerance_half_sum(). */
    const double units = (K + 8) * BOUND_UNIT + (how == BOUND_F16_ROWS   ? 0x1p-11
                                                 : how == BOUND_F16_SUMS ? 17 * 0x1p-11
                                                                         : 0);
    float *row = NEW(float, K), *magnitudes = NEW(float, K), *added = NEW(float, N);
    double *d = bound_doubles(n * K);

    memcpy(d, dx, n * K * sizeof(*d));
    for (size_t i = 0; i < n; i++)
        bound_round(how, x + i * K, d + i * K, K);
    if (bias->data)
        dtype_info(bias->dtype)->decode(bias->data, added, N);
    for (uint32_t o = 0; o < N; o++) {
        weight_row(w, o, row, magnitudes);
        for (size_t i = 0; i < n; i++) {
            double sum = fabs((double)added[o]), through = 0;

            for (uint32_t k = 0; k < K; k++) {
                sum += fabs(x[i * K + k]) * (double)magnitudes[k];
                through += d[i * K + k] * (double)magnitudes[k];
            }
            error[i * N + o] = units * sum + through + 2 * (K + 1) * BOUND_FLUSH;
        }
    }
    free(d);
    free(added);
    free(magnitudes);
    free(row);
}

/* Angles are products of floats, with an error of u × angle. */
static void rope(const struct bound *b, const struct graph_node *node, const double *x,
                 const double *dx, double *error)
{
    const struct rope_params *p = &node->rope;
    const uint32_t half = p->n_dims / 2;

    memcpy(error, dx, b->n * node->width * sizeof(*error));
    for (size_t at = 0; at < b->n * node->width; at += node->group) {
        const double pos = (double)(at / node->width);

        for (uint32_t i = 0; i < half; i++) {
            const size_t i0 = at + (p->style == ROPE_HALF ? i : 2 * i);
            const size_t i1 = at + (p->style == ROPE_HALF ? i + half : 2 * i + 1);
            const double angle = BOUND_UNIT * (pos * (double)p->inv_freq[i] + 6);

            error[i0] = error[i1] =
                fabs((double)p->mscale) * (dx[i0] + dx[i1] + angle * (fabs(x[i0]) + fabs(x[i1]))) +
                4 * BOUND_FLUSH;
        }
    }
}

/* Returns an activation and the error of its own arithmetic. The error of exp() is (3 + 2 |x|) ulp
 * of 2 u (Vulkan, "Precision and Operation of SPIR-V Instructions"). tanh() and erf() have an
 * absolute error of 2.5e-7, like the usual approximations by polynomials. */
double bound_act(enum graph_act kind, double x, double *ret_error)
{
    double y = 0;

    *ret_error = 0;
    switch (kind) {
    case GRAPH_ACT_SILU:
        y = x / (1 + exp(-x));
        *ret_error = fabs(y) * BOUND_UNIT * (16 + 4 * fabs(x));
        break;
    case GRAPH_ACT_GELU_TANH:
        y = 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
        *ret_error = fabs(x) * 5e-7 + fabs(y) * BOUND_UNIT * 8;
        break;
    case GRAPH_ACT_GELU_ERF:
        y = 0.5 * x * (1 + erf(x * 0.70710678118654752440));
        *ret_error = fabs(x) * 5e-7 + fabs(y) * BOUND_UNIT * 8;
        break;
    case GRAPH_ACT_RELU2:
        y = x > 0 ? x * x : 0;
        *ret_error = y * BOUND_UNIT;
        break;
    case GRAPH_ACT_TANH:
        y = tanh(x);
        *ret_error = 5e-7;
        break;
    case GRAPH_ACT_SIGMOID:
        y = 1 / (1 + exp(-x));
        *ret_error = y * BOUND_UNIT * (16 + 4 * fabs(x));
        break;
    case GRAPH_ACT_LINEAR:
        y = x;
        break;
    case GRAPH_ACT_SWIGLU_LIMITED: /* the factor that depends on the gate */
        x = fmin(x, 7);
        y = x / (1 + exp(-1.702 * x));
        *ret_error = fabs(y) * BOUND_UNIT * (16 + 8 * fabs(x));
        break;
    }
    *ret_error += BOUND_FLUSH;
    return y;
}

/* Returns the largest factor by which an activation increases errors near x. */
double bound_steepness(enum graph_act kind, double x, double dx)
{
    return kind == GRAPH_ACT_RELU2 ? 2 * (fabs(x) + dx) : 1.2;
}

static void glu(const struct bound *b, const struct graph_node *node, const double *gate,
                const double *dgate, const double *up, const double *dup, double *error)
{
    const uint32_t width = graph_node(b->g, node->src[0])->width;

    for (size_t i = 0; i < b->n * bound_width(node); i++) {
        const size_t j = i / node->width * width + (width > 1 ? i % node->width : 0);
        double own, y = bound_act(node->act, gate[j], &own), u = up[i], du = dup[i];

        if (node->act == GRAPH_ACT_SWIGLU_LIMITED) {
            u = fmin(fmax(u, -7), 7) + 1;
            du += fabs(u) * BOUND_UNIT;
        }
        own += bound_steepness(node->act, gate[j], dgate[j]) * dgate[j];
        error[i] = own * (fabs(u) + du) + fabs(y) * du + fabs(y * u) * BOUND_UNIT * 2 + BOUND_FLUSH;
    }
}

static void cols(const struct bound *b, const struct graph_node *node, const double *dx,
                 double *error)
{
    const struct cols_params *p = &node->cols;
    const uint32_t x_width = graph_node(b->g, node->src[0])->width;
    const size_t n_rows = b->n * (node->slots > 0 ? node->slots : 1);

    for (size_t t = 0; t < n_rows; t++, dx += x_width)
        for (uint32_t i = 0; i < p->n_parts; i++)
            for (uint32_t run = 0; run < x_width; run += p->stride)
                for (uint32_t k = 0; k < p->parts[i].n; k++)
                    *error++ = dx[run + p->parts[i].first + k];
}

static void input(const struct bound *b, const struct graph_node *node, const double *x,
                  double *error)
{
    for (size_t i = 0; i < b->n * node->width; i++)
        error[i] = fabs(x[i]) < BOUND_FLUSH ? fabs(x[i]) : 0;
}

static void node_errors(struct bound *b, size_t i, const int32_t *tokens,
                        const struct bound_rules *rules)
{
    const struct graph_node *node = graph_node(b->g, (graph_ref)i);
    const double *x[3] = {NULL, NULL, NULL}, *dx[3] = {NULL, NULL, NULL}, *y = b->values[i];
    const size_t n = b->n * bound_width(node);
    double *e = b->errors[i];

    for (unsigned j = 0; j < 3; j++)
        if (node->src[j] >= 0) {
            x[j] = b->values[node->src[j]];
            dx[j] = b->errors[node->src[j]];
        }
    switch (node->op) {
    case GRAPH_EMBED:
        embed(b, node, tokens, e);
        return;
    case GRAPH_INPUT:
        input(b, node, y, e);
        return;
    case GRAPH_RMS_NORM:
        rms_norm(b, node, x[0], dx[0], e);
        return;
    case GRAPH_MATMUL:
        if (node->w.n_experts > 0)
            bound_experts(b, node, rules, e);
        else
            bound_matmul(&node->w, &node->bias, rules->products[node->w.dtype], b->n, x[0], dx[0],
                         e);
        return;
    case GRAPH_COLS:
        cols(b, node, dx[0], e);
        return;
    case GRAPH_CAP:
        for (size_t j = 0; j < n; j++)
            e[j] = dx[0][j] + fabs(y[j]) * BOUND_UNIT * 24 + BOUND_FLUSH * (1 + (double)node->f);
        return;
    case GRAPH_CONV:
        bound_conv(b, node, e);
        return;
    case GRAPH_DELTA:
        bound_delta(b, node, e);
        return;
    case GRAPH_ROUTE:
        bound_route(b, node, y, e);
        return;
    case GRAPH_MIX:
        bound_mix(b, node, e);
        return;
    case GRAPH_ROPE:
        rope(b, node, x[0], dx[0], e);
        return;
    case GRAPH_ATTENTION:
        bound_attention(b, node, rules, e);
        return;
    case GRAPH_GLU:
        glu(b, node, x[0], dx[0], x[1], dx[1], e);
        return;
    case GRAPH_ADD:
        for (size_t j = 0; j < n; j++)
            e[j] = dx[0][j] + dx[1][j] + fabs(y[j]) * BOUND_UNIT + BOUND_FLUSH;
        return;
    case GRAPH_SCALE:
        bound_scale(b, node, y, e);
        return;
    case GRAPH_BLEND:
        bound_blend(b, node, e);
        return;
    case GRAPH_LEVEL:
        bound_level(b, node, e);
        return;
    case GRAPH_PEAKS:
        bound_peaks(b, node, e);
        return;
    case GRAPH_TURN:
        bound_turn(b, node, e);
        return;
    case GRAPH_ROWS:
    case GRAPH_OUTPUT:
        memcpy(e, dx[0], n * sizeof(*e));
        return;
    case GRAPH_LAYER_NORM:
    case GRAPH_ACT:
    case GRAPH_POOL:
    case GRAPH_STORE:
    case GRAPH_EXPORT:
    case GRAPH_SPREAD:
        assert(false); /* no device but the CPU computes this node */
        return;
    }
}

void bound_init(struct bound *b, const struct graph *g, const int32_t *tokens, size_t n,
                const float *in, const struct bound_rules *rules)
{
    const size_t n_nodes = graph_n_nodes(g);
    double *x = NULL;

    *b = (struct bound){.g = g, .n = n};
    for (size_t i = 0; in && i < n_nodes; i++)
        if (graph_node(g, (graph_ref)i)->op == GRAPH_INPUT) {
            const size_t n_x = n * graph_node(g, (graph_ref)i)->width;

            x = bound_doubles(n_x);
            for (size_t j = 0; j < n_x; j++)
                x[j] = (double)in[j];
        }
    if (graph_eval_values(g, tokens, n, x, &b->values) < 0) {
        fprintf(stderr, "checkkern: a graph cannot be computed\n");
        exit(2);
    }
    free(x);
    b->errors = NEW(double *, n_nodes);
    for (size_t i = 0; i < n_nodes; i++) {
        b->errors[i] = bound_doubles(n * bound_width(graph_node(g, (graph_ref)i)));
        node_errors(b, i, tokens, rules);
    }
}

void bound_done(struct bound *b)
{
    graph_values_free(b->g, b->errors);
    graph_values_free(b->g, b->values);
    *b = (struct bound){0};
}

const double *bound_values(const struct bound *b)
{
    return b->values[graph_n_nodes(b->g) - 1];
}

const double *bound_errors(const struct bound *b)
{
    return b->errors[graph_n_nodes(b->g) - 1];
}
