/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements the null device. graph/state.h explains the groups of the state.
 *
 * In a FULL or WINDOW group, the KV store has one cell per token, with a hash of the token and its
 * position. The logits of a row depend on the sum of the cells of all positions that the row sees
 * up to its own position, so every block that the row sees affects them. In a RECURRENT group, a
 * block is one cell, with a hash of all tokens so far and of their order.
 */
#include "backend/null/null.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "core/err.h"
#include "core/rng.h"

#define CELL_POISON 0xdeadbeefcafef00du

struct null_backend {
    struct backend base;
    struct backend_ops ops; /* logits is NULL unless options.makes_lists is set */
    struct null_options options;
    uint64_t n_steps;
    struct kv_store *stores; /* list of all stores of this device */
    bool lost;
    uint32_t n_recovers; /* calls of recover() since the loss */
    struct rng fate;
    struct null_counts counts;
};

struct kv_store {
    struct kv_store *prev, *next;
    struct kv_layout layout;
    uint32_t n_blocks;
    size_t n_cells;
    uint64_t cells[]; /* the cells of all blocks, in order of their numbers */
};

struct plan {
    struct plan_limits limits;
    uint32_t n_vocab;
    bool has_input;
    float rows[]; /* [limits.max_logits, n_vocab]: logits of the last run */
};

static uint64_t mix_hash(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t null_kv_max_blocks(struct backend *b, const struct kv_layout *layout UNUSED,
                                   uint32_t i_group UNUSED)
{
    const struct null_options *options = &CONTAINER_OF(b, struct null_backend, base)->options;

    return options->max_blocks > 0 ? options->max_blocks : UINT32_MAX;
}

static uint64_t null_memory(struct backend *b)
{
    const uint64_t memory = CONTAINER_OF(b, struct null_backend, base)->options.memory;

    return memory > 0 ? memory : UINT64_MAX;
}

/* Returns the number of cells of a block of group @i_group. */
static size_t group_cells(const struct kv_layout *layout, uint32_t i_group)
{
    return layout->groups[i_group].rule == STATE_RECURRENT ? 1 : layout->block_tokens;
}

/* Returns the number of the first cell of block @block; if @block is the number of all blocks, the
 * number of all cells. */
static size_t first_cell(const struct kv_layout *layout, uint32_t block)
{
    size_t n = 0;

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint32_t n_blocks = MIN(block, layout->n_blocks[g]);

        n += n_blocks * group_cells(layout, g);
        block -= n_blocks;
    }
    return n;
}

static int null_kv_new(struct backend *b, const struct kv_layout *layout,
                       struct kv_store **ret_store)
{
    struct null_backend *nb = CONTAINER_OF(b, struct null_backend, base);
    const uint32_t n_blocks = kv_layout_first(layout, layout->n_groups);
    const size_t n_cells = first_cell(layout, n_blocks);
    struct kv_store *store;

    store = malloc(sizeof(*store) + n_cells * sizeof(store->cells[0]));
    if (!store)
        return -ENOMEM;
    store->layout = *layout;
    store->n_blocks = n_blocks;
    store->n_cells = n_cells;
    for (size_t i = 0; i < n_cells; i++)
        store->cells[i] = CELL_POISON;
    store->prev = NULL;
    store->next = nb->stores;
    if (nb->stores)
        nb->stores->prev = store;
    nb->stores = store;
    *ret_store = store;
    return 0;
}

static void null_kv_free(struct backend *b, struct kv_store *store)
{
    struct null_backend *nb = CONTAINER_OF(b, struct null_backend, base);

    if (store->prev)
        store->prev->next = store->next;
    else
        nb->stores = store->next;
    if (store->next)
        store->next->prev = store->prev;
    free(store);
}

static void null_kv_copy(struct backend *b, struct kv_store *store, uint32_t dst, uint32_t src)
{
    const struct kv_layout *layout = &store->layout;
    const uint32_t i_group = kv_layout_group(layout, dst);

    (void)b;
    assert(dst < store->n_blocks && src < store->n_blocks && dst != src);
    assert(kv_layout_group(layout, src) == i_group);
    memcpy(store->cells + first_cell(layout, dst), store->cells + first_cell(layout, src),
           group_cells(layout, i_group) * sizeof(store->cells[0]));
}

