/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the CPU backend with an evaluation of the graph in double precision, and the variants of
 * the backend with each other, bit for bit.
 */
#include "backend/cpu/exec/device.h"

#include <math.h>
#include <pthread.h>

#include "backend/cpu/exec/exec.h"
#include "core/cpu.h"
#include "kv/pool.h"
#include "lib/draw.h"
#include "lib/graph_eval.h"
#include "unit/backend/allocs.h"
#include "unit/backend/tiny.h"

enum { MAX_ROWS = 96, MAX_SEQS = 5, MAX_CTX = 640, BLOCK = 16, N_BLOCKS = 220 };

static const struct tiny_options llama = {.dtype = INF_DTYPE_F32,
                                          .n_layers = 2,
                                          .n_embd = 48,
                                          .n_heads = 6,
                                          .n_kv_heads = 2,
                                          .head_dim = 20,
                                          .n_ff = 100,
                                          .n_vocab = 77,
                                          .rope = ROPE_PAIRS,
                                          .seed = 1};

/* This model has weights of a 16-bit type, which some CPUs multiply without conversion. */
static const struct tiny_options halves = {.dtype = INF_DTYPE_F16,
                                           .n_layers = 2,
                                           .n_embd = 64,
                                           .n_heads = 4,
                                           .n_kv_heads = 2,
                                           .head_dim = 20,
                                           .n_ff = 100,
                                           .n_vocab = 77,
                                           .rope = ROPE_HALF,
                                           .seed = 3};

static const struct tiny_options wide = {.dtype = INF_DTYPE_F16,
                                         .n_layers = 2,
                                         .n_embd = 64,
                                         .n_heads = 2,
                                         .n_kv_heads = 1,
                                         .head_dim = 128,
                                         .n_ff = 96,
                                         .n_vocab = 77,
                                         .rope = ROPE_HALF,
                                         .seed = 4};

/* Struct bench holds a model on a backend with a pool, and the buffers to run the model. */
struct bench {
    struct tiny model;
    struct backend *backend;
    struct kv_pool *pool;
    struct plan *plan;
    struct kv_table tables[MAX_SEQS];
    float *logits; /* [MAX_ROWS, n_vocab] */
};

/* @recent: whether the newest tokens and the first block are kept in more bits. */
static void bench_init_kv(struct bench *b, const struct tiny_options *options, const char *rung,
                          uint32_t n_threads, enum codec k, enum codec v, bool recent, bool fuse)
{
    const struct backend_params params = {.device = "cpu", .isa = rung, .n_threads = n_threads};
    const struct plan_limits limits = {MAX_ROWS, MAX_ROWS, MAX_SEQS, MAX_CTX};
    struct kv_layout layout = kv_layout_full(options->n_layers, options->n_kv_heads,
                                             options->head_dim, BLOCK, k, N_BLOCKS);
    struct inf_err err;

    layout.v = v;
    if (recent) {
        assert_true(kv_layout_keep_recent(&layout));
        layout.n_blocks[layout.i_recent] = layout.n_blocks[layout.i_first] = N_BLOCKS;
    }
    *b = (struct bench){0};
    tiny_init(&b->model, options);
    ASSERT_OK_ERR(backend_new(&params, &b->backend, &err), err);
    ((struct cpu_backend *)b->backend)->fuse = fuse;
    ASSERT_OK(kv_pool_new(b->backend, &layout, &b->pool));
    ASSERT_OK_ERR(b->backend->ops->compile(b->backend, b->model.graph, &limits,
                                           kv_pool_store(b->pool), &b->plan, &err),
                  err);
    for (int i = 0; i < MAX_SEQS; i++)
        ASSERT_OK(kv_table_init(&b->tables[i], b->pool, MAX_CTX));
    b->logits = calloc((size_t)MAX_ROWS * options->n_vocab, sizeof(float));
    assert_non_null(b->logits);
}

static void bench_init(struct bench *b, const struct tiny_options *options, const char *rung,
                       uint32_t n_threads, enum codec k, enum codec v, bool fuse)
{
    bench_init_kv(b, options, rung, n_threads, k, v, false, fuse);
}

