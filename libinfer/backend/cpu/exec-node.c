/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single operations on rows: what was not fused, and what fused stages share with it
 *
 * Rows are split evenly among the threads.
 */
#include "backend/cpu/program.h"

#include <string.h>

#include "quant/dtype.h"

void exec_embed(const struct exec *x, const struct stage *s, unsigned i_thread)
{
    const struct dtype_info *info = dtype_info(s->table.dtype);
    const uint64_t row_bytes = (uint64_t)(s->table.cols / info->block_elems) * info->block_bytes;
    uint32_t begin, end;

    exec_share(x, i_thread, x->batch->n_rows, &begin, &end);
    for (uint32_t row = begin; row < end; row++) {
        const int32_t token = x->batch->tokens[row];
        float *y = exec_row(x, s->dst, row);

        assert(token >= 0 && (uint32_t)token < s->table.rows);
        info->decode((const unsigned char *)s->table.data + (uint64_t)token * row_bytes, y,
                     s->table.cols);
        if (s->f != 1.0f)
            x->cpu->elem->scale(y, y, s->f, s->width);
    }
}

void exec_rope(const struct exec *x, int i_rope, uint32_t row, float *head)
{
    const struct rope_table *t = &x->plan->ropes[i_rope];
    const uint32_t n = t->params.n_dims;
    const float *c = t->data + (size_t)row * 2 * n;

    if (t->params.style == ROPE_PAIRS)
        x->cpu->elem->rope_pairs(head, c, c + n, n);
    else
        x->cpu->elem->rope_half(head, c, c + n, n);
}

/* Keys lie across the block: element d of all its tokens together. */
static void scatter16(uint16_t *dst, const uint16_t *src, uint32_t n, uint32_t stride)
{
    for (uint32_t d = 0; d < n; d++)
        dst[(size_t)d * stride] = src[d];
}

static void scatter32(float *dst, const float *src, uint32_t n, uint32_t stride)
{
    for (uint32_t d = 0; d < n; d++)
        dst[(size_t)d * stride] = src[d];
}

void exec_store(const struct exec *x, enum kv_part part, uint32_t i_layer, uint32_t i_head,
                uint32_t row, const float *head, void *half)
{
    const struct kv_store *store = x->store;
    const uint32_t n = store->layout.head_dim, bt = store->layout.block_tokens;
    const uint32_t t = x->plan->row_offset[row];
    unsigned char *to = kv_store_head(store, part, i_layer, i_head, x->plan->row_block[row]);
    const struct elem_fns *elem = x->cpu->elem;

    to += (size_t)t * (part == KV_KEYS ? 1 : n) * store->elem_bytes;
    if (store->format == ATTN_F32) {
        if (part == KV_KEYS)
            scatter32((float *)to, head, n, bt);
        else
            memcpy(to, head, n * sizeof(float));
        return;
    }
    void (*const convert)(uint16_t *, const float *, uint32_t) =
        store->format == ATTN_F16 ? elem->f16_store : elem->bf16_store;

    convert(part == KV_KEYS ? half : (void *)to, head, n);
    if (part == KV_KEYS)
        scatter16((uint16_t *)to, half, n, bt);
}

static void node_row(const struct exec *x, const struct stage *s, uint32_t row, void *half)
{
    const struct elem_fns *elem = x->cpu->elem;
    const uint32_t n = s->width;
    const float *a, *b;
    float *y;

    if (s->kv != KV_NONE) {
        for (uint32_t h = 0; h < s->attn.n_kv_heads; h++)
            exec_store(x, s->kv, s->attn.i_layer, h, row,
                       exec_row(x, s->src[0], row) + (size_t)h * s->attn.head_dim, half);
        return;
    }
    y = exec_row(x, s->dst, row);
    a = exec_row(x, s->src[0], s->op == GRAPH_ROWS ? x->batch->logit_rows[row] : row);
    b = s->src[1] >= 0 ? exec_row(x, s->src[1], row) : NULL;
    switch (s->op) {
    case GRAPH_RMS_NORM:
        for (uint32_t i = 0; i < n; i += s->group)
            elem->rms_norm(y + i, a + i, s->norm_w, s->f, s->group);
        break;
    case GRAPH_ROPE:
        memcpy(y, a, n * sizeof(float));
        for (uint32_t i = 0; i < n; i += s->group)
            exec_rope(x, s->i_rope, row, y + i);
        break;
    case GRAPH_GLU:
        elem_glu(elem, s->act, y, a, b, n);
        break;
    case GRAPH_ADD:
        elem->add(y, a, b, n);
        break;
    case GRAPH_SCALE:
        elem->scale(y, a, s->f, n);
        break;
    case GRAPH_ROWS:
    case GRAPH_OUTPUT:
        memcpy(y, a, n * sizeof(float));
        break;
    default:
        assert(false);
    }
}

void exec_node(const struct exec *x, const struct stage *s, unsigned i_thread)
{
    void *half = exec_memory(x, i_thread) + x->plan->mem.half;
    uint32_t begin, end;

    exec_share(x, i_thread, exec_rows(x, s->rows_kept), &begin, &end);
    for (uint32_t row = begin; row < end; row++)
        node_row(x, s, row, half);
}
