/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the dispatches of embeddings, products and element-wise operations. The kernels are in
 * shaders/, and push.h lists their slots and push constants.
 */
#include "backend/vulkan/dispatch.h"

#include <errno.h>
#include <string.h>

#include "backend/joined.h"
#include "backend/vulkan/push.h"
#include "core/array.h"
#include "core/err.h"
#include "quant/dtype.h"

#define SLOT_STEP 9u

/* Appends an empty dispatch to the list of @class. Returns NULL if memory is short. */
static struct vkb_dispatch *vkb_list_add(struct plan *plan, enum vkb_class class)
{
    struct vkb_list *list = &plan->lists[class];
    struct vkb_dispatch *d;

    if (ARRAY_GROW(list->dispatches, list->cap, list->n + 1u) < 0)
        return NULL;
    d = &list->dispatches[list->n++];
    *d = (struct vkb_dispatch){.count = {{0, 1}, {0, 1}, {0, 1}}};
    return d;
}

int vkb_const_floats(struct plan *plan, uint64_t n, float **ret_floats, struct vkb_bind *ret_bind)
{
    /* Bindings start at multiples of 256 bytes. */
    const uint64_t at = ALIGN_UP(plan->n_consts, 64u), end = at + n;

    if (ARRAY_GROW_ZEROED(plan->consts, plan->cap_consts, ALIGN_UP(end, 4096u)) < 0)
        return -ENOMEM;
    plan->n_consts = ALIGN_UP(end, 64u);
    *ret_floats = plan->consts + at;
    *ret_bind = (struct vkb_bind){
        .kind = VKB_BIND_CONST,
        .offset = at * sizeof(float),
        .size = ALIGN_UP(n, 4u) * sizeof(float),
    };
    return 0;
}

int vkb_const_add(struct plan *plan, const struct weight *w, struct vkb_bind *ret_bind)
{
    const uint32_t n_experts = MAX(w->n_experts, 1u);
    uint64_t n, row_bytes;
    float *to;

    *ret_bind = (struct vkb_bind){.kind = VKB_BIND_NONE};
    if (!w->data)
        return 0;
    if (!dtype_row_bytes(w->dtype, w->cols, &row_bytes) ||
        !size_mul((uint64_t)w->rows * w->cols, n_experts, &n) ||
        vkb_const_floats(plan, n, &to, ret_bind) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < n_experts; i++)
        for (uint32_t j = 0; j < w->rows; j++, to += w->cols)
            dtype_info(w->dtype)->decode(
                (const char *)(i > 0 ? weight_expert(w, i) : w->data) + j * row_bytes, to, w->cols);
    return 0;
}

struct vkb_dispatch *emit_add(struct emit *e, enum vkb_class class, const struct vkb_choice *choice,
                              const void *push, uint32_t push_size)
{
    struct vkb_dispatch *d = vkb_list_add(e->plan, class);

    if (!d)
        return NULL;
    assert(push_size <= sizeof(d->push));
    d->choice = *choice;
    memcpy(d->push, push, push_size);
    d->push_size = push_size;
    d->joins = e->joins;
    d->layer = e->layer;
    d->binds[SLOT_STEP].kind = VKB_BIND_STEP;
    return d;
}

struct vkb_bind emit_value(graph_ref ref)
{
    return (struct vkb_bind){.kind = VKB_BIND_VALUE, .index = (uint32_t)ref};
}

enum vkb_count_by emit_rows(const struct emit *e, graph_ref ref)
{
    return e->plan->values[ref].rows_kept ? VKB_COUNT_LOGITS : VKB_COUNT_ROWS;
}

void emit_spec(struct vkb_choice *choice, uint32_t i, uint32_t value)
{
    assert(i < VKB_SPEC_MAX);
    while (choice->n_spec <= i)
        choice->spec[choice->n_spec++] = 0;
    choice->spec[i] = value;
}

int emit_none(struct emit *e, const char *what)
{
    return err_set(e->reterr, EOPNOTSUPP, "there is no Vulkan kernel for %s on this device", what);
}

bool emit_can_glu(const struct emit *e, const struct weight *w, const struct weight *w2)
{
    struct vkb_choice choice;

    if (emit_dtype(w) != emit_dtype(w2) || w->cols != w2->cols || w->rows != w2->rows ||
        w->n_experts != w2->n_experts || !w->experts != !w2->experts || !joined_same_table(w, w2))
        return false;
    const struct vkb_product p = {.dtype = emit_dtype(w),
                                  .K = w->cols,
                                  .N = w->rows,
                                  .glu = true,
                                  .experts = w->n_experts > 0};

    for (int c = 0; c < VKB_CLASS_N; c++)
        if (!vkb_pick_product(e->caps, &p, (enum vkb_class)c, &choice))
            return false;
    return true;
}

