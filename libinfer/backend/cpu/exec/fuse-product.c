/* SPDX-License-Identifier: Apache-2.0 */
/* Makes stages of products, and fuses the operations that follow a product. */
#include "backend/cpu/exec/fuse.h"

#include <errno.h>

#include "core/err.h"
#include "quant/dtype.h"

/* Sets the members of @m that only experts have. */
static int matrix_set_experts(struct fuser *f, const struct graph_node *n, struct matrix *m)
{
    if (m->packed || m->quarter > 0 ||
        (n->bias.data && dtype_info(n->bias.dtype)->block_elems != 1))
        return err_set(f->reterr, EOPNOTSUPP,
                       "%s has experts in a format that the CPU cannot multiply",
                       n->w.name ? n->w.name : "a weight");
    m->experts = n->w.experts;
    m->expert_bytes = n->w.expert_bytes;
    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++)
        m->plane_expert_bytes[p] = weight_plane_expert_bytes(&n->w, p);
    m->expert_bias = n->bias;
    return 0;
}

/* Returns whether rows of @w share stored rows. A product then computes columns in another order
 * (struct matmul_args, quarter). */
static bool shares_rows(const struct weight *w)
{
    const struct planes_info *info = dtype_info(w->dtype)->planes;

    return info && info->places > 1;
}

/* Sets the members of @m for planes. */
static void matrix_set_planes(const struct weight *w, struct matrix *m)
{
    m->group = w->group;
    m->plane_type = w->plane_type;
    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++) {
        m->planes[p] = w->planes[p];
        m->plane_bytes[p] = weight_plane_bytes(w, p) * MAX(w->row_step, 1u);
    }
    if (shares_rows(w))
        m->quarter = w->rows / dtype_info(w->dtype)->planes->places;
}

static int matrix_set(struct fuser *f, const struct graph_node *n, struct matrix *m)
{
    *m = (struct matrix){
        .data = n->w.data, .name = n->w.name, .dtype = n->w.dtype, .packed = n->w.packed};
    m->coded = n->w.coded;
    m->coded_first = n->w.coded_first;
    f->plan->max_work = MAX(f->plan->max_work, matmul_work_bytes(m->coded));
    if (dtype_info(m->dtype)->planes)
        matrix_set_planes(&n->w, m);
    if (n->w.cols > matmul_most_columns(m->dtype))
        return err_set(f->reterr, EOPNOTSUPP, "%s has %u columns, more than %u",
                       n->w.name ? n->w.name : "a weight", n->w.cols,
                       matmul_most_columns(m->dtype));
    if (m->packed) {
        m->act = matmul_packed_kind(m->dtype);
        m->row_bytes = matmul_packed_bytes(m->dtype, n->w.cols);
    } else {
        m->act = matmul_act_kind(f->plan->matmul, m->dtype);
        if (!dtype_row_bytes(m->dtype, n->w.cols, &m->row_bytes))
            return -EINVAL;
        m->row_bytes *= MAX(n->w.row_step, 1u);
    }
    if (m->act == MATMUL_ACT_Q8 && n->w.cols % 32 != 0)
        return err_set(f->reterr, EOPNOTSUPP, "%s has %u columns, not a multiple of 32",
                       n->w.name ? n->w.name : "a weight", n->w.cols);
    if (n->w.n_experts > 0)
        return matrix_set_experts(f, n, m);
    if (n->bias.data) {
        m->bias = fuser_floats(f, &n->bias);
        if (!m->bias)
            return -ENOMEM;
    }
    return 0;
}

/* Fuses the norm and rope of heads that follow product @p into @p. *@cur is the node whose value @p
 * computes. Sets *@cur to the last fused node. */
