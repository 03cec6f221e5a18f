/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles graph nodes into stages. A stage is a set of dispatches that run in any order.
 *
 * Nodes are visited in order. A norm over the whole width includes the selection of rows before it.
 * Products with the same input run side by side. A product includes the residual sum that follows
 * it. Two products and the gated unit that follows them become one kernel. The norm, the rotation
 * and the storing of heads that follow a product become one kernel. A node joins a stage only if no
 * other node reads the values in between.
 */
#include <errno.h>
#include <string.h>

#include "backend/vulkan/dispatch.h"
#include "core/err.h"
#include "graph/plan.h"
#include "quant/dtype.h"

/* plan_place() counts in units of this many bytes. It places values at multiples of 64 units, which
 * are 256 bytes. Vulkan does not allow devices to require a larger alignment of bindings. */
#define UNIT 4u

struct compiler {
    struct emit e;
    struct graph_users users;
    bool *done; /* [n]: the node is compiled, or a later stage will include it */
};

static const struct graph_node *node_at(const struct compiler *c, graph_ref ref)
{
    return graph_node(c->e.g, ref);
}

static graph_ref only_user(const struct compiler *c, graph_ref ref, enum graph_op op)
{
    return graph_only_user(&c->users, c->e.g, ref, op);
}

/* Notes that the current stage writes @ref. */
static void stage_makes(struct compiler *c, graph_ref ref)
{
    struct vkb_value *v = &c->e.plan->values[ref];

    v->made = true;
    v->first = v->last = c->e.plan->n_stages;
}

static void stage_reads(struct compiler *c, graph_ref ref)
{
    struct vkb_value *v = &c->e.plan->values[ref];

    assert(v->made);
    v->last = c->e.plan->n_stages;
}

static void stage_end(struct compiler *c)
{
    c->e.plan->n_stages++;
    c->e.joins = false;
}

/* Compiles one product with the nodes that follow it, except for the work on heads. */
static int compile_product(struct compiler *c, graph_ref ref)
{
    const struct graph_node *n = node_at(c, ref);
    graph_ref glu = only_user(c, ref, GRAPH_GLU), other = GRAPH_NONE, add, sum;
    struct emit_product p = {
        .w = &n->w, .bias = &n->bias, .src = n->src[0], .add = GRAPH_NONE, .route = n->src[1]};
    graph_ref dst = ref;

    c->done[ref] = true;
    if (glu >= 0)
        other = graph_glu_other(&c->users, c->e.g, glu, ref);
    if (other >= 0 && !c->done[other] && node_at(c, other)->src[1] == n->src[1] && !n->bias.data &&
        !node_at(c, other)->bias.data && emit_can_glu(&c->e, &n->w, &node_at(c, other)->w)) {
        p.w = &node_at(c, node_at(c, glu)->src[0])->w;
        p.w2 = &node_at(c, node_at(c, glu)->src[1])->w;
        p.act = node_at(c, glu)->act;
        c->done[other] = c->done[glu] = true;
        dst = glu;
    }
    sum = only_user(c, dst, GRAPH_ADD);
    if (sum >= 0 && n->slots == 0) {
        add = node_at(c, sum)->src[node_at(c, sum)->src[0] == dst];
        /* An earlier stage must have made @add, because dispatches of one stage run in any
         * order. */
        if (add != dst && c->e.plan->values[add].made &&
            c->e.plan->values[add].first < c->e.plan->n_stages) {
            p.add = add;
            c->done[sum] = true;
            dst = sum;
        }
    }
    stage_reads(c, p.src);
    if (p.route >= 0)
        stage_reads(c, p.route);
    if (p.add >= 0)
        stage_reads(c, p.add);
    stage_makes(c, dst);
    p.dst = dst;
    return emit_matmul(&c->e, &p);
}

/* Returns whether an earlier stage has made the route of a product, or the product needs none. */
static bool has_route(const struct compiler *c, graph_ref ref)
{
    const graph_ref route = node_at(c, ref)->src[1];

    return route < 0 ||
           (c->e.plan->values[route].made && c->e.plan->values[route].first < c->e.plan->n_stages);
}

