/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates the operations of recurrent layers, of experts and of streams (lib/graph_eval.h). */
#include "lib/graph_eval_ops.h"

#include <math.h>
#include <string.h>

void eval_conv(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const uint32_t width = node->width, n_taps = node->w.cols;
    float *taps = NEW(float, n_taps), *bias = NEW(float, width);

    if (node->bias.data)
        eval_row(&node->bias, 0, bias);
    for (uint32_t c = 0; c < width; c++) {
        eval_row(&node->w, c, taps);
        for (size_t t = 0; t < e->n; t++) {
            double sum = (double)bias[c];

            for (uint32_t j = 0; j < n_taps; j++)
                if (t + 1 + j >= n_taps)
                    sum += (double)taps[j] * x[(t + 1 + j - n_taps) * width + c];
            y[t * width + c] = node->has_act ? eval_act(node->act, sum) : sum;
        }
    }
    free(bias);
    free(taps);
}

/* Writes x ÷ sqrt(sum of squares + eps) to @y. */
static void unit_vector(const double *x, uint32_t n, double eps, double *y)
{
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i] / sqrt(sum + eps);
}

/* Updates the state of one head by one row, and computes the row's result. */
static void delta_row(const struct delta_params *p, const double *q, const double *k,
                      const double *v, double decay, double beta, double *state, double *y)
{
    for (uint32_t i = 0; i < p->v_dim; i++) {
        double *s = state + (size_t)i * p->k_dim, kept = 0;

        for (uint32_t j = 0; j < p->k_dim; j++) {
            s[j] *= decay;
            kept += s[j] * k[j];
        }
        y[i] = 0;
        for (uint32_t j = 0; j < p->k_dim; j++) {
            s[j] += beta * (v[i] - kept) * k[j];
            y[i] += (double)p->scale * s[j] * q[j];
        }
    }
}

void eval_delta(const struct eval *e, const struct graph_node *node, const double *qkv,
                const double *a, const double *b, double *y)
{
    const struct delta_params *p = &node->delta;
    const size_t n_keys = (size_t)p->n_k_heads * p->k_dim, n_all = 2 * n_keys + node->width;
    double *state = NEW(double, (size_t)p->v_dim * p->k_dim),
           *qk = NEW(double, 2 * (size_t)p->k_dim);
    float *rate = NEW(float, p->n_v_heads), *dt = NEW(float, p->n_v_heads);

    eval_row(&node->w, 0, rate);
    eval_row(&node->bias, 0, dt);
    for (uint32_t h = 0; h < p->n_v_heads; h++) {
        const uint32_t hk = p->interleaved ? h % p->n_k_heads : h / (p->n_v_heads / p->n_k_heads);
        const double speed = p->negated ? (double)rate[h] : -exp((double)rate[h]);

        memset(state, 0, (size_t)p->v_dim * p->k_dim * sizeof(*state));
        for (size_t t = 0; t < e->n; t++) {
            const double *x = qkv + t * n_all, gate = a[t * p->n_v_heads + h] + (double)dt[h];
            const double softplus = gate > 30 ? gate : log1p(exp(gate));

            unit_vector(x + (size_t)hk * p->k_dim, p->k_dim, (double)p->eps, qk);
            unit_vector(x + n_keys + (size_t)hk * p->k_dim, p->k_dim, (double)p->eps,
                        qk + p->k_dim);
            delta_row(p, qk, qk + p->k_dim, x + 2 * n_keys + (size_t)h * p->v_dim,
                      exp(speed * softplus), eval_act(GRAPH_ACT_SIGMOID, b[t * p->n_v_heads + h]),
                      state, y + t * node->width + (size_t)h * p->v_dim);
        }
    }
    free(dt);
    free(rate);
    free(qk);
    free(state);
}

/* Returns the weight that the score @x of an expert has before the weights are normalized. @all:
 * the scores of all experts. */
