/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that a model that is split between two devices gives the same bits as on one device, after
 * any operation.
 */
#include "backend/layer-split.h"

#include <math.h>

#include "backend/null/null.h"
#include "core/rng.h"
#include "lib/test.h"
#include "sched/runner.h"
#include "unit/backend/allocs.h"
#include "unit/backend/tiny.h"

enum { MAX_ROWS = 48, MAX_SEQS = 4, MAX_CTX = 200, BLOCK = 16, N_BLOCKS = 60, N_STEPS = 40 };

static const struct tiny_options llama = {.dtype = INF_DTYPE_F32,
                                          .n_layers = 2,
                                          .n_embd = 44,
                                          .n_heads = 6,
                                          .n_kv_heads = 2,
                                          .head_dim = 20,
                                          .n_ff = 100,
                                          .n_vocab = 77,
                                          .rope = ROPE_PAIRS,
                                          .seed = 1};

static struct backend *cpu_make(uint32_t n_threads)
{
    const struct backend_params params = {.device = "cpu", .n_threads = n_threads};
    struct backend *b;
    struct inf_err err;

    ASSERT_OK_ERR(backend_new(&params, &b, &err), err);
    return b;
}

static struct backend *null_make(uint64_t fail_step)
{
    const struct null_options options = {.fail_step = fail_step};
    struct backend *b;

    ASSERT_OK(null_new(&b));
    null_configure(b, &options);
    return b;
}

static struct backend *split_make(struct backend *low, struct backend *high, uint32_t i_layer)
{
    const uint32_t n_low[STATE_GROUPS_MAX] = {i_layer};
    struct backend *b;

    ASSERT_OK(layer_split_new(&low, &high, i_layer, n_low, &b));
    return b;
}

/* Struct bench holds a model on a device, which the struct owns, and some sequences. */
struct bench {
    struct tiny model;
    struct runner *runner;
    struct kv_table tables[MAX_SEQS];
};

static void bench_init(struct bench *b, const struct tiny_options *o, enum codec kv,
                       struct backend *backend)
{
    struct runner_params params = {
        .layout = kv_layout_full(o->n_layers, o->n_kv_heads, o->head_dim, BLOCK, kv, N_BLOCKS),
        .limits = {MAX_ROWS, MAX_ROWS / 2, MAX_SEQS, MAX_CTX},
        .n_vocab = o->n_vocab,
    };
    struct inf_err err;

    tiny_init(&b->model, o);
    params.graph = b->model.graph;
    ASSERT_OK_ERR(runner_new(&backend, &params, &b->runner, &err), err);
    for (int i = 0; i < MAX_SEQS; i++)
        ASSERT_OK(kv_table_init(&b->tables[i], b->runner->pool, MAX_CTX));
}

static void bench_done(struct bench *b)
{
    for (int i = 0; i < MAX_SEQS; i++)
        kv_table_done(&b->tables[i]);
    runner_free(b->runner);
    tiny_done(&b->model);
}

struct rows {
    int32_t tokens[MAX_ROWS];
    uint32_t wanted[MAX_ROWS];
    struct batch_seq seqs[MAX_SEQS];
    struct batch batch;
};

/* Appends @n tokens to sequence @i, and requests some of their logits. */
static void rows_add(struct rows *r, struct bench *b, uint32_t i, uint32_t n, struct rng *rng)
{
    struct kv_table *t = &b->tables[i];
    const uint32_t pos = t->n_tokens;

    assert_int_equal(kv_table_extend(t, n), 0);
    r->seqs[r->batch.n_seqs++] = kv_table_part(t, r->batch.n_rows, pos, n);
    for (uint32_t j = 0; j < n; j++) {
        if (rng_u32(rng) % 3 == 0 && r->batch.n_logits < MAX_ROWS / 2)
            r->wanted[r->batch.n_logits++] = r->batch.n_rows;
        r->tokens[r->batch.n_rows++] = (int32_t)(rng_u32(rng) % b->model.o.n_vocab);
    }
}

