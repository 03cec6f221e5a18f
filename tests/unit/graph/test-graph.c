/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph.h"

#include <math.h>

#include "core/str.h"
#include "lib/test.h"

static const float floats[64];
static const float freqs[4] = {1, 0.5f, 0.25f, 0.125f};

static struct weight weight(const char *name, enum inf_dtype dtype, uint32_t rows, uint32_t cols)
{
    return (struct weight){
        .data = floats, .dtype = dtype, .rows = rows, .cols = cols, .name = name};
}

static graph_ref embed(struct graph *g, uint32_t width)
{
    const struct weight table = weight("embd", INF_DTYPE_F32, 10, width);

    return graph_embed(g, &table, 1);
}

/* Checks that the graph has failed with a message that contains @part. */
static void assert_wrong(struct graph *g, const char *part)
{
    struct inf_err err = {0};

    ASSERT_ERROR(graph_error(g, &err), EINVAL);
    ASSERT_CONTAINS(err.text, part);
    graph_free(g);
}

static struct graph *graph_make(void)
{
    struct graph *g;

    ASSERT_OK(graph_new(&g));
    return g;
}

TEST(a_layer_dumps_as_text)
{
    const struct weight norm = weight("norm", INF_DTYPE_F32, 1, 16);
    const struct weight head_norm = weight("q_norm", INF_DTYPE_F16, 1, 8);
    const struct weight wq = weight("q", INF_DTYPE_BF16, 16, 16),
                        bq = weight("qb", INF_DTYPE_F32, 1, 16);
    const struct weight wk = weight("k", INF_DTYPE_F32, 8, 16),
                        wo = weight(NULL, INF_DTYPE_F16, 16, 16);
    const struct rope_params rope = {ROPE_HALF, 8, freqs, 1};
    const struct attn_params attn = {0, 2, 1, 8, 0.5f, 12};
    struct graph *g = graph_make();
    _cleanup_str_ struct str text = {0};
    graph_ref x = embed(g, 16), n, q, k, v, o;

    n = graph_rms_norm(g, x, &norm, 1e-6f, 0);
    q = graph_rms_norm(g, graph_matmul(g, n, &wq, &bq), &head_norm, 1e-5f, 8);
    k = graph_rope(g, graph_matmul(g, n, &wk, NULL), 8, &rope);
    v = graph_matmul(g, n, &wk, NULL);
    o = graph_matmul(g, graph_attention(g, graph_rope(g, q, 8, &rope), k, v, &attn), &wo, NULL);
    x = graph_add(g, x, graph_scale(g, o, 0.5f));
    x = graph_add(g, x, graph_glu(g, x, x, GRAPH_ACT_GELU_TANH));
    graph_output(g, graph_rows(g, x));

    ASSERT_OK(graph_error(g, NULL));
    ASSERT_OK(graph_dump(g, &text));
    ASSERT_STREQ(text.data,
                 "%0 [16] = embed embd f32 10x16\n"
                 "%1 [16] = rms_norm %0 norm f32 1x16 group 16 eps 9.99999997e-07\n"
                 "%2 [16] = matmul %1 q bf16 16x16 bias qb f32 1x16\n"
                 "%3 [16] = rms_norm %2 q_norm f16 1x8 group 8 eps 9.99999975e-06\n"
                 "%4 [8] = matmul %1 k f32 8x16\n"
                 "%5 [8] = rope %4 half head 8 dims 8 mscale 1\n"
                 "%6 [8] = matmul %1 k f32 8x16\n"
                 "%7 [16] = rope %3 half head 8 dims 8 mscale 1\n"
                 "%8 [16] = attention %7 %5 %6 layer 0 heads 2/1 dim 8 scale 0.5 window 12\n"
                 "%9 [16] = matmul %8 (unnamed) f16 16x16\n"
                 "%10 [16] = scale %9 by 0.5\n"
                 "%11 [16] = add %0 %10\n"
                 "%12 [16] = glu %11 %11 gelu_tanh\n"
                 "%13 [16] = add %11 %12\n"
                 "%14 [16 kept] = rows %13\n"
                 "%15 [16 kept] = output %14\n");
    graph_free(g);
}

