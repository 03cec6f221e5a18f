/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes rows to experts, and multiplies by the matrices of experts.
 *
 * A slot is one pair of a row and an expert that the row uses. The values of slots are stored row
 * by row, and within a row by slot. When all rows of a step are routed, one thread sorts the slots
 * by expert. A product then prepares its input rows in the sorted order, so that the rows of one
 * expert are adjacent, and multiplies them together. A piece of work is a range of columns of one
 * expert's matrix. Experts without rows cost nothing. Experts with many rows come first, so that
 * threads end at about the same time.
 *
 * If there are few rows, each thread prepares the rows for itself, in their original order, and
 * multiplies them one by one. If an expert has several rows, its weights come from memory for the
 * first row, and from the cache for the other rows.
 */
#include "backend/cpu/exec/exec.h"

#include <math.h>
#include <string.h>

#include "quant/dtype.h"

/* Describes the slots of a step, which exec_route() has sorted by expert. */
struct sorted {
    uint32_t *order;  /* [slots of the step]: the slots in the order of their experts */
    uint32_t *place;  /* [slots of the step]: the place of a slot in `order` */
    uint32_t *first;  /* [n_experts + 1]: the first place of each expert */
    uint32_t *active; /* [*n_active]: the experts with rows */
    uint32_t *n_active;
};

uint64_t exec_route_bytes(uint64_t n_slots, uint32_t n_experts)
{
    return (2 * n_slots + 2 * (uint64_t)n_experts + 2) * sizeof(uint32_t);
}

static struct sorted sorted_at(const struct exec *x, graph_ref route)
{
    const struct value *v = &x->plan->values[route];
    const uint64_t n_rows = v->rows_kept ? x->plan->limits.max_logits : x->plan->limits.max_rows;
    const uint64_t n_slots = n_rows * v->slots;
    uint32_t *at = (uint32_t *)exec_row(x, route, (uint32_t)n_rows);
    struct sorted s = {.order = at, .place = at + n_slots, .first = at + 2 * n_slots};

    s.active = s.first + v->width + 1;
    s.n_active = s.active + v->width;
    return s;
}

uint32_t *exec_slot_experts(const struct exec *x, graph_ref route, uint32_t row)
{
    return (uint32_t *)exec_row(x, route, row) + x->plan->values[route].slots;
}

/* Writes the softmax of @x, [n], to @y. */
static void route_softmax(const struct exec *x, float *y, const float *scores, uint32_t n)
{
    float max = -INFINITY, sum[ATTN_LANES] = {0}, total = 0;

    memcpy(y, scores, n * sizeof(float));
    x->plan->attn->softmax(y, n, &max, sum);
    for (uint32_t i = 0; i < ATTN_LANES; i++)
        total += sum[i];
    x->cpu->elem->scale(y, y, 1 / total, n);
}

/* Marks the @n_used largest of the @n keys in @chosen. NaN counts as the smallest number. */
static void route_select(const float *keys, uint32_t n, uint32_t n_used, bool *chosen)
{
    memset(chosen, 0, n * sizeof(*chosen));
    for (uint32_t k = 0; k < n_used; k++) {
        uint32_t best = n;
        float most = 0;

        for (uint32_t i = 0; i < n; i++) {
            const float key = isnan(keys[i]) ? -INFINITY : keys[i];

            if (!chosen[i] && (best == n || key > most)) {
                best = i;
                most = key;
            }
        }
        chosen[best] = true;
    }
}

