/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes attention over the paged KV store.
 *
 * A task computes one or several KV heads for some rows (tokens) of one sequence. These rows form a
 * tile. A query row is one query head of one row. All query rows of the task pass over the KV
 * blocks together, with an online softmax, so memory does not grow with the context. Blocks are
 * processed in order, in stretches of ATTN_STRETCH_BLOCKS blocks. Each stretch starts from sums of
 * zero, and the results are merged in order. So only positions determine the arithmetic: no bit of
 * a result depends on which rows form a tile, or on which threads compute the stretches.
 */
#include "backend/cpu/exec/exec.h"

#include <math.h>
#include <string.h>

/* A task with at most this many query rows prefetches what it reads next, because it mostly waits
 * for memory, and hardware prefetchers do not continue from one head to the next. */
#define AHEAD_QUERIES 16u

/* The heads of a block are adjacent. If each sequence has one row, a task processes several of them
 * to read long pieces of memory, but at least this many pieces of work per thread remain. */
#define PIECES_PER_THREAD 8u

/* Describes one task. Query row i belongs to KV head i_head + i / n_q. Query row j < n_q of a KV
 * head is row j / group of the tile, and head j % group of the KV head's query heads. */
struct task {
    const struct exec *x;
    const struct attn_params *p;
    const float *sinks; /* see struct stage */
    bool late;          /* the task stores the newest key of each head */
    const struct attn_tile *tile;
    uint32_t i_head, n_heads;              /* KV heads */
    const unsigned char *after[KV_PART_N]; /* what the thread reads after the task; or NULL */
    uint32_t group, n_q, n_all, hd, bt;
    float *q, *s; /* memory of the thread that runs the task */
    struct attn_range *range;
};

/* Holds the state of the online softmax for all query rows. */
struct sums {
    float *o; /* [n_all, hd] */
    float *max;
    float *sum; /* [n_all, ATTN_LANES] */
};

/* Returns sums whose memory is @o, [n_all, hd], and @stats, n_all × ATTN_STATS floats. */
static struct sums sums_at(const struct task *t, float *o, float *stats)
{
    return (struct sums){o, stats, stats + t->n_all};
}

/* Returns the part of @sums for the query rows of head @i of a task. */
static struct sums sums_of_head(const struct task *t, const struct sums *sums, uint32_t i)
{
    const size_t row = (size_t)i * t->n_q;

    return (struct sums){sums->o + row * t->hd, sums->max + row, sums->sum + row * ATTN_LANES};
}

static uint32_t first_visible(const struct attn_params *p, uint32_t pos)
{
    if (p->past)
        return p->window > 0 && pos > p->window ? pos - p->window : 0;
    return !p->memory && p->window > 0 && pos >= p->window ? pos - p->window + 1 : 0;
}

/* Returns the position after the last position that the row at @pos sees. */
static uint32_t end_visible(const struct attn_params *p, const struct attn_tile *tile, uint32_t pos)
{
    const struct batch_seq *seq = tile->seq;
    const uint32_t end = seq->pos + (seq->n_seen > 0 ? seq->n_seen : seq->n_rows);

    if (p->memory)
        return seq->n_memory;
    if (p->past)
        return pos;
    if (!p->both_ways)
        return pos + 1;
    return p->window > 0 ? MIN(end, pos + p->window) : end;
}

/* Finds the blocks that the tile sees: *ret_begin … *ret_end - 1. */
static void visible_blocks(const struct task *t, uint32_t *ret_begin, uint32_t *ret_end)
{
    *ret_begin = first_visible(t->p, t->tile->pos) / t->bt;
    *ret_end = DIV_UP(end_visible(t->p, t->tile, t->tile->pos + t->tile->n_rows - 1), t->bt);
}

static void task_init(struct task *t, const struct exec *x, const struct stage *s,
                      const struct attn_tile *tile, uint32_t i_head, uint32_t n_heads,
                      unsigned i_thread)
{
    unsigned char *mine = exec_memory(x, i_thread);
    const struct thread_layout *m = &x->plan->mem;
    const struct attn_params *p = &s->attn;

    *t = (struct task){.x = x,
                       .p = p,
                       .sinks = s->sinks,
                       .late = s->late &&
                               exec_keys_late(x, (struct state_place){p->i_group, p->i_layer}),
                       .tile = tile,
                       .i_head = i_head,
                       .n_heads = n_heads,
                       .group = p->n_heads / p->n_kv_heads,
                       .hd = p->head_dim,
                       .bt = x->store->layout.block_tokens,
                       .q = (float *)(mine + m->q),
                       .s = (float *)(mine + m->s),
                       .range = (struct attn_range *)(mine + m->range)};
    t->n_q = tile->n_rows * t->group;
    t->n_all = n_heads * t->n_q;
}

