/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null device. A KV cell holds a hash of one token and its position; a row folds the cells of
 * all positions up to its own, so that every block of the table takes part in the result.
 */
#include "backend/null/null.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define CELL_POISON 0xdeadbeefcafef00du

struct null_backend {
    struct backend base;
    struct null_options options;
    uint64_t n_steps;
};

struct kv_store {
    uint32_t n_blocks, block_tokens;
    uint64_t cells[];
};

struct plan {
    struct plan_limits limits;
    uint32_t n_vocab;
};

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int null_kv_new(struct backend *b, const struct kv_layout *layout, uint32_t n_blocks,
                       struct kv_store **ret_store)
{
    const size_t n_cells = (size_t)n_blocks * layout->block_tokens;
    struct kv_store *store;

    (void)b;
    store = malloc(sizeof(*store) + n_cells * sizeof(store->cells[0]));
    if (!store)
        return -ENOMEM;
    store->n_blocks = n_blocks;
    store->block_tokens = layout->block_tokens;
    for (size_t i = 0; i < n_cells; i++)
        store->cells[i] = CELL_POISON;
    *ret_store = store;
    return 0;
}

static void null_kv_free(struct backend *b, struct kv_store *store)
{
    (void)b;
    free(store);
}

static void null_kv_copy(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src)
{
    const size_t n = store->block_tokens;

    (void)b;
    assert(dst < store->n_blocks && src < store->n_blocks && dst != src);
    memcpy(store->cells + dst * n, store->cells + src * n, n * sizeof(store->cells[0]));
}

static void null_kv_drop(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n)
{
    const size_t begin = (size_t)first * store->block_tokens;

    (void)b;
    assert(first <= store->n_blocks && n <= store->n_blocks - first);
    for (size_t i = begin; i < begin + (size_t)n * store->block_tokens; i++)
        store->cells[i] = CELL_POISON;
}

static int null_compile(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                        struct plan **ret_plan, struct inf_err *reterr)
{
    struct null_backend *nb = (struct null_backend *)b;
    struct plan *plan;

    (void)reterr;
    plan = NEW(struct plan, 1);
    if (!plan)
        return -ENOMEM;
    plan->limits = *limits;
    plan->n_vocab = nb->options.n_vocab;
    if (g)
        plan->n_vocab = graph_node(g, (graph_ref)graph_n_nodes(g) - 1)->width;
    assert(plan->n_vocab > 0);
    *ret_plan = plan;
    return 0;
}

static void null_plan_free(struct backend *b, struct plan *plan)
{
    (void)b;
    free(plan);
}

static void null_plan_rest(struct backend *b, struct plan *plan)
{
    (void)b;
    (void)plan;
}

static uint64_t *cell(struct kv_store *store, const struct batch_seq *seq, uint32_t pos)
{
    const uint32_t i = pos / store->block_tokens;

    assert(i < seq->n_blocks && seq->blocks[i] < store->n_blocks);
    return &store->cells[(size_t)seq->blocks[i] * store->block_tokens + pos % store->block_tokens];
}

static void row_logits(const struct null_backend *nb, const struct null_row *row, float *logits,
                       uint32_t n_vocab)
{
    if (nb->options.has_nan_token && row->token == nb->options.nan_token) {
        for (uint32_t v = 0; v < n_vocab; v++)
            logits[v] = NAN;
    } else if (nb->options.logits) {
        nb->options.logits(nb->options.data, row, logits, n_vocab);
    } else {
        for (uint32_t v = 0; v < n_vocab; v++)
            logits[v] = (float)(mix(row->history + v) >> 40) * 0x1p-21f;
    }
}

static void check(const struct plan *plan, const struct batch *batch)
{
    uint32_t n_rows = 0;

    assert(batch->n_rows > 0 && batch->n_rows <= plan->limits.max_rows);
    assert(batch->n_seqs <= plan->limits.max_seqs);
    assert(batch->n_logits <= plan->limits.max_logits);
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        assert(batch->seqs[i].i_row == n_rows && batch->seqs[i].n_rows > 0);
        assert(batch->seqs[i].pos + batch->seqs[i].n_rows <= plan->limits.max_ctx);
        n_rows += batch->seqs[i].n_rows;
    }
    assert(n_rows == batch->n_rows);
    for (uint32_t i = 0; i < batch->n_logits; i++) {
        assert(batch->logit_rows[i] < n_rows);
        assert(i == 0 || batch->logit_rows[i] > batch->logit_rows[i - 1]);
    }
}

static void pause_for(const struct null_backend *nb, const struct batch *batch)
{
    const uint64_t usec = nb->options.step_usec + (uint64_t)nb->options.row_usec * batch->n_rows;
    struct timespec ts = {(time_t)(usec / 1000000), (long)(usec % 1000000) * 1000};

    if (usec > 0)
        nanosleep(&ts, NULL);
}

static int null_run(struct backend *b, struct plan *plan, struct kv_store *store,
                    const struct batch *batch, float *logits)
{
    struct null_backend *nb = (struct null_backend *)b;
    uint32_t i_logit = 0;

    check(plan, batch);
    pause_for(nb, batch);
    if (++nb->n_steps == nb->options.fail_step)
        return -EIO;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        uint64_t sum = nb->options.seed;

        for (uint32_t pos = 0; pos < seq->pos; pos++)
            sum += *cell(store, seq, pos);
        for (uint32_t j = 0; j < seq->n_rows; j++) {
            struct null_row row = {batch->tokens[seq->i_row + j], seq->pos + j, 0};

            *cell(store, seq, row.pos) = mix(((uint64_t)row.pos << 32) + (uint32_t)row.token + 1);
            sum += *cell(store, seq, row.pos);
            row.history = mix(sum);
            if (i_logit < batch->n_logits && batch->logit_rows[i_logit] == seq->i_row + j)
                row_logits(nb, &row, logits + (size_t)i_logit++ * plan->n_vocab, plan->n_vocab);
        }
    }
    assert(i_logit == batch->n_logits);
    return 0;
}

static void null_free(struct backend *b)
{
    free(b);
}

static void null_parallel(struct backend *b, workers_fn fn, void *arg)
{
    (void)b;
    fn(arg, 0, 1);
}

static unsigned null_n_threads(const struct backend *b)
{
    (void)b;
    return 1;
}

static const char *null_isa(const struct backend *b)
{
    (void)b;
    return "null";
}

static const struct backend_ops null_ops = {
    .name = "null",
    .kv_new = null_kv_new,
    .kv_free = null_kv_free,
    .kv_copy = null_kv_copy,
    .kv_drop = null_kv_drop,
    .compile = null_compile,
    .plan_free = null_plan_free,
    .plan_rest = null_plan_rest,
    .run = null_run,
    .free = null_free,
    .parallel = null_parallel,
    .n_threads = null_n_threads,
    .isa = null_isa,
};

int null_new(struct backend **ret_backend)
{
    struct null_backend *nb = NEW(struct null_backend, 1);

    if (!nb)
        return -ENOMEM;
    nb->base.ops = &null_ops;
    *ret_backend = &nb->base;
    return 0;
}

void null_configure(struct backend *b, const struct null_options *options)
{
    assert(b->ops == &null_ops);
    ((struct null_backend *)b)->options = *options;
}

uint64_t null_n_steps(const struct backend *b)
{
    assert(b->ops == &null_ops);
    return ((const struct null_backend *)b)->n_steps;
}