static void bench_done(struct bench *b)
{
    for (int i = 0; i < MAX_SEQS; i++)
        kv_table_done(&b->tables[i]);
    b->backend->ops->plan_free(b->backend, b->plan);
    kv_pool_free(b->pool);
    backend_free(b->backend);
    tiny_done(&b->model);
    free(b->logits);
}

/* Returns token @pos of sequence @seq. */
static int32_t token_at(const struct bench *b, uint32_t seq, uint32_t pos)
{
    return (int32_t)((pos * 7 + seq * 13 + pos * pos % 11 * (seq + 1)) % b->model.o.n_vocab);
}

/* Runs one step with n[i] more tokens of sequence i, in the order of sequences, and requests all
 * logits. */
static void step(struct bench *b, const uint32_t n[MAX_SEQS])
{
    int32_t tokens[MAX_ROWS];
    uint32_t rows[MAX_ROWS];
    struct batch_seq seqs[MAX_SEQS];
    struct batch batch = {.tokens = tokens, .seqs = seqs, .logit_rows = rows};

    for (uint32_t i = 0; i < MAX_SEQS; i++) {
        struct kv_table *t = &b->tables[i];
        const uint32_t pos = t->n_tokens;

        if (n[i] == 0)
            continue;
        assert_int_equal(kv_table_extend(t, n[i]), 0);
        seqs[batch.n_seqs++] = kv_table_part(t, batch.n_rows, pos, n[i]);
        for (uint32_t j = 0; j < n[i]; j++) {
            rows[batch.n_rows] = batch.n_rows;
            tokens[batch.n_rows++] = token_at(b, i, pos + j);
        }
    }
    batch.n_logits = batch.n_rows;
    ASSERT_OK(
        b->backend->ops->run(b->backend, b->plan, kv_pool_store(b->pool), &batch, b->logits, NULL));
}

/* Computes the logits [n, n_vocab] of the first n tokens of sequence @seq, in steps of at most
 * @chunk. */
static float *alone(struct bench *b, uint32_t seq, uint32_t n, uint32_t chunk)
{
    const uint32_t n_vocab = b->model.o.n_vocab;
    float *all = calloc((size_t)n * n_vocab, sizeof(float));

    assert_non_null(all);
    kv_table_truncate(&b->tables[seq], 0);
    for (uint32_t i = 0; i < n; i += chunk) {
        uint32_t take[MAX_SEQS] = {0};

        take[seq] = MIN(chunk, n - i);
        step(b, take);
        memcpy(all + (size_t)i * n_vocab, b->logits, (size_t)take[seq] * n_vocab * sizeof(float));
    }
    return all;
}

static void assert_same(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0)
            fail_msg("%s: element %zu is %.9g, not %.9g", what, i, (double)a[i], (double)b[i]);
}

static void check_formulas(const struct tiny_options *options, const char *rung, double limit)
{
    enum { N = 90 };
    int32_t tokens[N];
    double *expected, error = 0, sum = 0;
    struct bench b;
    float *got;

    bench_init(&b, options, rung, 2, CODEC_F32, CODEC_F32, true);
    for (uint32_t i = 0; i < N; i++)
        tokens[i] = token_at(&b, 0, i);
    ASSERT_OK(graph_eval(b.model.graph, tokens, N, &expected));
    got = alone(&b, 0, N, MAX_ROWS);
    for (size_t i = 0; i < (size_t)N * options->n_vocab; i++) {
        error += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
        sum += expected[i] * expected[i];
    }
    print_message("%s: NMSE %.2g\n", rung, error / sum);
    assert_true(error / sum <= limit);
    free(got);
    free(expected);
    bench_done(&b);
}

TEST(logits_follow_the_formulas_on_every_rung)
{
    unsigned flags;

    for (size_t i = 0; cpu_rung_at(i); i++) {
        check_formulas(&llama, cpu_rung_at(i), 1e-11);
        /* Products with quantized weights also quantize their input. */
        check_formulas(&tiny_qwen, cpu_rung_at(i), 1e-3);
        assert_int_equal(cpu_rung_flags(cpu_rung_at(i), &flags), 0);
        /* With AVX-512, F16 weights and their inputs are rounded to F16 or to int16. */
        check_formulas(&halves, cpu_rung_at(i),
                       flags & CPU_AVX512_FP16   ? 3e-5
                       : flags & CPU_AVX512_VNNI ? 1e-6
                                                 : 1e-11);
    }
}

