/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the size of a KV pool, which follows from the requested size and the memory of the
 * device. */
#include "lib/test.h"

#include "api/handle.h"
#include "backend/null/null.h"

/* Blocks of 64 tokens and 2 × 64 × 4 × 4 = 2,048 bytes. */
static const struct kv_layout layout = {
    .n_groups = 1,
    .groups = {{.n_layers = 1, .n_kv_heads = 1, .head_dim = 4}},
    .block_tokens = 64,
    .k = CODEC_F32,
    .v = CODEC_F32,
};

static const struct row {
    const char *name;
    uint32_t asked_ctx;
    uint64_t kv_bytes;
    uint32_t n_ctx, max_seqs;
    uint64_t max_blocks;
    const char *error; /* a part of the message; NULL: the pool fits */
    uint32_t n_blocks, got_ctx;
} rows[] = {
    {"four sequences", 1024, 0, 1024, 16, UINT32_MAX, NULL, 64, 1024},
    {"or fewer", 1024, 0, 1024, 2, UINT32_MAX, NULL, 32, 1024},
    {"all with bytes", 1024, 1 << 30, 1024, 16, UINT32_MAX, NULL, 256, 1024},
    {"as bytes allow", 1024, 40960, 1024, 16, UINT32_MAX, NULL, 20, 1024},
    {"too few bytes", 1024, 20480, 1024, 16, UINT32_MAX, "hold 640 tokens, but n_ctx", 0, 0},
    {"which is fine", 0, 20480, 1024, 16, UINT32_MAX, NULL, 10, 640},
    {"no block", 0, 2047, 1024, 16, UINT32_MAX, "no block of 2048", 0, 0},
    {"a small device", 1024, 0, 1024, 16, 20, NULL, 20, 1024},
    {"whatever the bytes", 1024, 1 << 30, 1024, 16, 20, NULL, 20, 1024},
    {"just one sequence", 1000, 0, 1000, 16, 16, NULL, 16, 1000},
    {"not even one", 1024, 0, 1024, 16, 15, "the device holds a KV cache of 960 tokens", 0, 0},
    {"nor with bytes", 1024, 1 << 30, 1024, 16, 15, "the device holds", 0, 0},
    {"which is fine, too", 0, 0, 1024, 16, 15, NULL, 15, 960},
    {"no room at all", 0, 0, 1024, 16, 0, "the device holds a KV cache of 0 tokens", 0, 0},
};

TEST(pools_fit_what_is_asked_for_and_the_device)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct row *row = &rows[i];
        const struct inf_engine_params p = {.n_ctx = row->asked_ctx, .kv_bytes = row->kv_bytes};
        struct setup setup = {.n_ctx = row->n_ctx, .max_seqs = row->max_seqs};
        struct inf_err err;
        const int r = setup_kv_size(&p, &layout, 1 << 30, row->max_blocks, &setup, &err);

        if (row->error) {
            if (r != -EINVAL)
                fail_msg("%s: %d", row->name, r);
            ASSERT_CONTAINS(err.text, row->error);
            continue;
        }
        ASSERT_OK_ERR(r, err);
        if (setup.n_blocks != row->n_blocks || setup.n_ctx != row->got_ctx)
            fail_msg("%s: %u blocks for %u tokens", row->name, setup.n_blocks, setup.n_ctx);
    }
}

/* A hybrid: blocks of 2,048 bytes in the FULL and in the WINDOW group, and states of 4,096 bytes.
 */
static struct kv_layout hybrid_layout(void)
{
    struct kv_layout l = layout;

    l.n_groups = 3;
    l.groups[1] = (struct state_group){
        .rule = STATE_RECURRENT, .n_layers = 2, .conv_floats = 112, .matrix_floats = 400};
    l.groups[2] = (struct state_group){
        .rule = STATE_WINDOW, .n_layers = 1, .n_kv_heads = 1, .head_dim = 4, .window = 128};
    return l;
}

