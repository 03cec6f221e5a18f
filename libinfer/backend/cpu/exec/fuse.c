/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuses graph nodes into stages.
 *
 * A stage is the work that threads do between two barriers. Nodes are visited in order. Each node
 * becomes a stage or a part of a stage:
 * - A norm over the whole width, and a selection of rows before the norm, are done when the
 *   products that read the result prepare their input. Products with the same input share one
 *   stage.
 * - Operations on single columns or heads that follow a product are done on each piece of the
 *   product's result while the piece is in the cache: gate × up, norm of heads, rope, storing k and
 *   v, adding the residual.
 * A node joins a stage only if no other node reads the values in between. Stages use the same
 * kernels on the same rows as unfused nodes, so fusing never changes a bit of the results.
 */
#include "backend/cpu/exec/fuse.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "quant/dtype.h"

graph_ref fuser_only_user(const struct fuser *f, graph_ref ref, enum graph_op op)
{
    return f->cpu->fuse ? graph_only_user(&f->users, f->g, ref, op) : GRAPH_NONE;
}

const float *fuser_floats(struct fuser *f, const struct weight *w)
{
    float *v;

    if (w->dtype == INF_DTYPE_F32 && (uintptr_t)w->data % sizeof(float) == 0)
        return w->data;
    v = arena_alloc(&f->plan->arena, (size_t)w->cols * sizeof(float));
    if (v)
        dtype_info(w->dtype)->decode(w->data, v, w->cols);
    return v;
}

struct stage *fuser_stage(struct fuser *f, enum stage_kind kind)
{
    struct stage *s = &f->plan->stages[f->plan->n_stages++];

    *s = (struct stage){
        .kind = kind, .dst = GRAPH_NONE, .src = {GRAPH_NONE, GRAPH_NONE, GRAPH_NONE}, .i_rope = -1};
    return s;
}

void fuser_made(struct fuser *f, graph_ref ref)
{
    struct value *v = &f->plan->values[ref];

    v->made = true;
    v->first = v->last = f->plan->n_stages - 1;
}

const float *fuser_norm(struct fuser *f, const struct graph_node *n)
{
    const bool scaled = n->op == GRAPH_RMS_NORM && n->bias.data;
    const float *w = n->w.data ? fuser_floats(f, &n->w) : NULL;
    const float *factors = scaled ? fuser_floats(f, &n->bias) : NULL;
    float *all;

    if ((n->w.data && !w) || (scaled && !factors))
        return NULL;
    if (w && !factors)
        return w;
    all = arena_alloc(&f->plan->arena, (size_t)n->group * sizeof(float));
    for (uint32_t i = 0; all && i < n->group; i++)
        all[i] = (w ? w[i] : 1) * (factors ? factors[i] : 1);
    return all;
}

int fuser_rope(struct fuser *f, const struct rope_params *p)
{
    struct plan *plan = f->plan;
    const size_t size = p->n_dims / 2 * sizeof(float);
    float *freq;

    for (uint32_t i = 0; i < plan->n_ropes; i++) {
        const struct rope_params *q = &plan->ropes[i].params;

        if (q->style == p->style && q->n_dims == p->n_dims &&
            memcmp(&q->mscale, &p->mscale, sizeof(p->mscale)) == 0 &&
            memcmp(q->inv_freq, p->inv_freq, size) == 0)
            return (int)i;
    }
    freq = arena_alloc(&plan->arena, size);
    if (!freq)
        return -ENOMEM;
    memcpy(freq, p->inv_freq, size);
    plan->ropes[plan->n_ropes].params = *p;
    plan->ropes[plan->n_ropes].params.inv_freq = freq;
    return (int)plan->n_ropes++;
}

graph_ref fuser_source(const struct graph_node *n, enum kv_part part)
{
    return n->src[(n->op == GRAPH_STORE ? 0 : 1) + (part == KV_VALUES)];
}

enum kv_part fuser_part(const struct graph_node *n, graph_ref ref)
{
    return fuser_source(n, KV_KEYS) == ref     ? KV_KEYS
           : fuser_source(n, KV_VALUES) == ref ? KV_VALUES
                                               : KV_NONE;
}