/* Selects the experts of one row, and computes their weights. @mine: the thread's own memory. */
static void route_row(const struct exec *x, const struct stage *s, uint32_t row,
                      unsigned char *mine)
{
    const struct route_params *p = &s->route;
    const float *scores = exec_row(x, s->src[0], row);
    const uint32_t n = s->width;
    uint32_t *experts = exec_slot_experts(x, s->dst, row), n_slots = 0;
    float *weights = exec_row(x, s->dst, row), sum = 0;
    float *probs = (float *)(mine + x->plan->mem.route), *keys = probs + n;
    bool *chosen = (bool *)(keys + n);

    if (p->score == ROUTE_SIGMOID)
        x->cpu->elem->sigmoid(probs, scores, n);
    else
        route_softmax(x, probs, scores, n);
    memcpy(keys, s->bias ? probs : scores, n * sizeof(float));
    if (s->bias)
        x->cpu->elem->add(keys, keys, s->bias, n);
    route_select(keys, n, p->n_used, chosen);
    for (uint32_t i = 0; i < n; i++)
        if (chosen[i]) {
            weights[n_slots] = p->score == ROUTE_SOFTMAX_SELECTED ? scores[i] : probs[i];
            experts[n_slots++] = i;
        }
    if (p->score == ROUTE_SOFTMAX_SELECTED)
        route_softmax(x, weights, weights, n_slots);
    for (uint32_t i = 0; i < n_slots; i++)
        sum += weights[i];
    x->cpu->elem->scale(weights, weights, p->normalized ? p->scale / sum : p->scale, n_slots);
    for (uint32_t i = 0; s->norm_w && i < n_slots; i++)
        weights[i] *= s->norm_w[experts[i]];
}

/* Lists the experts that have rows: first those with the most rows, to within a factor of 2. */
static void sort_active(struct sorted *o, uint32_t n_experts)
{
    uint32_t n = 0, least = 1;

    for (uint32_t e = 0; e < n_experts; e++)
        while (o->first[e + 1] - o->first[e] > least)
            least *= 2;
    for (; least > 0; least /= 2)
        for (uint32_t e = 0; e < n_experts; e++) {
            const uint32_t n_rows = o->first[e + 1] - o->first[e];

            if (n_rows >= least && n_rows / 2 < least)
                o->active[n++] = e;
        }
    *o->n_active = n;
}

/* Sorts the slots of all rows by expert. Slots of one expert stay in their order. */
static void sort_slots(const struct exec *x, const struct stage *s)
{
    const uint32_t n_rows = exec_rows(x, s->rows_kept), n_slots = s->route.n_used;
    struct sorted o = sorted_at(x, s->dst);
    uint32_t *at = o.active;

    memset(o.first, 0, (s->width + 1) * sizeof(*o.first));
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t k = 0; k < n_slots; k++)
            o.first[exec_slot_experts(x, s->dst, row)[k] + 1]++;
    for (uint32_t e = 0; e < s->width; e++) {
        o.first[e + 1] += o.first[e];
        at[e] = o.first[e];
    }
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t k = 0; k < n_slots; k++) {
            const uint32_t place = at[exec_slot_experts(x, s->dst, row)[k]]++;

            o.place[row * n_slots + k] = place;
            o.order[place] = row * n_slots + k;
        }
    sort_active(&o, s->width);
}

void exec_route(const struct exec *x, const struct stage *s, unsigned i_thread)
{
    struct plan *plan = x->plan;
    uint32_t begin, end;

    exec_share(x, i_thread, exec_rows(x, s->rows_kept), &begin, &end);
    for (uint32_t row = begin; row < end; row++)
        route_row(x, s, row, exec_memory(x, i_thread));
    /* The last thread sorts. */
    if (atomic_fetch_add_explicit(&plan->n_routed, 1, memory_order_acq_rel) + 1 ==
        plan->n_threads) {
        atomic_store_explicit(&plan->n_routed, 0, memory_order_relaxed);
        sort_slots(x, s);
    }
}

/* Holds the prepared input of a product, once for each kind of preparation. */
struct slots_in {
    unsigned char *act[MATMUL_ACT_N];
    bool sorted;   /* in the order of experts; else as stored */
    uint32_t step; /* number of slots that share a prepared row, if rows are not sorted */
};

/* Prepares input row @i, and copies it to the places of @n slots from slot @slot on. */
static void prepare_sorted(const struct exec *x, const struct stage *s, const struct slots_in *in,
                           const uint32_t *place, uint32_t i, uint32_t n, float *row)
{
    unsigned char *to[MATMUL_ACT_N] = {0};

    for (int k = 0; k < MATMUL_ACT_N; k++)
        if (s->acts[k])
            to[k] = in->act[k] + place[0] * s->act_bytes[k];
    exec_prepare_row(x, s, i, row, to);
    for (int k = 0; k < MATMUL_ACT_N; k++)
        for (uint32_t j = 1; s->acts[k] && j < n; j++)
            memcpy(in->act[k] + place[j] * s->act_bytes[k], to[k], s->act_bytes[k]);
}