TEST(the_first_mistake_sticks)
{
    const struct weight w = weight("w", INF_DTYPE_F32, 4, 9);
    struct graph *g = graph_make();

    assert_int_equal(graph_matmul(g, embed(g, 8), &w, NULL), GRAPH_NONE);
    assert_int_equal(embed(g, 8), GRAPH_NONE);
    graph_output(g, GRAPH_NONE);
    assert_int_equal(graph_n_nodes(g), 1);
    assert_wrong(g, "w has 9 columns, its input 8");
}

TEST(weights_are_checked)
{
    const struct weight none = {0};
    struct weight w = weight("w", INF_DTYPE_Q4_K, 4, 8), b;
    struct graph *g = graph_make();

    graph_matmul(g, embed(g, 8), &w, NULL);
    assert_wrong(g, "not a whole number of Q4_K blocks");

    g = graph_make();
    graph_matmul(g, embed(g, 8), &none, NULL);
    assert_wrong(g, "missing");

    g = graph_make();
    w = weight("w", INF_DTYPE_N, 4, 8);
    graph_matmul(g, embed(g, 8), &w, NULL);
    assert_wrong(g, "unknown number format");

    g = graph_make();
    w = weight("w", INF_DTYPE_F32, 4, 8);
    b = weight("b", INF_DTYPE_F32, 1, 8);
    graph_matmul(g, embed(g, 8), &w, &b);
    assert_wrong(g, "b is 1 x 8, expected a vector of 4");

    g = graph_make();
    w = weight("w", INF_DTYPE_F32, UINT32_MAX, 8);
    graph_matmul(g, embed(g, 8), &w, NULL);
    assert_wrong(g, "too many");

    g = graph_make();
    w = weight("w", INF_DTYPE_F32, 0, 8);
    graph_matmul(g, embed(g, 8), &w, NULL);
    assert_wrong(g, "empty");

    g = graph_make();
    w = weight("w", INF_DTYPE_F32, 1, 3);
    graph_rms_norm(g, embed(g, 8), &w, 0, 3);
    assert_wrong(g, "groups of 3 do not divide 8");
}

TEST(heads_are_checked)
{
    const struct rope_params odd = {ROPE_PAIRS, 3, freqs, 1}, wide = {ROPE_PAIRS, 6, freqs, 1};
    struct attn_params attn = {0, 3, 2, 4, 1, 0};
    struct graph *g = graph_make();
    graph_ref x;

    graph_rope(g, embed(g, 8), 4, &odd);
    assert_wrong(g, "3 rotated dimensions");

    g = graph_make();
    graph_rope(g, embed(g, 8), 4, &wide);
    assert_wrong(g, "6 rotated dimensions");

    g = graph_make();
    x = embed(g, 8);
    graph_attention(g, x, x, x, &attn);
    assert_wrong(g, "3 heads cannot share 2");

    g = graph_make();
    x = embed(g, 8);
    attn = (struct attn_params){0, 2, 1, 4, 1, 0};
    graph_attention(g, x, x, x, &attn);
    assert_wrong(g, "keys and values have 8 and 8 columns");

    g = graph_make();
    x = embed(g, 8);
    attn = (struct attn_params){0, 2, 2, 4, NAN, 0};
    graph_attention(g, x, x, x, &attn);
    assert_wrong(g, "not finite");
}