/* Creates a stage that stores k or v, unless a product stores them. */
static void stage_store(struct fuser *f, const struct graph_node *n, enum kv_part part)
{
    const graph_ref src = fuser_source(n, part);
    struct stage *s;

    if (f->stored[src])
        return;
    s = fuser_stage(f, STAGE_NODE);
    s->op = GRAPH_ATTENTION;
    s->kv = part;
    s->src[0] = src;
    s->attn = n->attn;
}

static int stage_attention(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = fuser_node(f, ref);
    struct stage *s;

    if (attn_has_keys(&n->attn)) {
        stage_store(f, n, KV_KEYS);
        stage_store(f, n, KV_VALUES);
    }
    s = fuser_stage(f, STAGE_ATTENTION);
    s->src[0] = n->src[0];
    fuser_made(f, s->dst = ref);
    s->attn = n->attn;
    f->plan->max_head_dim = MAX(f->plan->max_head_dim, n->attn.head_dim);
    f->plan->max_group = MAX(f->plan->max_group, n->attn.n_heads / n->attn.n_kv_heads);
    f->done[ref] = true;
    if (n->attn.sinks.data) {
        s->sinks = fuser_floats(f, &n->attn.sinks);
        if (!s->sinks)
            return -ENOMEM;
    }
    return 0;
}

static int stage_plain(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = fuser_node(f, ref);
    struct stage *s = fuser_stage(f, n->op == GRAPH_EMBED ? STAGE_EMBED : STAGE_NODE);

    s->op = n->op;
    fuser_made(f, s->dst = ref);
    memcpy(s->src, n->src, sizeof(s->src));
    s->rows_kept = n->rows_kept;
    s->width = n->width;
    s->group = n->group;
    s->act = n->act;
    s->key = n->key;
    s->cols = n->cols;
    s->blend = n->blend;
    s->order = n->op == GRAPH_SPREAD ? n->spread.places : NULL;
    s->turn = n->turn;
    s->f = n->f;
    s->table = n->w;
    if (n->op == GRAPH_RMS_NORM || n->op == GRAPH_LAYER_NORM) {
        s->norm_w = fuser_norm(f, n);
        if (!s->norm_w)
            return -ENOMEM;
    }
    if (n->op == GRAPH_LAYER_NORM && n->bias.data) {
        s->bias = fuser_floats(f, &n->bias);
        if (!s->bias)
            return -ENOMEM;
    }
    if ((n->op == GRAPH_SCALE || n->op == GRAPH_BLEND) && n->w.data) {
        s->factors = fuser_floats(f, &n->w);
        if (!s->factors)
            return -ENOMEM;
    }
    if (n->op == GRAPH_ROPE) {
        s->i_rope = fuser_rope(f, &n->rope);
        if (s->i_rope < 0)
            return s->i_rope;
    }
    f->done[ref] = true;
    return 0;
}

/* Returns whether every reader of @ref is a product, so that the stage of these products can do the
 * work of @ref. */
static bool products_can_prepare(const struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = fuser_node(f, ref);
    bool any = false;

    if (!f->cpu->fuse)
        return false;
    if (n->op == GRAPH_RMS_NORM && n->group != n->width)
        return false;
    for (uint32_t i = (uint32_t)ref + 1; i < f->n; i++) {
        const struct graph_node *u = fuser_node(f, (graph_ref)i);
        const bool reads = u->src[0] == ref || u->src[1] == ref || u->src[2] == ref;

        if (!reads)
            continue;
        /* @ref may also be a selection of rows whose only reader is a norm, if products can do the
         * work of this norm. */
        if (u->op != GRAPH_MATMUL &&
            !(n->op == GRAPH_ROWS && u->op == GRAPH_RMS_NORM && f->users.n[ref] == 1 &&
              products_can_prepare(f, (graph_ref)i)))
            return false;
        any = true;
    }
    return any;
}

