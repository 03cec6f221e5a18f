/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over the paged KV store
 *
 * A task is one KV head and some rows of one sequence: all their query heads pass over the blocks
 * together (online softmax, so memory does not grow with the context). Arithmetic is fixed by
 * position alone: blocks are taken in order, ATTN_STRETCH_BLOCKS of them at a time from fresh
 * sums, and the results of these stretches are merged in order. So rows may be tiled and stretches
 * may be shared among threads at will.
 */
#include "backend/cpu/program.h"

#include <math.h>
#include <string.h>

/* A block is converted to floats once when more rows than this read it. */
#define CONVERT_ROWS 8u

/* One task. Query row i is row i / group of the tile, head i % group of the group. */
struct task {
    const struct exec *x;
    const struct attn_params *p;
    const struct attn_tile *tile;
    uint32_t i_head; /* KV head */
    uint32_t group, n_q, hd, bt;
    float *q, *s, *k, *v; /* this thread's memory */
};

/* State of the online softmax of all query rows. */
struct sums {
    float *o; /* [n_q, hd] */
    float *max, *sum;
};

static uint32_t first_visible(const struct attn_params *p, uint32_t pos)
{
    return p->window > 0 && pos >= p->window ? pos - p->window + 1 : 0;
}

/* Blocks that the tile sees: *ret_begin … *ret_end - 1. */
static void visible_blocks(const struct task *t, uint32_t *ret_begin, uint32_t *ret_end)
{
    *ret_begin = first_visible(t->p, t->tile->pos) / t->bt;
    *ret_end = (t->tile->pos + t->tile->n_rows - 1) / t->bt + 1;
}

static void task_init(struct task *t, const struct exec *x, const struct attn_params *p,
                      const struct attn_tile *tile, uint32_t i_head, graph_ref q, unsigned i_thread)
{
    unsigned char *mine = exec_memory(x, i_thread);
    const struct thread_layout *m = &x->plan->mem;

    *t = (struct task){.x = x,
                       .p = p,
                       .tile = tile,
                       .i_head = i_head,
                       .group = p->n_heads / p->n_kv_heads,
                       .hd = p->head_dim,
                       .bt = x->store->layout.block_tokens,
                       .q = (float *)(mine + m->q),
                       .s = (float *)(mine + m->s),
                       .k = (float *)(mine + m->k),
                       .v = (float *)(mine + m->v)};
    t->n_q = tile->n_rows * t->group;
    for (uint32_t i = 0; i < tile->n_rows; i++)
        x->cpu->elem->scale(t->q + (size_t)i * t->group * t->hd,
                            exec_row(x, q, tile->i_row + i) + (size_t)i_head * t->group * t->hd,
                            p->scale, t->group * t->hd);
}

static void sums_clear(const struct task *t, struct sums *sums)
{
    memset(sums->o, 0, (size_t)t->n_q * t->hd * sizeof(float));
    for (uint32_t i = 0; i < t->n_q; i++) {
        sums->max[i] = -INFINITY;
        sums->sum[i] = 0;
    }
}

/* Tokens of block @i_block that row @row of the tile sees: *ret_lo … *ret_hi - 1. */
static void visible_tokens(const struct task *t, uint32_t row, uint32_t i_block, uint32_t *ret_lo,
                           uint32_t *ret_hi)
{
    const uint32_t pos = t->tile->pos + row, base = i_block * t->bt;
    const uint32_t first = first_visible(t->p, pos);

    *ret_lo = first > base ? MIN(first - base, t->bt) : 0;
    *ret_hi = pos + 1 > base ? MIN(pos + 1 - base, t->bt) : 0;
}

/* o += p · v over tokens lo … hi - 1 for n query rows from @i on. */
static void add_values(const struct task *t, const struct sums *sums, const void *v,
                       enum attn_format format, uint32_t i, uint32_t n, uint32_t lo, uint32_t hi)
{
    const size_t elem = format == ATTN_F32 ? sizeof(float) : sizeof(uint16_t);

    if (lo < hi)
        t->x->cpu->attn->mul[format](&(struct attn_mul_args){
            .c = sums->o + (size_t)i * t->hd,
            .ldc = t->hd,
            .a = t->s + (size_t)i * t->bt + lo,
            .lda = t->bt,
            .b = (const unsigned char *)v + (size_t)lo * t->hd * elem,
            .ldb = t->hd,
            .M = n,
            .N = t->hd,
            .K = hi - lo,
        });
}

