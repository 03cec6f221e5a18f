/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs one step of a program.
 *
 * A program (program.h) is a list of stages. The calling thread determines where the rows are
 * stored in the KV store, then all threads go through the stages in order. Nothing here allocates,
 * locks or makes a system call, except that threads sleep at a barrier.
 */
#include "backend/cpu/exec/exec.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"

float *exec_row(const struct exec *x, graph_ref ref, uint32_t row)
{
    const struct value *v = &x->plan->values[ref];

    assert(v->made);
    if (v->is_output)
        return x->logits + (size_t)row * v->ld;
    if (v->is_input)
        return (float *)x->batch->input + (size_t)row * v->ld;
    return (float *)(x->plan->scratch + v->offset) + (size_t)row * v->ld;
}

uint32_t exec_rows(const struct exec *x, bool rows_kept)
{
    return rows_kept ? x->batch->n_logits : x->batch->n_rows;
}

void exec_share(const struct exec *x, unsigned i_thread, uint32_t n, uint32_t *ret_begin,
                uint32_t *ret_end)
{
    const unsigned n_threads = x->plan->n_threads;

    *ret_begin = (uint32_t)((uint64_t)n * i_thread / n_threads);
    *ret_end = (uint32_t)((uint64_t)n * (i_thread + 1) / n_threads);
}

/* Returns the counters of claimed pieces for a stage. Stages use three sets of counters in turn.
 * While stage i uses one set, the set of stage i + 1 is cleared. Stage i - 2 used that set last,
 * and every thread has left stage i - 2. Threads do not wait for each other between joined stages
 * (program.h), but such stages do not use their counters. */
static struct claim *claims_of(const struct exec *x, uint32_t i_stage)
{
    return x->plan->claims + (size_t)(i_stage % 3) * x->plan->n_threads;
}

bool exec_claim(const struct exec *x, uint32_t i_stage, unsigned i_thread, uint32_t n,
                uint32_t *ret_piece)
{
    const unsigned n_threads = x->plan->n_threads;
    struct claim *claims = claims_of(x, i_stage);

    for (unsigned i = 0; i < n_threads; i++) {
        const unsigned owner = (i_thread + i) % n_threads;
        uint32_t begin, end, piece;

        exec_share(x, owner, n, &begin, &end);
        if (atomic_load_explicit(&claims[owner].n, memory_order_relaxed) >= end - begin)
            continue;
        piece = atomic_fetch_add_explicit(&claims[owner].n, 1, memory_order_relaxed);
        if (piece >= end - begin)
            continue;
        *ret_piece = begin + piece;
        return true;
    }
    return false;
}

unsigned char *exec_memory(const struct exec *x, unsigned i_thread)
{
    return x->plan->threads + i_thread * x->plan->mem.size;
}

/* Fills the rope table @t with sin and cos for this thread's share of the rows. Angles are computed
 * in single precision, because models were trained with such angles. */
static void fill_rope(const struct exec *x, const struct rope_table *t, unsigned i_thread)
{
    const uint32_t n = t->params.n_dims, half = n / 2;
    uint32_t begin, end;

    exec_share(x, i_thread, x->batch->n_rows, &begin, &end);
    for (uint32_t row = begin; row < end; row++) {
        float *c = t->data + (size_t)row * 2 * n, *s = c + n;
        const float pos = (float)x->plan->row_pos[row];

        for (uint32_t i = 0; i < half; i++) {
            const bool pairs = t->params.style == ROPE_PAIRS;
            const uint32_t a = pairs ? 2 * i : i, b = pairs ? a + 1 : i + half;
            const float angle = pos * t->params.inv_freq[i];

            c[a] = c[b] = cosf(angle) * t->params.mscale;
            s[b] = sinf(angle) * t->params.mscale;
            s[a] = -s[b];
        }
    }
}

static bool is_product(const struct stage *s)
{
    return s->kind == STAGE_PRODUCT || s->kind == STAGE_EXPERTS;
}

/* Finds the next product after stage @i_stage, and the beginning of this thread's share of the
 * product's weights. */