static void check_fusing(const struct tiny_options *options, const char *rung)
{
    struct bench fused, plain;
    float *a, *b;

    bench_init(&fused, options, rung, 2, CODEC_F16, CODEC_F16, true);
    bench_init(&plain, options, rung, 2, CODEC_F16, CODEC_F16, false);
    /* The stages are the embedding and the head, and for each layer q·k·v, attention, the output of
     * the attention, gate·up, and down. */
    assert_int_equal(fused.plan->n_stages, 2 + 5 * options->n_layers);
    assert_true(plain.plan->n_stages > 2 + 12 * options->n_layers);
    a = alone(&fused, 0, 100, 60);
    b = alone(&plain, 0, 100, 60);
    assert_same(a, b, (size_t)100 * options->n_vocab, rung);
    free(a);
    free(b);
    bench_done(&fused);
    bench_done(&plain);
}

TEST(fusing_changes_no_bit)
{
    for (size_t i = 0; cpu_rung_at(i); i++) {
        check_fusing(&llama, cpu_rung_at(i));
        check_fusing(&tiny_qwen, cpu_rung_at(i));
        check_fusing(&halves, cpu_rung_at(i));
    }
}

/* Compares a prompt that is computed at once with the same prompt in steps of each length in
 * @chunks, on each number of @threads. Both lists end with 0. */
static void check_chunks(const struct tiny_options *options, const char *rung, enum codec k,
                         enum codec v, bool recent, const uint32_t *threads, const uint32_t *chunks)
{
    /* The prompt has more than one range of blocks, so that threads share a sequence. */
    const uint32_t n = ATTN_STRETCH_BLOCKS * BLOCK + 24;
    float *expected = NULL;

    if (!test_drawn_if_slow(2))
        return;
    for (; *threads > 0; threads++) {
        struct bench b;

        bench_init_kv(&b, options, rung, *threads, k, v, recent, true);
        if (!expected)
            expected = alone(&b, 0, n, MAX_ROWS);
        for (const uint32_t *chunk = chunks; *chunk > 0; chunk++) {
            float *got = alone(&b, 0, n, *chunk);

            assert_same(got, expected, (size_t)n * options->n_vocab, "chunks");
            free(got);
        }
        bench_done(&b);
    }
    free(expected);
}