/* Scores become weights; *ret_lo … *ret_hi - 1 are the tokens that all rows see. */
static void softmax_rows(const struct task *t, const struct sums *sums, uint32_t i_block,
                         uint32_t *ret_lo, uint32_t *ret_hi)
{
    const struct attn_fns *fns = t->x->cpu->attn;

    *ret_lo = 0;
    *ret_hi = t->bt;
    for (uint32_t i = 0; i < t->n_q; i++) {
        float *o = sums->o + (size_t)i * t->hd, factor;
        const bool first = sums->sum[i] == 0; /* then o is 0 as well */
        uint32_t lo, hi;

        visible_tokens(t, i / t->group, i_block, &lo, &hi);
        *ret_lo = MAX(*ret_lo, lo);
        *ret_hi = MIN(*ret_hi, hi);
        if (lo >= hi)
            continue;
        factor = fns->softmax(t->s + (size_t)i * t->bt + lo, hi - lo, &sums->max[i], &sums->sum[i]);
        if (factor != 1.0f && !first)
            t->x->cpu->elem->scale(o, o, factor, t->hd);
    }
}

static void one_block(const struct task *t, const struct sums *sums, uint32_t i_block)
{
    const struct kv_store *store = t->x->store;
    const uint32_t block = t->tile->seq->blocks[i_block];
    const uint32_t n_tokens = t->tile->pos + t->tile->n_rows - i_block * t->bt;
    const uint32_t n = MIN(ALIGN_UP(n_tokens, 16u), t->bt);
    enum attn_format format = store->format;
    const void *k = kv_store_head(store, KV_KEYS, t->p->i_layer, t->i_head, block);
    const void *v = kv_store_head(store, KV_VALUES, t->p->i_layer, t->i_head, block);
    uint32_t lo, hi;

    if (format != ATTN_F32 && t->n_q > CONVERT_ROWS) {
        void (*const load)(float *, const uint16_t *, uint32_t) =
            format == ATTN_F16 ? t->x->cpu->elem->f16_load : t->x->cpu->elem->bf16_load;

        load(t->k, k, t->hd * t->bt);
        load(t->v, v, MIN(n_tokens, t->bt) * t->hd);
        k = t->k;
        v = t->v;
        format = ATTN_F32;
    }

    for (uint32_t i = 0; i < t->n_q; i++)
        memset(t->s + (size_t)i * t->bt, 0, n * sizeof(float));
    t->x->cpu->attn->mul[format](&(struct attn_mul_args){.c = t->s,
                                                         .ldc = t->bt,
                                                         .a = t->q,
                                                         .lda = t->hd,
                                                         .b = k,
                                                         .ldb = t->bt,
                                                         .M = t->n_q,
                                                         .N = n,
                                                         .K = t->hd});
    softmax_rows(t, sums, i_block, &lo, &hi);

    /* Each row adds its own tokens and no others, in order; what all rows share goes at once. */
    if (lo >= hi)
        lo = hi = 0;
    for (uint32_t row = 0; row < t->tile->n_rows && lo < hi; row++) {
        uint32_t row_lo, row_hi;

        visible_tokens(t, row, i_block, &row_lo, &row_hi);
        add_values(t, sums, v, format, row * t->group, t->group, row_lo, lo);
    }
    add_values(t, sums, v, format, 0, t->n_q, lo, hi);
    for (uint32_t row = 0; row < t->tile->n_rows; row++) {
        uint32_t row_lo, row_hi;

        visible_tokens(t, row, i_block, &row_lo, &row_hi);
        add_values(t, sums, v, format, row * t->group, t->group, lo < hi ? hi : row_lo, row_hi);
    }
}

static void one_stretch(const struct task *t, uint32_t i_stretch, struct sums *sums)
{
    uint32_t begin, end;

    visible_blocks(t, &begin, &end);
    begin = MAX(begin, i_stretch * ATTN_STRETCH_BLOCKS);
    end = MIN(end, (i_stretch + 1) * ATTN_STRETCH_BLOCKS);
    sums_clear(t, sums);
    for (uint32_t i = begin; i < end; i++)
        one_block(t, sums, i);
}

/* total = total merged with what came after it. */
static void sums_merge(const struct task *t, struct sums *total, const struct sums *next)
{
    for (uint32_t i = 0; i < t->n_q; i++) {
        float *o = total->o + (size_t)i * t->hd, max, a, b;
        const float *p = next->o + (size_t)i * t->hd;

        if (next->max[i] == -INFINITY && next->sum[i] == 0)
            continue; /* the row saw nothing of it */
        max = fmaxf(total->max[i], next->max[i]);
        a = total->max[i] == max ? 1 : expf(total->max[i] - max);
        b = next->max[i] == max ? 1 : expf(next->max[i] - max);
        for (uint32_t d = 0; d < t->hd; d++)
            o[d] = o[d] * a + p[d] * b;
        total->sum[i] = total->sum[i] * a + next->sum[i] * b;
        total->max[i] = max;
    }
}

static void write_result(const struct task *t, const struct sums *sums, graph_ref dst)
{
    for (uint32_t i = 0; i < t->n_q; i++) {
        float *y = exec_row(t->x, dst, t->tile->i_row + i / t->group);

        y += (size_t)(t->i_head * t->group + i % t->group) * t->hd;
        t->x->cpu->elem->scale(y, sums->o + (size_t)i * t->hd, 1.0f / sums->sum[i], t->hd);
    }
}

