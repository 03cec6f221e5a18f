/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-step MODEL N_ROWS POS N_STEPS [THREADS [RUNG]]
 *
 * Times the forward pass of one sequence on the CPU, N_ROWS tokens at a time with POS tokens
 * before them, and tells where the time goes, stage by stage.
 */
#include <inttypes.h>
#include <stdio.h>

#include "backend/cpu/program.h"
#include "core/clock.h"
#include "core/rng.h"
#include "format/format.h"
#include "kv/pool.h"
#include "model/model.h"

enum { BLOCK_TOKENS = 64 };

static const char *stage_label(const struct stage *s)
{
    switch (s->kind) {
    case STAGE_EMBED:
        return "embed";
    case STAGE_ATTENTION:
        return "attention";
    case STAGE_NODE:
        return "rows";
    case STAGE_PRODUCT:
        return s->gather                                                    ? "head"
               : s->n_products > 1 || s->products[0].head_dim > 0           ? "q, k, v"
               : s->products[0].n_matrices == 2                             ? "gate, up"
               : s->products[0].add >= 0 && s->K > s->products[0].width * 2 ? "down"
                                                                            : "attention out, down";
    }
    return "?";
}

static void print_stages(const struct plan *plan, const uint64_t *nsec, uint32_t n_steps)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < plan->n_stages; i++)
        sum += nsec[i];
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        const char *label = stage_label(&plan->stages[i]);
        uint64_t part = 0;
        bool seen = false;

        for (uint32_t j = 0; j < plan->n_stages; j++) {
            if (stage_label(&plan->stages[j]) != label)
                continue;
            seen |= j < i;
            part += nsec[j];
        }
        if (!seen)
            printf("  %-20s %9.3f ms %5.1f %%\n", label, (double)part * 1e-6 / n_steps,
                   100.0 * (double)part / (double)sum);
    }
}

static void fail(const char *what, const struct inf_err *err)
{
    fprintf(stderr, "bench-step: %s: %s\n", what, err->text);
    exit(1);
}

int main(int argc, char **argv)
{
    struct backend_params params = {.device = "cpu"};
    struct inf_err err = {.text = "failed"};
    struct format *format;
    struct model *model;
    struct graph *graph;
    struct backend *backend;
    struct kv_pool *pool;
    struct kv_table table;
    struct plan *plan = NULL;

    if (argc < 5) {
        fprintf(stderr, "bench-step MODEL N_ROWS POS N_STEPS [THREADS [RUNG]]\n");
        return 2;
    }
    const uint32_t n_rows = (uint32_t)atoi(argv[2]), pos = (uint32_t)atoi(argv[3]);
    const uint32_t n_steps = (uint32_t)atoi(argv[4]), n_ctx = pos + n_rows;

    params.n_threads = argc > 5 ? (uint32_t)atoi(argv[5]) : 0;
    params.isa = argc > 6 ? argv[6] : NULL;
    if (n_rows == 0 || n_steps == 0 || format_open(argv[1], 0, &format, &err) < 0)
        fail(argv[1], &err);
    if (model_open(format, &model, &err) < 0 || model_build(model, &graph, &err) < 0)
        fail(argv[1], &err);
    if (backend_new(&params, &backend, &err) < 0)
        fail("backend", &err);

    const struct hparams *hp = model_hparams(model);
    const struct kv_layout layout = {hp->n_layers, hp->n_kv_heads, hp->head_dim, BLOCK_TOKENS,
                                     INF_DTYPE_F16};
    const struct plan_limits limits = {n_rows, 1, 1, n_ctx};
    int32_t *tokens = NEW(int32_t, n_rows);
    float *logits = NEW(float, hp->n_vocab);
    uint64_t best = UINT64_MAX, sum = 0;
    struct rng rng;

    if (kv_pool_new(backend, &layout, (uint32_t)DIV_UP(n_ctx, BLOCK_TOKENS), &pool) < 0 ||
        backend->ops->compile(backend, graph, &limits, &plan, &err) < 0 ||
        kv_table_init(&table, pool, n_ctx) < 0 || kv_table_extend(&table, n_ctx) != 0 || !tokens ||
        !logits)
        fail("plan", &err);
    plan->stage_nsec = NEW(uint64_t, plan->n_stages);
    rng_seed(&rng, 1);

    for (uint32_t i = 0; i < n_steps + 1; i++) {
        const uint32_t row = n_rows - 1;
        const struct batch_seq seq = {0, n_rows, pos, table.n_blocks, table.blocks};
        const struct batch batch = {n_rows, tokens, 1, &seq, 1, &row};
        const uint64_t begin = clock_nsec();

        for (uint32_t j = 0; j < n_rows; j++)
            tokens[j] = (int32_t)(rng_u32(&rng) % hp->n_vocab);
        backend->ops->run(backend, plan, kv_pool_store(pool), &batch, logits);
        if (i == 0) { /* warms up */
            for (uint32_t j = 0; plan->stage_nsec && j < plan->n_stages; j++)
                plan->stage_nsec[j] = 0;
            continue;
        }
        sum += clock_nsec() - begin;
        best = MIN(best, clock_nsec() - begin);
    }
    printf("%" PRIu32 " rows at %" PRIu32 ", %u threads, %s: %.3f ms a step, best %.3f; "
           "%.2f tokens/s, best %.2f\n",
           n_rows, pos, backend->ops->n_threads(backend), backend->ops->isa(backend),
           (double)sum * 1e-6 / n_steps, (double)best * 1e-6, n_rows * n_steps * 1e9 / (double)sum,
           n_rows * 1e9 / (double)best);
    if (plan->stage_nsec)
        print_stages(plan, plan->stage_nsec, n_steps);
    return 0;
}
