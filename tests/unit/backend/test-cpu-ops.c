/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs graphs with routed experts, recurrent state and several groups of state on the CPU backend.
 * Compares the results with an evaluation of the graph in double precision, and the variants of the
 * backend with each other, bit for bit.
 */
#include "backend/cpu/exec/device.h"

#include <string.h>

#include "backend/cpu/exec/exec.h"
#include "core/cpu.h"
#include "lib/draw.h"
#include "lib/graph_eval.h"
#include "unit/backend/ops-model.h"

enum { MAX_ROWS = 96, N_TOKENS = 300 };

/* Holds a model on a backend. */
struct bench {
    struct ops_model model;
    struct backend *backend;
    struct kv_store *store;
    struct plan *plan;
    uint32_t n_tokens[OPS_SEQS]; /* tokens of each sequence so far */
    /* The last n_drafted rows of each sequence of a step are drafted; the last n_wrong of them have
     * wrong tokens, and do not become part of the sequence. */
    uint32_t n_drafted[OPS_SEQS], n_wrong[OPS_SEQS];
    float *logits; /* [MAX_ROWS, OPS_VOCAB] */
};

static void bench_init(struct bench *b, enum ops_kind kind, enum inf_dtype dtype, const char *rung,
                       uint32_t n_threads, bool fuse)
{
    const struct backend_params params = {.device = "cpu", .isa = rung, .n_threads = n_threads};
    const struct plan_limits limits = {MAX_ROWS, MAX_ROWS, OPS_SEQS, OPS_CTX};
    struct inf_err err;

    *b = (struct bench){0};
    ops_model_init(&b->model, kind, dtype);
    ASSERT_OK_ERR(backend_new(&params, &b->backend, &err), err);
    ((struct cpu_backend *)b->backend)->fuse = fuse;
    ASSERT_OK(b->backend->ops->kv_new(b->backend, &b->model.layout, &b->store));
    ASSERT_OK_ERR(
        b->backend->ops->compile(b->backend, b->model.graph, &limits, b->store, &b->plan, &err),
        err);
    b->logits = calloc((size_t)MAX_ROWS * OPS_VOCAB, sizeof(float));
    assert_non_null(b->logits);
}

static void bench_done(struct bench *b)
{
    b->backend->ops->plan_free(b->backend, b->plan);
    b->backend->ops->kv_free(b->backend, b->store);
    backend_free(b->backend);
    ops_model_done(&b->model);
    free(b->logits);
}

static int32_t token_at(uint32_t seq, uint32_t pos)
{
    return (int32_t)((pos * 7 + seq * 13 + pos * pos % 11 * (seq + 1)) % OPS_VOCAB);
}

/* Fills in the blocks of group @i_group of sequence @seq. Blocks before a window have a number that
 * no block has. */
static void fill_blocks(const struct bench *b, uint32_t seq, uint32_t i_group, uint32_t *blocks)
{
    const struct state_group *g = &b->model.layout.groups[i_group];
    const uint32_t first = kv_layout_first(&b->model.layout, i_group), n = OPS_CTX / OPS_BLOCK;
    const uint32_t pos = b->n_tokens[seq];

    blocks[0] = first + OPS_SEQS - 1 - seq;
    for (uint32_t i = 0; g->rule != STATE_RECURRENT && i < n; i++)
        blocks[i] = g->rule == STATE_WINDOW && (i + 1) * OPS_BLOCK + g->window <= pos + 1
                        ? UINT32_MAX
                        : first + seq * n + (i * 7 + seq) % n;
}

/* Runs one step with n[i] more tokens of sequence i, in the order of sequences, and requests all
 * logits. */
static void step(struct bench *b, const uint32_t n[OPS_SEQS])
{
    static uint32_t blocks[OPS_SEQS][STATE_GROUPS_MAX][OPS_CTX / OPS_BLOCK];
    uint32_t drafted[OPS_SEQS][STATE_GROUPS_MAX], n_accepted[OPS_SEQS];
    int32_t tokens[MAX_ROWS];
    uint32_t rows[MAX_ROWS];
    struct batch_seq seqs[OPS_SEQS];
    struct batch batch = {.tokens = tokens, .seqs = seqs, .logit_rows = rows};

    for (uint32_t i = 0; i < OPS_SEQS; i++) {
        const uint32_t pos = b->n_tokens[i];
        struct batch_seq *seq = &seqs[batch.n_seqs];

        if (n[i] == 0)
            continue;
        *seq = (struct batch_seq){.i_row = batch.n_rows,
                                  .n_rows = n[i],
                                  .pos = pos,
                                  .n_blocks = DIV_UP(pos + n[i], OPS_BLOCK),
                                  .n_drafted = b->n_drafted[i],
                                  .drafted = drafted[i]};
        n_accepted[batch.n_seqs] = b->n_drafted[i] - b->n_wrong[i];
        for (uint32_t j = 0; j < b->model.layout.n_groups; j++) {
            fill_blocks(b, i, j, blocks[i][j]);
            seq->blocks[j] = blocks[i][j];
            drafted[i][j] = kv_layout_first(&b->model.layout, j) + OPS_SEQS + i;
        }
        for (uint32_t j = 0; j < n[i]; j++) {
            rows[batch.n_rows] = batch.n_rows;
            tokens[batch.n_rows++] = token_at(i + (j >= n[i] - b->n_wrong[i]), pos + j);
        }
        batch.n_seqs++;
        b->n_tokens[i] += n[i] - b->n_wrong[i];
    }
    batch.n_logits = batch.n_rows;
    ASSERT_OK(b->backend->ops->run(b->backend, b->plan, b->store, &batch, b->logits, NULL));
    b->backend->ops->accept(b->backend, b->plan, b->store, &batch, n_accepted);
}