/* Compiles all products with the same input as @ref. */
static int compile_products(struct compiler *c, graph_ref ref)
{
    const graph_ref src = node_at(c, ref)->src[0];
    const size_t n = graph_n_nodes(c->e.g);
    int r;

    for (size_t i = (size_t)ref; i < n; i++) {
        if (node_at(c, (graph_ref)i)->op != GRAPH_MATMUL ||
            node_at(c, (graph_ref)i)->src[0] != src || c->done[i] || !has_route(c, (graph_ref)i))
            continue;
        r = compile_product(c, (graph_ref)i);
        if (r < 0)
            return r;
        c->e.joins = true;
    }
    stage_end(c);
    return 0;
}

/* Finds the value from which attention's input @ref is computed, and the operations that remain to
 * be done between this value and @ref. */
static struct emit_part find_part(const struct compiler *c, graph_ref ref)
{
    struct emit_part part = {.src = ref, .norm = GRAPH_NONE, .rope = GRAPH_NONE};

    if (!c->e.plan->values[part.src].made && node_at(c, part.src)->op == GRAPH_ROPE) {
        part.rope = part.src;
        part.src = node_at(c, part.src)->src[0];
    }
    if (!c->e.plan->values[part.src].made && node_at(c, part.src)->op == GRAPH_RMS_NORM) {
        part.norm = part.src;
        part.src = node_at(c, part.src)->src[0];
    }
    return part;
}

static int compile_attention(struct compiler *c, graph_ref ref)
{
    const struct graph_node *n = node_at(c, ref);
    struct emit_heads h = {.attn = &n->attn, .dst = n->src[0]};
    int r;

    c->e.layer++;
    for (unsigned i = 0; i < 3; i++) {
        h.parts[i] = (struct emit_part){GRAPH_NONE, GRAPH_NONE, GRAPH_NONE};
        if (n->src[i] < 0)
            continue;
        h.parts[i] = find_part(c, n->src[i]);
        stage_reads(c, h.parts[i].src);
    }
    if (h.parts[0].src != h.dst)
        stage_makes(c, h.dst);
    if (h.parts[0].src != h.dst || !n->attn.shared) {
        r = emit_heads(&c->e, &h);
        stage_end(c);
        if (r < 0)
            return r;
    }
    stage_reads(c, n->src[0]);
    stage_makes(c, ref);
    r = emit_attention(&c->e, n, ref);
    stage_end(c);
    return r;
}

/* Returns whether products are the only readers of @ref. */
static bool only_products_read(const struct compiler *c, graph_ref ref)
{
    uint32_t n = 0;

    for (size_t i = (size_t)ref + 1; i < graph_n_nodes(c->e.g); i++)
        n +=
            node_at(c, (graph_ref)i)->op == GRAPH_MATMUL && node_at(c, (graph_ref)i)->src[0] == ref;
    return n > 0 && n == c->users.n[ref];
}

static int compile_norm(struct compiler *c, graph_ref ref)
{
    const struct graph_node *n = node_at(c, ref);
    graph_ref src = n->src[0];
    const bool gather = node_at(c, src)->op == GRAPH_ROWS && !c->e.plan->values[src].made;
    int r;

    if (gather)
        src = node_at(c, src)->src[0];
    stage_reads(c, src);
    stage_makes(c, ref);
    r = emit_norm(&c->e, n, src, ref, gather, only_products_read(c, ref));
    stage_end(c);
    return r;
}

static int compile_plain(struct compiler *c, graph_ref ref)
{
    const struct graph_node *n = node_at(c, ref);
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(n->src); i++)
        if (n->src[i] >= 0)
            stage_reads(c, n->src[i]);
    stage_makes(c, ref);
    r = emit_plain(&c->e, n, ref);
    stage_end(c);
    return r;
}

/* Returns whether the operation @ref, which works on heads, can be done where k and v are stored.
 * For that, attention must be the only reader of @ref. */
static bool attention_can_do(const struct compiler *c, graph_ref ref)
{
    const struct graph_node *n = node_at(c, ref);
    graph_ref user = only_user(c, ref, GRAPH_ATTENTION);

    if (n->op == GRAPH_RMS_NORM && !n->w.data)
        return false;
    if (n->op == GRAPH_RMS_NORM && user < 0) {
        const graph_ref rope = only_user(c, ref, GRAPH_ROPE);

        if (rope < 0 || node_at(c, rope)->group != n->group)
            return false;
        user = only_user(c, rope, GRAPH_ATTENTION);
    }
    return user >= 0 && n->group == node_at(c, user)->attn.head_dim &&
           node_at(c, user)->src[2] != ref;
}