TEST(chunks_and_threads_change_no_bit)
{
    static const uint32_t some_threads[] = {2, 0}, all_threads[] = {1, 2, 3, 0};
    static const uint32_t some_chunks[] = {1, 0}, all_chunks[] = {1, 7, 16, 50, 0};

    for (size_t i = 0; cpu_rung_at(i); i++) {
        check_chunks(&llama, cpu_rung_at(i), CODEC_F16, CODEC_F16, false, some_threads,
                     some_chunks);
        check_chunks(&tiny_qwen, cpu_rung_at(i), CODEC_BF16, CODEC_BF16, false, some_threads,
                     some_chunks);
        check_chunks(&tiny_qwen, cpu_rung_at(i), CODEC_Q8_0, CODEC_Q8_0, false, some_threads,
                     some_chunks);
        check_chunks(&tiny_qwen, cpu_rung_at(i), CODEC_FP8, CODEC_Q4_0, false, some_threads,
                     some_chunks);
        check_chunks(&halves, cpu_rung_at(i), CODEC_F16, CODEC_F16, false, some_threads,
                     some_chunks);
        check_chunks(&wide, cpu_rung_at(i), CODEC_Q3_0, CODEC_Q3_0, false, some_threads,
                     some_chunks);
        check_chunks(&wide, cpu_rung_at(i), CODEC_TURBO3_QJL, CODEC_AFFINE2_32, true, some_threads,
                     some_chunks);
        check_chunks(&wide, cpu_rung_at(i), CODEC_AFFINE3_64, CODEC_ISO3, false, some_threads,
                     some_chunks);
        check_chunks(&wide, cpu_rung_at(i), CODEC_Q5_0, CODEC_Q6_0, false, some_threads,
                     some_chunks);
        check_chunks(&wide, cpu_rung_at(i), CODEC_Q3_0, CODEC_Q4_0, true, some_threads,
                     some_chunks);
    }
    check_chunks(&llama, NULL, CODEC_BF16, CODEC_BF16, false, all_threads, all_chunks);
    check_chunks(&tiny_qwen, NULL, CODEC_F32, CODEC_F32, false, all_threads, all_chunks);
    check_chunks(&tiny_qwen, NULL, CODEC_Q8_0, CODEC_Q8_0, false, all_threads, all_chunks);
    check_chunks(&tiny_qwen, NULL, CODEC_Q8_0, CODEC_F32, false, all_threads, all_chunks);
    check_chunks(&tiny_qwen, NULL, CODEC_BF16, CODEC_Q8_0, false, some_threads, some_chunks);
    check_chunks(&tiny_qwen, NULL, CODEC_Q4_0, CODEC_Q4_0, false, all_threads, all_chunks);
    check_chunks(&llama, NULL, CODEC_FP8, CODEC_FP8, false, all_threads, all_chunks);
    check_chunks(&wide, NULL, CODEC_Q4_0, CODEC_Q3_0, false, all_threads, all_chunks);
    check_chunks(&wide, NULL, CODEC_Q4_0, CODEC_Q3_0, true, all_threads, all_chunks);
    check_chunks(&wide, NULL, CODEC_AFFINE4_32, CODEC_TURBO2, true, all_threads, all_chunks);
    check_chunks(&wide, NULL, CODEC_PLANAR4, CODEC_ROTOR3, false, all_threads, all_chunks);
}

/* Returns the mean squared difference of the logits of the rows @begin … @end - 1. */
static double difference(const float *a, const float *b, uint32_t begin, uint32_t end)
{
    const size_t n_vocab = wide.n_vocab;
    double sum = 0;

    for (size_t i = begin * n_vocab; i < end * n_vocab; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum / (double)((end - begin) * n_vocab);
}

TEST(the_first_and_the_newest_tokens_have_smaller_errors)
{
    enum { N = 300, RECENT = KV_RECENT };
    const struct {
        enum codec codec;
        bool recent;
    } kinds[] = {{CODEC_F32, false}, {CODEC_Q3_0, false}, {CODEC_Q3_0, true}};
    float *got[ARRAY_SIZE(kinds)];

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        struct bench b;

        bench_init_kv(&b, &wide, NULL, 2, kinds[i].codec, kinds[i].codec, kinds[i].recent, true);
        got[i] = alone(&b, 0, N, MAX_ROWS);
        bench_done(&b);
    }
    /* The first rows read all tokens in 8 bits, and the last rows read most tokens in 3 bits. */
    assert_true(difference(got[2], got[0], 0, RECENT) <
                difference(got[1], got[0], 0, RECENT) / 100);
    assert_true(difference(got[2], got[0], N / 2, N) > difference(got[2], got[0], 0, RECENT) * 10);
    assert_true(difference(got[2], got[0], N / 2, N) < difference(got[1], got[0], N / 2, N));
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        free(got[i]);
}

/* Runs random steps of all sequences together. Every row must be the same as if its sequence ran
 * alone. */
static void check_batches(const struct tiny_options *options, uint32_t n_threads)
{
    const uint32_t n = 120, n_vocab = options->n_vocab;
    float *expected[MAX_SEQS];
    struct bench b;
    struct rng rng;

    bench_init(&b, options, NULL, n_threads, CODEC_F16, CODEC_F16, true);
    rng_seed(&rng, n_threads);
    for (uint32_t i = 0; i < MAX_SEQS; i++) {
        expected[i] = alone(&b, i, n, MAX_ROWS);
        kv_table_truncate(&b.tables[i], 0);
    }
    for (int steps = 0; steps < 60; steps++) {
        uint32_t take[MAX_SEQS], begin[MAX_SEQS], left = MAX_ROWS, row = 0;

        for (uint32_t i = 0; i < MAX_SEQS; i++) {
            begin[i] = b.tables[i].n_tokens;
            take[i] = rng_u32(&rng) % 3 == 0 ? rng_u32(&rng) % 40 : rng_u32(&rng) % 2;
            take[i] = MIN(MIN(take[i], left), n - begin[i]);
            left -= take[i];
        }
        if (left == MAX_ROWS)
            continue;
        step(&b, take);
        for (uint32_t i = 0; i < MAX_SEQS; i++) {
            assert_same(b.logits + (size_t)row * n_vocab, expected[i] + (size_t)begin[i] * n_vocab,
                        (size_t)take[i] * n_vocab, "batch");
            row += take[i];
            if (b.tables[i].n_tokens == n)
                kv_table_truncate(&b.tables[i], rng_u32(&rng) % n);
        }
    }
    for (uint32_t i = 0; i < MAX_SEQS; i++)
        free(expected[i]);
    bench_done(&b);
}