static double route_weight(const struct route_params *p, double x, const double *all, uint32_t n)
{
    double sum = 0;

    if (p->score == ROUTE_SIGMOID)
        return eval_act(GRAPH_ACT_SIGMOID, x);
    for (uint32_t i = 0; i < n; i++)
        sum += exp(all[i] - x);
    return 1 / sum;
}

/* Returns whether expert @i is among the n_used with the largest keys. */
static bool is_selected(const double *keys, uint32_t n, uint32_t n_used, uint32_t i)
{
    uint32_t n_before = 0;

    for (uint32_t j = 0; j < n; j++)
        n_before += keys[j] > keys[i] || (keys[j] == keys[i] && j < i);
    return n_before < n_used;
}

/* Selects n_used experts for each row. Writes for each row the weights of the selected experts,
 * then the experts' numbers. */
void eval_route(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const struct route_params *p = &node->route;
    const uint32_t n = node->width, n_used = p->n_used;
    double *keys = NEW(double, n), *chosen = NEW(double, n_used);
    float *bias = NEW(float, n), *factors = NEW(float, n);

    if (node->bias.data)
        eval_row(&node->bias, 0, bias);
    if (node->w.data)
        eval_row(&node->w, 0, factors);
    for (size_t t = 0; t < e->n; t++, x += n, y += 2 * n_used) {
        double sum = 0;
        uint32_t k = 0;

        for (uint32_t i = 0; i < n; i++)
            keys[i] = (node->bias.data ? route_weight(p, x[i], x, n) : x[i]) + (double)bias[i];
        for (uint32_t i = 0; i < n; i++)
            if (is_selected(keys, n, n_used, i)) {
                y[n_used + k] = i;
                chosen[k++] = x[i];
            }
        for (uint32_t i = 0; i < n_used; i++) {
            const bool all = p->score != ROUTE_SOFTMAX_SELECTED;

            y[i] = route_weight(p, chosen[i], all ? x : chosen, all ? n : n_used);
            sum += y[i];
        }
        for (uint32_t i = 0; i < n_used; i++)
            y[i] *= (double)p->scale / (p->normalized ? sum : 1) *
                    (node->w.data ? (double)factors[(size_t)y[n_used + i]] : 1);
    }
    free(factors);
    free(bias);
    free(chosen);
    free(keys);
}

void eval_matmul_experts(const struct eval *e, const struct graph_node *node, const double *x,
                         const double *routes, double *y)
{
    const bool has_slots = graph_node(e->g, node->src[0])->slots > 0;
    const uint32_t n_in = node->w.cols, n_out = node->w.rows, n_slots = node->slots;

    for (size_t t = 0; t < e->n * n_slots; t++) {
        const double *route_row = routes + t / n_slots * 2 * n_slots;
        const uint32_t i_expert = (uint32_t)route_row[n_slots + t % n_slots];
        struct graph_node one = {.w = weight_of_expert(&node->w, i_expert)};
        struct eval single = *e;

        if (node->bias.data)
            one.bias = weight_of_expert(&node->bias, i_expert);
        single.n = 1;
        eval_matmul(&single, &one, x + (has_slots ? t : t / n_slots) * n_in, y + t * n_out);
    }
}

void eval_mix(const struct eval *e, const struct graph_node *node, const double *x,
              const double *routes, double *y)
{
    const uint32_t n_slots = graph_node(e->g, node->src[0])->slots, width = node->width;

    for (size_t t = 0; t < e->n; t++)
        for (uint32_t j = 0; j < width; j++) {
            y[t * width + j] = 0;
            for (uint32_t k = 0; k < n_slots; k++)
                y[t * width + j] += routes[t * 2 * n_slots + k] * x[(t * n_slots + k) * width + j];
        }
}

