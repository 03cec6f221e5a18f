/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the CPU backend with long contexts, and with every format of the KV store.
 */
#include <math.h>

#include "backend/cpu/exec/program.h"
#include "core/cpu.h"
#include "lib/test.h"
#include "unit/backend/tiny.h"

enum { LONG = 32768, LONG_STEP = 512, LONG_BLOCK = 64, N_VOCAB = 61, SHORT_STEPS = 8 };

static const struct tiny_options plain = {.dtype = INF_DTYPE_F32,
                                          .n_layers = 2,
                                          .n_embd = 48,
                                          .n_heads = 4,
                                          .n_kv_heads = 2,
                                          .head_dim = 32,
                                          .n_ff = 40,
                                          .n_vocab = N_VOCAB,
                                          .rope = ROPE_HALF,
                                          .seed = 3};

/* Struct long_bench holds a plan and a store for one sequence of LONG tokens. */
struct long_bench {
    struct backend *backend;
    struct plan *plan;
    struct kv_store *store;
};

static uint64_t plan_bytes(const struct plan *plan)
{
    return plan->scratch_size + plan->mem.size * plan->n_threads + plan->parts_size;
}

static void long_init(struct long_bench *b, const struct tiny *model, const char *rung,
                      uint32_t n_threads, uint32_t max_ctx, enum codec k, enum codec v)
{
    const struct backend_params params = {.device = "cpu", .isa = rung, .n_threads = n_threads};
    const struct plan_limits limits = {LONG_STEP, 1, 1, max_ctx};
    struct kv_layout layout =
        kv_layout_full(model->o.n_layers, model->o.n_kv_heads, model->o.head_dim, LONG_BLOCK, k,
                       DIV_UP(max_ctx, LONG_BLOCK));
    struct inf_err err;

    layout.v = v;
    ASSERT_OK_ERR(backend_new(&params, &b->backend, &err), err);
    ASSERT_OK(b->backend->ops->kv_new(b->backend, &layout, &b->store));
    ASSERT_OK_ERR(
        b->backend->ops->compile(b->backend, model->graph, &limits, b->store, &b->plan, &err), err);
}

static void long_done(struct long_bench *b)
{
    b->backend->ops->plan_free(b->backend, b->plan);
    b->backend->ops->kv_free(b->backend, b->store);
    backend_free(b->backend);
}

/* Computes tokens @pos to @pos + n - 1 with the blocks in @store, and returns the logits of the
 * last of these tokens. */
static void long_step(struct long_bench *b, struct kv_store *store, uint32_t pos, uint32_t n,
                      float *logits)
{
    static uint32_t blocks[LONG / LONG_BLOCK];
    int32_t tokens[LONG_STEP];
    const uint32_t last = n - 1;
    const struct batch_seq seq = {
        .n_rows = n, .pos = pos, .n_blocks = ARRAY_SIZE(blocks), .blocks = {blocks}};
    const struct batch batch = {n, tokens, 1, &seq, 1, &last};

    for (uint32_t i = 0; i < ARRAY_SIZE(blocks); i++)
        blocks[i] = (i * 5 + 3) % ARRAY_SIZE(blocks); /* in a scattered order */
    for (uint32_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((pos + i) * 31 % 101 * 7 % N_VOCAB);
    ASSERT_OK(b->backend->ops->run(b->backend, b->plan, store, &batch, logits, NULL));
}

static double nmse(const float *x, const float *expected, size_t n)
{
    double error = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        error += ((double)x[i] - (double)expected[i]) * ((double)x[i] - (double)expected[i]);
        sum += (double)expected[i] * (double)expected[i];
    }
    return error / sum;
}

/* Computes the logits of some rows of a short text with a store of types @k and @v. */
static void short_text(const struct tiny *model, const char *rung, enum codec k, enum codec v,
                       float logits[SHORT_STEPS][N_VOCAB])
{
    struct long_bench b;

    long_init(&b, model, rung, 2, LONG, k, v);
    for (uint32_t i = 0; i < SHORT_STEPS; i++)
        long_step(&b, b.store, i * 37, 37, logits[i]);
    long_done(&b);
}