static void find_ahead(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct plan *plan = x->plan;
    struct ahead *ahead = &plan->aheads[i_thread];
    const struct product *p;
    uint32_t begin, end, n_pieces, i = i_stage + 1;

    *ahead = (struct ahead){0};
    while (i < plan->n_stages && !is_product(&plan->stages[i]))
        i++;
    /* There is nothing to prefetch for a product with experts, because this step has not selected
     * the experts yet. In steps of many rows, reading weights takes little of the time. */
    if (i == plan->n_stages || plan->stages[i].kind != STAGE_PRODUCT ||
        exec_rows(x, plan->stages[i].rows_kept) > AHEAD_ROWS)
        return;
    exec_share(x, i_thread, plan->stages[i].n_chunks, &begin, &end);
    n_pieces = end - begin;
    p = stage_product(&plan->stages[i], &begin);
    n_pieces = MIN(p->n_matrices == 2 ? 1 : n_pieces, p->n_chunks - begin);
    for (uint32_t j = 0; j < p->n_matrices; j++) {
        const struct matrix *m = &p->m[j];
        const uint64_t size = n_pieces * (uint64_t)p->chunk * m->row_bytes;

        ahead->at[j] = matrix_row(m, begin * p->chunk);
        ahead->end[j] = ahead->at[j] + MIN(size, AHEAD_BYTES / p->n_matrices);
    }
}

static bool prefetch_ahead(const struct exec *x, unsigned i_thread)
{
    struct ahead *ahead = &x->plan->aheads[i_thread];

    for (unsigned j = 0; j < 2; j++) {
        if (ahead->at[j] >= ahead->end[j])
            continue;
        for (unsigned i = 0; i < 8; i++)
            __builtin_prefetch(ahead->at[j] + 64 * i, 0, 2);
        ahead->at[j] += (size_t)8 * 64;
        return true;
    }
    return false;
}

/* Holds the state of a thread that waits at the end of a stage. */
struct waiting {
    const struct exec *x;
    unsigned i_thread;
};

static bool idle_prefetch(void *arg)
{
    const struct waiting *w = arg;

    return prefetch_ahead(w->x, w->i_thread);
}

static void run_stage(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct stage *s = &x->plan->stages[i_stage];

    if (x->cpu->watch && i_thread == 0 && is_product(s))
        exec_watch(x, s);
    switch (s->kind) {
    case STAGE_EMBED:
        exec_embed(x, s, i_thread);
        break;
    case STAGE_PRODUCT:
        exec_product(x, i_stage, i_thread);
        break;
    case STAGE_ATTENTION:
        exec_attention(x, i_stage, i_thread);
        break;
    case STAGE_ROUTE:
        exec_route(x, s, i_thread);
        break;
    case STAGE_EXPERTS:
        exec_experts(x, i_stage, i_thread);
        break;
    case STAGE_CONV:
        exec_conv(x, i_stage, i_thread);
        break;
    case STAGE_DELTA:
        exec_delta(x, i_stage, i_thread);
        break;
    case STAGE_NODE:
        exec_node(x, s, i_thread);
        break;
    }
}

static void run_thread(void *arg, unsigned i_thread, unsigned n_threads UNUSED)
{
    const struct exec *x = arg;
    struct waiting waiting = {x, i_thread};
    uint64_t *nsec = x->plan->stage_nsec;

    for (uint32_t i = 0; x->begin == 0 && i < x->plan->n_ropes; i++)
        fill_rope(x, &x->plan->ropes[i], i_thread);
    /* If the first stage is an embedding, it does not read the rope tables, and the barrier at its
     * end is sufficient. Any other first stage may read rows of the tables that other threads fill,
     * so a barrier is needed before it. */
    if (x->begin == 0 && x->plan->n_ropes > 0 && x->plan->stages[0].kind != STAGE_EMBED)
        workers_barrier(x->cpu->workers);
    for (uint32_t i = x->begin; i < x->end; i++) {
        const uint64_t begin = nsec && i_thread == 0 ? clock_nsec() : 0;

        atomic_store_explicit(&claims_of(x, i + 1)[i_thread].n, 0, memory_order_relaxed);
        /* Prefetch the first weights of a product, so that they arrive while its input is
         * prepared. */
        if (x->plan->stages[i].kind == STAGE_PRODUCT)
            for (unsigned j = 0; j < 32 && prefetch_ahead(x, i_thread); j++)
                ;
        if (x->plan->stages[i].kind != STAGE_ATTENTION)
            find_ahead(x, i, i_thread);
        run_stage(x, i, i_thread);
        /* A watch reads rows of all threads, so with a watch the threads wait between joined
         * stages, too. */
        if (i + 1 < x->end && (!x->plan->stages[i].joined || x->cpu->watch))
            workers_barrier_idle(x->cpu->workers, idle_prefetch, &waiting);
        if (nsec && i_thread == 0)
            nsec[i] += clock_nsec() - begin;
    }
}

