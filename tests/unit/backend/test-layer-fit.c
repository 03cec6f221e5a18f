/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how many layers fit on a device.
 */
#include "backend/layer-fit.h"

#include "lib/test.h"
#include "quant/dtype.h"
#include "unit/backend/tiny.h"

/* Each quantity has its own decimal digit, so that a sum shows which quantities it contains. */
static uint64_t layers[] = {1000, 2000, 3000}, states[] = {100, 100, 100};
static const struct layer_sizes three = {
    .n_layers = 3, .weights = layers, .head = 500, .embd = 400, .kv = states, .scratch = 7};

static void assert_fit(const struct layer_sizes *s, uint64_t budget, uint32_t n, bool whole)
{
    bool got_whole = !whole;

    assert_int_equal(layer_fit(s, budget, &got_whole), n);
    assert_int_equal(got_whole, whole);
}

TEST(the_last_layers_come_first)
{
    assert_fit(&three, 0, 0, false);
    assert_fit(&three, 506, 0, false);
    assert_fit(&three, 3606, 0, false);
    assert_fit(&three, 3607, 1, false);
    assert_fit(&three, 5706, 1, false);
    assert_fit(&three, 5707, 2, false);
    assert_fit(&three, 6807, 3, false);
    assert_fit(&three, 7206, 3, false);
    assert_fit(&three, 7207, 3, true);
    assert_fit(&three, UINT64_MAX, 3, true);
}

TEST(a_tied_embedding_needs_no_place)
{
    struct layer_sizes tied = three;

    tied.embd = 0;
    assert_fit(&tied, 6806, 2, false);
    assert_fit(&tied, 6807, 3, true);
}

TEST(what_fits_nowhere_fits_no_device)
{
    uint64_t huge[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    struct layer_sizes s = three;

    s.kv = huge;
    assert_fit(&s, UINT64_MAX, 0, false);
    s = three;
    s.scratch = UINT64_MAX;
    assert_fit(&s, UINT64_MAX, 0, false);
}

/* Returns the size of a Q8_0 matrix in bytes. */
static uint64_t q8(uint64_t rows, uint64_t cols)
{
    return rows * cols / 32 * 34;
}

static void check_measure(bool tied)
{
    const struct tiny_options o = {.dtype = INF_DTYPE_Q8_0,
                                   .n_layers = 2,
                                   .n_embd = 64,
                                   .n_heads = 4,
                                   .n_kv_heads = 2,
                                   .head_dim = 32,
                                   .n_ff = 96,
                                   .n_vocab = 70,
                                   .qk_norm = true,
                                   .bias = true,
                                   .tied = tied,
                                   .seed = 1};
    const struct kv_layout layout = kv_layout_full(2, 2, 32, 64, CODEC_F16, 10);
    const uint64_t layer = 2 * 64 * 4 /* norms */ + 2 * 32 * 4 /* norms of heads */ +
                           (128 + 64 + 64) * 4 /* biases */ + q8(128 + 64 + 64, 64) + q8(64, 128) +
                           2 * q8(96, 64) + q8(64, 96);
    struct layer_sizes s;
    struct tiny t;
    struct inf_err err;

    tiny_init(&t, &o);
    ASSERT_OK_ERR(layer_sizes_init(&s, t.graph, &layout, &err), err);
    assert_int_equal(s.n_layers, 2);
    assert_int_equal(s.weights[0], layer);
    assert_int_equal(s.weights[1], layer);
    assert_int_equal(s.head, 64 * 4 + q8(70, 64));
    assert_int_equal(s.embd, tied ? 0 : q8(70, 64));
    assert_int_equal(s.kv[0], 10 * 64 * 2 * 2 * 32 * 2);
    assert_int_equal(s.kv[1], s.kv[0]);
    assert_int_equal(s.scratch, 0);
    layer_sizes_done(&s);
    tiny_done(&t);
}

TEST(graphs_are_measured_by_layers)
{
    check_measure(false);
    check_measure(true);
}

RUN_TESTS(cmocka_unit_test(the_last_layers_come_first),
          cmocka_unit_test(a_tied_embedding_needs_no_place),
          cmocka_unit_test(what_fits_nowhere_fits_no_device),
          cmocka_unit_test(graphs_are_measured_by_layers))
