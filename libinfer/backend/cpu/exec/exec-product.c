/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes matrix products: prepares the input rows, then computes the columns in pieces. The
 * operations that follow the product are done on each piece while it is in the cache.
 *
 * To prepare rows is to convert them to the format that the kernels multiply. Threads divide this
 * work by rows and then wait at a barrier; if there are few rows, each thread instead prepares all
 * rows for itself. A piece is a range of columns of one matrix (of two matrices, for gated units).
 * A piece usually has all rows, because the weights are then decoded once for all of them. Packed
 * weights need no decoding. Therefore, with packed weights and many rows, each thread computes all
 * columns of its own rows. It prepares and normalizes these rows itself, so they are in its own
 * cache.
 */
#include "backend/cpu/exec/exec.h"

/* Holds the prepared input, once for each kind of preparation. */
struct input {
    const void *act[MATMUL_ACT_N];
    size_t stride[MATMUL_ACT_N];
    void *work; /* the thread's memory for products (struct matmul_args) */
};

void exec_prepare_row(const struct exec *x, const struct stage *s, uint32_t i, float *row,
                      unsigned char *const to[MATMUL_ACT_N])
{
    const float *src = exec_row(x, s->src[0], s->gather ? x->batch->logit_rows[i] : i);

    if (s->norm_w) {
        x->cpu->elem->rms_norm(row, src, s->norm_w, s->norm_eps, s->K);
        src = row;
    }
    if (s->order) {
        row += x->plan->max_width;
        for (uint32_t j = 0; j < s->K; j++)
            row[j] = src[s->order[j]];
        src = row;
    }
    for (int k = 0; k < MATMUL_ACT_N; k++)
        if (s->acts[k])
            matmul_prepare(x->plan->matmul, (enum matmul_act)k, src, s->K, s->K, 0, 1, to[k]);
}

/* Prepares rows @begin … @end - 1 of the input into @in. @row is a buffer for one row. */
static void prepare_rows(const struct exec *x, const struct stage *s, const struct input *in,
                         uint32_t begin, uint32_t end, float *row)
{
    for (uint32_t i = begin; i < end; i++) {
        unsigned char *to[MATMUL_ACT_N] = {0};

        for (int k = 0; k < MATMUL_ACT_N; k++)
            if (s->acts[k])
                to[k] = (unsigned char *)in->act[k] + i * in->stride[k];
        exec_prepare_row(x, s, i, row, to);
    }
}

/* Returns whether the kernels read the rows of the input as they are. */
static bool only_floats(const struct stage *s)
{
    for (int k = 0; k < MATMUL_ACT_N; k++)
        if (s->acts[k] != (k == MATMUL_ACT_F32))
            return false;
    return !s->norm_w && !s->gather && !s->order;
}

static void prepare_input(const struct exec *x, const struct stage *s, unsigned i_thread,
                          struct input *ret_in)
{
    const struct plan *plan = x->plan;
    unsigned char *mine = exec_memory(x, i_thread);
    const uint32_t n = exec_rows(x, s->rows_kept);
    const bool private = n <= PRIVATE_ROWS && (uint64_t)n * s->K <= PRIVATE_ELEMS;
    uint32_t begin, end;

    ret_in->work = mine + plan->mem.work;
    if (only_floats(s)) {
        ret_in->act[MATMUL_ACT_F32] = exec_row(x, s->src[0], 0);
        ret_in->stride[MATMUL_ACT_F32] = plan->values[s->src[0]].ld * sizeof(float);
        return;
    }
    for (int k = 0; k < MATMUL_ACT_N; k++) {
        ret_in->act[k] =
            private ? mine + plan->mem.act + s->act_private[k] : plan->scratch + s->act_offset[k];
        ret_in->stride[k] = s->act_bytes[k];
    }
    if (private) {
        prepare_rows(x, s, ret_in, 0, n, (float *)(mine + plan->mem.row));
        return;
    }
    exec_share(x, i_thread, n, &begin, &end);
    prepare_rows(x, s, ret_in, begin, end, (float *)(mine + plan->mem.row));
    workers_barrier(x->cpu->workers);
}