TEST(formats_of_the_kv_store_change_little)
{
    /* The limits follow from how a format rounds: to 11 bits (F16), to 8 bits (BF16), or to fewer
     * bits relative to the largest of several values. */
    static const struct {
        enum codec k, v;
        double limit;
    } formats[] = {{CODEC_F16, CODEC_F16, 1e-6},
                   {CODEC_BF16, CODEC_BF16, 1e-4},
                   {CODEC_Q8_0, CODEC_Q8_0, 1e-4},
                   {CODEC_F32, CODEC_BF16, 1e-4},
                   {CODEC_Q8_0, CODEC_F16, 1e-4},
                   {CODEC_FP8, CODEC_FP8, 1e-3},
                   {CODEC_Q4_0, CODEC_Q4_0, 1e-2},
                   {CODEC_Q8_0, CODEC_Q4_0, 1e-2},
                   {CODEC_AFFINE4_32, CODEC_AFFINE4_32, 1e-2},
                   {CODEC_TURBO4, CODEC_ISO4, 2e-2}};
    float expected[SHORT_STEPS][N_VOCAB], got[SHORT_STEPS][N_VOCAB];
    struct tiny model;

    tiny_init(&model, &plain);
    short_text(&model, "ref", CODEC_F32, CODEC_F32, expected);
    for (size_t i = 0; cpu_rung_at(i); i++)
        for (size_t j = 0; j < ARRAY_SIZE(formats); j++) {
            double e;

            short_text(&model, cpu_rung_at(i), formats[j].k, formats[j].v, got);
            e = nmse(got[0], expected[0], (size_t)SHORT_STEPS * N_VOCAB);
            print_message("%s, %s:%s: NMSE %.2g\n", cpu_rung_at(i), codec_info(formats[j].k)->name,
                          codec_info(formats[j].v)->name, e);
            assert_true(e <= formats[j].limit);
        }
    tiny_done(&model);
}

/* All instruction set levels read the same store, which the best level has filled. */
TEST(long_contexts_are_exact)
{
    float expected[N_VOCAB], got[N_VOCAB];
    struct long_bench best, other;
    struct tiny model;

    tiny_init(&model, &plain);
    long_init(&best, &model, NULL, 3, LONG, CODEC_F16, CODEC_F16);
    for (uint32_t pos = 0; pos < LONG; pos += LONG_STEP)
        long_step(&best, best.store, pos, LONG_STEP, expected);
    /* The last row has the same bits if it is computed alone, by several threads or by one
     * thread. */
    long_step(&best, best.store, LONG - 1, 1, got);
    assert_memory_equal(got, expected, sizeof(got));
    for (size_t i = 0; cpu_rung_at(i); i++) {
        long_init(&other, &model, cpu_rung_at(i), 1, LONG, CODEC_F16, CODEC_F16);
        long_step(&other, best.store, LONG - 1, 1, got);
        print_message("%s: NMSE %.2g\n", cpu_rung_at(i), nmse(got, expected, N_VOCAB));
        assert_true(nmse(got, expected, N_VOCAB) <= 1e-10);
        long_done(&other);
    }
    long_done(&best);
    tiny_done(&model);
}

/* With a longer context, only one part of a step's memory grows: the part in which partial results
 * are merged. */
TEST(memory_of_a_plan_is_linear_in_the_context)
{
    struct long_bench b;
    struct tiny model;
    uint64_t bytes[3];

    tiny_init(&model, &plain);
    for (int i = 0; i < 3; i++) {
        long_init(&b, &model, NULL, 4, i == 0 ? LONG_STEP : LONG * (uint32_t)i, CODEC_F16,
                  CODEC_F16);
        bytes[i] = plan_bytes(b.plan);
        long_done(&b);
    }
    print_message("%u tokens: %llu bytes, %u: %llu, %u: %llu\n", LONG_STEP,
                  (unsigned long long)bytes[0], LONG, (unsigned long long)bytes[1], 2 * LONG,
                  (unsigned long long)bytes[2]);
    assert_true(bytes[2] - bytes[1] <= bytes[1] - bytes[0] + (bytes[1] - bytes[0]) / 8);
    /* The growth is far less than the size of LONG_STEP rows of scores over the whole context. */
    assert_true(bytes[1] - bytes[0] < (uint64_t)LONG * LONG_STEP * sizeof(float) / 8);
    tiny_done(&model);
}

RUN_TESTS(cmocka_unit_test(formats_of_the_kv_store_change_little),
          cmocka_unit_test(long_contexts_are_exact),
          cmocka_unit_test(memory_of_a_plan_is_linear_in_the_context))