TEST(groups_share_the_room)
{
    static const struct {
        uint64_t kv_bytes;
        uint32_t n_states, n_windows, n_full;
    } cases[] = {
        /* 56 states: 2 × 16 snapshots, 16 texts and 8 more. 98 blocks: 4 for each of 16 + 8 texts,
         * because a window takes 3 blocks and is not aligned; and 2 for the rows of a step */
        {1 << 30, 56, 98, 512},
        /* a quarter, 25,600 bytes, is 6 states or 12 blocks of the window */
        {102400, 6, 12, 26},
        {20480, 2, 5, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct inf_engine_params p = {.kv_bytes = cases[i].kv_bytes};
        struct setup setup = {.n_ctx = 2048, .max_seqs = 16, .max_rows = 128};
        struct kv_layout l = hybrid_layout();
        struct inf_err err;

        setup_other_blocks(&p, 1 << 30, &setup, &l);
        assert_int_equal(l.n_blocks[1], cases[i].n_states);
        assert_int_equal(l.n_blocks[2], cases[i].n_windows);
        ASSERT_OK_ERR(setup_kv_size(&p, &l, 1 << 30, UINT32_MAX, &setup, &err), err);
        assert_int_equal(setup.n_blocks, cases[i].n_full);
        assert_int_equal(setup.other_blocks[1], cases[i].n_states);
        assert_int_equal(setup.n_ctx, MIN(2048u, cases[i].n_full * 64));
    }
}

static int run_on(struct backend **backend, struct inf_model *model, uint32_t n_ctx,
                  struct runner **ret_runner, struct inf_err *reterr)
{
    const struct setup setup = {
        .n_ctx = n_ctx, .n_blocks = 100, .max_rows = 8, .max_logits = 1, .max_seqs = 1};

    return setup_runner_on(backend, model, &setup, ret_runner, reterr);
}

TEST(a_runner_has_the_blocks_that_its_device_holds)
{
    const char *path = test_data("models/stories260K/stories260K.gguf");
    const struct inf_model_params params = {.path = path};
    struct backend *backend;
    struct inf_model *model;
    struct runner *runner;
    struct inf_err err;

    if (!path)
        skip();
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    ASSERT_OK(null_new(&backend));
    null_configure(backend, &(struct null_options){.max_blocks = 3});
    ASSERT_ERROR(run_on(&backend, model, 193, &runner, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "a KV cache of 192 tokens, but n_ctx is 193");
    ASSERT_OK_ERR(run_on(&backend, model, 192, &runner, &err), err);
    assert_null(backend);
    assert_int_equal(kv_pool_n_blocks(runner->pool), 3);
    runner_free(runner);
    inf_model_unref(model);
}

/* The less memory the device has, the more layers are placed on the CPU. */
TEST(a_device_with_little_memory_gets_some_layers)
{
    static const char *const stages[] = {"null", "cpu+null", "cpu"};
    const char *path = test_data("models/stories260K/stories260K.gguf");
    const struct inf_model_params params = {.path = path};
    struct inf_model *model;
    struct inf_err err;
    size_t i_stage = 0;

    if (!path)
        skip();
    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    for (uint64_t memory = 68u << 20; memory >= 64u << 20; memory -= 100000) {
        _cleanup_(backend_freep) struct backend *backend = NULL;
        struct runner *runner = NULL;
        const char *name;

        ASSERT_OK(null_new(&backend));
        null_configure(backend, &(struct null_options){.memory = memory});
        ASSERT_OK_ERR(run_on(&backend, model, 64, &runner, &err), err);
        name = runner->backend->device;
        name = *name ? name : runner->backend->ops->name;
        if (strcmp(name, stages[i_stage]) != 0)
            i_stage++;
        assert_true(i_stage < ARRAY_SIZE(stages));
        assert_string_equal(name, stages[i_stage]);
        runner_free(runner);
    }
    assert_int_equal(i_stage, 2);
    inf_model_unref(model);
}

RUN_TESTS(cmocka_unit_test(pools_fit_what_is_asked_for_and_the_device),
          cmocka_unit_test(groups_share_the_room),
          cmocka_unit_test(a_runner_has_the_blocks_that_its_device_holds),
          cmocka_unit_test(a_device_with_little_memory_gets_some_layers))