TEST(rows_do_not_depend_on_their_neighbors)
{
    check_batches(&llama, 2);
    check_batches(&tiny_qwen, 3);
    check_batches(&halves, 2);
}

/* The rows fill more than one attention tile, and the last layer need not compute all tiles. */
TEST(only_the_rows_asked_for_have_logits)
{
    enum { N = MAX_ROWS };
    const uint32_t rows[] = {1, 4, N - 1};
    int32_t tokens[N];
    uint32_t every[N];
    struct bench b;
    float *all;

    bench_init(&b, &llama, NULL, 2, CODEC_F32, CODEC_F32, true);
    assert_true(N > 2 * b.plan->tile_rows);
    for (uint32_t i = 0; i < N; i++) {
        tokens[i] = token_at(&b, 0, i);
        every[i] = i;
    }
    assert_int_equal(kv_table_extend(&b.tables[0], N), 0);
    {
        const struct batch_seq seq = {
            .n_rows = N, .n_blocks = b.tables[0].n_blocks, .blocks = {b.tables[0].blocks[0]}};
        struct batch batch = {N, tokens, 1, &seq, N, every};
        struct kv_store *store = kv_pool_store(b.pool);

        all = calloc((size_t)N * llama.n_vocab, sizeof(float));
        assert_non_null(all);
        ASSERT_OK(b.backend->ops->run(b.backend, b.plan, store, &batch, all, NULL));
        batch.n_logits = ARRAY_SIZE(rows);
        batch.logit_rows = rows;
        ASSERT_OK(b.backend->ops->run(b.backend, b.plan, store, &batch, b.logits, NULL));
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
            assert_same(b.logits + i * llama.n_vocab, all + (size_t)rows[i] * llama.n_vocab,
                        llama.n_vocab, "row");
        batch.n_logits = 0;
        ASSERT_OK(b.backend->ops->run(b.backend, b.plan, store, &batch, NULL, NULL));
    }
    free(all);
    bench_done(&b);
}

TEST(copied_blocks_read_like_the_originals)
{
    struct bench b;
    uint32_t take[MAX_SEQS] = {30};
    float *expected;

    bench_init(&b, &tiny_qwen, NULL, 2, CODEC_F16, CODEC_F16, true);
    expected = alone(&b, 0, 31, MAX_ROWS);
    kv_table_truncate(&b.tables[0], 0);
    step(&b, take);
    /* Sequence 1 continues sequence 0 from a copy of its open block. */
    kv_table_share(&b.tables[1], &b.tables[0], 30);
    assert_int_equal(kv_table_extend(&b.tables[1], 1), 0);
    assert_int_not_equal(b.tables[1].blocks[0][1], b.tables[0].blocks[0][1]);
    {
        const int32_t token = token_at(&b, 0, 30);
        const uint32_t row = 0;
        const struct batch_seq seq = {
            .n_rows = 1, .pos = 30, .n_blocks = 2, .blocks = {b.tables[1].blocks[0]}};
        const struct batch batch = {1, &token, 1, &seq, 1, &row};

        ASSERT_OK(
            b.backend->ops->run(b.backend, b.plan, kv_pool_store(b.pool), &batch, b.logits, NULL));
    }
    assert_same(b.logits, expected + (size_t)30 * tiny_qwen.n_vocab, tiny_qwen.n_vocab, "copy");
    free(expected);
    bench_done(&b);
}