uint32_t emit_per_range(const struct emit *e, const struct vkb_kernel *kernel, uint64_t row_bytes,
                        uint32_t unit)
{
    const uint64_t max =
        kernel->texel_u4 & 1 ? MIN(e->caps->max_texels * 16, UINT32_MAX) : e->caps->max_range;
    const uint64_t n = (max - 512) / row_bytes / unit * unit;

    return (uint32_t)MIN(MAX(n, unit), UINT32_MAX / 2);
}

static uint32_t class_rows(const struct emit *e, enum vkb_class class, bool kept)
{
    const struct plan_limits *l = &e->plan->limits;
    const uint32_t most = kept ? l->max_logits : l->max_rows;

    return class == VKB_ONE ? 1 : class == VKB_FEW ? MIN(most, VKB_FEW_ROWS) : most;
}

bool emit_all_q8(const struct emit *e, graph_ref src, enum vkb_class class)
{
    struct vkb_choice choice;

    for (size_t i = (size_t)src + 1; i < graph_n_nodes(e->g); i++) {
        const struct graph_node *n = graph_node(e->g, (graph_ref)i);
        const struct vkb_product p = {.dtype = emit_dtype(&n->w),
                                      .K = n->w.cols,
                                      .N = n->w.rows,
                                      .experts = n->w.n_experts > 0};

        if (n->op == GRAPH_MATMUL && n->src[0] == src &&
            (!vkb_pick_product(e->caps, &p, class, &choice) || choice.pack != VKB_PACK_Q8))
            return false;
    }
    return true;
}

struct vkb_bind emit_packed(struct emit *e, enum vkb_class class, enum vkb_pack pack, graph_ref src)
{
    const struct vkb_value *v = &e->plan->values[src];
    const uint64_t size =
        vkb_pack_size(pack, class_rows(e, class, v->rows_kept) * v->slots, v->width / v->slots);

    e->packed[class][pack] = (uint32_t)src + 1;
    e->plan->packed_size[pack] = MAX(e->plan->packed_size[pack], size);
    return (struct vkb_bind){.kind = VKB_BIND_PACKED, .index = pack};
}

int emit_pack(struct emit *e, enum vkb_class class, enum vkb_pack pack, graph_ref src,
              bool *ret_new)
{
    const struct vkb_value *v = &e->plan->values[src];
    const struct push_pack push = {
        .width = v->width / v->slots, .rows_kept = v->rows_kept, .slots = v->slots};
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    *ret_new = pack != VKB_PACK_NONE && e->packed[class][pack] != (uint32_t)src + 1;
    if (!*ret_new)
        return 0;
    if (!vkb_pick_pack(e->caps, pack, &choice))
        return emit_none(e, "rows of products");
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[2] = emit_value(src);
    d->binds[3] = emit_packed(e, class, pack, src);
    d->count[0].n = DIV_UP(push.width, choice.columns);
    d->count[1] = (struct vkb_count){emit_rows(e, src), 1, .times = v->slots};
    return 0;
}

