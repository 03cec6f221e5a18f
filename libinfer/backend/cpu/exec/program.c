/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates the memory of programs.
 *
 * This file allocates all memory that a step needs, for the largest batch that the limits allow.
 * Values are in one scratch buffer. Two values may share memory in it if no stage needs both. Each
 * thread also has its own buffer. Small batches do not touch pages that only large batches need.
 */
#include "backend/cpu/exec/program.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/err.h"
#include "core/pages.h"
#include "graph/plan.h"

/* Returns zeroed pages, which use memory only once they are touched; NULL if memory is short. */
static unsigned char *pages_new(uint64_t size)
{
    /* Huge pages are not requested: every value has its own region, of which small batches touch
     * only the beginning, and large batches are no faster with huge pages. */
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static uint32_t rows_max(const struct plan *plan, bool rows_kept)
{
    return rows_kept ? plan->limits.max_logits : plan->limits.max_rows;
}

static void value_used(struct plan *plan, graph_ref ref, uint32_t i_stage)
{
    if (ref >= 0)
        plan->values[ref].last = MAX(plan->values[ref].last, i_stage);
}

/* Marks attention whose result is read only for rows with logits, as in the last layer. The other
 * rows of this layer need only their keys and values stored, so their attention is not
 * computed. */
static void mark_wanted_only(struct plan *plan, struct stage *attention)
{
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        const struct stage *s = &plan->stages[i];
        bool reads = false;

        for (unsigned j = 0; j < ARRAY_SIZE(s->src); j++)
            reads |= s->src[j] == attention->dst;
        for (uint32_t j = 0; j < s->n_products; j++)
            if (s->products[j].add == attention->dst)
                return;
        if (reads && !s->gather && !(s->kind == STAGE_NODE && s->op == GRAPH_ROWS))
            return;
    }
    attention->wanted_only = true;
}

/* Returns whether each row of stage @s reads and writes only data of its own row, and thread i
 * computes share i of the rows (exec_share()). */
static bool is_by_row(const struct stage *s)
{
    return s->kind == STAGE_NODE && s->op != GRAPH_ROWS && s->op != GRAPH_POOL &&
           s->op != GRAPH_TURN;
}

/* Marks stages after which threads need not wait for each other, because each thread goes on with
 * the rows that it has computed itself. */
static void mark_joined(struct plan *plan)
{
    for (uint32_t i = 0; i + 1 < plan->n_stages; i++) {
        struct stage *s = &plan->stages[i];

        s->joined = is_by_row(s) && is_by_row(s + 1) && s->rows_kept == s[1].rows_kept;
    }
}

/* Extends the lifetime of a value to all stages that are joined with its first and its last stage,
 * because threads can be at different ones of these stages at the same time. */
static void extend_lifetime(const struct plan *plan, struct value *v)
{
    while (v->first > 0 && plan->stages[v->first - 1].joined)
        v->first--;
    while (plan->stages[v->last].joined)
        v->last++;
}

/* Returns whether stage @s has products that compute keys; sets *ret_keys to one of them, and
 * *ret_n to their number. */
static bool has_keys(const struct stage *s, struct product **ret_keys, uint32_t *ret_n)
{
    *ret_n = 0;
    for (uint32_t i = 0; i < s->n_products; i++) {
        if (s->products[i].kv != KV_KEYS)
            continue;
        *ret_keys = &s->products[i];
        *ret_n += 1;
    }
    return *ret_n > 0;
}

/* Marks products whose keys may be stored by the next attention. There must be no further keys
 * between the product and this attention, because plan->late_keys holds the keys of one layer. */
static void mark_late(struct plan *plan)
{
    struct product *keys = NULL;
    uint32_t n = 0, n_here;

    for (uint32_t i = 0; i < plan->n_stages; i++) {
        struct stage *s = &plan->stages[i];
        struct product *here;

        if (has_keys(s, &here, &n_here)) {
            n = n_here;
            keys = here;
        }
        if (s->kind != STAGE_ATTENTION || n == 0)
            continue;
        s->late = n == 1 && !s->attn.memory && !s->attn.past && keys->head_dim > 0 &&
                  keys->place.i_group == s->attn.i_group && keys->place.i_layer == s->attn.i_layer;
        keys->late = s->late;
        plan->late_width = MAX(plan->late_width, s->late ? keys->width : 0);
        n = 0;
    }
}