static int compile_node(struct compiler *c, graph_ref ref)
{
    const struct graph_node *n = node_at(c, ref);

    if (c->done[ref])
        return 0;
    c->done[ref] = n->op != GRAPH_MATMUL; /* products mark the nodes they include */
    if (n->op == GRAPH_DELTA)
        c->e.layer++;
    switch (n->op) {
    case GRAPH_ROWS:
        /* A norm that is the only reader selects the rows itself. */
        if (only_user(c, ref, GRAPH_RMS_NORM) >= 0)
            return 0;
        return compile_plain(c, ref);
    case GRAPH_RMS_NORM:
        return attention_can_do(c, ref) ? 0 : compile_norm(c, ref);
    case GRAPH_MATMUL:
        return compile_products(c, ref);
    case GRAPH_ROPE:
        return attention_can_do(c, ref) ? 0 : compile_plain(c, ref);
    case GRAPH_ATTENTION:
        return compile_attention(c, ref);
    case GRAPH_INPUT:
        stage_makes(c, ref);
        c->e.plan->input = ref;
        stage_end(c);
        return 0;
    case GRAPH_OUTPUT:
        stage_reads(c, n->src[0]);
        c->e.plan->output = n->src[0];
        c->e.plan->output_width = n->width;
        return emit_tops(&c->e, n->src[0]);
    default:
        return compile_plain(c, ref);
    }
}

static int place_values(struct plan *plan)
{
    _cleanup_free_ struct plan_span *spans = NEW(struct plan_span, plan->n_values);
    _cleanup_free_ uint32_t *refs = NEW(uint32_t, plan->n_values);
    uint64_t units = 0;
    size_t n = 0;
    int r;

    if (!spans || !refs)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->n_values; i++) {
        const struct vkb_value *v = &plan->values[i];
        const uint64_t rows = v->rows_kept ? plan->limits.max_logits : plan->limits.max_rows;

        if (!v->made || (graph_ref)i == plan->input)
            continue;
        refs[n] = i;
        /* The output must persist until the next step, because its rows are read after the
         * step. */
        spans[n++] =
            (struct plan_span){.first = v->first,
                               .last = (graph_ref)i == plan->output ? plan->n_stages : v->last,
                               .size = DIV_UP(rows * v->width * sizeof(float), UNIT)};
    }
    r = plan_place(spans, n, &units);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        plan->values[refs[i]].offset = spans[i].offset * UNIT;
    plan->scratch_size = units * UNIT;
    return 0;
}

static void place_step(struct plan *plan)
{
    const struct plan_limits *l = &plan->limits;
    struct vkb_step_layout *s = &plan->step;

    const uint32_t n_groups = plan->store->layout.n_groups;

    s->max_blocks = l->max_seqs * DIV_UP(l->max_ctx, plan->store->layout.block_tokens);
    /* Some classes of steps have tiles of one row. */
    s->max_tiles = MAX(l->max_rows, VKB_FEW_ROWS);
    s->tokens = 16;
    s->row_pos = s->tokens + l->max_rows;
    s->row_seq = s->row_pos + l->max_rows;
    s->logit_rows = s->row_seq + l->max_rows;
    s->seq_first = s->logit_rows + l->max_logits;
    s->seq_rows = s->seq_first + l->max_seqs;
    s->tiles = s->seq_rows + 2 * l->max_seqs;
    s->blocks = s->tiles + n_groups * (1 + 4 * s->max_tiles);
    s->end = s->blocks + n_groups * s->max_blocks;
    plan->rope_offset = ALIGN_UP((uint64_t)s->end * sizeof(uint32_t), 256);
    for (uint32_t i = 0; i < plan->n_ropes; i++)
        plan->rope_size +=
            ALIGN_UP((uint64_t)l->max_rows * plan->ropes[i].n_dims * sizeof(float), 256);
}

static int collect_weights(struct plan *plan, const struct graph *g, uint64_t max_size)
{
    for (size_t i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *n = graph_node(g, (graph_ref)i);
        uint64_t bytes;

        if ((n->op != GRAPH_MATMUL && n->op != GRAPH_EMBED) || n->w.experts ||
            n->w.planes[WEIGHT_SCALES]) /* the weight has a gather */
            continue;
        if (!dtype_row_bytes(n->w.dtype, n->w.cols, &bytes))
            return -EINVAL;
        bytes *= n->w.rows;
        if (n->w.n_experts > 1)
            bytes += (n->w.n_experts - 1) * n->w.expert_bytes;
        if (vkb_weights_add(&plan->weights, n->w.data, bytes) < 0)
            return -ENOMEM;
    }
    vkb_weights_join(&plan->weights, max_size);
    return 0;
}