static void null_kv_drop(struct backend *b, struct kv_store *store, uint32_t first, uint32_t n)
{
    (void)b;
    assert(first <= store->n_blocks && n <= store->n_blocks - first);
    for (size_t i = first_cell(&store->layout, first); i < first_cell(&store->layout, first + n);
         i++)
        store->cells[i] = CELL_POISON;
}

static uint64_t null_kv_size(const struct backend *b UNUSED, const struct kv_store *store,
                             uint32_t block)
{
    return group_cells(&store->layout, kv_layout_group(&store->layout, block)) *
           sizeof(store->cells[0]);
}

static void *null_kv_bytes(struct backend *b UNUSED, struct kv_store *store, uint32_t block)
{
    assert(block < store->n_blocks);
    return &store->cells[first_cell(&store->layout, block)];
}

static const char *null_kv_format(const struct backend *b UNUSED)
{
    return "null";
}

static int null_compile(struct backend *b, const struct graph *g, const struct plan_limits *limits,
                        struct kv_store *store UNUSED, struct plan **ret_plan,
                        struct inf_err *reterr)
{
    const struct null_backend *nb = CONTAINER_OF(b, struct null_backend, base);
    uint32_t n_vocab = nb->options.n_vocab;
    struct plan *plan;

    (void)reterr;
    if (g)
        n_vocab = graph_node(g, (graph_ref)graph_n_nodes(g) - 1)->width;
    assert(n_vocab > 0);
    plan = calloc(1, sizeof(*plan) + (size_t)limits->max_logits * n_vocab * sizeof(float));
    if (!plan)
        return -ENOMEM;
    plan->limits = *limits;
    plan->n_vocab = n_vocab;
    plan->has_input = g && graph_node(g, 0)->op == GRAPH_INPUT;
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

/* Returns the cell of the token at @pos in a FULL or WINDOW group. */
static uint64_t *kv_cell(struct kv_store *store, const struct batch_seq *seq, uint32_t i_group,
                         uint32_t pos)
{
    const uint32_t i = pos / store->layout.block_tokens;
    uint32_t block;

    assert(i < seq->n_blocks);
    block = seq->blocks[i_group][i];
    assert(block < store->n_blocks && kv_layout_group(&store->layout, block) == i_group);
    return &store->cells[first_cell(&store->layout, block) + pos % store->layout.block_tokens];
}

/* Returns the cell of a RECURRENT group. */
static uint64_t *state_cell(struct kv_store *store, const struct batch_seq *seq, uint32_t i_group)
{
    const uint32_t block = seq->blocks[i_group][0];

    assert(block < store->n_blocks && kv_layout_group(&store->layout, block) == i_group);
    return &store->cells[first_cell(&store->layout, block)];
}

/* Returns the position of the first token that a row at @pos sees in a FULL or WINDOW group. */
static uint32_t first_seen(const struct state_group *group, uint32_t pos)
{
    return group->rule == STATE_WINDOW && pos >= group->window ? pos + 1 - group->window : 0;
}

/* Returns what a group contributes to the history of the first row of a sequence, before the token
 * of this row is added: in a FULL or WINDOW group, the sum of the earlier cells that the row sees;
 * in a RECURRENT group, the state. */
static uint64_t begin_group(struct kv_store *store, const struct batch_seq *seq, uint32_t i_group)
{
    const struct state_group *group = &store->layout.groups[i_group];
    uint64_t sum = 0;

    if (group->rule == STATE_RECURRENT)
        return seq->pos > 0 ? *state_cell(store, seq, i_group) : 0;
    for (uint32_t pos = first_seen(group, seq->pos); pos < seq->pos; pos++)
        sum += *kv_cell(store, seq, i_group, pos);
    return sum;
}

/* Stores the token of a row in a group, and returns what the group then contributes. @sum: what the
 * group contributed to the previous row. */
static uint64_t take_token(struct kv_store *store, const struct batch_seq *seq, uint32_t i_group,
                           const struct null_row *row, uint64_t sum)
{
    const struct state_group *group = &store->layout.groups[i_group];
    const uint64_t cell = mix_hash(((uint64_t)row->pos << 32) + (uint32_t)row->token + 1);

    if (group->rule == STATE_RECURRENT)
        return *state_cell(store, seq, i_group) = mix_hash(sum * 31 + cell);
    *kv_cell(store, seq, i_group, row->pos) = cell;
    if (row->pos > seq->pos && first_seen(group, row->pos) > first_seen(group, row->pos - 1))
        sum -= *kv_cell(store, seq, i_group, first_seen(group, row->pos - 1));
    return sum + cell;
}

static float cell_number(uint64_t cell)
{
    return (float)(cell >> 40) + 1;
}

/* Checks the input of a row, and exports its number. @i_exported: the place of the row among the
 * exported rows. */
static void pass_row(const struct null_backend *nb, struct kv_store *store,
                     const struct batch *batch, const struct batch_seq *seq, uint32_t j,
                     uint32_t i_exported)
{
    const uint32_t pos = seq->pos + j;
    const float in = batch->input && nb->options.checks_input ? batch->input[seq->i_row + j] : 0;
    const int32_t token = batch->tokens[seq->i_row + j];
    const float own = cell_number(mix_hash(((uint64_t)pos << 32) + (uint32_t)token + 1));

    if (in != 0 && nb->options.own_input)
        assert(in == own);
    else if (in != 0)
        assert(pos > 0 && in == cell_number(*kv_cell(store, seq, 0, pos - 1)));
    if (batch->exported)
        batch->exported[i_exported] = own;
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
            logits[v] = (float)(mix_hash(row->history + v) >> 40) * 0x1p-21f;
    }
}