static int fuse_heads(struct fuser *f, struct product *p, graph_ref *cur)
{
    graph_ref next = fuser_only_user(f, *cur, GRAPH_RMS_NORM);
    const struct graph_node *n;

    if (next >= 0 && fuser_node(f, next)->group < p->width &&
        fuser_node(f, next)->group <= FUSED_HEAD_MAX) {
        n = fuser_node(f, next);
        p->norm_w = fuser_norm(f, n);
        if (!p->norm_w)
            return -ENOMEM;
        p->norm_eps = n->f;
        p->head_dim = n->group;
        f->done[next] = true;
        *cur = next;
    }

    next = fuser_only_user(f, *cur, GRAPH_ROPE);
    if (next >= 0 && fuser_node(f, next)->group <= FUSED_HEAD_MAX &&
        (p->head_dim == 0 || p->head_dim == fuser_node(f, next)->group)) {
        n = fuser_node(f, next);
        p->i_rope = fuser_rope(f, &n->rope);
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
    const graph_ref attention = fuser_only_user(f, cur, GRAPH_ATTENTION);
    const graph_ref user = attention >= 0 ? attention : fuser_only_user(f, cur, GRAPH_STORE);
    const struct graph_node *n;
    enum kv_part part;

    if (user < 0)
        return;
    n = fuser_node(f, user);
    part = fuser_part(n, cur);
    if (part == KV_NONE || n->attn.head_dim > FUSED_HEAD_MAX ||
        (p->head_dim != 0 && p->head_dim != n->attn.head_dim))
        return;
    p->head_dim = n->attn.head_dim;
    p->kv = part;
    p->place = attn_place(&n->attn);
    f->stored[cur] = true;
}

/* Returns whether pieces of both products have the same columns in the same places. Returns false
 * if rows share stored rows and there are biases, because biases are then not in the order of the
 * columns of a piece. */
static bool same_columns(const struct graph_node *a, const struct graph_node *b)
{
    const bool shared = shares_rows(&a->w);

    return shared == shares_rows(&b->w) && !(shared && (a->bias.data || b->bias.data));
}

/* Returns the order of the columns of the weight of node @ref, or NULL (quant/coded.h). */
static const uint32_t *order_of(const struct fuser *f, graph_ref ref)
{
    const struct coded *c = fuser_node(f, ref)->w.coded;

    return c ? c->order : NULL;
}

static int fuse_gate(struct fuser *f, struct product *p, graph_ref glu, graph_ref *cur)
{
    const struct graph_node *n = fuser_node(f, glu);
    const graph_ref other = graph_glu_other(&f->users, f->g, glu, *cur);
    int r;

    if (other < 0 || f->done[other] || fuser_node(f, other)->width != p->width ||
        fuser_node(f, other)->src[1] != fuser_node(f, *cur)->src[1] ||
        order_of(f, other) != order_of(f, *cur) ||
        !same_columns(fuser_node(f, other), fuser_node(f, *cur)))
        return 0;
    p->n_matrices = 2;
    p->act = n->act;
    r = matrix_set(f, fuser_node(f, n->src[0]), &p->m[0]);
    if (r == 0)
        r = matrix_set(f, fuser_node(f, n->src[1]), &p->m[1]);
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
    const graph_ref act = fuser_only_user(f, *cur, GRAPH_ACT);

    if (act < 0 || p->kv != KV_NONE || p->head_dim != 0 || p->n_matrices != 1)
        return;
    p->has_act = true;
    p->act = fuser_node(f, act)->act;
    f->done[act] = true;
    *cur = act;
}

static void fuse_cap(struct fuser *f, struct product *p, graph_ref *cur)
{
    const graph_ref cap = fuser_only_user(f, *cur, GRAPH_CAP);

    if (cap < 0 || p->kv != KV_NONE || p->head_dim != 0 || p->n_matrices != 1)
        return;
    p->cap = fuser_node(f, cap)->f;
    f->done[cap] = true;
    *cur = cap;
}

static void fuse_sum(struct fuser *f, struct product *p, graph_ref *cur)
{
    const graph_ref sum = fuser_only_user(f, *cur, GRAPH_ADD);
    graph_ref other;

    if (sum < 0 || p->kv != KV_NONE || p->head_dim != 0)
        return;
    other = fuser_node(f, sum)->src[fuser_node(f, sum)->src[0] == *cur];
    if (other == *cur || !made_before(f, other))
        return;
    p->add = other;
    f->done[sum] = true;
    *cur = sum;
}

/* Returns the number of columns of a piece. It is smaller for narrow matrices, because a few large
 * pieces could not be divided evenly among threads. For AWQ (quant/coded.h) a piece has more
 * columns, because the codes of PRODUCT_COLUMNS columns would be single cache lines with gaps
 * between them. */
static uint32_t piece_columns(const struct fuser *f, enum inf_dtype dtype, uint32_t width)
{
    const uint32_t n_threads = f->plan->n_threads;
    uint32_t n = dtype == INF_DTYPE_AWQ4 ? 4 * PRODUCT_COLUMNS : PRODUCT_COLUMNS;

    while (n > MATMUL_N_STEP && width / n < EVEN_PIECES * n_threads &&
           DIV_UP(width, n) % n_threads != 0)
        n /= 2;
    return n;
}

/* Adds the product of node @ref to stage @s, and fuses the nodes that follow it. */
static int product_add(struct fuser *f, struct stage *s, graph_ref ref)
{
    struct product *p = &s->products[s->n_products++];
    const graph_ref glu = fuser_only_user(f, ref, GRAPH_GLU);
    const uint32_t n_slots = fuser_node(f, ref)->slots; /* 0 unless the product has experts */
    /* If rows share stored rows, the columns of a piece are not whole heads. */
    const bool has_heads = n_slots == 0 && !shares_rows(&fuser_node(f, ref)->w);
    struct plan *plan = f->plan;
    graph_ref cur = ref;
    int r;

    *p = (struct product){.n_matrices = 1,
                          .width = fuser_node(f, ref)->width,
                          .i_rope = -1,
                          .add = GRAPH_NONE,
                          .dst = GRAPH_NONE};
    f->done[ref] = true;
    r = matrix_set(f, fuser_node(f, ref), &p->m[0]);
    if (r == 0 && glu >= 0)
        r = fuse_gate(f, p, glu, &cur);
    else if (r == 0 && has_heads)
        r = fuse_heads(f, p, &cur);
    if (r < 0)
        return r;
    if (glu < 0 && has_heads)
        fuse_store(f, p, cur);
    fuse_act(f, p, &cur);
    if (n_slots == 0) {
        fuse_cap(f, p, &cur);
        fuse_sum(f, p, &cur);
    }
    if (p->kv == KV_NONE)
        fuser_made(f, p->dst = cur);

    p->chunk = piece_columns(f, p->m[0].dtype, p->width * MAX(n_slots, 1u));
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

int fuse_products(struct fuser *f, graph_ref ref)
{
    const graph_ref src = fuser_node(f, ref)->src[0], route = fuser_node(f, ref)->src[1];
    struct stage *s = fuser_stage(f, route >= 0 ? STAGE_EXPERTS : STAGE_PRODUCT);
    graph_ref in = src;
    int r = 0;

    s->K = fuser_node(f, ref)->w.cols;
    s->order = order_of(f, ref);
    s->packed = true;
    s->rows_kept = fuser_node(f, ref)->rows_kept;
    if (f->late[in] && fuser_node(f, in)->op == GRAPH_RMS_NORM) {
        s->norm_w = fuser_norm(f, fuser_node(f, in));
        if (!s->norm_w)
            return -ENOMEM;
        s->norm_eps = fuser_node(f, in)->f;
        in = fuser_node(f, in)->src[0];
    }
    if (f->late[in]) {
        assert(fuser_node(f, in)->op == GRAPH_ROWS);
        s->gather = true;
        in = fuser_node(f, in)->src[0];
    }
    s->src[0] = in;
    s->src[1] = route;

    s->products = arena_zalloc(&f->plan->arena, f->users.n[src] * sizeof(struct product));
    if (!s->products)
        return -ENOMEM;
    for (uint32_t i = (uint32_t)ref; r == 0 && i < f->n; i++) {
        const struct graph_node *n = fuser_node(f, (graph_ref)i);

        if (n->op == GRAPH_MATMUL && n->src[0] == src && n->src[1] == route && !f->done[i] &&
            order_of(f, (graph_ref)i) == s->order)
            r = product_add(f, s, (graph_ref)i);
        if (!f->cpu->fuse)
            break;
    }
    for (int k = 0; k < MATMUL_ACT_N; k++)
        if (s->acts[k])
            s->act_bytes[k] = matmul_act_bytes((enum matmul_act)k, s->K);
    return r;
}
