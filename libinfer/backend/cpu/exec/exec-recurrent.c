/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes convolutions and gated delta rules, which carry state along the rows of a sequence.
 *
 * Each thread computes all rows of a sequence in order, for some of its columns (convolutions) or
 * for some lanes of its heads (delta rules). These parts do not depend on each other, and each has
 * its own part of the state, which is changed in place. So the result of a row does not depend on
 * how the rows are split into steps, or on the number of threads.
 *
 * Drafted rows (struct batch_seq) do not change the state: each thread computes them with a copy of
 * its part. The inputs of these rows, which are much smaller than the state, are kept: in a block
 * of their own, row t of a layer is at t × drafted_floats, first the input of the convolution, then
 * that of the delta rule and its two gates. exec_accept() computes the state again from them, up to
 * the last row that the text has.
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

/* Returns the kept inputs of drafted row @t of a layer. */
static float *drafted_row(const struct exec *x, const struct batch_seq *seq,
                          struct state_place place, uint32_t t)
{
    return kv_store_state(x->store, place, seq->drafted[place.i_group]) +
           (size_t)t * x->plan->drafted_floats;
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

/* Copies the newest rows of the input to the state, without drafted rows, which are kept. */
static void conv_keep(const struct conv_piece *p)
{
    const uint32_t n_kept = p->s->n_taps - 1, n_rows = p->seq->n_rows - p->seq->n_drafted;

    for (uint32_t i = 0; i < n_kept; i++)
        memmove(p->state + (size_t)i * p->s->width, conv_input(p, (int64_t)i + n_rows - n_kept),
                p->n * sizeof(float));
    for (uint32_t t = 0; t < p->seq->n_drafted; t++)
        memcpy(drafted_row(p->x, p->seq, p->s->place, t) + p->c0, conv_input(p, n_rows + t),
               p->n * sizeof(float));
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

/* Describes rows of one sequence, and holds what the lanes of a head share. */
struct delta_rows {
    /* Rows of queries, keys and values, of decays and of betas; row t is at t × the stride. */
    const float *qkv, *decays, *betas;
    size_t ld_qkv, ld_gates[2];
    float *y; /* results [width]; row t is at t × ld_y */
    size_t ld_y;
    float *q, *k; /* [DELTA_ROWS, k_dim]: divided by their length; q also times scale */
    float *gates; /* [DELTA_ROWS, DELTA_GATES] */
    float *copy;  /* [k_dim, DELTA_LANES]: a part of the state for drafted rows */
    float *drop;  /* [DELTA_LANES]: results that nobody needs */
};

static uint32_t delta_width(const struct delta_params *p)
{
    return 2 * p->n_k_heads * p->k_dim + p->n_v_heads * p->v_dim;
}

/* Describes the rows of a step from row @i_row of the batch on. */
static void find_rows(const struct exec *x, const struct stage *s, uint32_t i_row,
                      struct delta_rows *d)
{
    d->qkv = exec_row(x, s->src[0], i_row);
    d->decays = exec_row(x, s->src[1], i_row);
    d->betas = exec_row(x, s->src[2], i_row);
    d->ld_qkv = x->plan->values[s->src[0]].ld;
    d->ld_gates[0] = x->plan->values[s->src[1]].ld;
    d->ld_gates[1] = x->plan->values[s->src[2]].ld;
    d->y = exec_row(x, s->dst, i_row);
    d->ld_y = x->plan->values[s->dst].ld;
}

static struct delta_rows delta_memory(const struct plan *plan, unsigned char *mine)
{
    struct delta_rows d = {.q = (float *)(mine + plan->mem.delta),
                           .copy = (float *)(mine + plan->mem.delta_copy)};

    d.k = d.q + (size_t)DELTA_ROWS * plan->max_k_dim;
    d.gates = d.k + (size_t)DELTA_ROWS * plan->max_k_dim;
    d.drop = d.copy + (size_t)plan->max_k_dim * DELTA_LANES;
    return d;
}

/* Prepares @n rows of head @i_head. */
static void prepare_rows(const struct exec *x, const struct stage *s, const struct delta_rows *d,
                         uint32_t i_head, uint32_t n)
{
    const struct delta_params *p = &s->delta;
    const struct recur_fns *fns = x->plan->recur;
    const uint32_t per_key = p->n_v_heads / p->n_k_heads, dim = p->k_dim;
    const size_t at = (size_t)(p->interleaved ? i_head % p->n_k_heads : i_head / per_key) * dim;

    for (uint32_t t = 0; t < n; t++) {
        const float *row = d->qkv + t * d->ld_qkv + at;
        const float gate = d->decays[t * d->ld_gates[0] + i_head] + s->bias[i_head];
        const float softplus = gate > 30 ? gate : log1pf(expf(gate));
        const float b = d->betas[t * d->ld_gates[1] + i_head];
        float *q = d->q + (size_t)t * dim, *k = d->k + (size_t)t * dim;
        float *gates = d->gates + t * DELTA_GATES;

        fns->unit(q, row, p->eps, p->scale, dim);
        fns->unit(k, row + (size_t)p->n_k_heads * dim, p->eps, 1, dim);
        gates[0] = expf(s->speeds[i_head] * softplus);
        gates[1] = 1 / (1 + expf(-b));
        gates[2] = fns->dot(q, k, dim);
    }
}

/* Computes @n prepared rows for the blocks of lanes @begin … @end - 1. @keeps: the state stays as
 * it is. */
static void delta_blocks(const struct exec *x, const struct stage *s, const struct delta_rows *d,
                         float *state, uint32_t i_head, uint32_t n, uint32_t begin, uint32_t end,
                         bool keeps)
{
    const struct delta_params *p = &s->delta;
    const uint32_t v = i_head * p->v_dim;
    const float *values = d->qkv + 2 * (size_t)p->n_k_heads * p->k_dim + v;

    for (uint32_t i = begin * DELTA_LANES; i < MIN(end * DELTA_LANES, p->v_dim); i += DELTA_LANES) {
        struct delta_args args = {
            .n_rows = n,
            .k_dim = p->k_dim,
            .n = MIN(p->v_dim - i, DELTA_LANES),
            .state = state + (size_t)i * p->k_dim,
            .q = d->q,
            .k = d->k,
            .ld_qk = p->k_dim,
            .gates = d->gates,
            .v = values + i,
            .ld_v = d->ld_qkv,
            .y = d->y ? d->y + v + i : d->drop,
            .ld_y = d->ld_y,
        };

        if (keeps)
            args.state = memcpy(d->copy, args.state, (size_t)args.n * p->k_dim * sizeof(float));
        x->plan->recur->delta(&args);
    }
}

/* Returns the state of head @i_head. */
static float *head_state(const struct exec *x, const struct batch_seq *seq,
                         const struct delta_params *p, uint32_t i_head)
{
    return state_of(x, seq, p->place) + x->store->layout.groups[p->place.i_group].conv_floats +
           i_head * (size_t)p->v_dim * p->k_dim;
}

/* Keeps the part of head @i_head of the inputs of drafted rows: a slice of the queries, keys and
 * values, and its gates. */
static void keep_rows(const struct exec *x, const struct stage *s, const struct batch_seq *seq,
                      const struct delta_rows *d, uint32_t i_head)
{
    const struct delta_params *p = &s->delta;
    const uint32_t width = delta_width(p), first = width / p->n_v_heads * i_head;
    const uint32_t end = i_head + 1 < p->n_v_heads ? first + width / p->n_v_heads : width;

    for (uint32_t t = 0; t < seq->n_drafted; t++) {
        float *to = drafted_row(x, seq, p->place, t) + x->plan->max_conv_width;

        memcpy(to + first, d->qkv + t * d->ld_qkv + first, (end - first) * sizeof(float));
        to[width + i_head] = d->decays[t * d->ld_gates[0] + i_head];
        to[width + p->n_v_heads + i_head] = d->betas[t * d->ld_gates[1] + i_head];
    }
}

/* Computes the blocks of lanes @begin … @end - 1 of head @i_head for one sequence. */
static void delta_piece(const struct exec *x, const struct stage *s, const struct batch_seq *seq,
                        uint32_t i_head, uint32_t begin, uint32_t end, unsigned char *mine)
{
    const struct delta_params *p = &s->delta;
    const size_t first = (size_t)begin * DELTA_LANES;
    const size_t last = MIN((size_t)end * DELTA_LANES, p->v_dim);
    const uint32_t n_rows = seq->n_rows - seq->n_drafted;
    struct delta_rows d = delta_memory(x->plan, mine);
    float *state = head_state(x, seq, p, i_head);

    if (seq->pos == 0)
        memset(state + first * p->k_dim, 0, (last - first) * p->k_dim * sizeof(float));
    for (uint32_t t = 0; t < n_rows; t += DELTA_ROWS) {
        const uint32_t n = MIN(n_rows - t, DELTA_ROWS);

        find_rows(x, s, seq->i_row + t, &d);
        prepare_rows(x, s, &d, i_head, n);
        delta_blocks(x, s, &d, state, i_head, n, begin, end, false);
    }
    if (seq->n_drafted == 0)
        return;
    find_rows(x, s, seq->i_row + n_rows, &d);
    prepare_rows(x, s, &d, i_head, seq->n_drafted);
    delta_blocks(x, s, &d, state, i_head, seq->n_drafted, begin, end, true);
    if (begin == 0)
        keep_rows(x, s, seq, &d, i_head);
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

uint32_t exec_max_drafted(const struct plan *plan, const struct kv_store *store)
{
    const struct kv_layout *l = &store->layout;
    uint64_t n = DELTA_ROWS;

    for (uint32_t g = 0; g < l->n_groups; g++)
        if (l->groups[g].rule == STATE_RECURRENT)
            n = MIN(n, store->groups[g].layer_floats / MAX(plan->drafted_floats, 1u));
    return (uint32_t)n;
}

/* Says how many drafted rows of each sequence become part of the state. */
struct accepting {
    const struct exec *x;
    const uint32_t *n_accepted; /* [batch->n_seqs] */
};

/* Adds @n kept rows to the state of a convolution, for this thread's share of the columns. */
static void accept_conv(const struct exec *x, const struct stage *s, const struct batch_seq *seq,
                        uint32_t n, unsigned i_thread)
{
    const uint32_t n_kept = s->n_taps - 1;
    float *state = state_of(x, seq, s->place);
    uint32_t begin, end;

    exec_share(x, i_thread, s->width, &begin, &end);
    for (uint32_t i = 0; i < n_kept; i++) {
        const float *from = i + n < n_kept ? state + (size_t)(i + n) * s->width
                                           : drafted_row(x, seq, s->place, i + n - n_kept);

        memcpy(state + (size_t)i * s->width + begin, from + begin, (end - begin) * sizeof(float));
    }
}

/* Adds @n kept rows to the state of a delta rule, for this thread's share of the lanes. */
static void accept_delta(const struct exec *x, const struct stage *s, const struct batch_seq *seq,
                         uint32_t n, unsigned i_thread)
{
    const struct delta_params *p = &s->delta;
    const uint32_t n_blocks = DIV_UP(p->v_dim, DELTA_LANES), width = delta_width(p);
    struct delta_rows d = delta_memory(x->plan, exec_memory(x, i_thread));
    uint32_t begin, end;

    d.qkv = drafted_row(x, seq, p->place, 0) + x->plan->max_conv_width;
    d.decays = d.qkv + width;
    d.betas = d.decays + p->n_v_heads;
    d.ld_qkv = d.ld_gates[0] = d.ld_gates[1] = x->plan->drafted_floats;
    exec_share(x, i_thread, p->n_v_heads * n_blocks, &begin, &end);
    for (uint32_t i = begin; i < end; i = (i / n_blocks + 1) * n_blocks) {
        const uint32_t i_head = i / n_blocks, first = i_head * n_blocks;

        prepare_rows(x, s, &d, i_head, n);
        delta_blocks(x, s, &d, head_state(x, seq, p, i_head), i_head, n, i - first,
                     MIN(end - first, n_blocks), false);
    }
}

static void accept_thread(void *arg, unsigned i_thread, unsigned n_threads UNUSED)
{
    const struct accepting *a = arg;
    const struct exec *x = a->x;
    const uint64_t mode = denormals_to_zero();

    for (uint32_t i = 0; i < x->plan->n_stages; i++) {
        const struct stage *s = &x->plan->stages[i];

        if (s->kind != STAGE_CONV && s->kind != STAGE_DELTA)
            continue;
        for (uint32_t k = 0; k < x->batch->n_seqs; k++)
            if (a->n_accepted[k] > 0)
                (s->kind == STAGE_CONV ? accept_conv : accept_delta)(x, s, &x->batch->seqs[k],
                                                                     a->n_accepted[k], i_thread);
    }
    denormals_restore(mode);
}

void exec_accept(struct backend *b, struct plan *plan, struct kv_store *store,
                 const struct batch *batch, const uint32_t *n_accepted)
{
    const struct cpu_backend *cpu = CONTAINER_OF(b, struct cpu_backend, backend);
    const struct exec x = {.cpu = cpu, .plan = plan, .store = store, .batch = batch};
    struct accepting a = {&x, n_accepted};

    workers_run(cpu->workers, accept_thread, &a);
}