static bool has_logits(const struct batch *batch, uint32_t begin, uint32_t end)
{
    for (uint32_t i = 0; i < batch->n_logits; i++)
        if (batch->logit_rows[i] >= begin && batch->logit_rows[i] < end)
            return true;
    return false;
}

/* Returns whether the KV blocks of @seq cover all its positions. Stores that hold only recurrent
 * state have no such blocks. */
static bool has_blocks(const struct exec *x, const struct batch_seq *seq)
{
    const struct kv_layout *l = &x->store->layout;

    for (uint32_t i = 0; i < l->n_groups; i++)
        if (l->groups[i].rule != STATE_RECURRENT)
            return (uint64_t)seq->pos + seq->n_rows <= (uint64_t)seq->n_blocks * l->block_tokens;
    return true;
}

/* Finds the place of each row in the KV store, and groups rows into tiles. Attention computes the
 * rows of a tile together. */
static void place_rows(struct exec *x)
{
    struct plan *plan = x->plan;
    const uint32_t bt = x->store->layout.block_tokens;

    x->one_row_each = true;
    for (uint32_t i = 0; i < x->batch->n_seqs; i++) {
        const struct batch_seq *seq = &x->batch->seqs[i];

        assert(seq->n_rows > 0 && seq->i_row + seq->n_rows <= x->batch->n_rows);
        assert((uint64_t)seq->pos + seq->n_rows <= plan->limits.max_ctx);
        assert(has_blocks(x, seq));
        for (uint32_t j = 0; j < seq->n_rows; j++) {
            const uint32_t row = seq->i_row + j, pos = seq->pos + j;

            plan->row_pos[row] = pos;
            plan->row_offset[row] = pos % bt;
            plan->row_seq[row] = i;
        }
        for (uint32_t j = 0; j < seq->n_rows; j += plan->tile_rows) {
            const uint32_t row = seq->i_row + j, n = MIN(seq->n_rows - j, plan->tile_rows);

            assert(x->n_tiles < plan->max_tiles);
            plan->tiles[x->n_tiles++] =
                (struct attn_tile){.seq = seq,
                                   .i_row = row,
                                   .n_rows = n,
                                   .pos = seq->pos + j,
                                   .wanted = n == 1 || has_logits(x->batch, row, row + n)};
        }
        if (seq->n_rows > 1)
            x->one_row_each = false;
    }
}

static void run_stages(struct exec *x)
{
    const struct plan *plan = x->plan;

    assert(x->batch->n_rows > 0 && x->batch->n_rows <= plan->limits.max_rows);
    assert(x->batch->n_seqs <= plan->limits.max_seqs);
    assert(x->batch->n_logits <= plan->limits.max_logits);
    assert((x->batch->input != NULL) == plan->has_input);

    place_rows(x);
    for (unsigned i = 0; i < plan->n_threads; i++)
        atomic_store_explicit(&claims_of(x, x->begin)[i].n, 0, memory_order_relaxed);
    workers_run(x->cpu->workers, run_thread, x);
}

int exec_run(struct backend *b, struct plan *plan, struct kv_store *store,
             const struct batch *batch, float *logits, struct top_row *tops UNUSED)
{
    const struct cpu_backend *cpu = CONTAINER_OF(b, struct cpu_backend, backend);
    struct exec x = {.cpu = cpu, .plan = plan, .store = store, .batch = batch, .logits = logits};

    x.end = plan->n_stages;
    run_stages(&x);
    return 0;
}

int exec_run_part(struct backend *b, struct plan *plan, struct kv_store *store,
                  const struct batch *batch, float *logits, uint32_t *i_stage)
{
    const struct cpu_backend *cpu = CONTAINER_OF(b, struct cpu_backend, backend);
    struct exec x = {.cpu = cpu, .plan = plan, .store = store, .batch = batch, .logits = logits};

    x.begin = x.end = *i_stage;
    while (x.end < plan->n_stages && !is_product(&plan->stages[x.end++]))
        ;
    run_stages(&x);
    *i_stage = x.end < plan->n_stages ? x.end : 0;
    return 0;
}
