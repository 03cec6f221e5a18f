/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the operations on single rows that are separate stages. Fused stages use some of the
 * functions, too.
 *
 * The rows of a step are split evenly among the threads, except by GRAPH_TURN.
 */
#include "backend/cpu/exec/exec.h"

#include <string.h>

#include "quant/dtype.h"

static uint32_t table_row(const struct exec *x, enum graph_key key, uint32_t row)
{
    if (key == GRAPH_KEY_POSITION)
        return x->batch->positions ? x->batch->positions[row] : x->plan->row_pos[row];
    if (key == GRAPH_KEY_TYPE)
        return x->batch->types ? x->batch->types[row] : 0;
    assert(x->batch->tokens[row] >= 0);
    return (uint32_t)x->batch->tokens[row];
}

void exec_embed(const struct exec *x, const struct stage *s, unsigned i_thread)
{
    uint32_t begin, end;

    exec_share(x, i_thread, x->batch->n_rows, &begin, &end);
    for (uint32_t row = begin; row < end; row++) {
        uint32_t i = table_row(x, s->key, row);
        float *y = exec_row(x, s->dst, row);

        if (s->key == GRAPH_KEY_TOKEN && i >= s->table.rows)
            i = 0;
        assert(i < s->table.rows);
        weight_decode_row(&s->table, i, y);
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

/* Copies the selected columns of @x, which has @width columns, to @y. */
static void node_columns(const struct cols_params *p, const float *x, uint32_t width, float *y)
{
    for (uint32_t i = 0; i < p->n_parts; i++)
        for (uint32_t run = 0; run < width; run += p->stride, y += p->parts[i].n)
            memcpy(y, x + run + p->parts[i].first, p->parts[i].n * sizeof(float));
}

static void node_glu(const struct exec *x, const struct stage *s, const float *gate,
                     const float *up, float *y)
{
    if (x->plan->values[s->src[0]].width == 1 && s->width > 1)
        elem_glu_one(x->cpu->elem, s->act, y, gate, up, s->width);
    else
        elem_glu(x->cpu->elem, s->act, y, gate, up, s->width);
}

/* Writes the mean of the rows of a sequence to @y. */
static void pool_rows(const struct exec *x, const struct stage *s, const struct batch_seq *seq,
                      float *y)
{
    memcpy(y, exec_row(x, s->src[0], seq->i_row), s->width * sizeof(float));
    for (uint32_t i = 1; i < seq->n_rows; i++)
        x->cpu->elem->add(y, y, exec_row(x, s->src[0], seq->i_row + i), s->width);
    x->cpu->elem->scale(y, y, 1.0f / (float)seq->n_rows, s->width);
}

/* Adds up the streams of a row, @a, with factors of the row and of the node. */
static void node_blend(const struct exec *x, const struct stage *s, uint32_t row, const float *a,
                       const float *base, float *y)
{
    const struct elem_fns *elem = x->cpu->elem;
    const uint32_t n_in = s->blend.n_in, n = s->width / s->blend.n_out;
    const float *factors = s->src[2] >= 0 ? exec_row(x, s->src[2], row) : NULL;

    for (uint32_t j = 0; j < s->blend.n_out; j++, y += n) {
        if (base)
            memcpy(y, base + (size_t)j * n, n * sizeof(float));
        for (uint32_t i = 0; i < n_in; i++) {
            const uint32_t at = j * n_in + i;
            const float f = (factors ? factors[at] : 0) + (s->factors ? s->factors[at] : 0);

            if (base || i > 0)
                elem->add_scaled(y, a + (size_t)i * n, f, n);
            else
                elem->scale(y, a, f, n);
        }
    }
}

static void node_row(const struct exec *x, const struct stage *s, uint32_t row, void *half)
{
    const struct elem_fns *elem = x->cpu->elem;
    const uint32_t n = s->width;
    const float *a, *b;
    float *y;

    if (s->kv != KV_NONE) {
        for (uint32_t h = 0; h < s->attn.n_kv_heads; h++)
            exec_store(x, s->kv, attn_place(&s->attn), h, row,
                       exec_row(x, s->src[0], row) + (size_t)h * s->attn.head_dim, half);
        return;
    }
    if (s->op == GRAPH_EXPORT) {
        if (x->batch->exported)
            memcpy(x->batch->exported + (size_t)row * n, exec_row(x, s->src[0], row),
                   n * sizeof(float));
        return;
    }
    y = exec_row(x, s->dst, row);
    if (s->op == GRAPH_POOL) {
        pool_rows(x, s, &x->batch->seqs[row], y);
        return;
    }
    a = exec_row(x, s->src[0], s->op == GRAPH_ROWS ? x->batch->logit_rows[row] : row);
    b = s->src[1] >= 0 ? exec_row(x, s->src[1], row) : NULL;
    switch (s->op) {
    case GRAPH_RMS_NORM:
        for (uint32_t i = 0; i < n; i += s->group)
            elem->rms_norm(y + i, a + i, s->norm_w, s->f, s->group);
        break;
    case GRAPH_LAYER_NORM:
        elem->layer_norm(y, a, s->norm_w, s->bias, s->f, n);
        break;
    case GRAPH_ACT:
        elem_act(elem, s->act, y, a, n);
        break;
    case GRAPH_ROPE:
        memcpy(y, a, n * sizeof(float));
        for (uint32_t i = 0; i < n; i += s->group)
            exec_rope(x, s->i_rope, row, y + i);
        break;
    case GRAPH_GLU:
        node_glu(x, s, a, b, y);
        break;
    case GRAPH_COLS:
        node_columns(&s->cols, a, x->plan->values[s->src[0]].width, y);
        break;
    case GRAPH_MIX:
        exec_mix(x, s, row, y);
        break;
    case GRAPH_SPREAD:
        exec_spread(x, s, row, y);
        break;
    case GRAPH_CAP:
        elem->cap(y, a, s->f, n);
        break;
    case GRAPH_ADD:
        elem->add(y, a, b, n);
        break;
    case GRAPH_SCALE:
        if (s->factors)
            elem->mul(y, a, s->factors, n);
        else
            elem->scale(y, a, s->f, n);
        break;
    case GRAPH_BLEND:
        node_blend(x, s, row, a, b, y);
        break;
    case GRAPH_LEVEL:
        elem->level(y, a, b, s->f, n);
        break;
    case GRAPH_PEAKS:
        elem->peaks(y, a, s->f, n);
        break;
    case GRAPH_ROWS:
    case GRAPH_OUTPUT:
        memcpy(y, a, n * sizeof(float));
        break;
    default:
        assert(false);
    }
}

/* Prepares this thread's share of the groups of columns of all rows (struct turn_params). */
static void node_turn(const struct exec *x, const struct stage *s, unsigned i_thread)
{
    const struct value *to = &x->plan->values[s->dst], *from = &x->plan->values[s->src[0]];
    struct turn_args a = {.params = s->turn,
                          .y = exec_row(x, s->dst, 0),
                          .x = exec_row(x, s->src[0], 0),
                          .ld_y = to->ld,
                          .ld_x = from->ld,
                          .n_rows = exec_rows(x, s->rows_kept) * to->slots};

    exec_share(x, i_thread, s->width / s->turn->group, &a.begin, &a.end);
    x->cpu->elem->turn(&a);
}

void exec_node(const struct exec *x, const struct stage *s, unsigned i_thread)
{
    void *half = exec_memory(x, i_thread) + x->plan->mem.half;
    uint32_t begin, end, n_slots;

    if (s->op == GRAPH_TURN) {
        node_turn(x, s, i_thread);
        return;
    }
    exec_share(x, i_thread, exec_rows(x, s->rows_kept), &begin, &end);
    n_slots = s->dst >= 0 ? x->plan->values[s->dst].slots : 1;
    for (uint32_t row = begin * n_slots; row < end * n_slots; row++)
        node_row(x, s, row, half);
}