static void find_lifetimes(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        const struct stage *s = &plan->stages[i];

        for (unsigned j = 0; j < ARRAY_SIZE(s->src); j++)
            value_used(plan, s->src[j], i);
        for (uint32_t j = 0; j < s->n_products; j++)
            value_used(plan, s->products[j].add, i);
    }
}

/* Places values and prepared rows in the scratch buffer, according to the stages that need them. */
static int place_values(struct plan *plan)
{
    const size_t max = plan->n_values + (size_t)plan->n_stages * MATMUL_ACT_N;
    _cleanup_free_ struct plan_span *spans = NEW(struct plan_span, max);
    _cleanup_free_ uint64_t **offsets = NEW(uint64_t *, max);
    size_t n = 0;
    int r;

    if (!spans || !offsets)
        return -ENOMEM;

    find_lifetimes(plan);
    for (uint32_t i = 0; i < plan->n_values; i++) {
        struct value *v = &plan->values[i];

        if (!v->made || v->is_output || v->is_input)
            continue;
        extend_lifetime(plan, v);
        spans[n] = (struct plan_span){.first = v->first, .last = v->last};
        spans[n].size = (uint64_t)rows_max(plan, v->rows_kept) * v->slots * v->ld * sizeof(float) +
                        v->sorted_bytes;
        offsets[n++] = &v->offset;
    }
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        struct stage *s = &plan->stages[i];

        for (int k = 0; k < MATMUL_ACT_N; k++) {
            if (!s->acts[k])
                continue;
            spans[n] = (struct plan_span){.first = i, .last = i};
            spans[n].size = (uint64_t)rows_max(plan, s->rows_kept) * s->act_bytes[k];
            if (s->kind == STAGE_EXPERTS)
                spans[n].size *= plan->values[s->src[1]].slots;
            offsets[n++] = &s->act_offset[k];
        }
    }

    r = plan_place(spans, n, &plan->scratch_size);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        *offsets[i] = spans[i].offset;
    return 0;
}

/* Returns the offset of the next @size bytes, and moves *@at to the end of these bytes. */
static uint64_t place_part(uint64_t *at, uint64_t size)
{
    const uint64_t offset = *at;

    *at = ALIGN_UP(offset + size, 64u);
    return offset;
}

/* Finds how many floats a recurrent layer keeps of a drafted row (exec-recurrent.c). */
static void measure_drafted(struct plan *plan)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < plan->n_stages; i++) {
        const struct stage *s = &plan->stages[i];
        const struct delta_params *p = &s->delta;

        if (s->kind == STAGE_CONV)
            plan->max_conv_width = MAX(plan->max_conv_width, s->width);
        if (s->kind == STAGE_DELTA)
            most = MAX(most, 2 * p->n_k_heads * p->k_dim + p->n_v_heads * (p->v_dim + 2));
    }
    plan->drafted_floats = plan->max_conv_width + most;
}

static struct thread_layout program_thread_layout(const struct plan *plan)
{
    const uint64_t f = sizeof(float), rows = MAX(plan->limits.max_rows, plan->limits.max_logits);
    const uint64_t n_q = (uint64_t)plan->tile_rows * plan->max_group, hd = plan->max_head_dim;
    struct thread_layout m;
    uint64_t at = 0;

