/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/graph_eval.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "lib/graph_eval_ops.h"
#include "quant/dtype.h"

/* Returns the number of doubles in a row of a node's value. A route has the weights of its slots,
 * then their experts. */
static size_t width_of(const struct graph_node *node)
{
    if (node->op == GRAPH_ROUTE)
        return (size_t)2 * node->slots;
    return (size_t)node->width * (node->slots > 0 ? node->slots : 1);
}

/* Decodes row @i of a weight. */
void eval_row(const struct weight *w, size_t i, float *out)
{
    weight_decode_row(w, (uint32_t)i, out);
}

static void embed(const struct eval *e, const struct graph_node *node, double *y)
{
    float *w = NEW(float, node->width);

    for (size_t i = 0; i < e->n; i++) {
        const size_t at = node->key == GRAPH_KEY_TOKEN      ? (size_t)e->tokens[i]
                          : node->key == GRAPH_KEY_POSITION ? i
                                                            : 0;

        eval_row(&node->w, at < node->w.rows ? at : 0, w);
        for (uint32_t j = 0; j < node->width; j++)
            y[i * node->width + j] = (double)w[j] * (double)node->f;
    }
    free(w);
}

static void rms_norm(const struct eval *e, const struct graph_node *node, const double *x,
                     double *y)
{
    const uint32_t group = node->group;
    float *w = NEW(float, group), *factors = NEW(float, group);

    for (uint32_t j = 0; j < group; j++)
        w[j] = factors[j] = 1;
    if (node->w.data)
        eval_row(&node->w, 0, w);
    if (node->bias.data)
        eval_row(&node->bias, 0, factors);
    for (size_t at = 0; at < e->n * node->width; at += group) {
        double sum = 0, scale;

        for (uint32_t j = 0; j < group; j++)
            sum += x[at + j] * x[at + j];
        scale = 1 / sqrt(sum / group + (double)node->f);
        for (uint32_t j = 0; j < group; j++)
            y[at + j] = x[at + j] * scale * (double)w[j] * (double)factors[j];
    }
    free(factors);
    free(w);
}

static void layer_norm(const struct eval *e, const struct graph_node *node, const double *x,
                       double *y)
{
    const uint32_t width = node->width;
    float *w = NEW(float, width), *bias = NEW(float, width);

    eval_row(&node->w, 0, w);
    if (node->bias.data)
        eval_row(&node->bias, 0, bias);
    for (size_t at = 0; at < e->n * width; at += width) {
        double mean = 0, var = 0;

        for (uint32_t j = 0; j < width; j++)
            mean += x[at + j] / width;
        for (uint32_t j = 0; j < width; j++)
            var += (x[at + j] - mean) * (x[at + j] - mean) / width;
        for (uint32_t j = 0; j < width; j++)
            y[at + j] =
                (x[at + j] - mean) / sqrt(var + (double)node->f) * (double)w[j] + (double)bias[j];
    }
    free(bias);
    free(w);
}

/* Writes the mean of the rows of one sequence into each of its rows. */
static void pool(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    for (uint32_t j = 0; j < node->width; j++) {
        double sum = 0;

        for (size_t i = 0; i < e->n; i++)
            sum += x[i * node->width + j];
        for (size_t i = 0; i < e->n; i++)
            y[i * node->width + j] = sum / (double)e->n;
    }
}

/* Rounds each row as products with packed ternary weights do (transformers,
 * integrations/bitnet.py): to int8, in steps of 1/127 of the largest magnitude. */
static double *round_rows(const double *x, size_t n_rows, uint32_t n)
{
    double *y = NEW(double, n_rows *n);

    for (size_t i = 0; i < n_rows; i++) {
        double most = 1e-5, scale;

        for (uint32_t j = 0; j < n; j++)
            most = fmax(most, fabs(x[i * n + j]));
        scale = 127 / most;
        for (uint32_t j = 0; j < n; j++)
            y[i * n + j] = fmin(fmax(rint(x[i * n + j] * scale), -128), 127) / scale;
    }
    return y;
}