static int fuse_node(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = fuser_node(f, ref);

    if (f->done[ref])
        return 0;
    switch (n->op) {
    case GRAPH_INPUT:
        f->plan->has_input = true;
        f->plan->values[ref].made = f->plan->values[ref].is_input = true;
        f->plan->values[ref].ld = n->width;
        return 0;
    case GRAPH_RMS_NORM:
    case GRAPH_ROWS:
        if (products_can_prepare(f, ref)) {
            f->late[ref] = f->done[ref] = true;
            return 0;
        }
        return stage_plain(f, ref);
    case GRAPH_MATMUL:
        return fuse_products(f, ref);
    case GRAPH_ATTENTION:
        return stage_attention(f, ref);
    case GRAPH_ROUTE:
        return fuse_route(f, ref);
    case GRAPH_CONV:
        return fuse_conv(f, ref);
    case GRAPH_DELTA:
        return fuse_delta(f, ref);
    case GRAPH_STORE:
        stage_store(f, n, KV_KEYS);
        stage_store(f, n, KV_VALUES);
        f->plan->max_head_dim = MAX(f->plan->max_head_dim, n->attn.head_dim);
        f->done[ref] = true;
        return 0;
    case GRAPH_EXPORT: {
        struct stage *s = fuser_stage(f, STAGE_NODE);

        s->op = n->op;
        s->src[0] = n->src[0];
        s->rows_kept = n->rows_kept;
        s->width = n->width;
        f->done[ref] = true;
        return 0;
    }
    case GRAPH_OUTPUT: {
        const struct graph_node *src = fuser_node(f, n->src[0]);

        /* Products, caps, selections of rows and GRAPH_SPREAD can write the output directly to the
         * caller's memory. */
        if (f->users.n[n->src[0]] == 1 && !f->late[n->src[0]] &&
            (src->op == GRAPH_MATMUL || src->op == GRAPH_CAP || src->op == GRAPH_ROWS ||
             src->op == GRAPH_SPREAD)) {
            f->plan->values[n->src[0]].is_output = true;
            f->plan->values[n->src[0]].ld = n->width;
            return 0;
        }
        f->plan->values[ref].is_output = true;
        f->plan->values[ref].ld = n->width;
        return stage_plain(f, ref);
    }
    default:
        return stage_plain(f, ref);
    }
}

int fuse_graph(struct plan *plan, const struct graph *g, const struct cpu_backend *cpu,
               struct inf_err *reterr)
{
    const size_t n = graph_n_nodes(g);
    _cleanup_free_ bool *done = NEW(bool, n), *late = NEW(bool, n), *stored = NEW(bool, n);
    struct fuser f = {.plan = plan,
                      .g = g,
                      .cpu = cpu,
                      .reterr = reterr,
                      .n = (uint32_t)n,
                      .done = done,
                      .late = late,
                      .stored = stored};
    int r = 0;

    /* An attention node may need two additional stages, to store k and v. */
    plan->stages = arena_zalloc(&plan->arena, 3 * n * sizeof(struct stage));
    plan->values = arena_zalloc(&plan->arena, n * sizeof(struct value));
    plan->ropes = arena_zalloc(&plan->arena, n * sizeof(struct rope_table));
    if (!done || !late || !stored || !plan->stages || !plan->values || !plan->ropes)
        return -ENOMEM;
    r = graph_users_init(&f.users, g);

    plan->n_values = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const struct graph_node *node = graph_node(g, (graph_ref)i);

        plan->values[i].width = node->width;
        /* Rows whose distance is a power of two would compete for the same cache sets. */
        plan->values[i].ld = ALIGN_UP(node->width, 16u) + (node->width % 256 == 0 ? 16 : 0);
        plan->values[i].rows_kept = node->rows_kept;
        plan->values[i].slots = MAX(node->slots, 1u);
        plan->max_width = MAX(plan->max_width, node->width);
    }
    for (size_t i = 0; r == 0 && i < n; i++)
        r = fuse_node(&f, (graph_ref)i);
    graph_users_done(&f.users);
    return r;
}