/* Computes the logits [n, OPS_VOCAB] of the first n tokens of sequence @seq, in steps of at most
 * @chunk. */
static float *alone(struct bench *b, uint32_t seq, uint32_t n, uint32_t chunk)
{
    float *all = calloc((size_t)n * OPS_VOCAB, sizeof(float));

    assert_non_null(all);
    b->n_tokens[seq] = 0;
    for (uint32_t i = 0; i < n; i += chunk) {
        uint32_t take[OPS_SEQS] = {0};

        take[seq] = MIN(chunk, n - i);
        step(b, take);
        memcpy(all + (size_t)i * OPS_VOCAB, b->logits,
               (size_t)take[seq] * OPS_VOCAB * sizeof(float));
    }
    return all;
}

static void assert_same(const float *a, const float *b, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof(float)) != 0)
            fail_msg("%s: element %zu is %.9g, not %.9g", what, i, (double)a[i], (double)b[i]);
}

static void check_formulas(enum ops_kind kind, enum inf_dtype dtype, const char *rung, double limit)
{
    int32_t tokens[N_TOKENS];
    double *expected, error = 0, sum = 0;
    struct bench b;
    float *got;

    bench_init(&b, kind, dtype, rung, 2, true);
    for (uint32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = token_at(0, i);
    ASSERT_OK(graph_eval(b.model.graph, tokens, N_TOKENS, &expected));
    got = alone(&b, 0, N_TOKENS, MAX_ROWS);
    for (size_t i = 0; i < (size_t)N_TOKENS * OPS_VOCAB; i++) {
        error += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
        sum += expected[i] * expected[i];
    }
    print_message("%s: kind %d, NMSE %.2g\n", rung, (int)kind, error / sum);
    assert_true(error / sum <= limit);
    free(got);
    free(expected);
    bench_done(&b);
}

TEST(logits_follow_the_formulas_on_every_rung)
{
    for (size_t i = 0; cpu_rung_at(i); i++)
        for (int kind = 0; kind < OPS_KINDS; kind++)
            if (test_drawn_if_slow(3))
                check_formulas((enum ops_kind)kind, INF_DTYPE_F32, cpu_rung_at(i), 1e-12);
}

/* Compares a prompt that is computed at once with the same prompt on another number of threads, in
 * steps of at most @chunk tokens, with fused or unfused operations. */
static void check_variant(enum ops_kind kind, enum inf_dtype dtype, const char *rung,
                          uint32_t n_threads, uint32_t chunk, bool fuse, const float *expected)
{
    struct bench b;
    float *got;
    char what[80];

    bench_init(&b, kind, dtype, rung, n_threads, fuse);
    got = alone(&b, 1, N_TOKENS, chunk);
    snprintf(what, sizeof(what), "kind %d, %s, %u threads, steps of %u%s", (int)kind, rung,
             n_threads, chunk, fuse ? ", fused" : "");
    assert_same(got, expected, (size_t)N_TOKENS * OPS_VOCAB, what);
    free(got);
    bench_done(&b);
}

/* @chunks ends with 0. */
static void check_variants(enum ops_kind kind, enum inf_dtype dtype, const char *rung,
                           const uint32_t *chunks)
{
    struct bench b;
    float *expected;

    if (!test_drawn_if_slow(3))
        return;
    bench_init(&b, kind, dtype, rung, 1, true);
    expected = alone(&b, 1, N_TOKENS, MAX_ROWS);
    check_variant(kind, dtype, rung, 2, MAX_ROWS, false, expected);
    for (uint32_t i = 0; chunks[i] > 0; i++)
        check_variant(kind, dtype, rung, 1 + i, chunks[i], true, expected);
    free(expected);
    bench_done(&b);
}

TEST(fusing_chunks_and_threads_change_no_bit)
{
    static const uint32_t some[] = {50, 1, 0}, other[] = {1, 7, 0}, all[] = {1, 2, 7, 16, 50, 0};

    for (int kind = 0; kind < OPS_KINDS; kind++) {
        for (size_t i = 0; cpu_rung_at(i); i++) {
            check_variants((enum ops_kind)kind, INF_DTYPE_F32, cpu_rung_at(i), some);
            check_variants((enum ops_kind)kind, INF_DTYPE_Q8_0, cpu_rung_at(i), other);
        }
        check_variants((enum ops_kind)kind, INF_DTYPE_BF16, "auto", all);
    }
}

/* Runs random steps of all sequences together. Every row must be the same as if its sequence ran
 * alone. */
static void check_batches(enum ops_kind kind, uint32_t n_threads)
{
    float *expected[OPS_SEQS];
    struct bench b;
    struct rng rng;

    bench_init(&b, kind, INF_DTYPE_Q8_0, "auto", n_threads, true);
    rng_seed(&rng, n_threads);
    for (uint32_t i = 0; i < OPS_SEQS; i++) {
        expected[i] = alone(&b, i, N_TOKENS, MAX_ROWS);
        b.n_tokens[i] = 0;
    }
    for (int steps = 0; steps < 60; steps++) {
        uint32_t take[OPS_SEQS], begin[OPS_SEQS], left = MAX_ROWS, row = 0;

        for (uint32_t i = 0; i < OPS_SEQS; i++) {
            begin[i] = b.n_tokens[i];
            take[i] = rng_u32(&rng) % 3 == 0 ? rng_u32(&rng) % 40 : rng_u32(&rng) % 2;
            take[i] = MIN(MIN(take[i], left), N_TOKENS - begin[i]);
            left -= take[i];
        }
        if (left == MAX_ROWS)
            continue;
        step(&b, take);
        for (uint32_t i = 0; i < OPS_SEQS; i++) {
            assert_same(b.logits + (size_t)row * OPS_VOCAB,
                        expected[i] + (size_t)begin[i] * OPS_VOCAB, (size_t)take[i] * OPS_VOCAB,
                        "batch");
            row += take[i];
            if (b.n_tokens[i] == N_TOKENS)
                b.n_tokens[i] = 0;
        }
    }
    for (uint32_t i = 0; i < OPS_SEQS; i++)
        free(expected[i]);
    bench_done(&b);
}

TEST(rows_do_not_depend_on_their_neighbors)
{
    for (int kind = 0; kind < OPS_KINDS; kind++) {
        check_batches((enum ops_kind)kind, 2);
        check_batches((enum ops_kind)kind, 3);
    }
}

/* Runs random steps with drafted rows, some of which are wrong. The rows before them must be the
 * same as without drafts. */
static void check_drafts(const char *rung, uint32_t n_threads)
{
    float *expected[OPS_SEQS];
    struct bench b;
    struct rng rng;
    uint32_t most;

    bench_init(&b, OPS_RECURRENT, INF_DTYPE_Q8_0, rung, n_threads, true);
    most = b.backend->ops->max_drafted(b.plan, b.store);
    assert_int_equal(most, 9);
    rng_seed(&rng, n_threads);
    for (uint32_t i = 0; i < OPS_SEQS; i++) {
        expected[i] = alone(&b, i, N_TOKENS, MAX_ROWS);
        b.n_tokens[i] = 0;
    }
    for (int steps = 0; steps < 60; steps++) {
        uint32_t take[OPS_SEQS], begin[OPS_SEQS], row = 0;

        for (uint32_t i = 0; i < OPS_SEQS; i++) {
            begin[i] = b.n_tokens[i];
            b.n_drafted[i] = rng_u32(&rng) % (most + 1);
            b.n_wrong[i] = rng_u32(&rng) % (b.n_drafted[i] + 1);
            take[i] = 1 + rng_u32(&rng) % 3 + b.n_drafted[i];
        }
        step(&b, take);
        for (uint32_t i = 0; i < OPS_SEQS; i++) {
            assert_same(b.logits + (size_t)row * OPS_VOCAB,
                        expected[i] + (size_t)begin[i] * OPS_VOCAB,
                        (size_t)(take[i] - b.n_wrong[i]) * OPS_VOCAB, "drafts");
            row += take[i];
            if (b.n_tokens[i] + most + 4 > N_TOKENS)
                b.n_tokens[i] = 0;
        }
    }
    for (uint32_t i = 0; i < OPS_SEQS; i++)
        free(expected[i]);
    bench_done(&b);
}

TEST(rejected_rows_leave_no_trace_in_recurrent_state)
{
    for (size_t i = 0; cpu_rung_at(i); i++)
        check_drafts(cpu_rung_at(i), 1 + i % 3);
}

RUN_TESTS(cmocka_unit_test(logits_follow_the_formulas_on_every_rung),
          cmocka_unit_test(fusing_chunks_and_threads_change_no_bit),
          cmocka_unit_test(rows_do_not_depend_on_their_neighbors),
          cmocka_unit_test(rejected_rows_leave_no_trace_in_recurrent_state))