static void prepare_slots(const struct exec *x, const struct stage *s, const struct sorted *o,
                          unsigned i_thread, struct slots_in *in)
{
    const uint32_t n_slots = x->plan->values[s->src[1]].slots, n = exec_rows(x, s->rows_kept);
    const uint32_t n_in = x->plan->values[s->src[0]].slots; /* input rows of each row */
    unsigned char *mine = exec_memory(x, i_thread);
    float *row = (float *)(mine + x->plan->mem.row);
    uint32_t begin, end;

    in->sorted = n > PRIVATE_ROWS || (uint64_t)n * n_in * s->K > PRIVATE_ELEMS;
    in->step = n_slots / n_in;
    for (int k = 0; k < MATMUL_ACT_N; k++)
        in->act[k] = in->sorted ? x->plan->scratch + s->act_offset[k]
                                : mine + x->plan->mem.act + s->act_private[k];
    if (!in->sorted) {
        for (uint32_t i = 0; i < n * n_in; i++)
            prepare_sorted(x, s, in, &i, i, 1, row);
        return;
    }
    exec_share(x, i_thread, n, &begin, &end);
    for (uint32_t i = begin * n_in; i < end * n_in; i++)
        prepare_sorted(x, s, in, o->place + (size_t)i * in->step, i, in->step, row);
    workers_barrier(x->cpu->workers);
}

/* Describes a piece: columns n0 … n1 - 1 of one expert's matrices, for the places begin … end - 1.
 */
struct expert_piece {
    const struct product *p;
    uint32_t expert, begin, end, n0, n1;
    const unsigned char *next; /* weights to prefetch */
};

static const unsigned char *expert_row(const struct matrix *m, uint32_t expert, uint32_t n)
{
    const void *base =
        m->experts ? m->experts[expert] : (const char *)m->data + expert * m->expert_bytes;

    return (const unsigned char *)base + n * m->row_bytes;
}

/* Returns the biases of the columns of a piece, converted to floats in @buffer; NULL: none. */
static const float *expert_bias(const struct matrix *m, const struct expert_piece *b, float *buffer)
{
    const struct dtype_info *info = dtype_info(m->expert_bias.dtype);

    if (!m->expert_bias.data)
        return NULL;
    info->decode((const char *)weight_expert(&m->expert_bias, b->expert) +
                     (uint64_t)b->n0 * info->block_bytes,
                 buffer, b->n1 - b->n0);
    return buffer;
}

/* Computes a piece of matrix @m into @y, whose rows have p->chunk floats. */
static void multiply_piece(const struct exec *x, const struct stage *s, const struct matrix *m,
                           const struct slots_in *in, const struct sorted *o,
                           const struct expert_piece *b, float *y, const unsigned char *next,
                           unsigned char *mine)
{
    const uint32_t n = b->end - b->begin;
    struct matmul_args args = {
        .dtype = m->dtype,
        .w = expert_row(m, b->expert, b->n0),
        .row_bytes = m->row_bytes,
        .kind = m->act,
        .act_stride = s->act_bytes[m->act],
        .K = s->K,
        .ldy = b->p->chunk,
        .bias = expert_bias(m, b, (float *)(mine + x->plan->mem.bias)),
        .planes = {matrix_plane(m, WEIGHT_SCALES, b->expert, b->n0),
                   matrix_plane(m, WEIGHT_ZEROS, b->expert, b->n0)},
        .plane_type = m->plane_type,
        .group = m->group,
        .coded = m->coded ? &m->coded[b->expert] : NULL,
        .coded_first = m->coded_first + b->n0,
        .next = next,
    };

    args.M = in->sorted ? n : 1;
    for (uint32_t i = 0; i < n; i += args.M) {
        const uint32_t row = in->sorted ? b->begin : o->order[b->begin + i] / in->step;

        args.act = in->act[m->act] + row * args.act_stride;
        args.y = y + (size_t)i * args.ldy;
        matmul_rows(x->plan->matmul, &args, 0, b->n1 - b->n0);
    }
}

