/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes convolutions and gated delta rules, which carry state along the rows of a sequence.
 *
 * Each thread computes all rows of a sequence in order, for some of its columns (convolutions) or
 * for some lanes of its heads (delta rules). These parts do not depend on each other, and each has
 * its own part of the state, which is changed in place. So the result of a row does not depend on
 * how the rows are split into steps, or on the number of threads.
 */
#include "backend/cpu/exec/exec.h"

#include <math.h>
#include <string.h>

#include "core/denormals.h"

/* Columns of a piece of a convolution. */
#define CONV_COLUMNS 256u

/* Returns the recurrent state of a layer. */
static float *state_of(const struct exec *x, const struct batch_seq *seq, struct state_place place)
{
    return kv_store_state(x->store, place, seq->blocks[place.i_group][0]);
}

/* Describes some columns of a convolution for one sequence. */
struct conv_piece {
    const struct exec *x;
    const struct stage *s;
    const struct batch_seq *seq;
    float *state; /* [n_taps - 1, width], from the first column on */
    uint32_t c0, n;
};

/* Returns row @i of the input, relative to the first row of the step; negative rows are in the
 * state. */
static const float *conv_input(const struct conv_piece *p, int64_t i)
{
    if (i < 0)
        return p->state + (size_t)(i + p->s->n_taps - 1) * p->s->width;
    return exec_row(p->x, p->s->src[0], p->seq->i_row + (uint32_t)i) + p->c0;
}

/* Copies the newest rows of the input to the state. */
static void conv_keep(const struct conv_piece *p)
{
    const uint32_t n_kept = p->s->n_taps - 1;

    for (uint32_t i = 0; i < n_kept; i++)
        memmove(p->state + (size_t)i * p->s->width,
                conv_input(p, (int64_t)i + p->seq->n_rows - n_kept), p->n * sizeof(float));
}

static void conv_columns(const struct conv_piece *p, const float **rows)
{
    const struct exec *x = p->x;
    const struct stage *s = p->s;

    for (uint32_t i = 0; p->seq->pos == 0 && i + 1 < s->n_taps; i++)
        memset(p->state + (size_t)i * s->width, 0, p->n * sizeof(float));
    for (uint32_t t = 0; t < p->seq->n_rows; t++) {
        float *y = exec_row(x, s->dst, p->seq->i_row + t) + p->c0;

        for (uint32_t j = 0; j < s->n_taps; j++)
            rows[j] = conv_input(p, (int64_t)t + 1 + j - s->n_taps);
        x->plan->recur->conv(y, rows, s->taps + p->c0, s->width, s->bias ? s->bias + p->c0 : NULL,
                             s->n_taps, p->n);
        if (s->has_act)
            elem_act(x->cpu->elem, s->act, y, y, p->n);
    }
    conv_keep(p);
}

void exec_conv(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const uint32_t n_pieces = DIV_UP(s->width, CONV_COLUMNS);
    uint32_t i;

    while (exec_claim(x, i_stage, i_thread, x->batch->n_seqs * n_pieces, &i)) {
        const struct batch_seq *seq = &x->batch->seqs[i / n_pieces];
        struct conv_piece p = {.x = x, .s = s, .seq = seq, .c0 = i % n_pieces * CONV_COLUMNS};

        p.n = MIN(s->width - p.c0, CONV_COLUMNS);
        p.state = state_of(x, seq, s->place) + p.c0;
        conv_columns(&p, (const float **)(exec_memory(x, i_thread) + x->plan->mem.taps));
    }
}

/* Holds what the lanes of a head share, for some rows. */
struct delta_rows {
    float *q, *k;   /* [DELTA_ROWS, k_dim]: divided by their length; q also times scale */
    float *gates;   /* [DELTA_ROWS, DELTA_GATES] */
    uint32_t i_row; /* the first row */
};

/* Prepares @n rows of head @i_head. */
static void prepare_rows(const struct exec *x, const struct stage *s, const struct delta_rows *d,
                         uint32_t i_head, uint32_t n)
{
    const struct delta_params *p = &s->delta;
    const struct recur_fns *fns = x->plan->recur;
    const uint32_t per_key = p->n_v_heads / p->n_k_heads, dim = p->k_dim;
    const size_t at = (size_t)(p->interleaved ? i_head % p->n_k_heads : i_head / per_key) * dim;

    for (uint32_t t = 0; t < n; t++) {
        const float *row = exec_row(x, s->src[0], d->i_row + t) + at;
        const float gate = exec_row(x, s->src[1], d->i_row + t)[i_head] + s->bias[i_head];
        const float softplus = gate > 30 ? gate : log1pf(expf(gate));
        const float b = exec_row(x, s->src[2], d->i_row + t)[i_head];
        float *q = d->q + (size_t)t * dim, *k = d->k + (size_t)t * dim;
        float *gates = d->gates + t * DELTA_GATES;

        fns->unit(q, row, p->eps, p->scale, dim);
        fns->unit(k, row + (size_t)p->n_k_heads * dim, p->eps, 1, dim);
        gates[0] = expf(s->speeds[i_head] * softplus);
        gates[1] = 1 / (1 + expf(-b));
        gates[2] = fns->dot(q, k, dim);
    }
}