/* Truncates sequence @i, or makes it continue from the state of another sequence. */
static void table_change(struct bench *b, uint32_t i, struct rng *rng)
{
    struct kv_table *t = &b->tables[i], *other = &b->tables[(i + 1) % MAX_SEQS];

    if (t->n_tokens + MAX_ROWS > MAX_CTX || rng_u32(rng) % 8 == 0)
        kv_table_truncate(t, rng_u32(rng) % (t->n_tokens + 1) / 2);
    if (rng_u32(rng) % 8 == 0) {
        kv_table_truncate(t, 0);
        if (other->n_tokens > 0)
            kv_table_share(t, other, rng_u32(rng) % other->n_tokens + 1);
    }
}

/*
 * Runs steps with chunks of prompts and single tokens of all sequences. Between the steps it
 * truncates and shares sequences, so that blocks are copied, and releases memory. Sets *ret_logits
 * to the logits of all rows, and returns the number of rows.
 */
static size_t play(struct bench *b, uint64_t seed, float **ret_logits)
{
    const size_t width = b->model.o.n_vocab;
    float *all = calloc((size_t)N_STEPS * MAX_ROWS * width, sizeof(*all));
    size_t n_all = 0;
    struct rng rng;

    assert_non_null(all);
    rng_seed(&rng, seed);
    for (int step = 0; step < N_STEPS; step++) {
        struct rows r = {.batch = {.tokens = r.tokens, .seqs = r.seqs, .logit_rows = r.wanted}};

        for (uint32_t i = 0; i < MAX_SEQS; i++) {
            const uint32_t left = MAX_ROWS - r.batch.n_rows - (MAX_SEQS - 1 - i);
            const uint32_t n = rng_u32(&rng) % 2 ? 1 : rng_u32(&rng) % left + 1;

            table_change(b, i, &rng);
            rows_add(&r, b, i, n, &rng);
        }
        ASSERT_OK(runner_forward(b->runner, &r.batch));
        memcpy(all + n_all * width, b->runner->logits, r.batch.n_logits * width * sizeof(*all));
        n_all += r.batch.n_logits;
        if (step % 8 == 7)
            runner_rest(b->runner);
    }
    assert_true(n_all > N_STEPS);
    *ret_logits = all;
    return n_all;
}

static void assert_plays_like(const struct tiny_options *o, enum codec kv, struct backend *backend,
                              const float *expected, size_t n_expected)
{
    struct bench b;
    float *got;

    bench_init(&b, o, kv, backend);
    assert_int_equal(play(&b, o->seed, &got), n_expected);
    assert_memory_equal(got, expected, n_expected * o->n_vocab * sizeof(*got));
    free(got);
    bench_done(&b);
}

static void check_borders(const struct tiny_options *o, enum codec kv)
{
    struct bench whole;
    float *expected;
    size_t n;

    bench_init(&whole, o, kv, cpu_make(2));
    n = play(&whole, o->seed, &expected);
    for (uint32_t i = 0; i <= o->n_layers; i++) {
        assert_plays_like(o, kv, split_make(cpu_make(2), cpu_make(2), i), expected, n);
        assert_plays_like(o, kv, split_make(cpu_make(1), cpu_make(3), i), expected, n);
    }
    /* A part of a split model may be split again. */
    for (uint32_t i = 0; i < o->n_layers; i++) {
        assert_plays_like(o, kv,
                          split_make(cpu_make(1), split_make(cpu_make(2), cpu_make(1), 1), i),
                          expected, n);
        assert_plays_like(o, kv,
                          split_make(split_make(cpu_make(2), cpu_make(1), i), cpu_make(1), i + 1),
                          expected, n);
    }
    free(expected);
    bench_done(&whole);
}

TEST(a_split_at_any_border_changes_no_bit)
{
    check_borders(&llama, CODEC_F32);
    check_borders(&llama, CODEC_F16);
    check_borders(&tiny_qwen, CODEC_BF16);
    check_borders(&tiny_qwen, CODEC_Q8_0);
}