/* Returns the first feature of the node that Vulkan devices do not support, or NULL if there is
 * none. */
static const char *refused_part(const struct graph_node *n)
{
    if (n->op == GRAPH_LAYER_NORM || n->op == GRAPH_ACT || n->op == GRAPH_POOL)
        return "layers of encoders";
    if (n->op == GRAPH_EXPORT)
        return "hidden states for draft heads and layers that predict further tokens";
    if (n->op == GRAPH_EMBED && n->key != GRAPH_KEY_TOKEN)
        return "embeddings of positions or types";
    if (n->op == GRAPH_STORE || (n->op == GRAPH_ATTENTION && n->attn.memory))
        return "attention to a memory";
    if ((n->op == GRAPH_ATTENTION && n->attn.past) || n->op == GRAPH_SPREAD ||
        (n->op == GRAPH_RMS_NORM && n->bias.data))
        return "draft heads that read the keys and values of another model";
    if (n->op == GRAPH_ATTENTION && n->attn.both_ways)
        return "attention to both sides";
    return n->op == GRAPH_ROPE && n->slots > 0 ? "rotation of slots" : NULL;
}

int vkb_check(struct backend *b UNUSED, const struct graph *g, struct inf_err *reterr)
{
    for (size_t i = 0; i < graph_n_nodes(g); i++) {
        const struct graph_node *n = graph_node(g, (graph_ref)i);
        const char *part = refused_part(n);

        if (part)
            return err_set(reterr, EOPNOTSUPP,
                           "Vulkan devices do not compute %s: use the device \"cpu\"", part);
    }
    return 0;
}

static int init_values(struct compiler *c)
{
    struct plan *plan = c->e.plan;

    plan->input = plan->output = GRAPH_NONE;
    plan->n_values = (uint32_t)graph_n_nodes(c->e.g);
    plan->values = arena_zalloc(&plan->arena, plan->n_values * sizeof(*plan->values));
    plan->ropes = arena_zalloc(&plan->arena, plan->n_values * sizeof(*plan->ropes));
    c->done = arena_zalloc(&plan->arena, plan->n_values);
    if (!plan->values || !plan->ropes || !c->done)
        return -ENOMEM;
    for (uint32_t i = 0; i < plan->n_values; i++) {
        const struct graph_node *n = node_at(c, (graph_ref)i);

        plan->values[i].slots = MAX(n->slots, 1u);
        plan->values[i].width = n->op == GRAPH_ROUTE ? 2 * n->slots : n->width * MAX(n->slots, 1u);
        plan->values[i].rows_kept = node_at(c, (graph_ref)i)->rows_kept;
    }
    return 0;
}

static int compile_graph(struct plan *plan, const struct graph *g, struct inf_err *reterr)
{
    struct compiler c = {
        .e = {.plan = plan, .g = g, .caps = &plan->vkb->info->caps, .reterr = reterr}};
    int r;

    r = graph_users_init(&c.users, g);
    if (r == 0)
        r = init_values(&c);
    if (r == 0)
        r = emit_begin(&c.e);
    for (size_t i = 0; r == 0 && i < graph_n_nodes(g); i++)
        r = compile_node(&c, (graph_ref)i);
    graph_users_done(&c.users);
    if (r == 0)
        r = place_values(plan);
    if (r == 0)
        r = collect_weights(plan, g, plan->vkb->info->caps.max_alloc);
    if (r < 0)
        return r;
    place_step(plan);
    return 0;
}

int vkb_compile(struct plan *plan, const struct graph *g, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *ordered = NULL;
    int r;

    r = vkb_check(&plan->vkb->base, g, reterr);
    if (r == 0)
        r = vkb_order(g, &plan->arena, &ordered, reterr);
    return r == 0 ? compile_graph(plan, ordered ? ordered : g, reterr) : r;
}

void vkb_plan_done(struct plan *plan)
{
    for (int i = 0; i < VKB_CLASS_N; i++)
        free(plan->lists[i].dispatches);
    free(plan->consts);
    free(plan->gathers);
    vkb_weights_done(&plan->weights);
    arena_done(&plan->arena);
}