/* Rounds @n values in blocks of 32, each with integers of 8 bits and a scale. Returns an array. */
static double *round_blocks(const double *x, size_t n)
{
    double *y = NEW(double, n);

    for (size_t at = 0; at < n; at += 32) {
        float most = 0;

        for (size_t i = at; i < at + 32; i++)
            most = fmaxf(most, fabsf((float)x[i]));
        for (size_t i = at; i < at + 32 && most > 0; i++)
            y[i] = (double)(most / 127) * (double)rintf((float)x[i] * (127 / most));
    }
    return y;
}

/* Returns whether the CPU rounds the inputs of products with @w in blocks. */
static bool rounds_inputs(const struct weight *w)
{
    return dtype_info(w->dtype)->block_elems > 1;
}

void eval_matmul(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const uint32_t n_in = node->w.cols, n_out = node->w.rows;
    float *w = NEW(float, n_in), *bias = NEW(float, n_out);
    double *rounded = NULL;

    if (node->w.dtype == INF_DTYPE_BITNET)
        rounded = round_rows(x, e->n, n_in);
    else if (e->rounds && rounds_inputs(&node->w))
        rounded = round_blocks(x, e->n * n_in);
    if (rounded)
        x = rounded;
    if (node->bias.data)
        eval_row(&node->bias, 0, bias);
    for (uint32_t o = 0; o < n_out; o++) {
        eval_row(&node->w, o, w);
        for (size_t i = 0; i < e->n; i++) {
            double sum = (double)bias[o];

            for (uint32_t j = 0; j < n_in; j++)
                sum += x[i * n_in + j] * (double)w[j];
            y[i * n_out + o] = sum;
        }
    }
    free(rounded);
    free(bias);
    free(w);
}

static void rope(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const struct rope_params *p = &node->rope;
    const uint32_t half = p->n_dims / 2;

    memcpy(y, x, e->n * node->width * sizeof(*y));
    for (size_t at = 0; at < e->n * node->width; at += node->group) {
        const double pos = (double)(at / node->width);

        for (uint32_t i = 0; i < half; i++) {
            const uint32_t a = p->style == ROPE_HALF ? i : 2 * i;
            const uint32_t b = p->style == ROPE_HALF ? i + half : 2 * i + 1;
            const double angle = pos * (double)p->inv_freq[i], m = (double)p->mscale;
            const double c = cos(angle) * m, s = sin(angle) * m;

            y[at + a] = x[at + a] * c - x[at + b] * s;
            y[at + b] = x[at + a] * s + x[at + b] * c;
        }
    }
}

/* Computes the attention of one row and one head. @sink: the logit of the head's sink, or
 * -INFINITY.
 * @out: [head_dim] */
static void attend(const struct attn_params *p, size_t n, size_t pos, const double *q,
                   const double *k, const double *v, double sink, double *scores, double *out)
{
    const size_t stride = (size_t)p->n_kv_heads * p->head_dim;
    const size_t first = p->window && pos + 1 > p->window ? pos + 1 - p->window : 0;
    const size_t far = p->window && n - pos > p->window ? pos + p->window : n;
    const size_t end = p->both_ways ? far : pos + 1;
    double max = sink, sum = 0;

    for (size_t j = first; j < end; j++) {
        scores[j] = 0;
        for (uint32_t d = 0; d < p->head_dim; d++)
            scores[j] += q[d] * k[j * stride + d];
        scores[j] *= (double)p->scale;
        if (p->softcap > 0)
            scores[j] = (double)p->softcap * tanh(scores[j] / (double)p->softcap);
        max = fmax(max, scores[j]);
    }
    memset(out, 0, p->head_dim * sizeof(*out));
    for (size_t j = first; j < end; j++) {
        const double weight = exp(scores[j] - max);

        sum += weight;
        for (uint32_t d = 0; d < p->head_dim; d++)
            out[d] += weight * v[j * stride + d];
    }
    sum += exp(sink - max);
    for (uint32_t d = 0; d < p->head_dim; d++)
        out[d] /= sum;
}