/* Computes @n prepared rows for the blocks of lanes @begin … @end - 1. */
static void delta_blocks(const struct exec *x, const struct stage *s, const struct delta_rows *d,
                         float *state, uint32_t i_head, uint32_t n, uint32_t begin, uint32_t end)
{
    const struct delta_params *p = &s->delta;
    const uint32_t v = i_head * p->v_dim;
    const float *values =
        exec_row(x, s->src[0], d->i_row) + 2 * (size_t)p->n_k_heads * p->k_dim + v;
    float *y = exec_row(x, s->dst, d->i_row) + v;

    for (uint32_t i = begin * DELTA_LANES; i < MIN(end * DELTA_LANES, p->v_dim); i += DELTA_LANES) {
        const struct delta_args args = {
            .n_rows = n,
            .k_dim = p->k_dim,
            .n = MIN(p->v_dim - i, DELTA_LANES),
            .state = state + (size_t)i * p->k_dim,
            .q = d->q,
            .k = d->k,
            .ld_qk = p->k_dim,
            .gates = d->gates,
            .v = values + i,
            .ld_v = x->plan->values[s->src[0]].ld,
            .y = y + i,
            .ld_y = x->plan->values[s->dst].ld,
        };

        x->plan->recur->delta(&args);
    }
}

/* Computes the blocks of lanes @begin … @end - 1 of head @i_head for one sequence. */
static void delta_piece(const struct exec *x, const struct stage *s, const struct batch_seq *seq,
                        uint32_t i_head, uint32_t begin, uint32_t end, unsigned char *mine)
{
    const struct delta_params *p = &s->delta;
    const size_t size = (size_t)p->v_dim * p->k_dim, first = (size_t)begin * DELTA_LANES;
    const size_t last = MIN((size_t)end * DELTA_LANES, p->v_dim);
    struct delta_rows d = {.q = (float *)(mine + x->plan->mem.delta)};
    float *state = state_of(x, seq, p->place) +
                   x->store->layout.groups[p->place.i_group].conv_floats + i_head * size;

    d.k = d.q + (size_t)DELTA_ROWS * p->k_dim;
    d.gates = d.k + (size_t)DELTA_ROWS * p->k_dim;
    if (seq->pos == 0)
        memset(state + first * p->k_dim, 0, (last - first) * p->k_dim * sizeof(float));
    for (uint32_t t = 0; t < seq->n_rows; t += DELTA_ROWS) {
        const uint32_t n = MIN(seq->n_rows - t, DELTA_ROWS);

        d.i_row = seq->i_row + t;
        prepare_rows(x, s, &d, i_head, n);
        delta_blocks(x, s, &d, state, i_head, n, begin, end);
    }
}

/* Returns the number of pieces into which a head is split, so that all threads have work. */
static uint32_t head_parts(const struct exec *x, const struct delta_params *p)
{
    const uint32_t n_threads = x->plan->n_threads, n_blocks = DIV_UP(p->v_dim, DELTA_LANES);
    const uint64_t n_heads = (uint64_t)x->batch->n_seqs * p->n_v_heads;
    uint32_t n = 1;

    while (n < n_blocks && n * n_heads % n_threads != 0 && n * n_heads < EVEN_PIECES * n_threads)
        n++;
    return n;
}

void exec_delta(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const uint32_t n_parts = head_parts(x, &s->delta), n_heads = s->delta.n_v_heads;
    const uint32_t n_blocks = DIV_UP(s->delta.v_dim, DELTA_LANES);
    /* The state shrinks with each row, so parts of it soon become denormal. */
    const uint64_t mode = denormals_to_zero();
    uint32_t i;

    while (exec_claim(x, i_stage, i_thread, x->batch->n_seqs * n_heads * n_parts, &i)) {
        const uint32_t part = i % n_parts, i_head = i / n_parts % n_heads;

        delta_piece(x, s, &x->batch->seqs[i / n_parts / n_heads], i_head, n_blocks * part / n_parts,
                    n_blocks * (part + 1) / n_parts, exec_memory(x, i_thread));
    }
    denormals_restore(mode);
}
