/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the forward pass on the CPU.
 *
 * bench-step MODEL N_ROWS POS N_STEPS [THREADS [RUNG [KV_TYPE [N_SEQS]]]]
 *
 * Times steps with N_ROWS tokens of each sequence after POS earlier ones, and prints the time of
 * each stage. RUNG is an instruction set level; "auto" is the best one of this CPU.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/exec/program.h"
#include "backend/cpu/limits/limits.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/rng.h"
#include "format/format.h"
#include "kv/pool.h"
#include "model/model.h"

enum { BLOCK_TOKENS = 64, MAX_SEQS = 64 };

static const char *stage_label(const struct stage *s)
{
    switch (s->kind) {
    case STAGE_EMBED:
        return "embed";
    case STAGE_ATTENTION:
        return "attention";
    case STAGE_NODE:
        return "rows";
    case STAGE_ROUTE:
        return "route";
    case STAGE_EXPERTS:
        return "experts";
    case STAGE_CONV:
        return "convolution";
    case STAGE_DELTA:
        return "delta rule";
    case STAGE_PRODUCT:
        return s->gather || s->rows_kept                                    ? "head"
               : s->n_products > 1 || s->products[0].head_dim > 0           ? "q, k, v"
               : s->products[0].n_matrices == 2                             ? "gate, up"
               : s->products[0].add >= 0 && s->K > s->products[0].width * 2 ? "down"
                                                                            : "attention out, down";
    }
    return "?";
}

/* Prints the bytes and operations of attention per second, and the memory's bandwidth, which this
 * function measures. */
