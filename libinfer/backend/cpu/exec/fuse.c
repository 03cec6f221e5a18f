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
#include "backend/cpu/exec/program.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "graph/users.h"
#include "quant/dtype.h"

struct fuser {
    struct plan *plan;
    const struct graph *g;
    const struct cpu_backend *cpu;
    struct inf_err *reterr;
    uint32_t n;
    struct graph_users users;
    bool *done;   /* [n]: the node needs no further stage of its own */
    bool *late;   /* [n]: a norm or selection of rows, done when products prepare their input */
    bool *stored; /* [n]: k or v that a product stores in the KV store */
};

static const struct graph_node *node_at(const struct fuser *f, graph_ref ref)
{
    return graph_node(f->g, ref);
}

/* Returns the only reader of @ref if its operation is @op, else GRAPH_NONE. */
static graph_ref only_user(const struct fuser *f, graph_ref ref, enum graph_op op)
{
    return f->cpu->fuse ? graph_only_user(&f->users, f->g, ref, op) : GRAPH_NONE;
}

/* Converts a small vector to floats, in memory of the plan. Returns NULL if memory is short. */
static const float *vector_floats(struct fuser *f, const struct weight *w)
{
    float *v;

    if (w->dtype == INF_DTYPE_F32 && (uintptr_t)w->data % sizeof(float) == 0)
        return w->data;
    v = arena_alloc(&f->plan->arena, (size_t)w->cols * sizeof(float));
    if (v)
        dtype_info(w->dtype)->decode(w->data, v, w->cols);
    return v;
}

static struct stage *stage_new(struct fuser *f, enum stage_kind kind)
{
    struct stage *s = &f->plan->stages[f->plan->n_stages++];

    *s = (struct stage){
        .kind = kind, .dst = GRAPH_NONE, .src = {GRAPH_NONE, GRAPH_NONE, GRAPH_NONE}, .i_rope = -1};
    return s;
}

/* Records that the newest stage computes @ref. */
static void value_made(struct fuser *f, graph_ref ref)
{
    struct value *v = &f->plan->values[ref];

    v->made = true;
    v->first = v->last = f->plan->n_stages - 1;
}

/* Returns the weight of the norm @n, which is all ones if the model has none. Returns NULL if
 * memory is short. */
static const float *norm_floats(struct fuser *f, const struct graph_node *n)
{
    float *ones;

    if (n->w.data)
        return vector_floats(f, &n->w);
    ones = arena_alloc(&f->plan->arena, (size_t)n->group * sizeof(float));
    for (uint32_t i = 0; ones && i < n->group; i++)
        ones[i] = 1;
    return ones;
}

/* Returns the index of the rope table for these parameters. Nodes with equal parameters share a
 * table. */
static int rope_find(struct fuser *f, const struct rope_params *p)
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

/* Sets the members of @m that only experts have. */
static int matrix_set_experts(struct fuser *f, const struct graph_node *n, struct matrix *m)
{
    if (m->packed || (n->bias.data && dtype_info(n->bias.dtype)->block_elems != 1))
        return err_set(f->reterr, EOPNOTSUPP,
                       "%s has experts in a format that the CPU cannot multiply",
                       n->w.name ? n->w.name : "a weight");
    m->experts = n->w.experts;
    m->expert_bytes = n->w.expert_bytes;
    m->expert_bias = n->bias;
    return 0;
}

static int matrix_set(struct fuser *f, const struct graph_node *n, struct matrix *m)
{
    *m = (struct matrix){.data = n->w.data, .dtype = n->w.dtype, .packed = n->w.packed};
    if (m->packed) {
        m->act = matmul_packed_kind(m->dtype);
        m->row_bytes = matmul_packed_bytes(m->dtype, n->w.cols);
    } else {
        m->act = matmul_act_kind(f->plan->matmul, m->dtype);
        if (!dtype_row_bytes(m->dtype, n->w.cols, &m->row_bytes))
            return -EINVAL;
    }
    if (m->act == MATMUL_ACT_Q8 && n->w.cols % 32 != 0)
        return err_set(f->reterr, EOPNOTSUPP, "%s has %u columns, not a multiple of 32",
                       n->w.name ? n->w.name : "a weight", n->w.cols);
    if (n->w.n_experts > 0)
        return matrix_set_experts(f, n, m);
    if (n->bias.data) {
        m->bias = vector_floats(f, &n->bias);
        if (!m->bias)
            return -ENOMEM;
    }
    return 0;
}