/* Returns the number of runs of adjacent columns that the rows n0 … n1 - 1 of a matrix compute.
 * Normally there is one run. Packed ternary rows (quant/bitnet.h) compute one run in each quarter
 * of the result. */
static uint32_t runs_of(const struct matrix *m)
{
    return m->quarter > 0 ? 4 : 1;
}

/* Describes a part of a product: rows r0 … r1 - 1 and columns n0 … n1 - 1. */
struct block {
    uint32_t r0, r1, n0, n1;
};

/* Computes a block of the product with matrix @m. @y is the address of row 0, column n0, of the
 * result. With packed ternary weights, the columns are four runs (runs_of()), @quarter floats
 * apart, and @y is the address of the first run. @next is the memory that is read after this block;
 * it is prefetched. */
static void multiply_block(const struct exec *x, const struct stage *s, const struct matrix *m,
                           const struct input *in, const struct block *b, float *y, size_t ldy,
                           uint32_t quarter, const unsigned char *next)
{
    const uint32_t column = b->n0 / runs_of(m);
    const struct matmul_args args = {
        .dtype = m->dtype,
        .w = matrix_row(m, b->n0),
        .row_bytes = m->row_bytes,
        .kind = m->act,
        .act = (const unsigned char *)in->act[m->act] + b->r0 * in->stride[m->act],
        .act_stride = in->stride[m->act],
        .M = b->r1 - b->r0,
        .K = s->K,
        .y = y + b->r0 * ldy,
        .ldy = ldy,
        .bias = m->bias ? m->bias + column : NULL,
        .packed = m->packed,
        .planes = {matrix_plane(m, WEIGHT_SCALES, 0, b->n0),
                   matrix_plane(m, WEIGHT_ZEROS, 0, b->n0)},
        .plane_type = m->plane_type,
        .group = m->group,
        .coded = m->coded,
        .coded_first = m->coded_first + b->n0,
        .work = in->work,
        .quarter = quarter,
        .next = next,
    };

    matmul_rows(x->plan->matmul, &args, 0, b->n1 - b->n0);
}

/* Normalizes, rotates and stores the heads in the piece @b of product @p. */
static void finish_heads(const struct exec *x, const struct product *p, const struct block *b,
                         float *y, size_t ldy, void *half)
{
    const struct elem_fns *elem = x->cpu->elem;
    const uint32_t hd = p->head_dim;

    for (uint32_t n = b->n0; n < b->n1; n += hd) {
        for (uint32_t row = b->r0; row < b->r1; row++) {
            float *head = y + row * ldy + (n - b->n0);

            if (p->norm_w)
                elem->rms_norm(head, head, p->norm_w, p->norm_eps, hd);
            if (p->i_rope >= 0)
                exec_rope(x, p->i_rope, row, head);
            if (p->late && exec_keys_late(x, p->place))
                exec_keep_key(x, n / hd, hd, row, head);
            else if (p->kv != KV_NONE)
                exec_store(x, p->kv, p->place, n / hd, row, head, half);
        }
    }
}

/* Describes adjacent columns of a piece, the first of which is column n0 of the result. */
struct run {
    float *y; /* row 0, column n0 */
    size_t ldy;
    const float *gate, *up; /* gated units: the same columns in the tiles */
    uint32_t n0, n;
};

/* Does the operations on single columns that follow a product. */
static void finish_run(const struct exec *x, const struct product *p, const struct block *b,
                       const struct run *c)
{
    const struct elem_fns *elem = x->cpu->elem;

    for (uint32_t row = b->r0; row < b->r1; row++) {
        float *y = c->y + row * c->ldy;

        if (p->n_matrices == 2)
            elem_glu(elem, p->act, y, c->gate + (size_t)row * p->chunk,
                     c->up + (size_t)row * p->chunk, c->n);
        else if (p->has_act)
            elem_act(elem, p->act, y, y, c->n);
        if (p->cap > 0)
            elem->cap(y, y, p->cap, c->n);
        if (p->add >= 0)
            elem->add(y, exec_row(x, p->add, row) + c->n0, y, c->n);
    }
}