static void print_attention(const struct plan *plan, const struct kv_layout *layout,
                            const struct hparams *hp, uint32_t n_rows, uint32_t pos,
                            uint32_t n_seqs, uint32_t n_steps, struct limits *limits)
{
    const double rows = (double)n_rows * n_seqs;
    double bytes = 0, ops = 0, seconds = 0, memory = 0;

    for (uint32_t i = 0; i < layout->n_groups; i++) {
        const struct state_group *g = &layout->groups[i];
        const double window = g->rule == STATE_WINDOW ? g->window : INFINITY;
        const double seen = fmin(pos + (n_rows + 1) / 2.0, window);

        if (g->rule == STATE_RECURRENT)
            continue;
        bytes += (double)kv_layout_block_bytes(layout, i) / BLOCK_TOKENS *
                 fmin(pos + n_rows, window + n_rows) * n_seqs;
        ops += 4.0 * hp->n_heads * g->head_dim * seen * rows * g->n_layers;
    }
    for (uint32_t i = 0; i < plan->n_stages; i++)
        if (plan->stages[i].kind == STAGE_ATTENTION)
            seconds += (double)plan->stage_nsec[i] * 1e-9 / n_steps;
    if (seconds > 0 && limits_read(limits, &memory, NULL) == 0)
        printf("  attention reads %.1f GB/s, %.0f %% of memory's %.1f; %.1f GFLOP/s\n",
               bytes / seconds * 1e-9, 100 * bytes / seconds / memory, memory * 1e-9,
               ops / seconds * 1e-9);
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

/* Writes bits that are small numbers in every format. Without this, all pages of the store would be
 * the same zero page, which stays in the CPU caches. */
static void fill_store(struct kv_store *store)
{
    uint64_t x = 88172645463325252u;

    for (uint64_t i = 0; i + 8 <= store->size; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        const uint64_t bits = (x & 0x83ff83ff83ff83ffu) | 0x2c002c002c002c00u;

        memcpy(store->data + i, &bits, sizeof(bits));
    }
}

/* Parses the formats of keys and values: "K" or "K:V", and "+recent" after them. */
static void kv_codecs(const char *name, struct kv_layout *layout)
{
    const char *colon = strchr(name, ':'), *v = colon ? colon + 1 : name, *plus = strchr(v, '+');
    const size_t len = plus ? (size_t)(plus - v) : strlen(v);
    const uint32_t n_blocks = layout->n_blocks[0];
    bool known = codec_find(name, colon ? (size_t)(colon - name) : len, &layout->k) &&
                 codec_find(v, len, &layout->v);

    if (known && plus) {
        known = strcmp(plus, "+recent") == 0 && kv_layout_can_keep(layout) &&
                kv_layout_keep_recent(layout);
        for (uint32_t i = 0; i < layout->n_groups; i++)
            layout->n_blocks[i] = layout->n_blocks[i] > 0 ? layout->n_blocks[i] : n_blocks;
    }
    if (!known) {
        fprintf(stderr, "bench-step: unknown type of the KV cache: %s\n", name);
        exit(2);
    }
}

/* Makes the layout of a store that holds @n_seqs sequences of @n_ctx tokens. */
static struct kv_layout layout_of(const struct graph *graph, const struct hparams *hp,
                                  uint32_t n_ctx, uint32_t n_seqs)
{
    const uint32_t n_blocks = (uint32_t)DIV_UP(n_ctx, BLOCK_TOKENS) * n_seqs;
    struct kv_layout layout = kv_layout_full(hp->n_layers, hp->n_kv_heads, hp->head_dim,
                                             BLOCK_TOKENS, CODEC_F16, n_blocks);
    const struct state_group *groups;
    uint32_t n_groups;

    groups = graph_groups(graph, &n_groups);
    for (uint32_t i = 0; i < n_groups; i++) {
        layout.groups[i] = groups[i];
        layout.n_blocks[i] = groups[i].rule == STATE_RECURRENT ? n_seqs : n_blocks;
        layout.n_groups = n_groups;
    }
    return layout;
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
    struct kv_table tables[MAX_SEQS];
    struct batch_seq seqs[MAX_SEQS];
    uint32_t wanted[MAX_SEQS];
    struct plan *plan = NULL;
    struct limits *bounds;

    if (argc < 5) {
        fprintf(stderr,
                "bench-step MODEL N_ROWS POS N_STEPS [THREADS [RUNG [KV_TYPE [N_SEQS]]]]\n");
        return 2;
    }
    const uint32_t n_rows = (uint32_t)atoi(argv[2]), pos = (uint32_t)atoi(argv[3]);
    const uint32_t n_steps = (uint32_t)atoi(argv[4]), n_ctx = pos + n_rows;

    params.n_threads = argc > 5 ? (uint32_t)atoi(argv[5]) : 0;
    params.isa = argc > 6 ? argv[6] : NULL;
    const uint32_t n_seqs = argc > 8 ? (uint32_t)atoi(argv[8]) : 1, n_all = n_rows * n_seqs;

    if (n_rows == 0 || n_steps == 0 || n_seqs == 0 || n_seqs > MAX_SEQS ||
        format_open(argv[1], 0, model_archs(), &format, &err) < 0)
        fail(argv[1], &err);
    if (model_open(format, &model, &err) < 0 || model_build(model, &graph, &err) < 0)
        fail(argv[1], &err);
    if (backend_new(&params, &backend, &err) < 0)
        fail("backend", &err);

    const struct hparams *hp = model_hparams(model);
    struct kv_layout layout = layout_of(graph, hp, n_ctx, n_seqs);
    const struct plan_limits limits = {n_all, n_seqs, n_seqs, n_ctx};
    int32_t *tokens = NEW(int32_t, (size_t)n_all);
    float *logits = NEW(float, (size_t)hp->n_vocab *n_seqs);
    uint64_t best = UINT64_MAX, sum = 0;
    struct rng rng;

    if (argc > 7)
        kv_codecs(argv[7], &layout);
    if (kv_pool_new(backend, &layout, &pool) < 0 ||
        backend->ops->compile(backend, graph, &limits, kv_pool_store(pool), &plan, &err) < 0 ||
        !tokens || !logits)
        fail("plan", &err);
    for (uint32_t i = 0; i < n_seqs; i++) {
        if (kv_table_init(&tables[i], pool, n_ctx) < 0 || kv_table_extend(&tables[i], n_ctx) != 0)
            fail("table", &err);
        seqs[i] = kv_table_part(&tables[i], i * n_rows, pos, n_rows);
        wanted[i] = (i + 1) * n_rows - 1;
    }
    fill_store(kv_pool_store(pool));
    if (limits_new(backend->ops->n_threads(backend), cpu_flags(), &bounds) < 0)
        fail("limits", &err);
    plan->stage_nsec = NEW(uint64_t, plan->n_stages);
    rng_seed(&rng, 1);

    for (uint32_t i = 0; i < n_steps + 1; i++) {
        const struct batch batch = {n_all, tokens, n_seqs, seqs, n_seqs, wanted};
        const uint64_t begin = clock_nsec();

        for (uint32_t j = 0; j < n_all; j++)
            tokens[j] = (int32_t)(rng_u32(&rng) % hp->n_vocab);
        backend->ops->run(backend, plan, kv_pool_store(pool), &batch, logits, NULL);
        if (i == 0) { /* the first step only warms up */
            for (uint32_t j = 0; plan->stage_nsec && j < plan->n_stages; j++)
                plan->stage_nsec[j] = 0;
            continue;
        }
        sum += clock_nsec() - begin;
        best = MIN(best, clock_nsec() - begin);
    }
    printf("%" PRIu32 " × %" PRIu32 " rows at %" PRIu32
           ", %u threads, %s: %.3f ms a step, best %.3f; "
           "%.2f tokens/s, best %.2f\n",
           n_seqs, n_rows, pos, backend->ops->n_threads(backend), backend->ops->isa(backend),
           (double)sum * 1e-6 / n_steps, (double)best * 1e-6, n_all * n_steps * 1e9 / (double)sum,
           n_all * 1e9 / (double)best);
    if (plan->stage_nsec) {
        print_stages(plan, plan->stage_nsec, n_steps);
        print_attention(plan, &layout, hp, n_rows, pos, n_seqs, n_steps, bounds);
    }
    return 0;
}