TEST(streams_dump_as_text)
{
    const struct blend_params all = {2, 2}, spread = {1, 3};
    const struct weight w = weight("w", INF_DTYPE_F32, 1, 3), c = weight("c", INF_DTYPE_F32, 1, 8);
    struct graph *g = graph_make();
    graph_ref x = embed(g, 8), f = embed(g, 4);
    struct str text = {0};

    x = graph_blend(g, x, x, f, NULL, &all);
    x = graph_peaks(g, graph_level(g, graph_scale_columns(g, x, &c), x, 0.5f), -2);
    graph_blend(g, x, GRAPH_NONE, GRAPH_NONE, &w, &spread);
    ASSERT_OK(graph_dump(g, &text));
    assert_string_equal(text.data, "%0 [8] = embed embd f32 10x8\n"
                                   "%1 [4] = embed embd f32 10x4\n"
                                   "%2 [8] = blend %0 %0 %1 2 streams to 2\n"
                                   "%3 [8] = scale %2 c f32 1x8\n"
                                   "%4 [8] = level %3 %2 least 0.5\n"
                                   "%5 [8] = peaks %4 above -2\n"
                                   "%6 [24] = blend %5 w f32 1x3 1 streams to 3\n");
    str_done(&text);
    graph_free(g);
}

TEST(streams_are_checked)
{
    const struct blend_params odd = {3, 1}, many = {1, BLEND_STREAMS_MAX + 1}, two = {2, 2};
    const struct weight w = weight("w", INF_DTYPE_F32, 1, 3);
    struct graph *g = graph_make();
    graph_ref x;

    graph_blend(g, embed(g, 8), GRAPH_NONE, GRAPH_NONE, &w, &odd);
    assert_wrong(g, "blend: 8 columns cannot be 3 streams that become 1");
    g = graph_make();
    graph_blend(g, embed(g, 8), GRAPH_NONE, GRAPH_NONE, &w, &many);
    assert_wrong(g, "blend: 8 columns cannot be 1 streams that become 9");
    g = graph_make();
    graph_blend(g, embed(g, 8), GRAPH_NONE, GRAPH_NONE, NULL, &two);
    assert_wrong(g, "no factors");
    g = graph_make();
    graph_blend(g, embed(g, 8), GRAPH_NONE, GRAPH_NONE, &w, &two);
    assert_wrong(g, "expected a vector of 4");
    g = graph_make();
    x = embed(g, 8);
    graph_blend(g, x, x, x, NULL, &two);
    assert_wrong(g, "its factors have 8 columns, not 4");
    g = graph_make();
    x = embed(g, 8);
    graph_blend(g, x, embed(g, 4), GRAPH_NONE, &w, &two);
    assert_wrong(g, "its base has 4 columns, not 8");
    g = graph_make();
    x = embed(g, 8);
    graph_blend(g, x, GRAPH_NONE, embed(g, 4), NULL, &two);
    assert_wrong(g, "its input 1 is not a value");
    g = graph_make();
    x = embed(g, 8);
    graph_level(g, x, x, 0);
    assert_wrong(g, "not positive");
    g = graph_make();
    graph_peaks(g, embed(g, 8), -INFINITY);
    assert_wrong(g, "not finite");
    g = graph_make();
    graph_scale_columns(g, embed(g, 8), &w);
    assert_wrong(g, "expected a vector of 8");
}

/* Appends rows with 2 slots of 3 columns, of 4 clusters, and returns the slots. */
static graph_ref slots(struct graph *g, graph_ref x, graph_ref *ret_route)
{
    const struct route_params route = {.n_used = 2, .scale = 1};
    const struct weight scores = weight("scores", INF_DTYPE_F32, 4, 8);
    struct weight w = weight("clusters", INF_DTYPE_F32, 3, 8);

    w.n_experts = 4;
    w.expert_bytes = 3 * 8 * sizeof(float);
    *ret_route = graph_route(g, graph_matmul(g, x, &scores, NULL), NULL, NULL, &route);
    return graph_matmul_experts(g, x, *ret_route, &w, NULL);
}