static void stretches(const struct task *t, uint32_t *ret_begin, uint32_t *ret_end)
{
    uint32_t begin, end;

    visible_blocks(t, &begin, &end);
    *ret_begin = begin / ATTN_STRETCH_BLOCKS;
    *ret_end = DIV_UP(end, ATTN_STRETCH_BLOCKS);
}

/* A task alone. */
static void whole(const struct task *t, unsigned i_thread, graph_ref dst)
{
    unsigned char *mine = exec_memory(t->x, i_thread);
    const struct thread_layout *m = &t->x->plan->mem;
    float *stats = (float *)(mine + m->stats);
    struct sums total = {(float *)(mine + m->total), stats, stats + t->n_q};
    struct sums next = {(float *)(mine + m->o), stats + 2 * (size_t)t->n_q,
                        stats + 3 * (size_t)t->n_q};
    uint32_t begin, end;

    stretches(t, &begin, &end);
    one_stretch(t, begin, &total);
    for (uint32_t i = begin + 1; i < end; i++) {
        one_stretch(t, i, &next);
        sums_merge(t, &total, &next);
    }
    write_result(t, &total, dst);
}

static struct sums part_sums(const struct task *t, uint32_t i_task, uint32_t i_part)
{
    const struct plan *plan = t->x->plan;
    float *p = plan->parts + ((size_t)i_task * plan->max_stretches + i_part) * plan->part_floats;

    return (struct sums){p, p + (size_t)t->n_q * t->hd, p + (size_t)t->n_q * (t->hd + 1)};
}

/* Few long sequences: a stretch of a task is a piece of work. */
static void shared(const struct exec *x, uint32_t i_stage, unsigned i_thread, uint32_t n_parts)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const uint32_t n_heads = s->attn.n_kv_heads, n_tasks = x->n_tiles * n_heads;
    uint32_t i, begin, end;
    struct task t;

    while (exec_claim(x, i_stage, i_thread, n_tasks * n_parts, &i)) {
        const uint32_t i_task = i / n_parts;
        struct sums sums;

        task_init(&t, x, &s->attn, &x->plan->tiles[i_task / n_heads], i_task % n_heads, s->src[0],
                  i_thread);
        stretches(&t, &begin, &end);
        sums = part_sums(&t, i_task, i % n_parts);
        if (begin + i % n_parts < end)
            one_stretch(&t, begin + i % n_parts, &sums);
    }
    workers_barrier(x->cpu->workers);
    for (i = i_thread; i < n_tasks; i += x->plan->n_threads) {
        struct sums total, next;

        task_init(&t, x, &s->attn, &x->plan->tiles[i / n_heads], i % n_heads, s->src[0], i_thread);
        stretches(&t, &begin, &end);
        total = part_sums(&t, i, 0);
        for (uint32_t j = 1; begin + j < end; j++) {
            next = part_sums(&t, i, j);
            sums_merge(&t, &total, &next);
        }
        write_result(&t, &total, s->dst);
    }
}

/* The most stretches of any sequence when threads should share sequences, else 1. */
static uint32_t shared_parts(const struct exec *x, const struct attn_params *p)
{
    const struct plan *plan = x->plan;
    uint32_t most = 1;

    if (!plan->parts || !x->one_row_each ||
        (uint64_t)x->n_tiles * p->n_kv_heads >= (uint64_t)SHARED_TASKS * plan->n_threads)
        return 1;
    for (uint32_t i = 0; i < x->n_tiles; i++) {
        const struct task t = {
            .p = p, .tile = &plan->tiles[i], .bt = x->store->layout.block_tokens};
        uint32_t begin, end;

        stretches(&t, &begin, &end);
        most = MAX(most, end - begin);
    }
    assert(most <= plan->max_stretches);
    return most;
}

void exec_attention(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const uint32_t n_heads = s->attn.n_kv_heads, n_parts = shared_parts(x, &s->attn);
    uint32_t i;

    assert(s->attn.i_layer < x->store->layout.n_layers);
    assert(s->attn.head_dim == x->store->layout.head_dim && n_heads == x->store->layout.n_kv_heads);

    if (n_parts > 1) {
        shared(x, i_stage, i_thread, n_parts);
        return;
    }
    /* By heads, and from the back: later rows of a prompt see more and take longer. */
    while (exec_claim(x, i_stage, i_thread, x->n_tiles * n_heads, &i)) {
        const struct attn_tile *tile = &x->plan->tiles[x->n_tiles - 1 - i % x->n_tiles];
        struct task t;

        task_init(&t, x, &s->attn, tile, i / x->n_tiles, s->src[0], i_thread);
        whole(&t, i_thread, s->dst);
    }
}
