/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares keys and values in codes on a Vulkan device with those of the CPU. Both choose the same
 * codes, so their logits differ much less than those of codes and of numbers in F32. Without a
 * device the test is skipped.
 */
#include <errno.h>

#include "backend/backend.h"
#include "kv/pool.h"
#include "lib/test.h"
#include "unit/backend/tiny.h"

enum { N_ROWS = 150, N_MANY = 140, MAX_CTX = 192, BLOCK = 64, N_BLOCKS = 12 };

static const struct tiny_options options = {.dtype = INF_DTYPE_F32,
                                            .n_layers = 2,
                                            .n_embd = 64,
                                            .n_heads = 4,
                                            .n_kv_heads = 2,
                                            .head_dim = 128,
                                            .n_ff = 96,
                                            .n_vocab = 77,
                                            .rope = ROPE_HALF,
                                            .seed = 4};

static struct kv_layout layout_of(enum codec k, enum codec v)
{
    struct kv_layout layout =
        kv_layout_full(options.n_layers, options.n_kv_heads, options.head_dim, BLOCK, k, N_BLOCKS);

    layout.v = v;
    return layout;
}

/* Computes the logits of all rows: first many rows in steps of @chunk, then single rows. */
static void run(const char *device, const struct kv_layout *layout, uint32_t chunk, float *logits)
{
    const struct backend_params params = {.device = device, .n_threads = 2};
    const struct plan_limits limits = {N_ROWS, N_ROWS, 1, MAX_CTX};
    struct kv_table table;
    struct backend *b;
    struct kv_pool *pool;
    struct plan *plan;
    struct tiny model;
    struct inf_err err;

    tiny_init(&model, &options);
    ASSERT_OK_ERR(backend_new(&params, &b, &err), err);
    ASSERT_OK(kv_pool_new(b, layout, &pool));
    ASSERT_OK_ERR(b->ops->compile(b, model.graph, &limits, kv_pool_store(pool), &plan, &err), err);
    ASSERT_OK(kv_table_init(&table, pool, MAX_CTX));
    for (uint32_t pos = 0, n; pos < N_ROWS; pos += n) {
        int32_t tokens[N_ROWS];
        uint32_t rows[N_ROWS];
        struct batch_seq seq;
        struct batch batch = {.tokens = tokens, .n_seqs = 1, .seqs = &seq, .logit_rows = rows};

        n = pos < N_MANY ? MIN(chunk, N_MANY - pos) : 1;
        ASSERT_OK(kv_table_extend(&table, n));
        seq = kv_table_part(&table, 0, pos, n);
        for (uint32_t i = 0; i < n; i++) {
            tokens[i] = (int32_t)(((pos + i) * 7 + (pos + i) * (pos + i) % 11) % options.n_vocab);
            rows[i] = i;
        }
        batch.n_rows = batch.n_logits = n;
        ASSERT_OK(b->ops->run(b, plan, kv_pool_store(pool), &batch,
                              logits + (size_t)pos * options.n_vocab, NULL));
    }
    kv_table_done(&table);
    b->ops->plan_free(b, plan);
    kv_pool_free(pool);
    backend_free(b);
    tiny_done(&model);
}

/* Returns the mean squared difference ÷ the mean square of @want. */
static double nmse(const float *got, const float *want)
{
    double error = 0, sum = 0;

    for (size_t i = 0; i < (size_t)N_ROWS * options.n_vocab; i++) {
        const double e = (double)got[i] - (double)want[i];

        error += e * e;
        sum += (double)want[i] * (double)want[i];
    }
    return error / sum;
}

static bool has_device(void)
{
    const struct backend_params params = {.device = "vulkan", .n_threads = 2};
    struct backend *b;
    struct inf_err err;

    if (backend_new(&params, &b, &err) < 0)
        return false;
    backend_free(b);
    return true;
}

static float exact[N_ROWS * 77], on_cpu[N_ROWS * 77], on_gpu[N_ROWS * 77];

static void check(const struct kv_layout *layout, const char *name)
{
    double loss, error;

    run("cpu", layout, N_MANY, on_cpu);
    loss = nmse(on_cpu, exact);
    run("vulkan", layout, 70, on_gpu);
    error = nmse(on_gpu, on_cpu);
    print_message("%s: the device differs by %.3g, and the CPU loses %.3g\n", name, error, loss);
    /* The CPU rounds queries to int8, which the device does not. */
    if (!(error <= loss / 8 + 2e-5))
        fail_msg("%s: the device differs by %.3g, but the CPU loses only %.3g", name, error, loss);
}

TEST(codes_are_those_of_the_cpu)
{
    static const struct {
        enum codec k, v;
    } pairs[] = {{CODEC_Q6_0, CODEC_Q5_0}, {CODEC_TURBO3, CODEC_Q2_0}, {CODEC_Q8_0, CODEC_TURBO4}};
    struct kv_layout layout = layout_of(CODEC_F32, CODEC_F32);

    if (!has_device())
        skip();
    run("cpu", &layout, N_MANY, exact);
    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        layout = layout_of(pairs[i].k, pairs[i].v);
        check(&layout, codec_info(pairs[i].k)->name);
    }
    layout = layout_of(CODEC_Q4_0, CODEC_Q3_0);
    layout.n_mixed = 2;
    layout.mixed[1] = (struct kv_mixed){.is_set = true, .k = CODEC_F16, .v = CODEC_F16};
    check(&layout, "q4_0:q3_0/1=f16");
}

TEST(formats_without_kernels_are_refused)
{
    const struct backend_params params = {.device = "vulkan", .n_threads = 2};
    struct kv_layout layout = layout_of(CODEC_F16, CODEC_Q4_0);
    struct backend *b;
    struct inf_err err;

    if (backend_new(&params, &b, &err) < 0)
        skip();
    ASSERT_ERROR(b->ops->kv_check(b, &layout, &err), EOPNOTSUPP);
    layout = layout_of(CODEC_AFFINE4_32, CODEC_Q4_0);
    ASSERT_ERROR(b->ops->kv_check(b, &layout, &err), EOPNOTSUPP);
    layout = layout_of(CODEC_Q4_0, CODEC_ISO4);
    ASSERT_ERROR(b->ops->kv_check(b, &layout, &err), EOPNOTSUPP);
    layout = layout_of(CODEC_Q4_0, CODEC_Q4_0);
    ASSERT_OK(b->ops->kv_check(b, &layout, &err));
    assert_true(kv_layout_keep_recent(&layout));
    ASSERT_ERROR(b->ops->kv_check(b, &layout, &err), EOPNOTSUPP);
    backend_free(b);
}

RUN_TESTS(cmocka_unit_test(codes_are_those_of_the_cpu),
          cmocka_unit_test(formats_without_kernels_are_refused))