void eval_spread(const struct eval *e, const struct graph_node *node, const double *x,
                 const double *routes, double *y)
{
    const struct graph_node *src = graph_node(e->g, node->src[0]);
    const uint32_t n_slots = src->slots, n_in = src->width, n_out = node->width;

    for (size_t t = 0; t < e->n; t++) {
        for (uint32_t j = 0; j < n_out; j++)
            y[t * n_out + j] = -INFINITY;
        for (uint32_t k = 0; k < n_slots; k++) {
            const size_t expert = (size_t)routes[(2 * t + 1) * n_slots + k];

            for (uint32_t j = 0; j < n_in; j++)
                y[t * n_out + node->spread.places[expert * n_in + j]] =
                    x[(t * n_slots + k) * n_in + j];
        }
    }
}

void eval_scale(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const size_t n = e->n * node->width * (node->slots > 0 ? node->slots : 1);
    float *w = NEW(float, node->width);

    for (uint32_t j = 0; j < node->width; j++)
        w[j] = 1;
    if (node->w.data)
        eval_row(&node->w, 0, w);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * (double)node->f * (double)w[i % node->width];
    free(w);
}

void eval_blend(const struct eval *e, const struct graph_node *node, const double *const src[3],
                double *y)
{
    const uint32_t n_in = node->blend.n_in, n_out = node->blend.n_out;
    const uint32_t width = node->width / n_out;
    float *w = NEW(float, n_in *n_out);

    if (node->w.data)
        eval_row(&node->w, 0, w);
    for (size_t t = 0; t < e->n; t++)
        for (uint32_t i = 0; i < node->width; i++) {
            const uint32_t first = i / width * n_in;

            y[t * node->width + i] = src[1] ? src[1][t * node->width + i] : 0;
            for (uint32_t j = 0; j < n_in; j++)
                y[t * node->width + i] +=
                    src[0][(t * n_in + j) * width + i % width] *
                    ((double)w[first + j] + (src[2] ? src[2][t * n_in * n_out + first + j] : 0));
        }
    free(w);
}

void eval_level(const struct eval *e, const struct graph_node *node, const double *x,
                const double *like, double *y)
{
    const uint32_t n = node->width;

    for (size_t t = 0; t < e->n; t++, x += n, like += n, y += n) {
        double own = 0, other = 0;

        for (uint32_t i = 0; i < n; i++) {
            own += x[i] * x[i] / n;
            other += like[i] * like[i] / n;
        }
        for (uint32_t i = 0; i < n; i++)
            y[i] = x[i] * sqrt(other) / sqrt(fmax(own, (double)node->f));
    }
}

void eval_turn(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const struct turn_params *p = node->turn;
    const size_t n_rows = e->n * (node->slots > 0 ? node->slots : 1), width = p->width;

    for (size_t row = 0; row < n_rows; row++, x += width, y += width) {
        for (size_t k = 0; k < width; k++)
            y[k] = x[p->order ? p->order[k] : k] * (p->factors ? (double)p->factors[k] : 1);
        for (size_t at = 0; at < p->n_rounds * width; at += 2) {
            double *group = y + at % width / p->group * p->group;
            double *a = group + p->pairs[at], *b = group + p->pairs[at + 1], u = *a, v = *b;

            *a = u * (double)p->turns[at] + v * (double)p->turns[at + 1];
            *b = v * (double)p->turns[at] - u * (double)p->turns[at + 1];
        }
    }
}

void eval_peaks(const struct eval *e, const struct graph_node *node, const double *x, double *y)
{
    const uint32_t n = node->width;

    for (size_t t = 0; t < e->n; t++, x += n, y += n) {
        double mean = 0, var = 0;

        for (uint32_t i = 0; i < n; i++)
            mean += x[i] / n;
        for (uint32_t i = 0; i < n; i++)
            var += (x[i] - mean) * (x[i] - mean) / n;
        for (uint32_t i = 0; i < n; i++)
            y[i] = fmax(x[i] - mean - (double)node->f * sqrt(var), 0);
    }
}