/* Returns the input of node @n that has the keys or the values. Keys and values are the last two
 * inputs of the nodes that store them. */
static graph_ref source_of(const struct graph_node *n, enum kv_part part)
{
    return n->src[(n->op == GRAPH_STORE ? 0 : 1) + (part == KV_VALUES)];
}

/* Returns which of the inputs of node @n the value @ref is: the keys, the values, or neither
 * (KV_NONE). */
static enum kv_part part_of(const struct graph_node *n, graph_ref ref)
{
    return source_of(n, KV_KEYS) == ref     ? KV_KEYS
           : source_of(n, KV_VALUES) == ref ? KV_VALUES
                                            : KV_NONE;
}

/* Fuses the norm and rope of heads that follow product @p into @p. *@cur is the node whose value @p
 * computes. Sets *@cur to the last fused node. */
static int fuse_heads(struct fuser *f, struct product *p, graph_ref *cur)
{
    graph_ref next = only_user(f, *cur, GRAPH_RMS_NORM);
    const struct graph_node *n;

    if (next >= 0 && node_at(f, next)->group < p->width &&
        node_at(f, next)->group <= FUSED_HEAD_MAX) {
        n = node_at(f, next);
        p->norm_w = norm_floats(f, n);
        if (!p->norm_w)
            return -ENOMEM;
        p->norm_eps = n->f;
        p->head_dim = n->group;
        f->done[next] = true;
        *cur = next;
    }

    next = only_user(f, *cur, GRAPH_ROPE);
    if (next >= 0 && node_at(f, next)->group <= FUSED_HEAD_MAX &&
        (p->head_dim == 0 || p->head_dim == node_at(f, next)->group)) {
        n = node_at(f, next);
        p->i_rope = rope_find(f, &n->rope);
        if (p->i_rope < 0)
            return -ENOMEM;
        p->head_dim = n->group;
        f->done[next] = true;
        *cur = next;
    }

    return 0;
}

/* Fuses the storing of k or v, which follows product @p, into @p. The value of @p is @cur. */
static void fuse_store(struct fuser *f, struct product *p, graph_ref cur)
{
    const graph_ref attention = only_user(f, cur, GRAPH_ATTENTION);
    const graph_ref user = attention >= 0 ? attention : only_user(f, cur, GRAPH_STORE);
    const struct graph_node *n;
    enum kv_part part;

    if (user < 0)
        return;
    n = node_at(f, user);
    part = part_of(n, cur);
    if (part == KV_NONE || n->attn.head_dim > FUSED_HEAD_MAX ||
        (p->head_dim != 0 && p->head_dim != n->attn.head_dim))
        return;
    p->head_dim = n->attn.head_dim;
    p->kv = part;
    p->place = attn_place(&n->attn);
    f->stored[cur] = true;
}

static int fuse_gate(struct fuser *f, struct product *p, graph_ref glu, graph_ref *cur)
{
    const struct graph_node *n = node_at(f, glu);
    const graph_ref other = graph_glu_other(&f->users, f->g, glu, *cur);
    int r;

    if (other < 0 || f->done[other] || node_at(f, other)->width != p->width ||
        node_at(f, other)->src[1] != node_at(f, *cur)->src[1])
        return 0;
    p->n_matrices = 2;
    p->act = n->act;
    r = matrix_set(f, node_at(f, n->src[0]), &p->m[0]);
    if (r == 0)
        r = matrix_set(f, node_at(f, n->src[1]), &p->m[1]);
    f->done[other] = f->done[glu] = true;
    *cur = glu;
    return r;
}

/* Returns whether a stage before the newest stage computes @ref. If the newest stage itself
 * computes @ref, its pieces must not read @ref, because they are computed in any order. */
static bool made_before(const struct fuser *f, graph_ref ref)
{
    const struct value *v = &f->plan->values[ref];

    return v->is_input || (v->made && v->first + 1 < f->plan->n_stages);
}

static void fuse_act(struct fuser *f, struct product *p, graph_ref *cur)
{
    const graph_ref act = only_user(f, *cur, GRAPH_ACT);

    if (act < 0 || p->kv != KV_NONE || p->head_dim != 0 || p->n_matrices != 1)
        return;
    p->has_act = true;
    p->act = node_at(f, act)->act;
    f->done[act] = true;
    *cur = act;
}

static void fuse_sum(struct fuser *f, struct product *p, graph_ref *cur)
{
    const graph_ref sum = only_user(f, *cur, GRAPH_ADD);
    graph_ref other;

    if (sum < 0 || p->kv != KV_NONE || p->head_dim != 0)
        return;
    other = node_at(f, sum)->src[node_at(f, sum)->src[0] == *cur];
    if (other == *cur || !made_before(f, other))
        return;
    p->add = other;
    f->done[sum] = true;
    *cur = sum;
}