/* Returns the address of query row @i of a task in the value @ref. */
static float *query_row(const struct task *t, graph_ref ref, uint32_t i)
{
    const uint32_t head = t->i_head + i / t->n_q, j = i % t->n_q;

    return exec_row(t->x, ref, t->tile->i_row + j / t->group) +
           ((size_t)head * t->group + j % t->group) * t->hd;
}

/* Returns the description of the layer whose keys and values the task reads. */
static const struct store_layer *task_layer(const struct task *t)
{
    return kv_store_layer(t->x->store, attn_place(t->p));
}

static void task_query(const struct task *t, graph_ref q)
{
    const struct attn_fns *fns = t->x->plan->attn;
    const enum codec keys = task_layer(t)->turned[KV_KEYS];

    for (uint32_t i = 0; i < t->n_all; i++)
        fns->query[keys](t->q + (size_t)i * t->hd, query_row(t, q, i), t->p->scale, t->hd);
}

static void sums_clear(const struct task *t, struct sums *sums)
{
    memset(sums->o, 0, (size_t)t->n_all * t->hd * sizeof(float));
    memset(sums->sum, 0, (size_t)t->n_all * ATTN_LANES * sizeof(float));
    for (uint32_t i = 0; i < t->n_all; i++)
        sums->max[i] = -INFINITY;
}

/* Returns the group whose blocks with the newest tokens the task reads, or 0 (struct kv_layout). */
static uint32_t recent_group(const struct task *t)
{
    const struct kv_layout *l = &t->x->store->layout;

    return !t->p->memory && l->groups[t->p->i_group].rule == STATE_FULL ? l->i_recent : 0;
}

/* Returns the tokens of block @i_block that row @row of the tile sees in group @i_group. */
static struct attn_range visible_tokens(const struct task *t, uint32_t row, uint32_t i_block,
                                        uint32_t i_group)
{
    const uint32_t pos = t->tile->pos + row, base = i_block * t->bt;
    const uint32_t recent = pos >= KV_RECENT ? pos - KV_RECENT + 1 : 0;
    uint32_t first = first_visible(t->p, pos), end = end_visible(t->p, t->tile, pos);

    if (recent_group(t) > 0 && i_group == recent_group(t))
        first = MAX(first, recent);
    else if (recent_group(t) > 0 && i_block > 0)
        end = MIN(end, recent);
    return (struct attn_range){.lo = first > base ? MIN(first - base, t->bt) : 0,
                               .hi = end > base ? MIN(end - base, t->bt) : 0};
}

/* Limits the scores of the tokens that the rows see (attn_params.softcap). */
static void cap_scores(const struct task *t)
{
    for (uint32_t i = 0; i < t->n_q; i++) {
        const struct attn_range r = t->range[i];
        float *s = t->s + (size_t)i * t->bt + r.lo;

        if (r.lo < r.hi)
            t->x->cpu->elem->cap(s, s, t->p->softcap, r.hi - r.lo);
    }
}