TEST(a_step_allocates_nothing)
{
    struct bench b;
    unsigned before;

    bench_init(&b, &tiny_qwen, NULL, 3, CODEC_F16, CODEC_F16, true);
    assert_true(allocs_count() > 0);
    for (uint32_t i = 0; i < MAX_SEQS; i++)
        kv_table_truncate(&b.tables[i], 0);
    before = allocs_count();
    step(&b, (const uint32_t[MAX_SEQS]){40, 3, 1});
    step(&b, (const uint32_t[MAX_SEQS]){1, 1, 1, 1});
    for (int i = 0; i < 300; i++)
        step(&b, (const uint32_t[MAX_SEQS]){1});
    assert_int_equal(allocs_count(), before);
    bench_done(&b);
}

static bool no_threads;
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg)
{
    return no_threads ? EAGAIN : __real_pthread_create(t, a, f, arg);
}

TEST(threads_that_do_not_start_are_counted)
{
    struct backend_params params = {.device = "cpu"};
    struct backend *backend;
    struct inf_err err;
    char number[16];

    no_threads = true;
    params.n_threads = 3;
    ASSERT_ERROR(backend_new(&params, &backend, &err), EAGAIN);
    ASSERT_CONTAINS(err.text, " 3 threads");
    /* 0 means one thread for each CPU. A single thread is the calling thread. */
    snprintf(number, sizeof(number), " %u threads", cpu_count());
    if (cpu_count() > 1) {
        params.n_threads = 0;
        ASSERT_ERROR(backend_new(&params, &backend, &err), EAGAIN);
        ASSERT_CONTAINS(err.text, number);
    }
    no_threads = false;
}

TEST(wrong_parameters_are_refused)
{
    struct backend *backend;
    struct inf_err err;

    ASSERT_ERROR(backend_new(&(struct backend_params){.device = "abacus"}, &backend, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "abacus");
    ASSERT_ERROR(backend_new(&(struct backend_params){.isa = "mmx"}, &backend, &err), EINVAL);
    ASSERT_CONTAINS(err.text, "mmx");
    backend_free(NULL);
}

TEST(products_that_no_kernel_can_do_are_refused)
{
    const struct tiny_options odd = {.dtype = INF_DTYPE_F32,
                                     .n_layers = 0,
                                     .n_embd = 20,
                                     .n_heads = 1,
                                     .n_kv_heads = 1,
                                     .head_dim = 4,
                                     .n_ff = 4,
                                     .n_vocab = 9};
    const struct plan_limits limits = {8, 8, 1, 64};
    struct backend *backend;
    struct plan *plan;
    struct graph *g;
    struct inf_err err;
    struct tiny t;

    /* A graph without layers is valid. */
    tiny_init(&t, &odd);
    ASSERT_OK(backend_new(&(struct backend_params){.n_threads = 1}, &backend, &err));
    ASSERT_OK_ERR(backend->ops->compile(backend, t.graph, &limits, NULL, &plan, &err), err);
    backend->ops->plan_free(backend, plan);
    /* An incomplete graph is not valid. */
    ASSERT_OK(graph_new(&g));
    ASSERT_ERROR(backend->ops->compile(backend, g, &limits, NULL, &plan, &err), EINVAL);
    graph_free(g);
    backend_free(backend);
    tiny_done(&t);
}

RUN_TESTS(cmocka_unit_test(logits_follow_the_formulas_on_every_rung),
          cmocka_unit_test(fusing_changes_no_bit),
          cmocka_unit_test(chunks_and_threads_change_no_bit),
          cmocka_unit_test(the_first_and_the_newest_tokens_have_smaller_errors),
          cmocka_unit_test(rows_do_not_depend_on_their_neighbors),
          cmocka_unit_test(only_the_rows_asked_for_have_logits),
          cmocka_unit_test(copied_blocks_read_like_the_originals),
          cmocka_unit_test(a_step_allocates_nothing),
          cmocka_unit_test(threads_that_do_not_start_are_counted),
          cmocka_unit_test(wrong_parameters_are_refused),
          cmocka_unit_test(products_that_no_kernel_can_do_are_refused))
