/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/backend/ops-model.h"

#include <math.h>

#include "lib/test.h"
#include "quant/dtype.h"

static const struct weight no_weight;

/* Returns a random weight. If @n_experts is not 0, it has this many matrices. */
static struct weight random_weight(struct ops_model *m, enum inf_dtype dtype, uint32_t n_experts,
                                   uint32_t rows, uint32_t cols, float mean, float scale)
{
    const size_t n_rows = (size_t)rows * MAX(n_experts, 1u), n = n_rows * cols;
    float *f = arena_alloc(&m->arena, n * sizeof(float));
    uint64_t row_bytes;
    void *data;

    assert_non_null(f);
    for (size_t i = 0; i < n; i++)
        f[i] = mean + scale * (float)(2 * rng_double(&m->rng) - 1);
    assert_true(dtype_row_bytes(dtype, cols, &row_bytes));
    data = arena_alloc(&m->arena, row_bytes * n_rows);
    assert_non_null(data);
    dtype_info(dtype)->encode(f, data, n);
    return (struct weight){.data = data,
                           .dtype = dtype,
                           .rows = rows,
                           .cols = cols,
                           .n_experts = n_experts,
                           .expert_bytes = n_experts > 0 ? rows * row_bytes : 0,
                           .name = "w"};
}

static struct weight random_vector(struct ops_model *m, uint32_t n, float mean, float scale)
{
    return random_weight(m, INF_DTYPE_F32, 0, 1, n, mean, scale);
}

static graph_ref product(struct ops_model *m, graph_ref x, uint32_t rows)
{
    const uint32_t cols = graph_node(m->graph, x)->width;
    const struct weight w = random_weight(m, m->dtype, 0, rows, cols, 0, 1.7f / sqrtf((float)cols));

    return graph_matmul(m->graph, x, &w, NULL);
}

static graph_ref norm(struct ops_model *m, graph_ref x)
{
    const struct weight w = random_vector(m, graph_node(m->graph, x)->width, 1, 0.4f);

    return graph_rms_norm(m->graph, x, &w, 1e-5f, 0);
}

static graph_ref columns_layer(struct ops_model *m, graph_ref x)
{
    struct graph *g = m->graph;
    const graph_ref n = norm(m, x), wide = product(m, n, 2 * OPS_EMBD), gate = product(m, n, 1);
    const graph_ref limited =
        graph_glu(g, product(m, n, 96), product(m, n, 96), GRAPH_ACT_SWIGLU_LIMITED);
    const graph_ref linear = graph_glu(g, product(m, n, 96), product(m, n, 96), GRAPH_ACT_LINEAR);
    const struct cols_params halves = {.stride = 32, .n_parts = 2, .parts = {{16, 16}, {0, 16}}};
    const graph_ref swapped = graph_cols_of(g, wide, &halves);
    graph_ref a = graph_cols(g, wide, 32, 0, 16);
    graph_ref b = graph_cols(g, swapped, 2 * OPS_EMBD, 0, OPS_EMBD);

    a = graph_glu(g, graph_act(g, a, GRAPH_ACT_SIGMOID), b, GRAPH_ACT_SIGMOID);
    a = graph_rms_norm(g, a, &no_weight, 1e-5f, 16);
    a = graph_glu(g, gate, a, GRAPH_ACT_SIGMOID);
    a = graph_glu(g, gate, a, GRAPH_ACT_SWIGLU_LIMITED);
    b = graph_rms_norm(g, graph_cap(g, product(m, linear, OPS_EMBD), 0.5f), &no_weight, 1e-5f,
                       OPS_EMBD);
    b = graph_act(g, product(m, b, OPS_EMBD), GRAPH_ACT_SIGMOID);
    x = graph_add(g, x, graph_add(g, a, b));
    return graph_add(g, graph_cap(g, x, 3), graph_cap(g, product(m, limited, OPS_EMBD), 2));
}

/* Adds streams of four kinds, with and without a base and factors of the row. */
static graph_ref streams_layer(struct ops_model *m, graph_ref x)
{
    enum { STREAMS = 4, WIDTH = OPS_EMBD / STREAMS };
    const struct blend_params all = {STREAMS, STREAMS}, spread = {1, STREAMS};
    const struct weight fixed = random_vector(m, STREAMS * STREAMS, 0, 0.5f);
    const struct weight some = random_vector(m, STREAMS, 0, 1);
    const struct weight columns = random_vector(m, OPS_EMBD, 1, 0.5f);
    struct graph *g = m->graph;
    const graph_ref n = norm(m, x), factors = product(m, n, STREAMS * STREAMS);
    graph_ref y = graph_blend(g, n, GRAPH_NONE, GRAPH_NONE, &fixed, &all), one;

    y = graph_blend(g, n, y, factors, NULL, &all);
    one = graph_level(g, product(m, y, WIDTH), graph_cols(g, x, OPS_EMBD, 0, WIDTH), 1e-5f);
    y = graph_blend(g, one, graph_scale_columns(g, y, &columns), product(m, n, STREAMS), &some,
                    &spread);
    y = graph_glu(g, graph_peaks(g, product(m, y, 96), 0.8f), product(m, y, 96),
                  GRAPH_ACT_GELU_TANH);
    return graph_add(g, x, product(m, y, OPS_EMBD));
}