static void softmax_rows(const struct task *t, const struct sums *sums)
{
    const struct attn_fns *fns = t->x->plan->attn;

    for (uint32_t i = 0; i < t->n_q; i++) {
        const struct attn_range r = t->range[i];
        const bool first = sums->max[i] == -INFINITY; /* then the sums in o are 0 as well */
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

/* Returns the address of the keys or values of head @i of the task in block @i_block of group
 * @i_group. */
static const unsigned char *head_of(const struct task *t, enum kv_part part, uint32_t i,
                                    uint32_t i_block, uint32_t i_group)
{
    const struct batch_seq *seq = t->tile->seq;
    const struct state_place place = {i_group, t->p->i_layer};

    return kv_store_head(t->x->store, part, place, t->i_head + i,
                         (t->p->memory ? seq->memory : seq->blocks[i_group])[i_block]);
}

/* Returns the keys or values that the task reads after those of head @i in block @i_block: those of
 * the next head, after the last head those of the next block, and after the last of @n_blocks
 * blocks those of the next task. They are prefetched while head @i is read; prefetches half as far
 * ahead would be too late. Sets *ret_bytes to the bytes at the beginning that will be read. */
static const unsigned char *next_head(const struct task *t, enum kv_part part, uint32_t i,
                                      uint32_t i_block, uint32_t n_blocks, uint32_t i_group,
                                      size_t *ret_bytes)
{
    const struct state_place place = {i_group, t->p->i_layer};
    const struct store_layer *layer = kv_store_layer(t->x->store, place);
    const enum codec codec = layer->codec[part];
    const bool last = i + 1 == t->n_heads;

    *ret_bytes = layer->head_bytes[part];
    if (last && i_block + 1 == n_blocks)
        return t->after[part];
    if (last && i_group != t->p->i_group)
        return NULL;
    /* Values in floats are stored token by token; BF16 in pairs. */
    if (part == KV_VALUES && codec_info(codec)->kind == CODEC_FLOATS && codec != CODEC_FP8)
        *ret_bytes =
            layer->head_bytes[part] / t->bt *
            ALIGN_UP(visible_tokens(t, t->tile->n_rows - 1, i_block + last, i_group).hi, 2u);
    return head_of(t, part, last ? 0 : i + 1, i_block + last, i_group);
}

/* Returns the index of head @i_head among the heads whose scores the batch requests, or -1 if the
 * batch does not request the scores of this head. */
static int64_t kept_at(const struct task *t, uint32_t i_head)
{
    const struct batch *b = t->x->batch;
    uint32_t i;

    if (i_head >= 64 || !(t->p->kept >> i_head & 1))
        return -1;
    i = t->p->i_kept + (uint32_t)__builtin_popcountll(t->p->kept & ((UINT64_C(1) << i_head) - 1));
    return i >= b->i_kept && i - b->i_kept < b->n_kept ? (int64_t)i - b->i_kept : -1;
}

/* Copies the scores of head @i of the task for block @i_block to the memory that the batch gives
 * for scores, if the batch requests them. */
static void keep_scores(const struct task *t, uint32_t i, uint32_t i_block)
{
    const struct batch *b = t->x->batch;
    const uint32_t base = i_block * t->bt;

    if (base >= b->kept_tokens)
        return;
    for (uint32_t j = 0; j < t->n_q; j++) {
        const uint32_t row = t->tile->i_row + j / t->group;
        const int64_t at = kept_at(t, (t->i_head + i) * t->group + j % t->group);

        if (at >= 0)
            memcpy(b->kept + row * b->kept_row + (size_t)at * b->kept_head + base,
                   t->s + (size_t)j * t->bt,
                   MIN(t->range[j].hi, b->kept_tokens - base) * sizeof(float));
    }
}

/* Sets what is prefetched while the keys or values of head @i are read; see next_head(). */
static void set_ahead(const struct task *t, struct attn_args *args, enum kv_part part, uint32_t i,
                      uint32_t i_block, uint32_t n_blocks, uint32_t i_group)
{
    size_t n_bytes;

    if (t->n_q > AHEAD_QUERIES)
        return;
    args->ahead = next_head(t, part, i, i_block, n_blocks, i_group, &n_bytes);
    args->ahead_bytes = ALIGN_UP(n_bytes, 256u);
}

/* Processes head @i of the task in block @i_block of group @i_group. @n_blocks is passed to
 * next_head(). */
static void one_head(const struct task *t, const struct sums *sums, uint32_t i, uint32_t i_block,
                     uint32_t n_blocks, uint32_t i_group)
{
    const struct sums mine = sums_of_head(t, sums, i);
    const struct attn_fns *fns = t->x->plan->attn;
    const struct state_place place = {i_group, t->p->i_layer};
    const enum codec *codec = kv_store_layer(t->x->store, place)->codec;
    struct attn_args args = {
        .codec = codec[KV_KEYS],
        .n_rows = t->n_q,
        .head_dim = t->hd,
        .block_tokens = t->bt,
        .range = t->range,
        .q = t->q + (size_t)i * t->n_q * t->hd,
        .kv = head_of(t, KV_KEYS, i, i_block, i_group),
        .s = t->s,
        .o = mine.o,
    };

    if (t->late && i_block == t->tile->pos / t->bt)
        exec_store_late(t->x, place, t->i_head + i, t->tile->i_row);
    set_ahead(t, &args, KV_KEYS, i, i_block, n_blocks, i_group);
    fns->scores[codec[KV_KEYS]](&args);
    if (t->p->softcap > 0)
        cap_scores(t);
    if (t->x->batch->kept)
        keep_scores(t, i, i_block);
    softmax_rows(t, &mine);
    args.codec = codec[KV_VALUES];
    args.kv = head_of(t, KV_VALUES, i, i_block, i_group);
    set_ahead(t, &args, KV_VALUES, i, i_block, n_blocks, i_group);
    fns->values[codec[KV_VALUES]](&args);
}

/* Processes all heads of the task in a block of a group, if a row sees tokens there. */
static void one_block(const struct task *t, const struct sums *sums, uint32_t i_block,
                      uint32_t n_blocks, uint32_t i_group)
{
    bool seen = false;

    for (uint32_t j = 0; j < t->n_q; j++) {
        t->range[j] =
            j % t->group == 0 ? visible_tokens(t, j / t->group, i_block, i_group) : t->range[j - 1];
        t->range[j].lo = MIN(t->range[j].lo, t->range[j].hi);
        seen |= t->range[j].lo < t->range[j].hi;
    }
    for (uint32_t j = 0; seen && j < t->n_heads; j++)
        one_head(t, sums, j, i_block, n_blocks, i_group);
}

/* Returns the group in which the task reads block @i_block first. */
static uint32_t group_of(const struct task *t, uint32_t i_block)
{
    return recent_group(t) > 0 && i_block == 0 ? t->x->store->layout.i_first : t->p->i_group;
}

static void one_stretch(const struct task *t, uint32_t i_stretch, struct sums *sums)
{
    uint32_t begin, end, all;

    visible_blocks(t, &begin, &all);
    begin = MAX(begin, i_stretch * ATTN_STRETCH_BLOCKS);
    end = MIN(all, (i_stretch + 1) * ATTN_STRETCH_BLOCKS);
    sums_clear(t, sums);
    for (uint32_t i = begin; i < end; i++) {
        const uint32_t recent = recent_group(t);

        one_block(t, sums, i, all, group_of(t, i));
        if (recent > 0 && i > 0)
            one_block(t, sums, i, all, recent);
    }
}

/* Merges @next, the sums of a later stretch, into @total. */
static void sums_merge(const struct task *t, struct sums *total, const struct sums *next)
{
    const struct attn_fns *fns = t->x->plan->attn;

    for (uint32_t i = 0; i < t->n_all; i++) {
        float max, a, b;

        if (next->max[i] == -INFINITY && next->sum[(size_t)i * ATTN_LANES] == 0)
            continue; /* the row sees no token of the later stretch */
        max = fmaxf(total->max[i], next->max[i]);
        a = total->max[i] == max ? 1 : expf(total->max[i] - max);
        b = next->max[i] == max ? 1 : expf(next->max[i] - max);
        fns->merge(total->o + (size_t)i * t->hd, next->o + (size_t)i * t->hd, a, b, t->hd);
        fns->merge(total->sum + (size_t)i * ATTN_LANES, next->sum + (size_t)i * ATTN_LANES, a, b,
                   ATTN_LANES);
        total->max[i] = max;
    }
}

/* Adds the sink of query row @i, whose sum is @sum, to the softmax. Returns the factor that the
 * result of the row then needs. The sink is added after all stretches, so that its place in the
 * order of additions does not depend on them. */
static float sink_factor(const struct task *t, uint32_t i, float max, float sum)
{
    const float sink = t->sinks[(t->i_head + i / t->n_q) * t->group + i % t->n_q % t->group];
    const float most = fmaxf(max, sink);
    const float old = max == most ? 1 : expf(max - most);

    return old / (sum * old + (sink == most ? 1 : expf(sink - most)));
}

static void write_result(const struct task *t, const struct sums *sums, graph_ref dst)
{
    for (uint32_t i = 0; i < t->n_all; i++) {
        float sum[ATTN_LANES], factor;

        memcpy(sum, sums->sum + (size_t)i * ATTN_LANES, sizeof(sum));
        for (uint32_t n = ATTN_LANES / 2; n > 0; n /= 2)
            for (uint32_t j = 0; j < n; j++)
                sum[j] += sum[j + n];
        factor = t->sinks ? sink_factor(t, i, sums->max[i], sum[0]) : 1.0f / sum[0];
        t->x->cpu->elem->scale(query_row(t, dst, i), sums->o + (size_t)i * t->hd, factor, t->hd);
        attn_turn_back(t->x->plan->attn, task_layer(t)->turned[KV_VALUES], query_row(t, dst, i),
                       t->hd);
    }
}

static void task_stretches(const struct task *t, uint32_t *ret_begin, uint32_t *ret_end)
{
    uint32_t begin, end;

    visible_blocks(t, &begin, &end);
    *ret_begin = begin / ATTN_STRETCH_BLOCKS;
    *ret_end = DIV_UP(end, ATTN_STRETCH_BLOCKS);
}

/* Computes all stretches of a task on one thread. */
static void whole_task(const struct task *t, unsigned i_thread, graph_ref dst)
{
    unsigned char *mine = exec_memory(t->x, i_thread);
    const struct thread_layout *m = &t->x->plan->mem;
    float *stats = (float *)(mine + m->stats);
    struct sums total = sums_at(t, (float *)(mine + m->total), stats);
    struct sums next = sums_at(t, (float *)(mine + m->o), stats + (size_t)t->n_all * ATTN_STATS);
    uint32_t begin, end;

    task_stretches(t, &begin, &end);
    one_stretch(t, begin, &total);
    for (uint32_t i = begin + 1; i < end; i++) {
        one_stretch(t, i, &next);
        sums_merge(t, &total, &next);
    }
    write_result(t, &total, dst);
}

/* Returns the memory for the sums of stretch @i_part of a task. The task computes a group of
 * n_heads heads; @i_group is the number of this group, counted over all tiles. */
static struct sums part_sums(const struct task *t, uint32_t i_group, uint32_t i_part)
{
    const struct plan *plan = t->x->plan;
    const size_t size = t->n_heads * plan->part_floats;
    float *p = plan->parts + ((size_t)i_group * plan->max_stretches + i_part) * size;

    return sums_at(t, p, p + (size_t)t->n_all * t->hd);
}

/* Describes how the work of a step is split into tasks. */
struct cut {
    uint32_t n_heads; /* heads per task */
    uint32_t n_tasks;
    uint32_t n_parts; /* if threads share sequences: the number of stretches of the longest
                         sequence; else 1 */
};

/* Merges the stretches of head @i_head of tile @i_tile. */
static void merge_head(const struct exec *x, const struct stage *s, const struct cut *cut,
                       uint32_t i_tile, uint32_t i_head, unsigned i_thread)
{
    const uint32_t n_groups = s->attn.n_kv_heads / cut->n_heads, in_group = i_head % cut->n_heads;
    const uint32_t i_group = i_tile * n_groups + i_head / cut->n_heads;
    const struct attn_tile *tile = &x->plan->tiles[i_tile];
    uint32_t begin, end;
    struct task all, one;
    struct sums part, total;

    task_init(&all, x, s, tile, i_head - in_group, cut->n_heads, i_thread);
    task_init(&one, x, s, tile, i_head, 1, i_thread);
    task_stretches(&one, &begin, &end);
    part = part_sums(&all, i_group, 0);
    total = sums_of_head(&all, &part, in_group);
    for (uint32_t j = 1; begin + j < end; j++) {
        struct sums next;

        part = part_sums(&all, i_group, j);
        next = sums_of_head(&all, &part, in_group);
        sums_merge(&one, &total, &next);
    }
    write_result(&one, &total, s->dst);
}

/* Computes the attention of a few long sequences, which threads share: each stretch of a task is
 * one piece of work. */
static void shared_tasks(const struct exec *x, uint32_t i_stage, unsigned i_thread,
                         const struct cut *cut)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const uint32_t n_heads = s->attn.n_kv_heads, n_groups = n_heads / cut->n_heads;
    uint32_t i;

    while (exec_claim(x, i_stage, i_thread, cut->n_tasks * cut->n_parts, &i)) {
        const uint32_t i_task = i / cut->n_parts, i_part = i % cut->n_parts;
        uint32_t begin, end;
        struct sums sums;
        struct task t;

        task_init(&t, x, s, &x->plan->tiles[i_task / n_groups], i_task % n_groups * cut->n_heads,
                  cut->n_heads, i_thread);
        task_stretches(&t, &begin, &end);
        if (begin + i_part >= end)
            continue;
        task_query(&t, s->src[0]);
        sums = part_sums(&t, i_task, i_part);
        one_stretch(&t, begin + i_part, &sums);
    }
    workers_barrier(x->cpu->workers);
    for (i = i_thread; i < x->n_tiles * n_heads; i += x->plan->n_threads)
        merge_head(x, s, cut, i / n_heads, i % n_heads, i_thread);
}

/* Returns the number of stretches of the longest sequence if threads should share sequences, else
 * 1. */
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

        task_stretches(&t, &begin, &end);
        most = MAX(most, end - begin);
    }
    assert(most <= plan->max_stretches);
    return most;
}

