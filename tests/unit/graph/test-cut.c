/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests graphs that are cut between layers. The parts must have the expected contents, and must
 * compute the same values as the whole graph.
 */
#include "graph/graph.h"

#include "core/str.h"
#include "lib/graph_eval.h"
#include "lib/test.h"
#include "unit/backend/tiny.h"

enum { N_TOKENS = 9 };

static const struct tiny_options options = {.dtype = INF_DTYPE_F32,
                                            .n_layers = 3,
                                            .n_embd = 12,
                                            .n_heads = 2,
                                            .n_kv_heads = 1,
                                            .head_dim = 6,
                                            .n_ff = 20,
                                            .n_vocab = 17,
                                            .rope = ROPE_HALF,
                                            .window = 4,
                                            .qk_norm = true,
                                            .tied = true,
                                            .seed = 4};
static const float floats[64];

static struct weight weight(uint32_t rows, uint32_t cols)
{
    return (struct weight){
        .data = floats, .dtype = INF_DTYPE_F32, .rows = rows, .cols = cols, .name = "w"};
}

/* Adds the self-attention of x as layer @i_layer. */
static graph_ref attend(struct graph *g, graph_ref x, uint32_t i_layer)
{
    const struct attn_params attn = {i_layer, 1, 1, 8, 1, 0};

    graph_begin_layer(g, i_layer);
    return graph_add(g, x, graph_attention(g, x, x, x, &attn));
}

static graph_ref start(struct graph **ret_graph)
{
    const struct weight table = weight(4, 8);

    ASSERT_OK(graph_new(ret_graph));
    return graph_embed(*ret_graph, &table, 1);
}

static void assert_dump(const struct graph *g, const char *expected)
{
    _cleanup_str_ struct str text = {0};

    ASSERT_OK(graph_dump(g, &text));
    ASSERT_STREQ(text.data, expected);
}

static void assert_uncut(struct graph *g, uint32_t i_layer, int code, const char *part)
{
    struct graph *low, *high;
    struct inf_err err;

    ASSERT_ERROR(graph_cut(g, i_layer, &low, &high, &err), code);
    ASSERT_CONTAINS(err.text, part);
    graph_free(g);
}

TEST(the_parts_of_a_graph_are_whole_graphs)
{
    const struct weight norm = weight(1, 8), head = weight(5, 8);
    struct graph *g, *low, *high;
    graph_ref x = start(&g);

    x = attend(g, graph_scale(g, attend(g, x, 0), 2), 1);
    x = attend(g, graph_rms_norm(g, x, &norm, 1, 0), 2);
    graph_output(g, graph_matmul(g, graph_rows(g, x), &head, NULL));

    ASSERT_OK(graph_cut(g, 1, &low, &high, NULL));
    assert_dump(low, "%0 [8] = embed w f32 4x8\n"
                     "%1 [8] = attention %0 %0 %0 layer 0 heads 1/1 dim 8 scale 1 window 0\n"
                     "%2 [8] = add %0 %1\n"
                     "%3 [8] = scale %2 by 2\n"
                     "%4 [8 kept] = rows %3\n"
                     "%5 [8 kept] = output %4\n");
    assert_dump(high, "%0 [8] = input\n"
                      "%1 [8] = attention %0 %0 %0 layer 0 heads 1/1 dim 8 scale 1 window 0\n"
                      "%2 [8] = add %0 %1\n"
                      "%3 [8] = rms_norm %2 w f32 1x8 group 8 eps 1\n"
                      "%4 [8] = attention %3 %3 %3 layer 1 heads 1/1 dim 8 scale 1 window 0\n"
                      "%5 [8] = add %3 %4\n"
                      "%6 [8 kept] = rows %5\n"
                      "%7 [5 kept] = matmul %6 w f32 5x8\n"
                      "%8 [5 kept] = output %7\n");
    graph_free(low);
    graph_free(high);

    /* The graph can be cut before the first layer and after the last one. */
    ASSERT_OK(graph_cut(g, 0, &low, &high, NULL));
    assert_int_equal(graph_n_nodes(low), 3);
    graph_free(low);
    graph_free(high);
    ASSERT_OK(graph_cut(g, 3, &low, &high, NULL));
    assert_dump(high, "%0 [8] = input\n"
                      "%1 [8 kept] = rows %0\n"
                      "%2 [5 kept] = matmul %1 w f32 5x8\n"
                      "%3 [5 kept] = output %2\n");
    graph_free(low);
    graph_free(high);
    graph_free(g);
}

/* Returns the logits of @g. The function cuts the upper part again at each layer until it has made
 * @n_cuts cuts. */
static double *eval_cut(const struct graph *g, const int32_t *tokens, const double *input,
                        uint32_t i_layer, unsigned n_cuts)
{
    struct graph *low, *high;
    double *between, *logits;
    struct inf_err err;

    if (n_cuts == 0) {
        ASSERT_OK(graph_eval_input(g, tokens, N_TOKENS, input, &logits));
        return logits;
    }
    ASSERT_OK_ERR(graph_cut(g, i_layer, &low, &high, &err), err);
    ASSERT_OK(graph_eval_input(low, tokens, N_TOKENS, input, &between));
    logits = eval_cut(high, tokens, between, 1, n_cuts - 1);
    free(between);
    graph_free(low);
    graph_free(high);
    return logits;
}

TEST(parts_compute_what_the_whole_computes)
{
    const int32_t tokens[N_TOKENS] = {3, 1, 4, 1, 5, 9, 2, 6, 16};
    double *expected, *got;
    struct tiny model;

    tiny_init(&model, &options);
    ASSERT_OK(graph_eval(model.graph, tokens, N_TOKENS, &expected));
    for (uint32_t i = 0; i <= options.n_layers; i++) {
        for (unsigned n_cuts = 1; i + n_cuts <= options.n_layers + 1; n_cuts++) {
            got = eval_cut(model.graph, tokens, NULL, i, n_cuts);
            assert_memory_equal(got, expected, N_TOKENS * options.n_vocab * sizeof(*got));
            free(got);
        }
    }
    free(expected);
    tiny_done(&model);
}

TEST(graphs_without_a_border_are_not_cut)
{
    const struct attn_params attn = {0, 1, 1, 8, 1, 0};
    struct graph *g;
    graph_ref x = start(&g), y;

    assert_uncut(g, 0, EINVAL, "no output");

    /* The embedding is added in every layer: two values cross the cut. */
    x = start(&g);
    y = graph_add(g, x, attend(g, x, 0));
    y = graph_add(g, x, attend(g, y, 1));
    graph_output(g, graph_rows(g, y));
    assert_uncut(g, 1, EOPNOTSUPP, "layer 1");

    /* The last layer continues with few rows. */
    x = start(&g);
    y = graph_rows(g, graph_attention(g, x, x, x, &attn));
    graph_output(g, graph_add(g, graph_rows(g, x), y));
    assert_uncut(g, 1, EOPNOTSUPP, "layer 1");

    /* The order of these layers differs from their numbers. */
    x = start(&g);
    graph_output(g, graph_rows(g, attend(g, attend(g, x, 1), 0)));
    assert_uncut(g, 1, EOPNOTSUPP, "layer 1");
}

RUN_TESTS(cmocka_unit_test(the_parts_of_a_graph_are_whole_graphs),
          cmocka_unit_test(parts_compute_what_the_whole_computes),
          cmocka_unit_test(graphs_without_a_border_are_not_cut))
