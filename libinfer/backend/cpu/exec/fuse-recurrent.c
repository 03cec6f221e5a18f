/* SPDX-License-Identifier: Apache-2.0 */
/* Makes stages of operations whose rows depend on each other: routes, convolutions and gated delta
 * rules. */
#include "backend/cpu/exec/fuse.h"

#include <errno.h>
#include <math.h>

#include "backend/cpu/exec/exec.h"
#include "quant/dtype.h"

int fuse_route(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = fuser_node(f, ref);
    const struct plan_limits *limits = &f->plan->limits;
    struct stage *s = fuser_stage(f, STAGE_ROUTE);
    struct value *v = &f->plan->values[ref];

    s->src[0] = n->src[0];
    fuser_made(f, s->dst = ref);
    s->rows_kept = n->rows_kept;
    s->width = n->width;
    s->route = n->route;
    v->ld = ALIGN_UP(2 * n->slots, 16u);
    v->sorted_bytes = exec_route_bytes(
        (n->rows_kept ? limits->max_logits : limits->max_rows) * (uint64_t)n->slots, n->width);
    f->done[ref] = true;
    if (n->bias.data) {
        s->bias = fuser_floats(f, &n->bias);
        if (!s->bias)
            return -ENOMEM;
    }
    if (n->w.data) {
        s->norm_w = fuser_floats(f, &n->w);
        if (!s->norm_w)
            return -ENOMEM;
    }
    return 0;
}

/* Returns the taps [n_taps, columns] of the convolution @n, whose weight is [columns, n_taps].
 * Returns NULL if memory is short. */
static const float *conv_taps(struct fuser *f, const struct graph_node *n)
{
    const struct dtype_info *info = dtype_info(n->w.dtype);
    const uint32_t n_taps = n->w.cols, width = n->w.rows;
    float *taps = arena_alloc(&f->plan->arena, (size_t)n_taps * width * sizeof(float));
    _cleanup_free_ float *row = NEW(float, n_taps);
    uint64_t row_bytes = 0;

    if (!taps || !row || !dtype_row_bytes(n->w.dtype, n_taps, &row_bytes))
        return NULL;
    for (uint32_t c = 0; c < width; c++) {
        info->decode((const char *)n->w.data + c * row_bytes, row, n_taps);
        for (uint32_t j = 0; j < n_taps; j++)
            taps[(size_t)j * width + c] = row[j];
    }
    return taps;
}

int fuse_conv(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = fuser_node(f, ref);
    struct stage *s = fuser_stage(f, STAGE_CONV);

    s->src[0] = n->src[0];
    fuser_made(f, s->dst = ref);
    s->width = n->width;
    s->has_act = n->has_act;
    s->act = n->act;
    s->place = n->place;
    s->n_taps = n->w.cols;
    s->taps = conv_taps(f, n);
    if (n->bias.data)
        s->bias = fuser_floats(f, &n->bias);
    if (!s->taps || (n->bias.data && !s->bias))
        return -ENOMEM;
    f->plan->max_taps = MAX(f->plan->max_taps, s->n_taps);
    f->done[ref] = true;
    return 0;
}

int fuse_delta(struct fuser *f, graph_ref ref)
{
    const struct graph_node *n = fuser_node(f, ref);
    struct stage *s = fuser_stage(f, STAGE_DELTA);
    const float *a = fuser_floats(f, &n->w);
    float *speeds = arena_alloc(&f->plan->arena, n->delta.n_v_heads * sizeof(*speeds));

    for (unsigned i = 0; i < ARRAY_SIZE(s->src); i++)
        s->src[i] = n->src[i];
    fuser_made(f, s->dst = ref);
    s->width = n->width;
    s->delta = n->delta;
    s->bias = fuser_floats(f, &n->bias);
    s->speeds = speeds;
    if (!a || !speeds || !s->bias)
        return -ENOMEM;
    for (uint32_t i = 0; i < n->delta.n_v_heads; i++)
        speeds[i] = n->delta.negated ? a[i] : (float)-exp((double)a[i]);
    f->plan->max_k_dim = MAX(f->plan->max_k_dim, n->delta.k_dim);
    f->done[ref] = true;
    return 0;
}