static graph_ref attend(struct ops_model *m, graph_ref x, struct attn_params *p)
{
    const uint32_t n_kv = p->n_kv_heads * p->head_dim;
    const graph_ref n = norm(m, x), q = product(m, n, p->n_heads * p->head_dim);
    graph_ref y, k;

    p->scale = 1 / sqrtf((float)p->head_dim);
    if (p->shared) {
        y = graph_attention_shared(m->graph, q, p);
    } else {
        k = graph_rms_norm(m->graph, product(m, n, n_kv), &no_weight, 1e-5f, p->head_dim);
        y = graph_attention(m->graph, q, k, product(m, n, n_kv), p);
    }
    return graph_add(m->graph, x, product(m, y, OPS_EMBD));
}

static graph_ref attention_layers(struct ops_model *m, graph_ref x)
{
    struct attn_params full = {.n_heads = 8, .n_kv_heads = 2, .head_dim = 20, .softcap = 0.7f};
    struct attn_params local = {
        .n_heads = 4, .n_kv_heads = 1, .head_dim = 64, .window = 37, .i_group = 1};

    m->layout.groups[0] =
        (struct state_group){.rule = STATE_FULL, .n_layers = 2, .n_kv_heads = 2, .head_dim = 20};
    m->layout.groups[1] = (struct state_group){
        .rule = STATE_WINDOW, .n_layers = 1, .n_kv_heads = 1, .head_dim = 64, .window = 37};
    m->layout.n_groups = 2;
    x = attend(m, x, &full);
    local.sinks = random_vector(m, local.n_heads, 0, 2);
    x = attend(m, x, &local);
    full.i_layer = 1;
    full.softcap = 0;
    full.sinks = random_vector(m, full.n_heads, 1, 4);
    x = attend(m, x, &full);
    local.shared = true;
    local.softcap = 2;
    x = attend(m, x, &local);
    full.shared = true;
    return attend(m, x, &full);
}

static graph_ref experts_layer(struct ops_model *m, graph_ref x, const struct route_params *p,
                               bool bias, enum graph_act act)
{
    enum { N = 9, WIDTH = 96 };
    struct graph *g = m->graph;
    const graph_ref n = norm(m, x);
    const struct weight route_bias = random_vector(m, N, 0, bias ? 0.3f : 0);
    const struct weight factors = random_vector(m, N, 1, bias ? 0.3f : 0);
    const graph_ref route =
        graph_route(g, product(m, n, N), bias ? &route_bias : NULL, bias ? &factors : NULL, p);
    const struct weight gate = random_weight(m, m->dtype, N, WIDTH, OPS_EMBD, 0, 0.2f);
    const struct weight up = random_weight(m, m->dtype, N, WIDTH, OPS_EMBD, 0, 0.2f);
    struct weight down = random_weight(m, m->dtype, N, OPS_EMBD, WIDTH, 0, 0.2f);
    const struct weight b = random_weight(m, INF_DTYPE_BF16, N, 1, WIDTH, 0, 0.3f);
    const void **list = arena_alloc(&m->arena, N * sizeof(*list));
    graph_ref y;

    assert_non_null(list);
    for (uint32_t i = 0; i < N; i++)
        list[i] = (const char *)down.data + (N - 1 - i) * down.expert_bytes;
    down.experts = list;
    down.data = list[0];
    y = graph_matmul_experts(g, n, route, &up, bias ? &b : NULL);
    if (act == GRAPH_ACT_RELU2)
        y = graph_act(g, y, act);
    else
        y = graph_glu(g, graph_matmul_experts(g, n, route, &gate, bias ? &b : NULL), y, act);
    if (bias)
        y = graph_cols(g, graph_scale(g, graph_add(g, y, y), 0.7f), WIDTH, 0, WIDTH);
    y = graph_mix(g, graph_matmul_experts(g, y, route, &down, NULL), route);
    return graph_add(g, x, y);
}

static graph_ref experts_layers(struct ops_model *m, graph_ref x)
{
    const struct route_params softmax = {ROUTE_SOFTMAX, 3, true, 1};
    const struct route_params selected = {ROUTE_SOFTMAX_SELECTED, 4, false, 1};
    const struct route_params sigmoid = {ROUTE_SIGMOID, 2, true, 2.5f};
    const struct route_params plain = {ROUTE_SOFTMAX, 1, false, 1};

    x = experts_layer(m, x, &softmax, false, GRAPH_ACT_SILU);
    x = experts_layer(m, x, &selected, true, GRAPH_ACT_SWIGLU_LIMITED);
    x = experts_layer(m, x, &plain, false, GRAPH_ACT_RELU2);
    return experts_layer(m, graph_rows(m->graph, x), &sigmoid, true, GRAPH_ACT_GELU_TANH);
}

