/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Derives the error bounds of experts and of recurrent operations.
 *
 * If errors of scores may change which experts are selected, the errors of a row are infinite, and
 * the row is not compared.
 */

#include "checkkern/devices/bound-ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant/dtype.h"

size_t bound_width(const struct graph_node *node)
{
    if (node->op == GRAPH_ROUTE)
        return (size_t)2 * node->slots;
    return (size_t)node->width * MAX(node->slots, 1u);
}

float *bound_decoded(const struct weight *w, size_t n)
{
    float *x = calloc(MAX(n, (size_t)w->rows * w->cols), sizeof(*x));
    uint64_t bytes = 0;

    if (!x)
        abort();
    if (!w->data)
        return x;
    if (!dtype_row_bytes(w->dtype, w->cols, &bytes))
        abort();
    for (uint32_t i = 0; i < w->rows; i++)
        dtype_info(w->dtype)->decode((const char *)w->data + i * bytes, x + (size_t)i * w->cols,
                                     w->cols);
    return x;
}

void bound_conv(const struct bound *b, const struct graph_node *node, double *error)
{
    const double *x = b->values[node->src[0]], *dx = b->errors[node->src[0]];
    const uint32_t width = node->width, n_taps = node->w.cols;
    float *w = bound_decoded(&node->w, 0), *bias = bound_decoded(&node->bias, width);

    for (size_t t = 0; t < b->n; t++)
        for (uint32_t c = 0; c < width; c++) {
            double sum = (double)bias[c], size = fabs(sum), through = 0, own;

            for (uint32_t j = 0; j < n_taps; j++)
                if (t + 1 + j >= n_taps) {
                    const size_t at = (t + 1 + j - n_taps) * width + c;
                    const double tap = (double)w[(size_t)c * n_taps + j];

                    sum += tap * x[at];
                    size += fabs(tap * x[at]);
                    through += fabs(tap) * dx[at];
                }
            through += (n_taps + 2) * (BOUND_UNIT * size + BOUND_FLUSH);
            if (node->has_act) {
                bound_act(node->act, sum, &own);
                through = own + bound_steepness(node->act, sum, through) * through;
            }
            error[t * width + c] = through;
        }
    free(bias);
    free(w);
}

/* A vector of length at most 1 and the length of its error. */
struct unit {
    const double *x;
    double length, error;
    double scale; /* each element is x × scale */
};

/* For s = 1 / sqrt(sum + eps), a relative error e of the sum causes a relative error e / 2 of s. */
static struct unit unit_of(const double *x, const double *dx, uint32_t n, double eps)
{
    double sum = 0, along = 0, errors = 0;
    struct unit u = {.x = x};

    for (uint32_t i = 0; i < n; i++) {
        sum += x[i] * x[i];
        along += fabs(x[i]) * dx[i];
        errors += dx[i] * dx[i];
    }
    u.scale = 1 / sqrt(sum + eps);
    u.length = sqrt(sum) * u.scale;
    u.error =
        u.scale * sqrt(errors) +
        u.length * ((n / 2.0 + 8) * BOUND_UNIT + (along + n * BOUND_FLUSH) * u.scale * u.scale) +
        n * BOUND_FLUSH;
    return u;
}

/* The gates of one row: factors and their errors. */
struct gates {
    double decay, ddecay, beta, dbeta;
};

static struct gates gates_of(double speed, double dt, double a, double da, double b, double db)
{
    const double gate = a + dt, soft = gate > 30 ? gate : log1p(exp(gate));
    const double arg = speed * soft;
    struct gates g = {.decay = exp(arg), .beta = 1 / (1 + exp(-b))};

    g.ddecay = g.decay * (fabs(speed) * (da + BOUND_UNIT * (fabs(gate) + 12 * soft)) +
                          BOUND_UNIT * (8 + 4 * fabs(arg))) +
               BOUND_FLUSH * (1 + fabs(speed));
    g.dbeta = 0.25 * db + g.beta * BOUND_UNIT * (16 + 4 * fabs(b)) + BOUND_FLUSH;
    return g;
}

/* Changes row @s of the state, [n], by one row of the sequence. *@e bounds the length of the error
 * of s. The matrix 1 - beta k kᵀ does not lengthen errors, since beta and the length of k are at
 * most 1. Returns the result, and the bound of its error in *@ret_error. */