static void run_piece(const struct exec *x, const struct stage *s, const struct product *p,
                      const struct input *in, const struct block *b, const unsigned char *next,
                      unsigned char *mine)
{
    const struct plan *plan = x->plan;
    const uint32_t n_runs = runs_of(&p->m[0]), n0 = b->n0 / n_runs, quarter = p->m[0].quarter;
    float *tile[2] = {(float *)(mine + plan->mem.tile[0]), (float *)(mine + plan->mem.tile[1])};
    float *y = p->dst >= 0 ? exec_row(x, p->dst, 0) + n0 : tile[0];
    const size_t ldy = p->dst >= 0 ? plan->values[p->dst].ld : p->chunk;

    if (p->n_matrices == 2) {
        multiply_block(x, s, &p->m[0], in, b, tile[0], p->chunk, p->chunk / 4,
                       matrix_row(&p->m[1], b->n0));
        multiply_block(x, s, &p->m[1], in, b, tile[1], p->chunk, p->chunk / 4, next);
    } else {
        multiply_block(x, s, &p->m[0], in, b, y, ldy, quarter, next);
    }
    for (uint32_t i = 0; i < n_runs; i++)
        finish_run(x, p, b,
                   &(struct run){.y = y + (size_t)i * quarter,
                                 .ldy = ldy,
                                 .gate = tile[0] + i * (p->chunk / 4),
                                 .up = tile[1] + i * (p->chunk / 4),
                                 .n0 = n0 + i * quarter,
                                 .n = (b->n1 - b->n0) / n_runs});
    if (p->head_dim > 0)
        finish_heads(x, p, b, y, ldy, mine + plan->mem.half);
}

/* Returns the number of ranges into which the rows are divided among threads. */
static uint32_t row_parts(const struct exec *x, const struct stage *s)
{
    const uint32_t n = x->plan->n_threads;

    return s->packed && exec_rows(x, s->rows_kept) >= n * PART_ROWS ? n : 1;
}

/* Returns the first row of range @i of @n. */
static uint32_t part_begin(const struct exec *x, const struct stage *s, uint32_t i, uint32_t n)
{
    const uint32_t n_rows = exec_rows(x, s->rows_kept);

    return i == n ? n_rows : n_rows * i / n / MATMUL_TILE_STEP * MATMUL_TILE_STEP;
}

void exec_product(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const unsigned char *after = x->plan->aheads[i_thread].at[0];
    const uint32_t n_parts = row_parts(x, s), n_pieces = n_parts * s->n_chunks;
    struct input in = {0};
    uint32_t i, begin, end;

    if (exec_rows(x, s->rows_kept) == 0)
        return;
    prepare_input(x, s, i_thread, &in);
    exec_share(x, i_thread, n_pieces, &begin, &end);
    while (exec_claim(x, i_stage, i_thread, n_pieces, &i)) {
        const uint32_t part = i / s->n_chunks;
        uint32_t i_chunk = i % s->n_chunks, i_next = i_chunk + 1;
        const struct product *p = stage_product(s, &i_chunk);
        const unsigned char *next = after;
        struct block b = {part_begin(x, s, part, n_parts), part_begin(x, s, part + 1, n_parts),
                          i_chunk * p->chunk, MIN((i_chunk + 1) * p->chunk, p->width)};

        if (i_next < s->n_chunks && i + 1 != end) {
            const struct product *q = stage_product(s, &i_next);

            next = matrix_row(&q->m[0], i_next * q->chunk);
        }
        run_piece(x, s, p, &in, &b, next, exec_memory(x, i_thread));
    }
}