/* Emits a dispatch for each range of columns whose weights fit into one binding. */
static int matmul_class(struct emit *e, const struct emit_product *p, enum vkb_class class,
                        const struct vkb_bind *bias)
{
    const bool kept = e->plan->values[p->dst].rows_kept;
    struct emit_place at, at2 = {.aligned = true};
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    struct vkb_bind grid;
    uint64_t row_bytes;
    uint32_t step;
    bool packs;
    int r;

    r = emit_place(e->plan, p->w, &at);
    if (r == 0 && p->w2)
        r = emit_place(e->plan, p->w2, &at2);
    if (r == 0)
        r = emit_grid(e, p->w, at.dtype, &grid);
    if (r < 0)
        return r;
    row_bytes = at.row_bytes;
    const struct vkb_product product = {
        .dtype = at.dtype,
        .K = p->w->cols,
        .N = p->w->rows,
        .glu = p->w2 != NULL,
        .aligned = at.aligned && at2.aligned,
    };
    if (!vkb_pick_product(e->caps, &product, class, &choice))
        return emit_none(e, p->w->name ? p->w->name : "a matrix");
    r = emit_pack(e, class, choice.pack, p->src, &packs);
    if (r < 0)
        return r;
    step = emit_per_range(e, choice.kernel, row_bytes, choice.columns);
    for (uint32_t n0 = 0; n0 < p->w->rows; n0 += step) {
        const uint32_t n = MIN(step, p->w->rows - n0);
        const struct push_matmul push = {
            .K = p->w->cols,
            .N = n,
            .n0 = n0,
            .row_bytes = (uint32_t)row_bytes,
            .row_bytes2 = (uint32_t)row_bytes,
            .ld_y = p->w->rows,
            .rows_kept = kept,
            .act = p->act,
            .has_bias = bias->kind != VKB_BIND_NONE,
            .has_add = p->add >= 0,
            .factor = joined_factor(p->w),
            .factor2 = p->w2 ? joined_factor(p->w2) : 1,
        };

        d = emit_add(e, class, &choice, &push, sizeof(push));
        if (!d)
            return -ENOMEM;
        d->work = (p->w2 ? 2 : 1) * n * row_bytes;
        d->joins = (d->joins && !packs) || n0 > 0;
        d->binds[0] = emit_weight(p->w, &at, n0 * row_bytes, n * row_bytes,
                                  offsetof(struct push_matmul, w_offset) / sizeof(uint32_t));
        if (p->w2)
            d->binds[1] = emit_weight(p->w2, &at2, n0 * row_bytes, n * row_bytes,
                                      offsetof(struct push_matmul, w2_offset) / sizeof(uint32_t));
        d->binds[2] = choice.pack == VKB_PACK_NONE
                          ? emit_value(p->src)
                          : (struct vkb_bind){.kind = VKB_BIND_PACKED, .index = choice.pack};
        d->binds[3] = emit_value(p->dst);
        d->binds[4] = *bias;
        d->binds[SLOT_GRID] = grid;
        if (p->add >= 0)
            d->binds[5] = emit_value(p->add);
        d->count[0].n = DIV_UP(n, choice.columns);
        d->count[1] = (struct vkb_count){emit_rows(e, p->dst), choice.rows};
    }
    return 0;
}

int emit_matmul(struct emit *e, const struct emit_product *p)
{
    struct vkb_bind bias = {.kind = VKB_BIND_NONE};
    int r = 0;

    if (p->bias && !p->w2)
        r = vkb_const_add(e->plan, p->bias, &bias);
    for (int c = 0; r == 0 && c < VKB_CLASS_N; c++)
        r = p->w->n_experts > 0 ? emit_experts(e, p, (enum vkb_class)c, &bias)
                                : matmul_class(e, p, (enum vkb_class)c, &bias);
    return r;
}

static int emit_embed(struct emit *e, const struct graph_node *n, graph_ref dst,
                      enum vkb_class class)
{
    struct emit_place at;
    struct vkb_choice choice;
    struct vkb_dispatch *d;
    struct vkb_bind grid;
    uint64_t row_bytes;
    uint32_t step;
    int r;

    if (!vkb_pick_embed(e->caps, emit_dtype(&n->w), &choice) || (n->w.coded && n->w.coded->order))
        return emit_none(e, "the table of embeddings");
    r = emit_place(e->plan, &n->w, &at);
    if (r == 0)
        r = emit_grid(e, &n->w, at.dtype, &grid);
    if (r < 0)
        return r;
    row_bytes = at.row_bytes;
    step = emit_per_range(e, choice.kernel, row_bytes, 1);
    for (uint32_t first = 0; first < n->w.rows; first += step) {
        const uint32_t count = MIN(step, n->w.rows - first);
        const struct push_embed push = {
            .width = n->width,
            .row_bytes = (uint32_t)row_bytes,
            .scale = n->f,
            .first = first,
            .count = count,
            .rows = n->w.rows,
        };

        d = emit_add(e, class, &choice, &push, sizeof(push));
        if (!d)
            return -ENOMEM;
        d->joins |= first > 0;
        d->binds[0] = emit_weight(&n->w, &at, first * row_bytes, count * row_bytes,
                                  offsetof(struct push_embed, w_offset) / sizeof(uint32_t));
        d->binds[3] = emit_value(dst);
        d->binds[SLOT_GRID] = grid;
        d->count[0].n = DIV_UP(n->width, choice.columns);
        d->count[1] = (struct vkb_count){VKB_COUNT_ROWS, choice.rows};
    }
    return 0;
}