/* The null device reads tokens, positions and blocks, which both parts receive unchanged. */
TEST(both_parts_see_the_batch)
{
    struct bench whole, b;
    float *expected, *got;
    size_t n;

    bench_init(&whole, &tiny_qwen, CODEC_F16, null_make(0));
    n = play(&whole, 1, &expected);
    bench_init(&b, &tiny_qwen, CODEC_F16, split_make(cpu_make(2), null_make(0), 1));
    assert_int_equal(play(&b, 1, &got), n);
    assert_memory_equal(got, expected, n * tiny_qwen.n_vocab * sizeof(*got));
    free(got);
    bench_done(&b);

    /* In this test the lower part computes nonsense, but as many numbers as the upper part
     * needs. */
    bench_init(&b, &tiny_qwen, CODEC_F16, split_make(null_make(0), cpu_make(2), 1));
    assert_int_equal(play(&b, 1, &got), n);
    for (size_t i = 0; i < n * tiny_qwen.n_vocab; i++)
        assert_true(isfinite(got[i]));
    free(got);
    bench_done(&b);
    free(expected);
    bench_done(&whole);
}

static void check_failure(struct backend *backend)
{
    struct bench b;
    struct rng rng;

    bench_init(&b, &llama, CODEC_F32, backend);
    rng_seed(&rng, 1);
    for (int step = 0; step < 3; step++) {
        struct rows r = {.batch = {.tokens = r.tokens, .seqs = r.seqs, .logit_rows = r.wanted}};

        rows_add(&r, &b, 0, 3, &rng);
        assert_int_equal(runner_forward(b.runner, &r.batch), step == 1 ? -EIO : 0);
    }
    bench_done(&b);
}

TEST(a_failed_part_fails_the_whole)
{
    check_failure(split_make(null_make(2), cpu_make(1), 1));
    check_failure(split_make(cpu_make(1), null_make(2), 1));
    check_failure(split_make(null_make(2), null_make(0), 1));
}

/* Runs a step with three tokens of sequence 0. */
static int run_some(struct bench *b, struct rng *rng)
{
    struct rows r = {.batch = {.tokens = r.tokens, .seqs = r.seqs, .logit_rows = r.wanted}};

    kv_table_truncate(&b->tables[0], 0);
    rows_add(&r, b, 0, 3, rng);
    return runner_forward(b->runner, &r.batch);
}

static void check_loss(struct backend *lost, struct backend *backend)
{
    const struct null_options options = {.lose_step = 2, .n_bad_recovers = 1};
    struct inf_err err = {0};
    struct bench b;
    struct rng rng;

    rng_seed(&rng, 1);
    null_configure(lost, &options);
    bench_init(&b, &llama, CODEC_F32, backend);
    ASSERT_OK(run_some(&b, &rng));
    ASSERT_ERROR(run_some(&b, &rng), ENODEV);
    ASSERT_ERROR(run_some(&b, &rng), ENODEV);
    assert_int_equal(null_n_steps(lost), 2);
    ASSERT_ERROR(backend->ops->recover(backend, &err), EIO);
    ASSERT_CONTAINS(err.text, "there is no device");
    ASSERT_ERROR(run_some(&b, &rng), ENODEV);
    ASSERT_OK(backend->ops->recover(backend, &err));
    ASSERT_OK(run_some(&b, &rng));
    assert_int_equal(null_n_steps(lost), 3);
    bench_done(&b);
}

TEST(a_lost_part_is_opened_again)
{
    struct backend *lost = null_make(0);

    check_loss(lost, split_make(lost, cpu_make(1), 1));
    lost = null_make(0);
    check_loss(lost, split_make(cpu_make(1), lost, 1));
    lost = null_make(0);
    check_loss(lost, split_make(lost, null_make(0), 1));
}

TEST(the_whole_refuses_what_a_part_refuses)
{
    const struct null_options options = {.lose_step = 1};
    struct backend *b = split_make(cpu_make(1), cpu_make(1), 1), *final = null_make(0);
    struct backend_ops ops = *final->ops;
    struct inf_err err = {0};
    struct bench bench;
    struct rng rng;

    rng_seed(&rng, 1);
    assert_null(b->ops->recover);
    assert_null(b->ops->logits);
    backend_free(b);

    null_configure(final, &options);
    ops.recover = NULL;
    final->ops = &ops;
    b = split_make(final, null_make(0), 1);
    bench_init(&bench, &llama, CODEC_F32, b);
    ASSERT_ERROR(run_some(&bench, &rng), ENODEV);
    ASSERT_ERROR(b->ops->recover(b, &err), ENODEV);
    ASSERT_CONTAINS(err.text, "null cannot be opened again");
    bench_done(&bench);
}