    m.row = place_part(&at, 2 * plan->max_width * f);
    m.tile[0] = place_part(&at, rows * plan->max_chunk * f);
    m.tile[1] = place_part(&at, rows * plan->max_chunk * f);
    m.act = place_part(&at, plan->act_private_size);
    m.bias = place_part(&at, plan->max_chunk * f);
    m.work = place_part(&at, plan->max_work);
    m.route = place_part(&at, plan->max_width * (2 * f + sizeof(bool)));
    m.taps = place_part(&at, plan->max_taps * sizeof(float *));
    m.delta = place_part(&at, DELTA_ROWS * (2 * (uint64_t)plan->max_k_dim + DELTA_GATES) * f);
    m.delta_copy = place_part(&at, ((uint64_t)plan->max_k_dim + 1) * DELTA_LANES * f);
    m.half = place_part(&at, hd * f + 64);
    m.q = place_part(&at, n_q * hd * f);
    m.o = place_part(&at, n_q * hd * f);
    m.total = place_part(&at, n_q * hd * f);
    m.s = place_part(&at, n_q * KV_BLOCK_MAX * f);
    m.stats = place_part(&at, 2 * n_q * ATTN_STATS * f);
    m.range = place_part(&at, n_q * sizeof(struct attn_range));
    m.size = ALIGN_UP(at, (uint64_t)pages_size());
    return m;
}

/* Reserves a place in each thread's buffer for the few rows that the thread prepares for itself.
 * All stages use the same place. */
static void place_private(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        struct stage *s = &plan->stages[i];
        const uint64_t n_rows =
            PRIVATE_ROWS * (s->kind == STAGE_EXPERTS ? plan->values[s->src[0]].slots : 1);
        uint64_t at = 0;

        for (int k = 0; k < MATMUL_ACT_N; k++)
            if (s->acts[k])
                s->act_private[k] = place_part(&at, n_rows * s->act_bytes[k]);
        plan->act_private_size = MAX(plan->act_private_size, at);
    }
}

static int alloc_step(struct plan *plan)
{
    const uint32_t max_rows = plan->limits.max_rows;
    uint32_t *rows = arena_alloc(&plan->arena, 3 * (size_t)max_rows * sizeof(uint32_t));

    plan->claims = aligned_alloc(64, 3 * plan->n_threads * sizeof(*plan->claims));
    plan->aheads = aligned_alloc(64, plan->n_threads * sizeof(*plan->aheads));
    plan->max_tiles = max_rows / plan->tile_rows + plan->limits.max_seqs;
    plan->tiles = arena_alloc(&plan->arena, plan->max_tiles * sizeof(struct attn_tile));
    plan->late_keys =
        arena_alloc(&plan->arena, (size_t)plan->limits.max_seqs * MAX(plan->late_width, 1u) *
                                      sizeof(*plan->late_keys));
    if (!rows || !plan->claims || !plan->aheads || !plan->tiles || !plan->late_keys)
        return -ENOMEM;
    /* Before the first stage runs, no weights have been chosen to be prefetched. */
    memset(plan->aheads, 0, plan->n_threads * sizeof(*plan->aheads));
    plan->row_pos = rows;
    plan->row_offset = rows + max_rows;
    plan->row_seq = rows + 2 * (size_t)max_rows;
    for (uint32_t i = 0; i < plan->n_ropes; i++) {
        struct rope_table *t = &plan->ropes[i];

        t->data =
            arena_alloc(&plan->arena, (size_t)max_rows * 2 * t->params.n_dims * sizeof(float));
        if (!t->data)
            return -ENOMEM;
    }
    return 0;
}

/* Allocates memory for the results of stretches (see exec-attn.c). The memory is used when a step
 * has so few tasks of attention that threads share them. */
static int alloc_parts(struct plan *plan)
{
    const uint64_t stretch = ATTN_STRETCH_BLOCKS * (uint64_t)KV_BLOCK_MIN;
    uint64_t bytes;

    plan->max_stretches = (uint32_t)DIV_UP((uint64_t)plan->limits.max_ctx, stretch) + 1;
    plan->part_floats = (size_t)plan->max_group * (plan->max_head_dim + ATTN_STATS);
    if (plan->n_threads == 1 || plan->part_floats == 0)
        return 0;
    bytes = (uint64_t)plan->n_threads * SHARED_TASKS * plan->max_stretches * plan->part_floats *
            sizeof(float);
    plan->parts_size = bytes;
    plan->parts = (float *)pages_new(bytes);
    return plan->parts ? 0 : -ENOMEM;
}