static double delta_step(const struct delta_params *p, const struct gates *g, const struct unit *q,
                         const struct unit *k, double v, double dv, double *s, double *e,
                         double *ret_error)
{
    const uint32_t n = p->k_dim;
    const double units = (n + 8) * BOUND_UNIT;
    double kept = 0, length = 0, y = 0, change, own;

    for (uint32_t i = 0; i < n; i++) {
        length += s[i] * s[i];
        s[i] *= g->decay;
        kept += s[i] * k->x[i] * k->scale;
    }
    length = sqrt(length);
    *e = g->decay * *e + length * (g->ddecay + BOUND_UNIT * g->decay);
    change = g->beta * (v - kept);
    own = length * g->decay * (k->error + units * k->length);
    *e += k->length *
              (g->dbeta * fabs(v - kept) + g->beta * (dv + own) + 3 * BOUND_UNIT * fabs(change)) +
          fabs(change) * (k->error + 2 * BOUND_UNIT);
    length = 0;
    for (uint32_t i = 0; i < n; i++) {
        s[i] += change * k->x[i] * k->scale;
        length += s[i] * s[i];
        y += s[i] * q->x[i] * q->scale;
    }
    length = sqrt(length);
    *e += 2 * BOUND_UNIT * length + 4 * n * BOUND_FLUSH;
    *ret_error = fabs((double)p->scale) *
                     (*e * q->length + length * (q->error + units * q->length) + n * BOUND_FLUSH) +
                 2 * BOUND_UNIT * fabs((double)p->scale * y) + BOUND_FLUSH;
    return y;
}

static void delta_head(const struct bound *b, const struct graph_node *node, uint32_t h,
                       double speed, double dt, double *error)
{
    const struct delta_params *p = &node->delta;
    const size_t n_keys = (size_t)p->n_k_heads * p->k_dim, n_all = 2 * n_keys + node->width;
    const uint32_t hk = p->interleaved ? h % p->n_k_heads : h / (p->n_v_heads / p->n_k_heads);
    double *state = bound_doubles((size_t)p->v_dim * p->k_dim), *e = bound_doubles(p->v_dim);

    for (size_t t = 0; t < b->n; t++) {
        const double *x = b->values[node->src[0]] + t * n_all;
        const double *dx = b->errors[node->src[0]] + t * n_all;
        const size_t at = t * p->n_v_heads + h, q_at = (size_t)hk * p->k_dim;
        const size_t v_at = 2 * n_keys + (size_t)h * p->v_dim;
        const struct gates g =
            gates_of(speed, dt, b->values[node->src[1]][at], b->errors[node->src[1]][at],
                     b->values[node->src[2]][at], b->errors[node->src[2]][at]);
        const struct unit q = unit_of(x + q_at, dx + q_at, p->k_dim, (double)p->eps);
        const struct unit k =
            unit_of(x + n_keys + q_at, dx + n_keys + q_at, p->k_dim, (double)p->eps);

        for (uint32_t i = 0; i < p->v_dim; i++)
            delta_step(p, &g, &q, &k, x[v_at + i], dx[v_at + i], state + (size_t)i * p->k_dim,
                       &e[i], &error[t * node->width + (size_t)h * p->v_dim + i]);
    }
    free(state);
    free(e);
}

void bound_delta(const struct bound *b, const struct graph_node *node, double *error)
{
    const struct delta_params *p = &node->delta;
    float *rate = bound_decoded(&node->w, 0), *dt = bound_decoded(&node->bias, 0);

    for (uint32_t h = 0; h < p->n_v_heads; h++)
        delta_head(b, node, h, p->negated ? (double)rate[h] : -exp((double)rate[h]), (double)dt[h],
                   error);
    free(rate);
    free(dt);
}

/* Returns the weight of a score among @n scores, and the bound of its error. */
static double route_weight(const struct route_params *p, const double *x, const double *dx,
                           uint32_t n, uint32_t i, double *ret_error)
{
    double sum = 0, max = -INFINITY, through = 0, y;

    if (p->score == ROUTE_SIGMOID) {
        y = 1 / (1 + exp(-x[i]));
        *ret_error = 0.25 * dx[i] + y * BOUND_UNIT * (16 + 4 * fabs(x[i])) + BOUND_FLUSH;
        return y;
    }
    for (uint32_t j = 0; j < n; j++)
        max = fmax(max, x[j]);
    for (uint32_t j = 0; j < n; j++)
        sum += exp(x[j] - max);
    for (uint32_t j = 0; j < n; j++)
        through += exp(x[j] - max) / sum * (dx[j] + BOUND_UNIT * (8 + 6 * fabs(x[j] - max)));
    y = exp(x[i] - max) / sum;
    *ret_error = y * (dx[i] + through + BOUND_UNIT * (n + 16 + 6 * fabs(x[i] - max))) + BOUND_FLUSH;
    return y;
}

/* Returns whether the errors @dkeys may change which experts are selected. @chosen: the experts in
 * the slots. */
static bool is_close(const double *keys, const double *dkeys, uint32_t n, const double *chosen,
                     uint32_t n_used)
{
    for (uint32_t i = 0; i < n; i++) {
        bool in = false;

        for (uint32_t k = 0; k < n_used; k++)
            in |= (uint32_t)chosen[k] == i;
        for (uint32_t k = 0; !in && k < n_used; k++) {
            const uint32_t j = (uint32_t)chosen[k];
            const double error = dkeys[i] + dkeys[j];

            if (error > 0 && keys[j] - keys[i] <= error)
                return true;
        }
    }
    return false;
}