/* Computes one row on @backend. *ret_top gets a list of the @n_wanted largest logits, which @lister
 * (@backend or its upper part) makes. @ret_row gets all logits of the row. */
static void list_some(struct backend *backend, struct backend *lister, uint32_t n_wanted,
                      struct top_row *ret_top, float *ret_row)
{
    struct rows r = {.batch = {.tokens = r.tokens, .seqs = r.seqs, .logit_rows = r.wanted}};
    struct bench b;
    struct rng rng;

    rng_seed(&rng, 5);
    bench_init(&b, &tiny_qwen, CODEC_F16, backend);
    rows_add(&r, &b, 0, 9, &rng);
    r.wanted[0] = 8;
    r.batch.n_logits = 1;
    b.runner->tops[0].n_wanted = n_wanted;
    ASSERT_OK(runner_forward(b.runner, &r.batch));
    *ret_top = b.runner->tops[0];
    ASSERT_OK(runner_fetch(b.runner, 0));
    memcpy(ret_row, runner_logits(b.runner, 0), tiny_qwen.n_vocab * sizeof(*ret_row));
    assert_int_equal(null_count(lister).n_lists, 1);
    bench_done(&b);
}

TEST(lists_are_those_of_the_upper_part)
{
    const struct null_options options = {.makes_lists = true};
    struct backend *whole = null_make(0), *high = null_make(0);
    struct top_row expected, got;
    float row[131], got_row[131];

    null_configure(whole, &options);
    null_configure(high, &options);
    list_some(whole, whole, 5, &expected, row);
    list_some(split_make(cpu_make(1), high, 2), high, 5, &got, got_row);
    assert_int_equal(got.n, 5);
    assert_memory_equal(got.ids, expected.ids, 5 * sizeof(got.ids[0]));
    assert_memory_equal(got_row, row, sizeof(row));
}

static uint64_t few_blocks(struct backend *b UNUSED, const struct kv_layout *layout,
                           uint32_t i_group)
{
    const uint32_t n_layers = layout->groups[i_group].n_layers;

    assert_true(n_layers > 0);
    return 120 / n_layers;
}

TEST(the_smaller_part_bounds_the_blocks)
{
    const uint64_t expected[] = {40, 60, 60, 40};
    const struct kv_layout layout = kv_layout_full(3, 2, 32, BLOCK, CODEC_F16, 0);

    for (uint32_t i = 0; i < ARRAY_SIZE(expected); i++) {
        struct backend *low = null_make(0), *high = null_make(0), *b;
        struct backend_ops ops = *low->ops;

        ops.kv_max_blocks = few_blocks;
        low->ops = high->ops = &ops;
        b = split_make(low, high, i);
        assert_int_equal(b->ops->kv_max_blocks(b, &layout, 0), expected[i]);
        backend_free(b);
    }
}

/* Runs steps with the blocks of one engine, and then hands the blocks to another engine. */
TEST(blocks_move_from_one_engine_to_another)
{
    const uint32_t last = N_BLOCKS - 1;
    struct bench from, to;
    struct kv_store *store;
    struct backend *b;
    uint8_t *bytes, *again;
    struct rng rng;
    uint64_t size;

    bench_init(&from, &tiny_qwen, CODEC_F16, split_make(cpu_make(1), cpu_make(2), 1));
    bench_init(&to, &tiny_qwen, CODEC_F16, split_make(cpu_make(2), cpu_make(1), 1));
    rng_seed(&rng, 1);
    ASSERT_OK(run_some(&from, &rng));
    b = from.runner->backend;
    store = kv_pool_store(from.runner->pool);
    size = kv_pool_block_bytes(from.runner->pool, 0);
    assert_int_equal(size, kv_layout_block_bytes(kv_pool_layout(from.runner->pool), 0));
    assert_string_equal(b->ops->kv_format(b),
                        to.runner->backend->ops->kv_format(to.runner->backend));
    bytes = malloc(size);
    again = malloc(size);
    assert_true(bytes && again);
    for (uint32_t i = 0; i < 4; i++) {
        ASSERT_OK(b->ops->kv_export(b, store, i, bytes));
        b = to.runner->backend;
        store = kv_pool_store(to.runner->pool);
        ASSERT_OK(b->ops->kv_import(b, store, last - i, bytes));
        memset(again, 1, size);
        ASSERT_OK(b->ops->kv_export(b, store, last - i, again));
        assert_memory_equal(bytes, again, size);
        b = from.runner->backend;
        store = kv_pool_store(from.runner->pool);
    }
    free(bytes);
    free(again);
    bench_done(&from);
    bench_done(&to);
}