/* Returns how many rows (tokens) a task of attention has. Kernels prepare keys and values once for
 * all rows of a task, so tasks with many rows are efficient. But each thread should get several
 * tasks of a full batch. */
static uint32_t tile_rows(const struct plan *plan)
{
    uint32_t n_heads = UINT32_MAX, n_q = MAX(plan->attn->task_rows, ATTN_TILE_ROWS);

    for (uint32_t i = 0; i < plan->n_stages; i++)
        if (plan->stages[i].kind == STAGE_ATTENTION)
            n_heads = MIN(n_heads, plan->stages[i].attn.n_kv_heads);
    while (n_q > ATTN_TILE_ROWS &&
           (uint64_t)plan->limits.max_rows * plan->max_group / n_q * n_heads <
               (uint64_t)EVEN_PIECES * plan->n_threads)
        n_q /= 2;
    return MAX(1u, n_q / plan->max_group);
}

int program_compile(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                    struct kv_store *store UNUSED, struct plan **ret_plan, struct inf_err *reterr)
{
    const struct cpu_backend *cpu = CONTAINER_OF(b, struct cpu_backend, backend);
    const unsigned flags = limits->many_rows ? cpu->flags_many : cpu->flags;
    struct plan *plan;
    int r;

    assert(limits->max_rows > 0 && limits->max_seqs > 0);

    r = graph_error(g, reterr);
    if (r < 0)
        return r;
    plan = NEW(struct plan, 1);
    if (!plan)
        return err_set(reterr, ENOMEM, "out of memory");
    plan->limits = *limits;
    plan->matmul = matmul_ops_get(flags);
    plan->attn = attn_pick(cpu->flags_many);
    plan->recur = recur_pick(flags);
    plan->n_threads = workers_count(cpu->workers);
    plan->max_group = plan->max_head_dim = 1;
    plan->max_chunk = PRODUCT_COLUMNS;

    r = fuse_graph(plan, g, cpu, reterr);
    if (r == -EOPNOTSUPP)
        goto fail;
    for (uint32_t i = 0; r == 0 && i < plan->n_stages; i++)
        if (plan->stages[i].kind == STAGE_ATTENTION)
            mark_wanted_only(plan, &plan->stages[i]);
    if (r == 0 && cpu->fuse)
        mark_joined(plan);
    if (r == 0)
        mark_late(plan);
    if (r == 0)
        r = place_values(plan);
    if (r == 0) {
        place_private(plan);
        plan->tile_rows = tile_rows(plan);
        measure_drafted(plan);
        plan->mem = program_thread_layout(plan);
        r = alloc_step(plan);
    }
    if (r == 0)
        r = alloc_parts(plan);
    if (r == 0) {
        plan->scratch_size = MAX(plan->scratch_size, 64u);
        plan->scratch = pages_new(plan->scratch_size);
        plan->threads = pages_new(plan->mem.size * plan->n_threads);
        r = plan->scratch && plan->threads ? 0 : -ENOMEM;
    }
    if (r < 0) {
        err_set(reterr, -r, "no memory for the plan of %u rows", limits->max_rows);
        goto fail;
    }
    *ret_plan = plan;
    return 0;

fail:
    program_free(b, plan);
    return r;
}

void program_rest(struct backend *b UNUSED, struct plan *plan)
{
    pages_drop(plan->scratch, plan->scratch_size);
    pages_drop(plan->threads, plan->mem.size * plan->n_threads);
    if (plan->parts)
        pages_drop(plan->parts, plan->parts_size);
}

void program_free(struct backend *b UNUSED, struct plan *plan)
{
    if (!plan)
        return;
    if (plan->scratch)
        munmap(plan->scratch, plan->scratch_size);
    if (plan->threads)
        munmap(plan->threads, plan->mem.size * plan->n_threads);
    if (plan->parts)
        munmap(plan->parts, plan->parts_size);
    free(plan->claims);
    free(plan->aheads);
    arena_done(&plan->arena);
    free(plan);
}