/* Splits the work into tasks. A task gets as many heads as possible while enough pieces of work for
 * all threads remain or, with only one tile, while all threads get equally many tasks. */
static struct cut cut_work(const struct exec *x, const struct attn_params *p)
{
    const uint32_t n_threads = x->plan->n_threads;
    struct cut cut = {.n_heads = 1, .n_parts = shared_parts(x, p)};

    for (uint32_t n = 2; x->one_row_each && n <= MIN(p->n_kv_heads, x->plan->tile_rows); n++) {
        const uint32_t n_groups = p->n_kv_heads / n;
        const uint64_t n_pieces = (uint64_t)x->n_tiles * n_groups * cut.n_parts;

        if (p->n_kv_heads % n == 0 && (n_pieces >= (uint64_t)PIECES_PER_THREAD * n_threads ||
                                       (x->n_tiles == 1 && n_groups % n_threads == 0)))
            cut.n_heads = n;
    }
    cut.n_tasks = x->n_tiles * (p->n_kv_heads / cut.n_heads);
    return cut;
}

/* Returns the tile of task @i. Tasks are claimed head by head, and within a head from the last tile
 * on, whose tasks take longest, because later rows of a prompt see more tokens. */
static const struct attn_tile *tile_of(const struct exec *x, uint32_t i)
{
    return &x->plan->tiles[x->n_tiles - 1 - i % x->n_tiles];
}

