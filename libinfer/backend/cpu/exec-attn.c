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

/* With so few query rows memory is what a task waits for: the next block is prefetched while one
 * is computed, since the hardware does not follow from block to block. */
#define AHEAD_QUERIES 16u

/* One task. Query row i is row i / group of the tile, head i % group of the group. */
struct task {
    const struct exec *x;
    const struct attn_params *p;
    const struct attn_tile *tile;
    uint32_t i_head; /* KV head */
    uint32_t group, n_q, hd, bt;
    float *q, *s; /* this thread's memory */
    struct attn_range *range;
};

/* State of the online softmax of all query rows. */
struct sums {
    float *o; /* [n_q, hd] */
    float *max;
    float *sum; /* [n_q, ATTN_LANES] */
};

/* @stats: n_q × ATTN_STATS floats. */
static struct sums sums_at(const struct task *t, float *o, float *stats)
{
    return (struct sums){o, stats, stats + t->n_q};
}

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
                      const struct attn_tile *tile, uint32_t i_head, unsigned i_thread)
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
                       .range = (struct attn_range *)(mine + m->range)};
    t->n_q = tile->n_rows * t->group;
}

static void task_query(const struct task *t, graph_ref q)
{
    const struct attn_fns *fns = t->x->cpu->attn;

    for (uint32_t i = 0; i < t->n_q; i++) {
        const float *row = exec_row(t->x, q, t->tile->i_row + i / t->group);

        row += ((size_t)t->i_head * t->group + i % t->group) * t->hd;
        fns->query[t->x->store->format](t->q + (size_t)i * t->hd, row, t->p->scale, t->hd);
    }
}

static void sums_clear(const struct task *t, struct sums *sums)
{
    memset(sums->o, 0, (size_t)t->n_q * t->hd * sizeof(float));
    memset(sums->sum, 0, (size_t)t->n_q * ATTN_LANES * sizeof(float));
    for (uint32_t i = 0; i < t->n_q; i++)
        sums->max[i] = -INFINITY;
}

/* Tokens of block @i_block that row @row of the tile sees. */
static struct attn_range visible_tokens(const struct task *t, uint32_t row, uint32_t i_block)
{
    const uint32_t pos = t->tile->pos + row, base = i_block * t->bt;
    const uint32_t first = first_visible(t->p, pos);

    return (struct attn_range){.lo = first > base ? MIN(first - base, t->bt) : 0,
                               .hi = pos + 1 > base ? MIN(pos + 1 - base, t->bt) : 0};
}

static void softmax_rows(const struct task *t, const struct sums *sums)
{
    const struct attn_fns *fns = t->x->cpu->attn;

    for (uint32_t i = 0; i < t->n_q; i++) {
        const struct attn_range r = t->range[i];
        const bool first = sums->max[i] == -INFINITY; /* then o is 0 as well */
        float factor;

        if (r.lo >= r.hi)
            continue;
        factor = fns->softmax(t->s + (size_t)i * t->bt + r.lo, r.hi - r.lo, &sums->max[i],
                              sums->sum + (size_t)i * ATTN_LANES);
        if (factor != 1.0f && !first)
            t->x->cpu->elem->scale(sums->o + (size_t)i * t->hd, sums->o + (size_t)i * t->hd, factor,
                                   t->hd);
    }
}

static const unsigned char *head_of(const struct task *t, enum kv_part part, uint32_t i_block)
{
    return kv_store_head(t->x->store, part, t->p->i_layer, t->i_head,
                         t->tile->seq->blocks[i_block]);
}

