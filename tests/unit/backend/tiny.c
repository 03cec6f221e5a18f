/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/tiny.h"

#include <math.h>

#include "lib/test.h"
#include "quant/dtype.h"

const struct tiny_options tiny_qwen = {.dtype = INF_DTYPE_Q8_0,
                                       .n_layers = 3,
                                       .n_embd = 64,
                                       .n_heads = 4,
                                       .n_kv_heads = 4,
                                       .head_dim = 32,
                                       .n_ff = 160,
                                       .n_vocab = 131,
                                       .rope = ROPE_HALF,
                                       .rope_dims = 24,
                                       .window = 37,
                                       .qk_norm = true,
                                       .bias = true,
                                       .tied = true,
                                       .seed = 2};

static struct weight weight_random(struct tiny *t, struct rng *rng, enum inf_dtype dtype,
                                   uint32_t rows, uint32_t cols, float mean, float scale)
{
    const struct dtype_info *info = dtype_info(dtype);
    float *f = arena_alloc(&t->arena, (size_t)rows * cols * sizeof(float));
    uint64_t row_bytes;
    void *data;

    assert_non_null(f);
    for (size_t i = 0; i < (size_t)rows * cols; i++)
        f[i] = mean + scale * (float)(2 * rng_double(rng) - 1);
    assert_true(dtype_row_bytes(dtype, cols, &row_bytes));
    data = arena_alloc(&t->arena, row_bytes * rows);
    assert_non_null(data);
    info->encode(f, data, (uint64_t)rows * cols);
    return (struct weight){.data = data, .dtype = dtype, .rows = rows, .cols = cols, .name = "w"};
}

static graph_ref product(struct tiny *t, struct rng *rng, graph_ref x, uint32_t rows, uint32_t cols,
                         bool bias)
{
    const struct weight w =
        weight_random(t, rng, t->o.dtype, rows, cols, 0, 1.7f / sqrtf((float)cols));
    const struct weight b = weight_random(t, rng, INF_DTYPE_F32, 1, rows, 0, 0.3f);

    return graph_matmul(t->graph, x, &w, bias ? &b : NULL);
}

static graph_ref norm(struct tiny *t, struct rng *rng, graph_ref x, uint32_t n, uint32_t group)
{
    const struct weight w = weight_random(t, rng, INF_DTYPE_F32, 1, n, 1, 0.4f);

    return graph_rms_norm(t->graph, x, &w, 1e-5f, group);
}

static graph_ref layer(struct tiny *t, struct rng *rng, graph_ref x, uint32_t i,
                       const struct rope_params *rope)
{
    const struct tiny_options *o = &t->o;
    const uint32_t n_q = o->n_heads * o->head_dim, n_kv = o->n_kv_heads * o->head_dim;
    const struct attn_params attn = {.i_layer = i,
                                     .n_heads = o->n_heads,
                                     .n_kv_heads = o->n_kv_heads,
                                     .head_dim = o->head_dim,
                                     .scale = 1 / sqrtf((float)o->head_dim),
                                     .window = i % 2 ? o->window : 0};
    graph_ref n, q, k, v, gate, up;

    graph_begin_layer(t->graph, i);
    n = norm(t, rng, x, o->n_embd, 0);
    q = product(t, rng, n, n_q, o->n_embd, o->bias);
    k = product(t, rng, n, n_kv, o->n_embd, o->bias);
    v = product(t, rng, n, n_kv, o->n_embd, o->bias);
    if (o->qk_norm) {
        q = norm(t, rng, q, o->head_dim, o->head_dim);
        k = norm(t, rng, k, o->head_dim, o->head_dim);
    }
    q = graph_rope(t->graph, q, o->head_dim, rope);
    k = graph_rope(t->graph, k, o->head_dim, rope);
    n = product(t, rng, graph_attention(t->graph, q, k, v, &attn), o->n_embd, n_q, false);
    x = graph_add(t->graph, x, n);

    n = norm(t, rng, x, o->n_embd, 0);
    gate = product(t, rng, n, o->n_ff, o->n_embd, false);
    up = product(t, rng, n, o->n_ff, o->n_embd, false);
    n = graph_glu(t->graph, gate, up, GRAPH_ACT_SILU);
    return graph_add(t->graph, x, product(t, rng, n, o->n_embd, o->n_ff, false));
}

void tiny_init(struct tiny *t, const struct tiny_options *options)
{
    const struct tiny_options *o = &t->o;
    struct rope_params rope;
    struct weight table;
    struct inf_err err;
    struct rng rng;
    float *freq;
    graph_ref x;

    *t = (struct tiny){.o = *options};
    if (t->o.rope_dims == 0)
        t->o.rope_dims = t->o.head_dim;
    rng_seed(&rng, o->seed);
    freq = arena_alloc(&t->arena, o->rope_dims / 2 * sizeof(float));
    assert_non_null(freq);
    for (uint32_t i = 0; i < o->rope_dims / 2; i++)
        freq[i] = powf(10000, -2.0f * (float)i / (float)o->rope_dims);
    rope = (struct rope_params){o->rope, o->rope_dims, freq, 1};

    ASSERT_OK(graph_new(&t->graph));
    table = weight_random(t, &rng, o->dtype, o->n_vocab, o->n_embd, 0, 1);
    x = graph_embed(t->graph, &table, 1);
    for (uint32_t i = 0; i < o->n_layers; i++)
        x = layer(t, &rng, x, i, &rope);
    x = norm(t, &rng, graph_rows(t->graph, x), o->n_embd, 0);
    x = o->tied ? graph_matmul(t->graph, x, &table, NULL)
                : product(t, &rng, x, o->n_vocab, o->n_embd, false);
    graph_output(t->graph, x);
    ASSERT_OK_ERR(graph_error(t->graph, &err), err);
}

void tiny_done(struct tiny *t)
{
    graph_free(t->graph);
    arena_done(&t->arena);
}
