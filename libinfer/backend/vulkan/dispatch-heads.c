/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the dispatches that compute norms, that rotate and store heads, that compute attention,
 * and that list the largest logits.
 */
#include <errno.h>
#include <string.h>

#include "backend/vulkan/dispatch.h"
#include "backend/vulkan/push.h"
#include "core/err.h"

enum { PART_Q, PART_K, PART_V, PART_N };

/* Sets *ret_i to the index of the rope table for these parameters. Equal parameters share a
 * table. */
static int rope_find(struct emit *e, const struct rope_params *p, uint32_t *ret_i)
{
    struct plan *plan = e->plan;
    const size_t size = p->n_dims / 2 * sizeof(float);
    float *freq;

    for (*ret_i = 0; *ret_i < plan->n_ropes; ++*ret_i) {
        const struct rope_params *q = &plan->ropes[*ret_i];

        if (q->n_dims == p->n_dims && memcmp(&q->mscale, &p->mscale, sizeof(p->mscale)) == 0 &&
            memcmp(q->inv_freq, p->inv_freq, size) == 0)
            return 0;
    }
    freq = arena_alloc(&plan->arena, size);
    if (!freq)
        return -ENOMEM;
    memcpy(freq, p->inv_freq, size);
    plan->ropes[plan->n_ropes] = *p;
    plan->ropes[plan->n_ropes++].inv_freq = freq;
    return 0;
}

static uint32_t rope_spec(const struct rope_params *p)
{
    return p->style == ROPE_HALF ? HEADS_ROPE_HALF : HEADS_ROPE_PAIRS;
}

/* Returns whether heads and their rotated parts can be processed 4 elements at a time. */
static bool whole_heads(uint32_t head_dim, const struct rope_params *rope)
{
    return head_dim % 4 == 0 && (!rope || rope->n_dims % (rope->style == ROPE_HALF ? 8 : 4) == 0);
}

/* Sets the specialization constants of elem/heads. */
static void heads_spec(struct vkb_choice *c, bool whole, uint32_t parts, uint32_t norms,
                       const struct rope_params *rope)
{
    emit_spec(c, SPEC_HEADS_WHOLE, whole);
    emit_spec(c, SPEC_HEADS_PARTS, parts);
    emit_spec(c, SPEC_HEADS_NORMS, norms);
    emit_spec(c, SPEC_HEADS_ROPE, rope ? rope_spec(rope) : HEADS_ROPE_NONE);
    emit_spec(c, SPEC_HEADS_FORMAT, STORE_F16);
    emit_spec(c, SPEC_HEADS_STORE, true);
    emit_spec(c, SPEC_HEADS_VALUE_FORMAT, STORE_F16);
}