/* @ahead: the block after this one is read next. */
static void one_block(const struct task *t, const struct sums *sums, uint32_t i_block, bool ahead)
{
    const struct attn_fns *fns = t->x->cpu->attn;
    const enum attn_format format = t->x->store->format;
    struct attn_args args = {
        .n_rows = t->n_q,
        .head_dim = t->hd,
        .block_tokens = t->bt,
        .range = t->range,
        .q = t->q,
        .kv = head_of(t, KV_KEYS, i_block),
        .ahead = ahead ? head_of(t, KV_KEYS, i_block + 1) : NULL,
        .s = t->s,
        .o = sums->o,
    };

    for (uint32_t i = 0; i < t->n_q; i++)
        t->range[i] =
            i % t->group == 0 ? visible_tokens(t, i / t->group, i_block) : t->range[i - 1];
    fns->scores[format](&args);
    softmax_rows(t, sums);
    args.kv = head_of(t, KV_VALUES, i_block);
    args.ahead = ahead ? head_of(t, KV_VALUES, i_block + 1) : NULL;
    fns->values[format](&args);
}

static void one_stretch(const struct task *t, uint32_t i_stretch, struct sums *sums)
{
    uint32_t begin, end, all;

    visible_blocks(t, &begin, &all);
    begin = MAX(begin, i_stretch * ATTN_STRETCH_BLOCKS);
    end = MIN(all, (i_stretch + 1) * ATTN_STRETCH_BLOCKS);
    sums_clear(t, sums);
    for (uint32_t i = begin; i < end; i++)
        one_block(t, sums, i, t->n_q <= AHEAD_QUERIES && i + 1 < all);
}

/* total = total merged with what came after it. */
static void sums_merge(const struct task *t, struct sums *total, const struct sums *next)
{
    const struct attn_fns *fns = t->x->cpu->attn;

    for (uint32_t i = 0; i < t->n_q; i++) {
        float max, a, b;

        if (next->max[i] == -INFINITY && next->sum[(size_t)i * ATTN_LANES] == 0)
            continue; /* the row saw nothing of it */
        max = fmaxf(total->max[i], next->max[i]);
        a = total->max[i] == max ? 1 : expf(total->max[i] - max);
        b = next->max[i] == max ? 1 : expf(next->max[i] - max);
        fns->merge(total->o + (size_t)i * t->hd, next->o + (size_t)i * t->hd, a, b, t->hd);
        fns->merge(total->sum + (size_t)i * ATTN_LANES, next->sum + (size_t)i * ATTN_LANES, a, b,
                   ATTN_LANES);
        total->max[i] = max;
    }
}

static void write_result(const struct task *t, const struct sums *sums, graph_ref dst)
{
    for (uint32_t i = 0; i < t->n_q; i++) {
        float *y = exec_row(t->x, dst, t->tile->i_row + i / t->group), sum[ATTN_LANES];

        memcpy(sum, sums->sum + (size_t)i * ATTN_LANES, sizeof(sum));
        for (uint32_t n = ATTN_LANES / 2; n > 0; n /= 2)
            for (uint32_t j = 0; j < n; j++)
                sum[j] += sum[j + n];
        y += (size_t)(t->i_head * t->group + i % t->group) * t->hd;
        t->x->cpu->elem->scale(y, sums->o + (size_t)i * t->hd, 1.0f / sum[0], t->hd);
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
    struct sums total = sums_at(t, (float *)(mine + m->total), stats);
    struct sums next = sums_at(t, (float *)(mine + m->o), stats + (size_t)t->n_q * ATTN_STATS);
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

    return sums_at(t, p, p + (size_t)t->n_q * t->hd);
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

        task_init(&t, x, &s->attn, &x->plan->tiles[i_task / n_heads], i_task % n_heads, i_thread);
        stretches(&t, &begin, &end);
        if (begin + i % n_parts >= end)
            continue;
        task_query(&t, s->src[0]);
        sums = part_sums(&t, i_task, i % n_parts);
        one_stretch(&t, begin + i % n_parts, &sums);
    }
    workers_barrier(x->cpu->workers);
    for (i = i_thread; i < n_tasks; i += x->plan->n_threads) {
        struct sums total, next;

        task_init(&t, x, &s->attn, &x->plan->tiles[i / n_heads], i % n_heads, i_thread);
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

        task_init(&t, x, &s->attn, tile, i / x->n_tiles, i_thread);
        task_query(&t, s->src[0]);
        whole(&t, i_thread, s->dst);
    }
}