static void route_row(const struct graph_node *node, const double *x, const double *dx,
                      const float *bias, const float *factors, const double *y, double *error)
{
    const struct route_params *p = &node->route;
    const uint32_t n = node->width, n_used = p->n_used;
    const bool selected = p->score == ROUTE_SOFTMAX_SELECTED;
    double *keys = bound_doubles(n), *dkeys = bound_doubles(n), *some = bound_doubles(n_used),
           *dsome = bound_doubles(n_used), sum = 0, dsum = 0;

    for (uint32_t i = 0; i < n; i++) {
        keys[i] = x[i];
        dkeys[i] = dx[i];
        if (!node->bias.data)
            continue;
        keys[i] = route_weight(p, x, dx, n, i, &dkeys[i]) + (double)bias[i];
        dkeys[i] += fabs(keys[i]) * BOUND_UNIT;
    }
    for (uint32_t k = 0; k < n_used; k++) {
        some[k] = x[(uint32_t)y[n_used + k]];
        dsome[k] = dx[(uint32_t)y[n_used + k]];
    }
    for (uint32_t k = 0; k < n_used; k++) {
        sum += route_weight(p, selected ? some : x, selected ? dsome : dx, selected ? n_used : n,
                            selected ? k : (uint32_t)y[n_used + k], &error[k]);
        dsum += error[k];
    }
    for (uint32_t k = 0; k < n_used; k++) {
        const double factor = node->w.data ? (double)factors[(uint32_t)y[n_used + k]] : 1;
        const double scale = fabs(factor * (double)p->scale) / (p->normalized ? sum : 1);

        error[k] =
            error[k] * scale + fabs(y[k]) * BOUND_UNIT * 5 + BOUND_FLUSH * fmax(1, fabs(factor));
        if (p->normalized)
            error[k] += fabs(y[k]) * (dsum / sum + n_used * BOUND_UNIT);
        error[n_used + k] = is_close(keys, dkeys, n, y + n_used, n_used) ? INFINITY : 0;
    }
    free(keys);
    free(dkeys);
    free(some);
    free(dsome);
}

void bound_route(const struct bound *b, const struct graph_node *node, const double *y,
                 double *error)
{
    const size_t width = bound_width(node);
    float *bias = bound_decoded(&node->bias, node->width);
    float *factors = bound_decoded(&node->w, node->width);

    for (size_t t = 0; t < b->n; t++)
        route_row(node, b->values[node->src[0]] + t * node->width,
                  b->errors[node->src[0]] + t * node->width, bias, factors, y + t * width,
                  error + t * width);
    free(factors);
    free(bias);
}

void bound_experts(const struct bound *b, const struct graph_node *node,
                   const struct bound_rules *rules, double *error)
{
    const bool has_slots = graph_node(b->g, node->src[0])->slots > 0;
    const uint32_t n_slots = node->slots, K = node->w.cols, N = node->w.rows;
    const double *route = b->values[node->src[1]], *droute = b->errors[node->src[1]];

    for (size_t t = 0; t < b->n * n_slots; t++) {
        const size_t at = t / n_slots * 2 * n_slots + n_slots + t % n_slots;
        const size_t from = (has_slots ? t : t / n_slots) * K;
        const struct weight w = weight_of_expert(&node->w, (uint32_t)route[at]);
        const struct weight bias = weight_of_expert(&node->bias, (uint32_t)route[at]);

        bound_matmul(&w, &bias, rules->experts[w.dtype], 1, b->values[node->src[0]] + from,
                     b->errors[node->src[0]] + from, error + t * N);
        for (uint32_t i = 0; droute[at] > 0 && i < N; i++)
            error[t * N + i] = INFINITY;
    }
}

void bound_mix(const struct bound *b, const struct graph_node *node, double *error)
{
    const uint32_t n_slots = graph_node(b->g, node->src[0])->slots, width = node->width;
    const double *x = b->values[node->src[0]], *dx = b->errors[node->src[0]];
    const double *route = b->values[node->src[1]], *droute = b->errors[node->src[1]];

    for (size_t t = 0; t < b->n; t++)
        for (uint32_t j = 0; j < width; j++) {
            double sum = 0;

            for (uint32_t k = 0; k < n_slots; k++) {
                const size_t r = t * 2 * n_slots + k, at = (t * n_slots + k) * width + j;

                sum += fabs(route[r]) * dx[at] + (fabs(x[at]) + dx[at]) * droute[r] +
                       (n_slots + 2) * (BOUND_UNIT * fabs(route[r] * x[at]) + BOUND_FLUSH);
                if (droute[r + n_slots] > 0)
                    sum = INFINITY;
            }
            error[t * width + j] = sum;
        }
}