/* Sets t->after to the keys and values that task @i reads first, if it is a task of this thread. */
static void set_after(struct task *t, const struct cut *cut, uint32_t i, unsigned i_thread)
{
    struct task next = *t;
    uint32_t begin, end;

    exec_share(t->x, i_thread, cut->n_tasks, &begin, &end);
    if (i >= end)
        return;
    next.tile = tile_of(t->x, i);
    next.i_head = i / t->x->n_tiles * cut->n_heads;
    visible_blocks(&next, &begin, &end);
    for (enum kv_part part = KV_KEYS; begin < end && part <= KV_VALUES; part++)
        t->after[part] = head_of(&next, part, 0, begin, group_of(&next, begin));
}

void exec_attention(const struct exec *x, uint32_t i_stage, unsigned i_thread)
{
    const struct stage *s = &x->plan->stages[i_stage];
    const struct cut cut = cut_work(x, &s->attn);
    uint32_t i;

    assert(s->attn.i_layer < x->store->layout.groups[s->attn.i_group].n_layers);
    assert(s->attn.head_dim == x->store->layout.groups[s->attn.i_group].head_dim);
    assert(s->attn.n_kv_heads == x->store->layout.groups[s->attn.i_group].n_kv_heads);

    if (cut.n_parts > 1) {
        shared_tasks(x, i_stage, i_thread, &cut);
        return;
    }
    while (exec_claim(x, i_stage, i_thread, cut.n_tasks, &i)) {
        const struct attn_tile *tile = tile_of(x, i);
        struct task t;

        if (s->wanted_only && !tile->wanted)
            continue;
        task_init(&t, x, s, tile, i / x->n_tiles * cut.n_heads, cut.n_heads, i_thread);
        set_after(&t, &cut, i + 1, i_thread);
        task_query(&t, s->src[0]);
        whole_task(&t, i_thread, s->dst);
    }
}