/* Returns the number of columns of a piece. It is smaller for narrow matrices, because a few large
 * pieces could not be divided evenly among threads. */
static uint32_t piece_columns(const struct fuser *f, uint32_t width)
{
    const uint32_t n_threads = f->plan->n_threads;
    uint32_t n = PRODUCT_COLUMNS;

    while (n > MATMUL_N_STEP && width / n < EVEN_PIECES * n_threads &&
           DIV_UP(width, n) % n_threads != 0)
        n /= 2;
    return n;
}

/* Adds the product of node @ref to stage @s, and fuses the nodes that follow it. */
static int product_add(struct fuser *f, struct stage *s, graph_ref ref)
{
    struct product *p = &s->products[s->n_products++];
    const graph_ref glu = only_user(f, ref, GRAPH_GLU);
    const uint32_t n_slots = node_at(f, ref)->slots; /* 0 unless the product has experts */
    struct plan *plan = f->plan;
    graph_ref cur = ref;
    int r;

    *p = (struct product){.n_matrices = 1,
                          .width = node_at(f, ref)->width,
                          .i_rope = -1,
                          .add = GRAPH_NONE,
                          .dst = GRAPH_NONE};
    f->done[ref] = true;
    r = matrix_set(f, node_at(f, ref), &p->m[0]);
    if (r == 0 && glu >= 0)
        r = fuse_gate(f, p, glu, &cur);
    else if (r == 0 && n_slots == 0)
        r = fuse_heads(f, p, &cur);
    if (r < 0)
        return r;
    if (glu < 0 && n_slots == 0)
        fuse_store(f, p, cur);
    fuse_act(f, p, &cur);
    if (n_slots == 0)
        fuse_sum(f, p, &cur);
    if (p->kv == KV_NONE)
        value_made(f, p->dst = cur);

    p->chunk = piece_columns(f, p->width * MAX(n_slots, 1u));
    if (p->head_dim > 0)
        p->chunk = p->head_dim * MAX(1u, p->chunk / p->head_dim);
    while (p->m[0].packed && p->chunk % MATMUL_N_STEP != 0)
        p->chunk += p->head_dim;
    p->n_chunks = DIV_UP(p->width, p->chunk);
    plan->max_chunk = MAX(plan->max_chunk, p->chunk);
    plan->max_head_dim = MAX(plan->max_head_dim, p->head_dim);
    s->n_chunks += p->n_chunks;
    for (uint32_t i = 0; i < p->n_matrices; i++) {
        s->acts[p->m[i].act] = true;
        s->packed &= p->m[i].packed;
    }
    return 0;
}

/* Creates the stage of all products with the same input and the same route as @ref. */
static int stage_products(struct fuser *f, graph_ref ref)
{
    const graph_ref src = node_at(f, ref)->src[0], route = node_at(f, ref)->src[1];
    struct stage *s = stage_new(f, route >= 0 ? STAGE_EXPERTS : STAGE_PRODUCT);
    graph_ref in = src;
    int r = 0;

    s->K = node_at(f, ref)->w.cols;
    s->packed = true;
    s->rows_kept = node_at(f, ref)->rows_kept;
    if (f->late[in] && node_at(f, in)->op == GRAPH_RMS_NORM) {
        s->norm_w = norm_floats(f, node_at(f, in));
        if (!s->norm_w)
            return -ENOMEM;
        s->norm_eps = node_at(f, in)->f;
        in = node_at(f, in)->src[0];
    }
    if (f->late[in]) {
        assert(node_at(f, in)->op == GRAPH_ROWS);
        s->gather = true;
        in = node_at(f, in)->src[0];
    }
    s->src[0] = in;
    s->src[1] = route;

    s->products = arena_zalloc(&f->plan->arena, f->users.n[src] * sizeof(struct product));
    if (!s->products)
        return -ENOMEM;
    for (uint32_t i = (uint32_t)ref; r == 0 && i < f->n; i++) {
        const struct graph_node *n = node_at(f, (graph_ref)i);

        if (n->op == GRAPH_MATMUL && n->src[0] == src && n->src[1] == route && !f->done[i])
            r = product_add(f, s, (graph_ref)i);
        if (!f->cpu->fuse)
            break;
    }
    for (int k = 0; k < MATMUL_ACT_N; k++)
        if (s->acts[k])
            s->act_bytes[k] = matmul_act_bytes((enum matmul_act)k, s->K);
    return r;
}