TEST(slots_are_spread_to_places_that_exist)
{
    static const uint32_t places[12];
    struct spread_params spread = {.width = 12, .places = places};
    struct graph *g = graph_make();
    struct inf_err err = {0};
    graph_ref x, route;

    x = embed(g, 8);
    x = slots(g, x, &route);
    x = graph_spread(g, x, route, &spread);
    graph_output(g, graph_rows(g, x));
    ASSERT_OK_ERR(graph_error(g, &err), err);
    assert_int_equal(graph_node(g, x)->width, 12);
    assert_int_equal(graph_node(g, x)->slots, 0);
    graph_free(g);

    g = graph_make();
    spread.width = 11;
    x = embed(g, 8);
    x = slots(g, x, &route);
    graph_spread(g, x, route, &spread);
    assert_wrong(g, "4 x 3 columns do not have places in 11");

    g = graph_make();
    x = embed(g, 8);
    graph_spread(g, x, x, &spread);
    assert_wrong(g, "spread: its input has 0 slots");
}

TEST(queries_to_the_past_have_factors_of_their_width)
{
    const struct attn_params attn = {.n_heads = 2, .n_kv_heads = 1, .head_dim = 4, .scale = 1};
    const struct weight w = weight("norm", INF_DTYPE_F32, 1, 4);
    const struct weight wide = weight("factors", INF_DTYPE_F32, 1, 8);
    struct graph *g = graph_make();
    struct inf_err err = {0};
    graph_ref q;

    q = graph_rms_norm_by(g, embed(g, 8), &w, &w, 1e-6f, 4);
    q = graph_attention_past(g, q, &attn);
    graph_output(g, graph_rows(g, q));
    ASSERT_OK_ERR(graph_error(g, &err), err);
    assert_int_equal(graph_node(g, q)->width, 8);
    graph_free(g);

    g = graph_make();
    graph_rms_norm_by(g, embed(g, 8), &w, &wide, 1e-6f, 4);
    assert_wrong(g, "factors is 1 x 8, expected a vector of 4");

    g = graph_make();
    graph_attention_past(g, embed(g, 4), &attn);
    assert_wrong(g, "queries have 4 columns, not 2 x 4");
}

TEST(an_input_is_as_wide_as_it_says_and_alone)
{
    struct graph *g = graph_make();

    graph_output(g, graph_rows(g, graph_input(g, 8)));
    ASSERT_OK(graph_error(g, NULL));
    assert_int_equal(graph_node(g, 0)->width, 8);
    graph_free(g);

    g = graph_make();
    graph_input(g, 0);
    assert_wrong(g, "no columns");

    g = graph_make();
    graph_input(g, UINT32_MAX);
    assert_wrong(g, "too many");

    g = graph_make();
    graph_input(g, 8);
    graph_input(g, 8);
    assert_wrong(g, "one already");
}

TEST(rows_and_output_have_their_order)
{
    struct graph *g = graph_make();
    graph_ref x = embed(g, 8);

    assert_wrong(g, "no output");

    g = graph_make();
    graph_output(g, embed(g, 8));
    assert_wrong(g, "all rows");

    g = graph_make();
    x = embed(g, 8);
    graph_add(g, x, graph_rows(g, x));
    assert_wrong(g, "different rows");

    g = graph_make();
    graph_rows(g, graph_rows(g, embed(g, 8)));
    assert_wrong(g, "lost rows already");

    g = graph_make();
    graph_output(g, graph_rows(g, embed(g, 8)));
    ASSERT_OK(graph_error(g, NULL));
    embed(g, 8);
    assert_wrong(g, "continues after its output");
}

RUN_TESTS(cmocka_unit_test(a_layer_dumps_as_text), cmocka_unit_test(the_first_mistake_sticks),
          cmocka_unit_test(streams_dump_as_text), cmocka_unit_test(streams_are_checked),
          cmocka_unit_test(weights_are_checked), cmocka_unit_test(heads_are_checked),
          cmocka_unit_test(slots_are_spread_to_places_that_exist),
          cmocka_unit_test(queries_to_the_past_have_factors_of_their_width),
          cmocka_unit_test(an_input_is_as_wide_as_it_says_and_alone),
          cmocka_unit_test(rows_and_output_have_their_order))
