/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how layers are divided into groups of state. */
#include "lib/test.h"
#include "model/arch.h"

static struct hparams hp;

static struct model groups_model(uint32_t n_layers)
{
    hp = (struct hparams){.n_layers = n_layers,
                          .n_heads = 4,
                          .n_kv_heads = 2,
                          .head_dim = 8,
                          .delta = {2, 4, 8, 6, 4, false, false}};
    return (struct model){.hp = &hp};
}

/* Returns the groups of a model; the caller frees the graph. */
static const struct state_group *groups_of_model(const struct model *m, struct graph **ret_graph,
                                                 uint32_t *ret_n)
{
    ASSERT_OK(graph_new(ret_graph));
    groups_add(m, *ret_graph);
    return graph_groups(*ret_graph, ret_n);
}

static void assert_place(const struct model *m, uint32_t i_layer, uint32_t i_group, uint32_t i)
{
    const struct state_place place = group_place(m, i_layer);

    assert_int_equal(place.i_group, i_group);
    assert_int_equal(place.i_layer, i);
}

TEST(layers_of_one_shape_need_no_groups)
{
    const struct model m = groups_model(3);
    struct graph *g;
    uint32_t n;

    groups_of_model(&m, &g, &n);
    assert_int_equal(n, 0);
    assert_place(&m, 2, 0, 2);
    graph_free(g);
}

TEST(recurrent_layers_are_a_group)
{
    const struct model m = groups_model(5);
    const struct state_group *groups;
    struct graph *g;
    uint32_t n;

    for (uint32_t i = 0; i < 5; i++)
        hp.layers[i].kind = i == 2 || i == 4 ? LAYER_FULL : LAYER_RECURRENT;
    groups = groups_of_model(&m, &g, &n);
    assert_int_equal(n, 2);
    assert_int_equal(groups[0].rule, STATE_RECURRENT);
    assert_int_equal(groups[0].n_layers, 3);
    assert_int_equal(groups[0].conv_floats, 3 * (2 * 2 * 8 + 4 * 6));
    assert_int_equal(groups[0].matrix_floats, 4 * 8 * 6);
    assert_int_equal(groups[1].rule, STATE_FULL);
    assert_int_equal(groups[1].n_layers, 2);
    assert_int_equal(groups[1].n_kv_heads, 2);
    assert_place(&m, 3, 0, 2);
    assert_place(&m, 4, 1, 1);
    graph_free(g);
}

/* Layers with a window have smaller heads here, and the last two layers read the state of others.
 */
TEST(heads_of_two_sizes_are_two_groups_and_shared_state_has_one_place)
{
    const struct model m = groups_model(6);
    const struct state_group *groups;
    struct graph *g;
    uint32_t n;

    hp.window = 16;
    for (uint32_t i = 0; i < 6; i++)
        if (i % 2 == 1) {
            hp.layers[i].kind = LAYER_FULL;
            hp.layers[i].head_dim = 16;
        }
    hp.layers[4].shared = 3;
    hp.layers[5].shared = 4;
    groups = groups_of_model(&m, &g, &n);
    assert_int_equal(n, 2);
    assert_int_equal(groups[0].rule, STATE_WINDOW);
    assert_int_equal(groups[0].window, 16);
    assert_int_equal(groups[0].n_layers, 2);
    assert_int_equal(groups[1].head_dim, 16);
    assert_place(&m, 2, 0, 1);
    assert_place(&m, 3, 1, 1);
    assert_place(&m, 4, 0, 1);
    assert_place(&m, 5, 1, 1);
    graph_free(g);
}

RUN_TESTS(cmocka_unit_test(layers_of_one_shape_need_no_groups),
          cmocka_unit_test(recurrent_layers_are_a_group),
          cmocka_unit_test(heads_of_two_sizes_are_two_groups_and_shared_state_has_one_place))