int emit_rope(struct emit *e, const struct graph_node *n, graph_ref dst, enum vkb_class class)
{
    const struct push_heads push = {
        .n_heads = n->width / n->group,
        .head_dim = n->group,
        .n_dims = n->rope.n_dims,
        .q_ld = n->width,
        .y_ld = n->width,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    uint32_t i_rope;

    if (!vkb_pick_plain(e->caps, "elem/heads", &choice))
        return emit_none(e, "rotation");
    if (rope_find(e, &n->rope, &i_rope) < 0)
        return -ENOMEM;
    heads_spec(&choice, whole_heads(n->group, &n->rope), HEADS_Q, 0, &n->rope);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[1] = (struct vkb_bind){.kind = VKB_BIND_ROPE, .index = i_rope};
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->count[0].n = push.n_heads;
    d->count[1] = (struct vkb_count){VKB_COUNT_ROWS, 1};
    return 0;
}

/* Finds the rotation that q and k share; *ret_rope is NULL if there is no rotation. */
static int common_rope(struct emit *e, const struct emit_heads *h,
                       const struct rope_params **ret_rope)
{
    const graph_ref q = h->parts[PART_Q].rope, k = h->parts[PART_K].rope;
    uint32_t i_q, i_k;

    *ret_rope = NULL;
    if (q < 0 && k < 0)
        return 0;
    if (h->attn->shared) {
        *ret_rope = &graph_node(e->g, q)->rope;
        return 0;
    }
    if (q < 0 || k < 0)
        return emit_none(e, "rotation of only the queries or only the keys");
    if (rope_find(e, &graph_node(e->g, q)->rope, &i_q) < 0 ||
        rope_find(e, &graph_node(e->g, k)->rope, &i_k) < 0)
        return -ENOMEM;
    if (i_q != i_k || graph_node(e->g, q)->rope.style != graph_node(e->g, k)->rope.style)
        return emit_none(e, "different rotations of queries and keys");
    *ret_rope = &graph_node(e->g, q)->rope;
    return 0;
}

static int heads_class(struct emit *e, const struct emit_heads *h, enum vkb_class class,
                       const struct rope_params *rope, const struct vkb_bind norms[PART_N])
{
    const struct attn_params *a = h->attn;
    const struct kv_layout *layout = &e->plan->store->layout;
    const enum codec keys = kv_layout_codec(layout, attn_place(a), true);
    const enum codec values = kv_layout_codec(layout, attn_place(a), false);
    const bool has_q = h->parts[PART_Q].src != h->dst;
    struct push_heads push = {
        .n_heads = a->n_heads,
        .n_kv_heads = a->n_kv_heads,
        .head_dim = a->head_dim,
        .group = a->i_group,
        .n_dims = rope ? rope->n_dims : 0,
        .q_ld = a->n_heads * a->head_dim,
        .k_ld = a->n_kv_heads * a->head_dim,
        .v_ld = a->n_kv_heads * a->head_dim,
        .y_ld = a->n_heads * a->head_dim,
    };
    const graph_ref q_norm = h->parts[PART_Q].norm, k_norm = h->parts[PART_K].norm;
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    uint32_t i_rope = 0;

    if (!vkb_pick_plain(e->caps, "elem/heads", &choice))
        return emit_none(e, "heads");
    if (rope && rope_find(e, rope, &i_rope) < 0)
        return -ENOMEM;
    if (q_norm >= 0)
        push.q_eps = graph_node(e->g, q_norm)->f;
    if (k_norm >= 0)
        push.k_eps = graph_node(e->g, k_norm)->f;
    heads_spec(&choice, whole_heads(a->head_dim, rope),
               (has_q ? HEADS_Q : 0) | (a->shared ? 0 : HEADS_K | HEADS_V),
               (q_norm >= 0 ? HEADS_Q : 0) | (k_norm >= 0 ? HEADS_K : 0), rope);
    emit_spec(&choice, SPEC_HEADS_FORMAT, vkb_store_format(keys));
    emit_spec(&choice, SPEC_HEADS_VALUE_FORMAT, vkb_store_format(values));
    emit_spec(&choice, SPEC_HEADS_TURN, vkb_store_turn(keys));
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[0] = norms[PART_Q];
    d->binds[5] = norms[PART_K];
    if (rope)
        d->binds[1] = (struct vkb_bind){.kind = VKB_BIND_ROPE, .index = i_rope};
    d->binds[2] = emit_value(h->parts[PART_Q].src);
    if (!a->shared) {
        d->binds[6] = emit_value(h->parts[PART_K].src);
        d->binds[7] = emit_value(h->parts[PART_V].src);
    }
    if (has_q)
        d->binds[3] = emit_value(h->dst);
    d->binds[4] =
        (struct vkb_bind){.kind = VKB_BIND_KEYS, .index = a->i_layer, .group = a->i_group};
    d->binds[8] =
        (struct vkb_bind){.kind = VKB_BIND_VALUES, .index = a->i_layer, .group = a->i_group};
    d->count[0].n = (has_q ? a->n_heads : 0) + (a->shared ? 0 : 2 * a->n_kv_heads);
    d->count[1] = (struct vkb_count){VKB_COUNT_ROWS, 1};
    return 0;
}

int emit_heads(struct emit *e, const struct emit_heads *h)
{
    struct vkb_bind norms[PART_N] = {{.kind = VKB_BIND_NONE}};
    const struct rope_params *rope;
    int r;

    if (e->plan->store->layout.block_tokens != STORE_TOKENS)
        return emit_none(e, "blocks of another size than 64 tokens");
    r = common_rope(e, h, &rope);
    for (unsigned i = 0; r == 0 && i < PART_N; i++)
        if (h->parts[i].norm >= 0)
            r = vkb_const_add(e->plan, &graph_node(e->g, h->parts[i].norm)->w, &norms[i]);
    for (int c = 0; r == 0 && c < VKB_CLASS_N; c++)
        r = heads_class(e, h, (enum vkb_class)c, rope, norms);
    return r;
}

/* Returns whether the norm @n, which only products read, can pack its rows in steps of @class. */
static bool norm_can_pack(const struct emit *e, const struct graph_node *n, graph_ref dst,
                          enum vkb_class class)
{
    return n->group == n->width && n->slots == 0 && n->width % 32 == 0 &&
           e->caps->subgroup_shuffle && MIN(e->caps->subgroup_min, e->caps->subgroup_size) >= 8 &&
           emit_all_q8(e, dst, class);
}

int emit_norm(struct emit *e, const struct graph_node *n, graph_ref src, graph_ref dst, bool gather,
              bool only_products)
{
    const struct push_norm push = {.width = e->plan->values[dst].width,
                                   .group = n->group,
                                   .rows_kept = n->rows_kept,
                                   .eps = n->f};
    struct vkb_bind w;
    struct vkb_dispatch *d;

    if (vkb_const_add(e->plan, &n->w, &w) < 0)
        return -ENOMEM;
    for (int c = 0; c < VKB_CLASS_N; c++) {
        const bool packs = only_products && norm_can_pack(e, n, dst, (enum vkb_class)c);
        struct vkb_choice choice;

        if (!vkb_pick_plain(e->caps, "elem/norm", &choice))
            return emit_none(e, "norms");
        emit_spec(&choice, SPEC_NORM_WHOLE, n->group % 4 == 0);
        emit_spec(&choice, SPEC_NORM_HAS_W, n->w.data != NULL);
        emit_spec(&choice, SPEC_NORM_GATHER, gather);
        emit_spec(&choice, SPEC_NORM_PACK, packs);
        d = emit_add(e, (enum vkb_class)c, &choice, &push, sizeof(push));
        if (!d)
            return -ENOMEM;
        d->binds[0] = w;
        d->binds[2] = emit_value(src);
        d->binds[3] = emit_value(dst);
        if (packs)
            d->binds[5] = emit_packed(e, (enum vkb_class)c, VKB_PACK_Q8, dst);
        d->count[0].n = push.width / n->group;
        d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    }
    return 0;
}

static struct push_attention attention_push(const struct emit *e, const struct graph_node *n,
                                            uint32_t part_tokens)
{
    return (struct push_attention){
        .n_heads = n->attn.n_heads,
        .n_kv_heads = n->attn.n_kv_heads,
        .head_dim = n->attn.head_dim,
        .group = n->attn.i_group,
        .window = n->attn.window,
        .has_sinks = n->attn.sinks.data != NULL,
        .softcap = n->attn.softcap,
        .scale = n->attn.scale,
        .q_ld = n->width,
        .y_ld = n->width,
        .part_tokens = part_tokens,
        .n_parts = DIV_UP(e->plan->limits.max_ctx, part_tokens),
    };
}

/* Emits the kernel that turns the heads of the result of attention back. */
static int turn_back(struct emit *e, const struct graph_node *n, graph_ref dst,
                     enum vkb_class class, uint32_t turn)
{
    const struct push_heads push = {
        .n_heads = n->attn.n_heads,
        .head_dim = n->attn.head_dim,
        .q_ld = n->width,
        .y_ld = n->width,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    if (!vkb_pick_plain(e->caps, "elem/heads", &choice))
        return emit_none(e, "heads");
    heads_spec(&choice, whole_heads(n->attn.head_dim, NULL), HEADS_Q, 0, NULL);
    emit_spec(&choice, SPEC_HEADS_TURN, turn);
    emit_spec(&choice, SPEC_HEADS_BACK, true);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->joins = false;
    d->binds[2] = emit_value(dst);
    d->binds[3] = emit_value(dst);
    d->count[0].n = push.n_heads;
    d->count[1] = (struct vkb_count){VKB_COUNT_ROWS, 1};
    return 0;
}

/* Emits the kernel that loops over the context, and the kernel that merges the parts of the context
 * if they are computed separately. */
static int attention_tiles(struct emit *e, const struct graph_node *n, graph_ref dst,
                           enum vkb_class class, const struct vkb_attention *choice,
                           const struct vkb_bind *sinks)
{
    const struct attn_params *a = &n->attn;
    const struct push_attention push = attention_push(e, n, choice->part_tokens);
    struct vkb_choice merge;
    struct vkb_dispatch *d = emit_add(e, class, &choice->choice, &push, sizeof(push));

    if (!d)
        return -ENOMEM;
    d->binds[0] =
        (struct vkb_bind){.kind = VKB_BIND_KEYS, .index = a->i_layer, .group = a->i_group};
    d->binds[1] =
        (struct vkb_bind){.kind = VKB_BIND_VALUES, .index = a->i_layer, .group = a->i_group};
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->binds[4].kind = VKB_BIND_PARTS;
    d->binds[5] = *sinks;
    d->count[0].n = a->n_kv_heads * DIV_UP(a->n_heads / a->n_kv_heads, choice->heads);
    d->count[1] = (struct vkb_count){VKB_COUNT_TILES, 1, .group = a->i_group};
    if (!choice->split)
        return 0;

    d->count[2] = (struct vkb_count){VKB_COUNT_PARTS, choice->part_tokens};
    if (!vkb_pick_plain(e->caps, "attention/merge", &merge))
        return emit_none(e, "attention");
    emit_spec(&merge, SPEC_MERGE_HEAD_DIM, a->head_dim);
    emit_spec(&merge, SPEC_MERGE_LONE_PARTS, !choice->finishes);
    d = emit_add(e, class, &merge, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->joins = false;
    d->binds[3] = emit_value(dst);
    d->binds[4].kind = VKB_BIND_PARTS;
    d->binds[5] = *sinks;
    d->count[0].n = DIV_UP(n->width, merge.spec[0]);
    d->count[1] = (struct vkb_count){VKB_COUNT_TILES, 1, .group = a->i_group};
    if (choice->finishes)
        d->count[1] =
            (struct vkb_count){VKB_COUNT_MERGES, choice->part_tokens, .group = a->i_group};
    return 0;
}

/* Emits attention for one class of steps. Steps with many rows may have tiles with only one row,
 * which need a kernel of their own. */
static int attention_class(struct emit *e, const struct graph_node *n, graph_ref dst,
                           enum vkb_class class, const struct vkb_bind *sinks)
{
    const struct kv_layout *layout = &e->plan->store->layout;
    const struct state_place place = attn_place(&n->attn);
    const uint32_t turn = vkb_store_turn(kv_layout_codec(layout, place, false));
    const bool joins = e->joins;
    struct vkb_attention choice;
    int r = 0;

    if (!vkb_pick_attention(e->caps, layout, place, n->attn.n_heads, class, &choice))
        return emit_none(e, "attention");
    r = attention_tiles(e, n, dst, class, &choice, sinks);
    if (r == 0 && choice.rows_from > 1) {
        if (!vkb_pick_attention(e->caps, layout, place, n->attn.n_heads, VKB_FEW, &choice))
            return emit_none(e, "attention");
        e->joins = true;
        r = attention_tiles(e, n, dst, class, &choice, sinks);
        e->joins = joins;
    }
    return r < 0 || turn == STORE_PLAIN ? r : turn_back(e, n, dst, class, turn);
}

int emit_attention(struct emit *e, const struct graph_node *n, graph_ref dst)
{
    struct vkb_bind sinks;
    int r = vkb_const_add(e->plan, &n->attn.sinks, &sinks);

    for (int c = 0; r == 0 && c < VKB_CLASS_N; c++)
        r = attention_class(e, n, dst, (enum vkb_class)c, &sinks);
    return r;
}

int emit_tops(struct emit *e, graph_ref logits)
{
    const uint32_t width = e->plan->values[logits].width, n_runs = DIV_UP(width, TOPS_RUN);
    const struct push_tops push = {.width = width, .stride = VKB_TOP_STRIDE};
    struct vkb_choice runs, tops;
    struct vkb_dispatch *d;

    /* Without these kernels there are no lists, and the host reads whole rows of logits. */
    if (!vkb_pick_plain(e->caps, "sample/runs", &runs) ||
        !vkb_pick_plain(e->caps, "sample/tops", &tops))
        return 0;
    tops.spec[0] = e->caps->subgroup_size;
    emit_spec(&runs, SPEC_TOPS_WHOLE, width % 4 == 0);
    emit_spec(&tops, SPEC_TOPS_WHOLE, width % 4 == 0);
    e->plan->tops_size = (uint64_t)e->plan->limits.max_logits * VKB_TOP_STRIDE * sizeof(uint32_t);
    e->plan->runs_size = (uint64_t)e->plan->limits.max_logits * n_runs * 2 * sizeof(float);
    for (int c = 0; c < VKB_CLASS_N; c++) {
        d = emit_add(e, (enum vkb_class)c, &runs, &push, sizeof(push));
        if (!d)
            return -ENOMEM;
        d->binds[2] = emit_value(logits);
        d->binds[4].kind = VKB_BIND_RUNS;
        d->count[0].n = DIV_UP(n_runs, runs.spec[0] / e->caps->subgroup_size);
        d->count[1] = (struct vkb_count){VKB_COUNT_TOPS, 1};

        d = emit_add(e, (enum vkb_class)c, &tops, &push, sizeof(push));
        if (!d)
            return -ENOMEM;
        d->joins = false;
        d->binds[2] = emit_value(logits);
        d->binds[3].kind = VKB_BIND_TOPS;
        d->binds[4].kind = VKB_BIND_RUNS;
        d->count[0] = (struct vkb_count){VKB_COUNT_TOPS, 1};
    }
    return 0;
}

int emit_begin(struct emit *e)
{
    const struct kv_layout *layout = &e->plan->store->layout;
    /* The maximum number of tiles with only one row. In a step with few rows all tiles may be such
     * tiles; in a step with many rows each sequence has at most one. */
    const uint32_t singles = MAX(VKB_FEW_ROWS, e->plan->limits.max_seqs);
    uint64_t parts = 0;

    for (size_t i = 0; i < graph_n_nodes(e->g); i++) {
        const struct graph_node *n = graph_node(e->g, (graph_ref)i);

        if (n->op != GRAPH_ATTENTION)
            continue;
        for (int c = 0; c < VKB_CLASS_N; c++) {
            struct vkb_attention a;

            if (!vkb_pick_attention(e->caps, layout, attn_place(&n->attn), n->attn.n_heads,
                                    (enum vkb_class)c, &a))
                return emit_none(e, "attention");
            uint32_t *tile_rows = &e->plan->tile_rows[n->attn.i_group][c];

            if (*tile_rows > 0 && *tile_rows != a.tile_rows)
                return emit_none(e, "layers with different numbers of heads");
            if (e->plan->limits.max_ctx > a.max_ctx)
                return err_set(e->reterr, EOPNOTSUPP,
                               "contexts of more than %u tokens are too long for this device",
                               a.max_ctx);
            *tile_rows = a.tile_rows;
            if (a.split)
                parts = MAX(parts, (uint64_t)singles * n->attn.n_heads *
                                       DIV_UP(e->plan->limits.max_ctx, a.part_tokens) *
                                       (n->attn.head_dim + 2));
        }
    }
    e->plan->parts_size = parts * sizeof(float);
    return 0;
}