/* Creates a stage that stores k or v, unless a product stores them. */
static void stage_store(struct fuser *f, const struct graph_node *n, enum kv_part part)
{
    const graph_ref src = source_of(n, part);
    struct stage *s;

    if (f->stored[src])
        return;
    s = stage_new(f, STAGE_NODE);
    s->op = GRAPH_ATTENTION;
    s->kv = part;
    s->src[0] = src;
    s->attn = n->attn;
}

static int stage_attention(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = node_at(f, ref);
    struct stage *s;

    if (!n->attn.memory && !n->attn.shared) {
        stage_store(f, n, KV_KEYS);
        stage_store(f, n, KV_VALUES);
    }
    s = stage_new(f, STAGE_ATTENTION);
    s->src[0] = n->src[0];
    value_made(f, s->dst = ref);
    s->attn = n->attn;
    f->plan->max_head_dim = MAX(f->plan->max_head_dim, n->attn.head_dim);
    f->plan->max_group = MAX(f->plan->max_group, n->attn.n_heads / n->attn.n_kv_heads);
    f->done[ref] = true;
    if (n->attn.sinks.data) {
        s->sinks = vector_floats(f, &n->attn.sinks);
        if (!s->sinks)
            return -ENOMEM;
    }
    return 0;
}

static int stage_route(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = node_at(f, ref);
    const struct plan_limits *limits = &f->plan->limits;
    struct stage *s = stage_new(f, STAGE_ROUTE);
    struct value *v = &f->plan->values[ref];

    s->src[0] = n->src[0];
    value_made(f, s->dst = ref);
    s->rows_kept = n->rows_kept;
    s->width = n->width;
    s->route = n->route;
    v->ld = ALIGN_UP(2 * n->slots, 16u);
    v->sorted_bytes = exec_route_bytes(
        (n->rows_kept ? limits->max_logits : limits->max_rows) * (uint64_t)n->slots, n->width);
    f->done[ref] = true;
    if (n->bias.data) {
        s->bias = vector_floats(f, &n->bias);
        if (!s->bias)
            return -ENOMEM;
    }
    return 0;
}

static int stage_plain(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = node_at(f, ref);
    struct stage *s = stage_new(f, n->op == GRAPH_EMBED ? STAGE_EMBED : STAGE_NODE);

    s->op = n->op;
    value_made(f, s->dst = ref);
    memcpy(s->src, n->src, sizeof(s->src));
    s->rows_kept = n->rows_kept;
    s->width = n->width;
    s->group = n->group;
    s->act = n->act;
    s->key = n->key;
    s->cols = n->cols;
    s->f = n->f;
    s->table = n->w;
    if (n->op == GRAPH_RMS_NORM || n->op == GRAPH_LAYER_NORM) {
        s->norm_w = norm_floats(f, n);
        if (!s->norm_w)
            return -ENOMEM;
    }
    if (n->op == GRAPH_LAYER_NORM && n->bias.data) {
        s->bias = vector_floats(f, &n->bias);
        if (!s->bias)
            return -ENOMEM;
    }
    if (n->op == GRAPH_ROPE) {
        s->i_rope = rope_find(f, &n->rope);
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
    const struct graph_node *n = node_at(f, ref);
    bool any = false;

    if (!f->cpu->fuse)
        return false;
    if (n->op == GRAPH_RMS_NORM && n->group != n->width)
        return false;
    for (uint32_t i = (uint32_t)ref + 1; i < f->n; i++) {
        const struct graph_node *u = node_at(f, (graph_ref)i);
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
    const struct graph_node *n = node_at(f, ref);

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
        return stage_products(f, ref);
    case GRAPH_ATTENTION:
        return stage_attention(f, ref);
    case GRAPH_ROUTE:
        return stage_route(f, ref);
    case GRAPH_STORE:
        stage_store(f, n, KV_KEYS);
        stage_store(f, n, KV_VALUES);
        f->plan->max_head_dim = MAX(f->plan->max_head_dim, n->attn.head_dim);
        f->done[ref] = true;
        return 0;
    case GRAPH_OUTPUT: {
        const struct graph_node *src = node_at(f, n->src[0]);

        /* Products and selections of rows can write the output directly to the caller's memory. */
        if (f->users.n[n->src[0]] == 1 && !f->late[n->src[0]] &&
            (src->op == GRAPH_MATMUL || src->op == GRAPH_ROWS)) {
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