TEST(a_step_allocates_nothing)
{
    struct bench b;
    struct rng rng;
    unsigned before;

    bench_init(&b, &tiny_qwen, CODEC_F16, split_make(cpu_make(2), cpu_make(1), 1));
    assert_true(allocs_count() > 0);
    rng_seed(&rng, 1);
    before = allocs_count();
    for (uint32_t n = 40; n > 3; n -= 3) {
        struct rows r = {.batch = {.tokens = r.tokens, .seqs = r.seqs, .logit_rows = r.wanted}};

        for (uint32_t i = 0; i < MAX_SEQS; i++)
            if (b.tables[i].n_tokens > 100)
                kv_table_truncate(&b.tables[i], 50);
        rows_add(&r, &b, 0, n, &rng);
        for (uint32_t i = 1; i < MAX_SEQS; i++)
            rows_add(&r, &b, i, 1, &rng);
        ASSERT_OK(runner_forward(b.runner, &r.batch));
    }
    assert_int_equal(allocs_count(), before);
    bench_done(&b);
}

TEST(threads_and_names_are_those_of_the_parts)
{
    struct backend *b = split_make(null_make(0), cpu_make(3), 1);

    assert_int_equal(b->ops->n_threads(b), 3);
    assert_string_not_equal(b->ops->isa(b), "null");
    ASSERT_STREQ(b->device, "null+cpu");
    backend_free(b);
    b = split_make(cpu_make(2), null_make(0), 1);
    assert_int_equal(b->ops->n_threads(b), 2);
    backend_free(b);
}

TEST(a_model_without_that_border_is_refused)
{
    struct backend *backend = split_make(cpu_make(1), cpu_make(1), 1);
    const struct tiny_options none = {.dtype = INF_DTYPE_F32,
                                      .n_embd = 20,
                                      .n_heads = 1,
                                      .n_kv_heads = 1,
                                      .head_dim = 4,
                                      .n_ff = 4,
                                      .n_vocab = 9};
    const struct attn_params attn[] = {{0, 1, 1, 20, 1, 0}, {1, 1, 1, 20, 1, 0}};
    const struct plan_limits limits = {8, 8, 1, 64};
    struct weight table;
    struct graph *g;
    struct plan *plan;
    struct tiny t;
    struct inf_err err;
    graph_ref x, y;

    /* Both the lower and the upper part read the embedding. */
    tiny_init(&t, &none);
    table = graph_node(t.graph, 0)->w;
    ASSERT_OK(graph_new(&g));
    x = graph_embed(g, &table, 1);
    y = graph_add(g, x, graph_attention(g, x, x, x, &attn[0]));
    graph_begin_layer(g, 1);
    y = graph_add(g, y, graph_attention(g, y, y, y, &attn[1]));
    graph_output(g, graph_rows(g, graph_add(g, y, x)));
    ASSERT_ERROR(backend->ops->compile(backend, g, &limits, NULL, &plan, &err), EOPNOTSUPP);
    ASSERT_CONTAINS(err.text, "layer 1");
    graph_free(g);
    tiny_done(&t);
    backend_free(backend);
}

RUN_TESTS(cmocka_unit_test(a_split_at_any_border_changes_no_bit),
          cmocka_unit_test(both_parts_see_the_batch),
          cmocka_unit_test(a_failed_part_fails_the_whole),
          cmocka_unit_test(a_lost_part_is_opened_again),
          cmocka_unit_test(the_whole_refuses_what_a_part_refuses),
          cmocka_unit_test(lists_are_those_of_the_upper_part),
          cmocka_unit_test(the_smaller_part_bounds_the_blocks),
          cmocka_unit_test(blocks_move_from_one_engine_to_another),
          cmocka_unit_test(a_step_allocates_nothing),
          cmocka_unit_test(threads_and_names_are_those_of_the_parts),
          cmocka_unit_test(a_model_without_that_border_is_refused))