static void attention(const struct eval *e, const struct graph_node *node, const double *q,
                      const double *k, const double *v, double *y)
{
    const struct attn_params *p = &node->attn;
    const uint32_t n_shared = p->n_heads / p->n_kv_heads;
    double *scores = NEW(double, e->n);
    float *sinks = NEW(float, p->n_heads);

    if (p->sinks.data)
        eval_row(&p->sinks, 0, sinks);
    for (size_t i = 0; i < e->n; i++)
        for (uint32_t h = 0; h < p->n_heads; h++) {
            const size_t at = i * node->width + (size_t)h * p->head_dim;
            const size_t kv = (size_t)(h / n_shared) * p->head_dim;

            attend(p, e->n, i, q + at, k + kv, v + kv, p->sinks.data ? (double)sinks[h] : -INFINITY,
                   scores, y + at);
        }
    free(sinks);
    free(scores);
}

/* Finds the keys and the values that an attention node reads. */
static void find_keys(const struct eval *e, size_t i, const double **ret_k, const double **ret_v)
{
    const struct graph_node *node = graph_node(e->g, (graph_ref)i);

    for (size_t j = i; node->attn.shared && j-- > 0;) {
        const struct graph_node *n = graph_node(e->g, (graph_ref)j);

        if (n->op == GRAPH_ATTENTION && !n->attn.shared && n->attn.i_group == node->attn.i_group &&
            n->attn.i_layer == node->attn.i_layer) {
            node = n;
            break;
        }
    }
    *ret_k = e->values[node->src[1]];
    *ret_v = e->values[node->src[2]];
}

double eval_act(enum graph_act kind, double x)
{
    switch (kind) {
    case GRAPH_ACT_SILU:
        return x / (1 + exp(-x));
    case GRAPH_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case GRAPH_ACT_GELU_ERF:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case GRAPH_ACT_RELU2:
        return x > 0 ? x * x : 0;
    case GRAPH_ACT_TANH:
        return tanh(x);
    case GRAPH_ACT_SIGMOID:
        return 1 / (1 + exp(-x));
    case GRAPH_ACT_LINEAR:
    case GRAPH_ACT_SWIGLU_LIMITED:
        break;
    }
    return x;
}

static void glu(const struct eval *e, const struct graph_node *node, const double *gate,
                const double *up, double *y)
{
    const uint32_t gate_width = graph_node(e->g, node->src[0])->width;

    for (size_t i = 0; i < e->n * width_of(node); i++) {
        const double a =
            gate[i / node->width * gate_width + (gate_width > 1 ? i % node->width : 0)];

        if (node->act == GRAPH_ACT_SWIGLU_LIMITED) {
            const double g = fmin(a, 7), u = fmin(fmax(up[i], -7), 7);

            y[i] = g / (1 + exp(-1.702 * g)) * (u + 1);
        } else {
            y[i] = eval_act(node->act, a) * up[i];
        }
    }
}

static void cols(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const struct cols_params *p = &node->cols;
    const struct graph_node *src = graph_node(e->g, node->src[0]);
    const size_t n_rows = e->n * (node->slots > 0 ? node->slots : 1);

    for (size_t i = 0; i < n_rows; i++, x += src->width)
        for (uint32_t j = 0; j < p->n_parts; j++)
            for (uint32_t run = 0; run < src->width; run += p->stride)
                for (uint32_t k = 0; k < p->parts[j].n; k++)
                    *y++ = x[run + p->parts[j].first + k];
}