static void check_batch(const struct plan *plan, const struct batch *batch)
{
    uint32_t n_rows = 0;

    assert(batch->n_rows > 0 && batch->n_rows <= plan->limits.max_rows);
    assert(batch->n_seqs <= plan->limits.max_seqs);
    assert(batch->n_logits <= plan->limits.max_logits);
    assert(batch->input || !plan->has_input);
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

/* Returns whether the device is lost now: because it was lost before, because @doomed is set, or by
 * chance. */
static bool is_lost(struct null_backend *nb, bool doomed)
{
    const uint32_t one_in = nb->options.lose_one_in;

    if (nb->lost)
        return true;
    if (!doomed && (one_in == 0 || rng_u32(&nb->fate) % one_in > 0))
        return false;
    nb->lost = true;
    nb->n_recovers = 0;
    nb->counts.n_losses++;
    return true;
}

/* Inserts a value into the sorted list, after all equal values. */
static void insert_top(struct top_row *top, int32_t id, float value)
{
    uint32_t at = top->n < top->n_wanted ? top->n++ : top->n - 1;

    for (; at > 0 && top->values[at - 1] < value; at--) {
        top->ids[at] = top->ids[at - 1];
        top->values[at] = top->values[at - 1];
    }
    top->ids[at] = id;
    top->values[at] = value;
}

static void list_top(const float *row, uint32_t n_vocab, struct top_row *top)
{
    double sum = 0;

    assert(top->n_wanted <= TOP_MAX);
    top->n = 0;
    for (uint32_t v = 0; v < n_vocab; v++)
        if (row[v] > -INFINITY && (top->n < top->n_wanted || row[v] > top->values[top->n - 1]))
            insert_top(top, (int32_t)v, row[v]);
    for (uint32_t v = 0; v < n_vocab && top->n > 0; v++)
        sum += exp((double)row[v] - (double)top->values[0]);
    top->log_sum = log(sum);
    if (isnan(sum) || (top->n > 0 && isinf(top->values[0])))
        top->n = 0;
}

/* Returns row @i of the logits, or its list if a list is requested. In the second case the row is
 * filled with NaN, so that tests fail if the row is read. */
static void answer_row(struct null_backend *nb, const struct plan *plan, uint32_t i, float *logits,
                       struct top_row *tops)
{
    const float *row = plan->rows + (size_t)i * plan->n_vocab;
    float *to = logits + (size_t)i * plan->n_vocab;

    if (!nb->options.makes_lists || !tops || tops[i].n_wanted == 0) {
        memcpy(to, row, plan->n_vocab * sizeof(*to));
        return;
    }
    nb->counts.n_lists++;
    list_top(row, plan->n_vocab, &tops[i]);
    for (uint32_t v = 0; v < plan->n_vocab; v++)
        to[v] = NAN;
}

static int null_run(struct backend *b, struct plan *plan, struct kv_store *store,
                    const struct batch *batch, float *logits, struct top_row *tops)
{
    struct null_backend *nb = CONTAINER_OF(b, struct null_backend, base);
    uint32_t i_logit = 0;

    check_batch(plan, batch);
    pause_for(nb, batch);
    if (++nb->n_steps == nb->options.fail_step)
        return -EIO;
    if (is_lost(nb, nb->n_steps == nb->options.lose_step))
        return -ENODEV;
    for (uint32_t i = 0; i < batch->n_seqs; i++) {
        const struct batch_seq *seq = &batch->seqs[i];
        uint64_t sums[STATE_GROUPS_MAX] = {0};

        for (uint32_t g = 0; g < store->layout.n_groups; g++)
            sums[g] = begin_group(store, seq, g);
        for (uint32_t j = 0; j < seq->n_rows; j++) {
            struct null_row row = {batch->tokens[seq->i_row + j], seq->pos + j, 0};
            uint64_t sum = nb->options.seed;

            /* The same tokens count differently in each group. */
            for (uint32_t g = 0; g < store->layout.n_groups; g++) {
                sums[g] = take_token(store, seq, g, &row, sums[g]);
                sum += sums[g] * (2 * g + 1);
            }
            row.history = mix_hash(sum);
            pass_row(nb, store, batch, seq, j, batch->input ? i_logit : seq->i_row + j);
            if (i_logit < batch->n_logits && batch->logit_rows[i_logit] == seq->i_row + j)
                row_logits(nb, &row, plan->rows + (size_t)i_logit++ * plan->n_vocab, plan->n_vocab);
        }
    }
    assert(i_logit == batch->n_logits);
    for (uint32_t i = 0; i < i_logit; i++)
        answer_row(nb, plan, i, logits, tops);
    return 0;
}

static int null_logits(struct backend *b, struct plan *plan, uint32_t i, float *ret_row)
{
    struct null_backend *nb = CONTAINER_OF(b, struct null_backend, base);

    assert(i < plan->limits.max_logits);
    if (is_lost(nb, false))
        return -ENODEV;
    nb->counts.n_fetched++;
    memcpy(ret_row, plan->rows + (size_t)i * plan->n_vocab, plan->n_vocab * sizeof(*ret_row));
    return 0;
}

/* Overwrites all cells that the device stored before it was lost. */
static void poison_stores(struct null_backend *nb)
{
    for (struct kv_store *store = nb->stores; store; store = store->next)
        for (size_t i = 0; i < store->n_cells; i++)
            store->cells[i] = CELL_POISON;
}

static int null_recover(struct backend *b, struct inf_err *reterr)
{
    struct null_backend *nb = CONTAINER_OF(b, struct null_backend, base);

    assert(nb->lost);
    nb->counts.n_recovers++;
    if (nb->n_recovers++ < nb->options.n_bad_recovers)
        return err_set(reterr, EIO, "there is no device");
    nb->lost = false;
    poison_stores(nb);
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
    .memory = null_memory,
    .kv_max_blocks = null_kv_max_blocks,
    .kv_new = null_kv_new,
    .kv_free = null_kv_free,
    .kv_copy = null_kv_copy,
    .kv_drop = null_kv_drop,
    .kv_size = null_kv_size,
    .kv_bytes = null_kv_bytes,
    .kv_format = null_kv_format,
    .compile = null_compile,
    .plan_free = null_plan_free,
    .plan_rest = null_plan_rest,
    .run = null_run,
    .recover = null_recover,
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
    nb->ops = null_ops;
    nb->base.ops = &nb->ops;
    *ret_backend = &nb->base;
    return 0;
}

void null_configure(struct backend *b, const struct null_options *options)
{
    struct null_backend *nb = CONTAINER_OF(b, struct null_backend, base);

    assert(b->ops->run == null_run);
    nb->options = *options;
    nb->ops.logits = options->makes_lists ? null_logits : NULL;
    rng_seed(&nb->fate, options->seed);
}

uint64_t null_n_steps(const struct backend *b)
{
    assert(b->ops->run == null_run);
    return CONTAINER_OF(b, struct null_backend, base)->n_steps;
}

struct null_counts null_count(const struct backend *b)
{
    assert(b->ops->run == null_run);
    return CONTAINER_OF(b, struct null_backend, base)->counts;
}