static graph_ref recurrent_layer(struct ops_model *m, graph_ref x, const struct delta_params *p,
                                 uint32_t n_taps, const enum graph_act *act)
{
    const uint32_t width = 2 * p->n_k_heads * p->k_dim + p->n_v_heads * p->v_dim;
    struct graph *g = m->graph;
    const graph_ref n = norm(m, x), a = product(m, n, p->n_v_heads),
                    b = product(m, n, p->n_v_heads);
    const struct weight taps = random_weight(m, INF_DTYPE_F32, 0, width, n_taps, 0, 0.8f);
    const struct weight bias = random_vector(m, width, 0, 0.2f);
    struct weight rate = random_vector(m, p->n_v_heads, p->negated ? -1 : 0, 0.8f);
    const struct weight dt = random_vector(m, p->n_v_heads, -1, 1);
    graph_ref y = graph_conv(g, product(m, n, width), &taps, act ? &bias : NULL, act, &p->place);

    y = graph_delta(g, y, a, b, &rate, &dt, p);
    y = graph_rms_norm(g, y, &no_weight, 1e-5f, p->v_dim);
    y = graph_glu(g, product(m, n, p->n_v_heads * p->v_dim), y, GRAPH_ACT_SILU);
    return graph_add(g, x, product(m, y, OPS_EMBD));
}

static graph_ref recurrent_layers(struct ops_model *m, graph_ref x)
{
    static const enum graph_act silu = GRAPH_ACT_SILU;
    struct attn_params full = {.n_heads = 8, .n_kv_heads = 2, .head_dim = 20, .i_group = 1};
    const struct delta_params odd = {.place = {2, 0},
                                     .n_k_heads = 2,
                                     .n_v_heads = 8,
                                     .k_dim = 27,
                                     .v_dim = 44,
                                     .negated = true,
                                     .scale = 0.3f,
                                     .eps = 1e-6f};
    struct delta_params even = {.n_k_heads = 2,
                                .n_v_heads = 4,
                                .k_dim = 32,
                                .v_dim = 64,
                                .interleaved = true,
                                .scale = 0.18f,
                                .eps = 1e-6f};
    const uint32_t n_even = 2 * 2 * 32 + 4 * 64, n_odd = 2 * 2 * 27 + 8 * 44;

    m->layout.groups[0] = (struct state_group){.rule = STATE_RECURRENT,
                                               .n_layers = 2,
                                               .conv_floats = 3 * n_even,
                                               .matrix_floats = 4 * 32 * 64};
    m->layout.groups[1] =
        (struct state_group){.rule = STATE_FULL, .n_layers = 1, .n_kv_heads = 2, .head_dim = 20};
    m->layout.groups[2] = (struct state_group){
        .rule = STATE_RECURRENT, .n_layers = 1, .conv_floats = n_odd, .matrix_floats = 8 * 27 * 44};
    m->layout.n_groups = 3;
    x = recurrent_layer(m, x, &even, 4, &silu);
    x = recurrent_layer(m, x, &odd, 2, NULL);
    x = attend(m, x, &full);
    even.place.i_layer = 1;
    return recurrent_layer(m, x, &even, 4, NULL);
}

void ops_model_init(struct ops_model *m, enum ops_kind kind, enum inf_dtype dtype)
{
    struct weight table;
    struct inf_err err;
    graph_ref x;

    *m = (struct ops_model){.dtype = dtype};
    m->layout = kv_layout_full(1, 1, 32, OPS_BLOCK, CODEC_F32, 1);
    rng_seed(&m->rng, 7 + (uint64_t)kind);
    ASSERT_OK(graph_new(&m->graph));
    table = random_weight(m, INF_DTYPE_F32, 0, OPS_VOCAB, OPS_EMBD, 0, 1);
    x = graph_embed(m->graph, &table, 1);
    if (kind == OPS_COLUMNS)
        x = streams_layer(m, columns_layer(m, columns_layer(m, x)));
    else if (kind == OPS_ATTENTION)
        x = attention_layers(m, x);
    else if (kind == OPS_EXPERTS)
        x = experts_layers(m, x);
    else
        x = recurrent_layers(m, x);
    for (uint32_t i = 0; i < m->layout.n_groups; i++) {
        const bool recurrent = m->layout.groups[i].rule == STATE_RECURRENT;

        m->layout.n_blocks[i] = OPS_SEQS * (recurrent ? 2 : OPS_CTX / OPS_BLOCK);
    }
    if (kind != OPS_EXPERTS)
        x = graph_rows(m->graph, x);
    x = product(m, norm(m, x), OPS_VOCAB);
    graph_output(m->graph, kind == OPS_COLUMNS ? graph_cap(m->graph, x, 2) : x);
    ASSERT_OK_ERR(graph_error(m->graph, &err), err);
}

void ops_model_done(struct ops_model *m)
{
    graph_free(m->graph);
    arena_done(&m->arena);
}