static int eval_node(struct eval *e, size_t i)
{
    const struct graph_node *node = graph_node(e->g, (graph_ref)i);
    const size_t n = e->n * width_of(node);
    const double *src[3] = {NULL, NULL, NULL};
    double *y;

    for (unsigned j = 0; j < 3; j++)
        if (node->src[j] >= 0)
            src[j] = e->values[node->src[j]];
    y = e->values[i] = NEW(double, n);
    if (!y)
        return -ENOMEM;
    switch (node->op) {
    case GRAPH_EMBED:
        embed(e, node, y);
        return 0;
    case GRAPH_INPUT:
        memcpy(y, e->input, n * sizeof(*y));
        return 0;
    case GRAPH_EXPORT:
        memcpy(y, src[0], n * sizeof(*y));
        return 0;
    case GRAPH_RMS_NORM:
        rms_norm(e, node, src[0], y);
        return 0;
    case GRAPH_LAYER_NORM:
        layer_norm(e, node, src[0], y);
        return 0;
    case GRAPH_POOL:
        pool(e, node, src[0], y);
        return 0;
    case GRAPH_ACT:
        for (size_t j = 0; j < n; j++)
            y[j] = eval_act(node->act, src[0][j]);
        return 0;
    case GRAPH_MATMUL:
        if (node->w.n_experts > 0)
            eval_matmul_experts(e, node, src[0], src[1], y);
        else
            eval_matmul(e, node, src[0], y);
        return 0;
    case GRAPH_COLS:
        cols(e, node, src[0], y);
        return 0;
    case GRAPH_CAP:
        for (size_t j = 0; j < n; j++)
            y[j] = (double)node->f * tanh(src[0][j] / (double)node->f);
        return 0;
    case GRAPH_CONV:
        eval_conv(e, node, src[0], y);
        return 0;
    case GRAPH_DELTA:
        eval_delta(e, node, src[0], src[1], src[2], y);
        return 0;
    case GRAPH_ROUTE:
        eval_route(e, node, src[0], y);
        return 0;
    case GRAPH_MIX:
        eval_mix(e, node, src[0], src[1], y);
        return 0;
    case GRAPH_SPREAD:
        eval_spread(e, node, src[0], src[1], y);
        return 0;
    case GRAPH_ROPE:
        rope(e, node, src[0], y);
        return 0;
    case GRAPH_ATTENTION:
        if (node->attn.memory)
            return -EOPNOTSUPP; /* attention over earlier steps is not implemented here */
        find_keys(e, i, &src[1], &src[2]);
        attention(e, node, src[0], src[1], src[2], y);
        return 0;
    case GRAPH_GLU:
        glu(e, node, src[0], src[1], y);
        return 0;
    case GRAPH_ADD:
        for (size_t j = 0; j < n; j++)
            y[j] = src[0][j] + src[1][j];
        return 0;
    case GRAPH_SCALE:
        eval_scale(e, node, src[0], y);
        return 0;
    case GRAPH_BLEND:
        eval_blend(e, node, src, y);
        return 0;
    case GRAPH_LEVEL:
        eval_level(e, node, src[0], src[1], y);
        return 0;
    case GRAPH_PEAKS:
        eval_peaks(e, node, src[0], y);
        return 0;
    case GRAPH_TURN:
        eval_turn(e, node, src[0], y);
        return 0;
    case GRAPH_ROWS:
    case GRAPH_STORE:
    case GRAPH_OUTPUT:
        memcpy(y, src[0], n * sizeof(*y));
        return 0;
    }
    return -EINVAL;
}

void graph_values_free(const struct graph *g, double **values)
{
    for (size_t i = 0; values && i < graph_n_nodes(g); i++)
        free(values[i]);
    free(values);
}

static int eval_nodes(struct eval *e, double ***ret_values)
{
    const size_t n_nodes = graph_n_nodes(e->g);
    int r = 0;

    e->values = NEW(double *, n_nodes);
    if (!e->values)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < n_nodes; i++)
        r = eval_node(e, i);
    if (r < 0)
        graph_values_free(e->g, e->values);
    else
        *ret_values = e->values;
    return r;
}

int graph_eval_values(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                      const double *input, double ***ret_values)
{
    struct eval e = {.g = g, .tokens = tokens, .input = input, .n = n_tokens};

    return eval_nodes(&e, ret_values);
}

int graph_eval_rounded(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                       double ***ret_values)
{
    struct eval e = {.g = g, .tokens = tokens, .n = n_tokens, .rounds = true};

    return eval_nodes(&e, ret_values);
}

int graph_eval_input(const struct graph *g, const int32_t *tokens, size_t n_tokens,
                     const double *input, double **ret_logits)
{
    double **values;
    int r;

    r = graph_eval_values(g, tokens, n_tokens, input, &values);
    if (r < 0)
        return r;
    *ret_logits = STEAL(values[graph_n_nodes(g) - 1]);
    graph_values_free(g, values);
    return 0;
}

int graph_eval(const struct graph *g, const int32_t *tokens, size_t n_tokens, double **ret_logits)
{
    return graph_eval_input(g, tokens, n_tokens, NULL, ret_logits);
}