static void run_piece(const struct exec *x, const struct stage *s, const struct slots_in *in,
                      const struct sorted *o, const struct expert_piece *b, unsigned char *mine)
{
    const struct product *p = b->p;
    const uint32_t n = b->n1 - b->n0;
    float *tile[2] = {(float *)(mine + x->plan->mem.tile[0]),
                      (float *)(mine + x->plan->mem.tile[1])};

    for (uint32_t i = 0; i < p->n_matrices; i++)
        multiply_piece(x, s, &p->m[i], in, o, b, tile[i],
                       i + 1 < p->n_matrices ? expert_row(&p->m[i + 1], b->expert, b->n0) : b->next,
                       mine);
    for (uint32_t i = 0; i < b->end - b->begin; i++) {
        float *y = exec_row(x, p->dst, o->order[b->begin + i]) + b->n0;
        const float *a = tile[0] + (size_t)i * p->chunk, *up = tile[1] + (size_t)i * p->chunk;

        if (p->n_matrices == 2)
            elem_glu(x->cpu->elem, p->act, y, a, up, n);
        else if (p->has_act)
            elem_act(x->cpu->elem, p->act, y, a, n);
        else
            memcpy(y, a, n * sizeof(float));
    }
}

/* Returns piece @i of a stage. */
static struct expert_piece piece_at(const struct stage *s, const struct sorted *o, uint32_t i)
{
    uint32_t i_chunk = i % s->n_chunks;
    struct expert_piece b = {.p = stage_product(s, &i_chunk), .expert = o->active[i / s->n_chunks]};

    b.begin = o->first[b.expert];
    b.end = o->first[b.expert + 1];
    b.n0 = i_chunk * b.p->chunk;
    b.n1 = MIN(b.n0 + b.p->chunk, b.p->width);
    return b;
}

void exec_experts(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const struct sorted o = sorted_at(x, s->src[1]);
    struct slots_in in;
    uint32_t i, begin, end, n_pieces;

    if (exec_rows(x, s->rows_kept) == 0)
        return;
    n_pieces = *o.n_active * s->n_chunks;
    prepare_slots(x, s, &o, i_thread, &in);
    exec_share(x, i_thread, n_pieces, &begin, &end);
    while (exec_claim(x, i_stage, i_thread, n_pieces, &i)) {
        struct expert_piece b = piece_at(s, &o, i);

        if (i + 1 < n_pieces && i + 1 != end) {
            const struct expert_piece next = piece_at(s, &o, i + 1);

            b.next = expert_row(&next.p->m[0], next.expert, next.n0);
        }
        run_piece(x, s, &in, &o, &b, exec_memory(x, i_thread));
    }
}

void exec_mix(const struct exec *x, const struct stage *s, uint32_t row, float *y)
{
    const uint32_t n_slots = x->plan->values[s->src[1]].slots;
    const float *weights = exec_row(x, s->src[1], row);

    x->cpu->elem->scale(y, exec_row(x, s->src[0], row * n_slots), weights[0], s->width);
    for (uint32_t i = 1; i < n_slots; i++)
        x->cpu->elem->add_scaled(y, exec_row(x, s->src[0], row * n_slots + i), weights[i],
                                 s->width);
}

void exec_spread(const struct exec *x, const struct stage *s, uint32_t row, float *y)
{
    const struct value *from = &x->plan->values[s->src[0]];
    const uint32_t *experts = exec_slot_experts(x, s->src[1], row);

    for (uint32_t i = 0; i < s->width; i++)
        y[i] = -INFINITY;
    for (uint32_t k = 0; k < from->slots; k++) {
        const float *slot = exec_row(x, s->src[0], row * from->slots + k);
        const uint32_t *places = s->order + (size_t)experts[k] * from->width;

        for (uint32_t i = 0; i < from->width; i++)
            y[places[i]] = slot[i];
    }
}