/* Emits a kernel that reads and writes values element by element. */
static int emit_elem(struct emit *e, const char *name, const struct graph_node *n, graph_ref dst,
                     enum vkb_class class, const uint32_t *spec, uint32_t n_spec)
{
    const struct push_elem push = {
        .width = e->plan->values[dst].width, /* slots count as further columns */
        .rows_kept = n->rows_kept,
        .factor = n->f,
        .period = n->width,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    if (!vkb_pick_plain(e->caps, name, &choice))
        return emit_none(e, name);
    emit_spec(&choice, SPEC_ELEM_WHOLE, n->width % 4 == 0);
    for (uint32_t i = 0; i < n_spec; i++)
        emit_spec(&choice, SPEC_GLU_ACT + i, spec[i]);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->binds[2] = emit_value(n->src[0]);
    if (n->src[1] >= 0)
        d->binds[5] = emit_value(n->src[1]);
    d->binds[3] = emit_value(dst);
    d->count[0].n = DIV_UP(push.width, 4 * choice.spec[0]);
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    return 0;
}

/* Emits one part, whose columns begin at column *@at of the result, and moves *@at to the end of
 * these columns. */
static int emit_cols_part(struct emit *e, const struct graph_node *n, graph_ref dst,
                          uint32_t i_part, uint32_t *at, enum vkb_class class)
{
    const struct cols_part *part = &n->cols.parts[i_part];
    const uint32_t x_width = graph_node(e->g, n->src[0])->width, stride = n->cols.stride;
    const struct push_cols push = {
        .width = e->plan->values[dst].width,
        .rows_kept = n->rows_kept,
        .stride = stride,
        .first = part->first,
        .n = part->n,
        .at = *at,
        .columns = x_width / stride * part->n,
        .x_width = x_width,
    };
    struct vkb_choice choice;
    struct vkb_dispatch *d;

    if (!vkb_pick_plain(e->caps, "elem/cols", &choice))
        return emit_none(e, "columns");
    emit_spec(&choice, SPEC_ELEM_WHOLE,
              (stride | part->first | part->n | *at | push.width) % 4 == 0);
    d = emit_add(e, class, &choice, &push, sizeof(push));
    if (!d)
        return -ENOMEM;
    d->joins = d->joins || i_part > 0;
    d->binds[2] = emit_value(n->src[0]);
    d->binds[3] = emit_value(dst);
    d->count[0].n = DIV_UP(push.columns, 4 * choice.spec[0]);
    d->count[1] = (struct vkb_count){emit_rows(e, dst), 1};
    *at += push.columns;
    return 0;
}

static int emit_cols(struct emit *e, const struct graph_node *n, graph_ref dst,
                     enum vkb_class class)
{
    uint32_t at = 0;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < n->cols.n_parts; i++)
        r = emit_cols_part(e, n, dst, i, &at, class);
    return r;
}

static int plain_class(struct emit *e, const struct graph_node *n, graph_ref dst,
                       enum vkb_class class)
{
    const uint32_t glu[] = {n->act, n->op == GRAPH_GLU && n->width > 1 &&
                                        graph_node(e->g, n->src[0])->width == 1};

    switch (n->op) {
    case GRAPH_EMBED:
        return emit_embed(e, n, dst, class);
    case GRAPH_GLU:
        return emit_elem(e, "elem/glu", n, dst, class, glu, 2);
    case GRAPH_ADD:
        return emit_elem(e, "elem/add", n, dst, class, NULL, 0);
    case GRAPH_SCALE:
        if (n->w.data)
            return emit_scale_columns(e, n, dst, class);
        return emit_elem(e, "elem/scale", n, dst, class, NULL, 0);
    case GRAPH_CAP:
        return emit_elem(e, "elem/cap", n, dst, class, NULL, 0);
    case GRAPH_COLS:
        return emit_cols(e, n, dst, class);
    case GRAPH_CONV:
        return emit_conv(e, n, dst, class);
    case GRAPH_DELTA:
        return emit_delta(e, n, dst, class);
    case GRAPH_ROUTE:
        return emit_route(e, n, dst, class);
    case GRAPH_MIX:
        return emit_mix(e, n, dst, class);
    case GRAPH_BLEND:
        return emit_blend(e, n, dst, class);
    case GRAPH_LEVEL:
        return emit_statistics(e, "elem/level", n, dst, class);
    case GRAPH_PEAKS:
        return emit_statistics(e, "elem/peaks", n, dst, class);
    case GRAPH_TURN:
        return emit_turn(e, n, dst, class);
    case GRAPH_ROWS:
        return emit_elem(e, "elem/rows", n, dst, class, NULL, 0);
    case GRAPH_ROPE:
        return emit_rope(e, n, dst, class);
    default:
        return emit_none(e, "an operation");
    }
}

int emit_plain(struct emit *e, const struct graph_node *n, graph_ref dst)
{
    int r = 0;

    for (int c = 0; r == 0 && c < VKB_CLASS_N; c++)
        r = plain_class(e, n, dst, (enum vkb_class)c);
    return r;
}
