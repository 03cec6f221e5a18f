/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a runner from an open model. Only this file combines a model, a backend and a KV pool.
 * graph/state.h explains the groups of the state (FULL, WINDOW, RECURRENT), and kv/pool.h
 * snapshots.
 */
#include <errno.h>
#include <string.h>

#include "api/handle.h"
#include "core/cgroup.h"
#include "core/err.h"

#define DEFAULT_KV_SEQS 4u /* sequences of full length in a KV cache of the default size */
/* A RECURRENT group has SNAPSHOTS_PER_SEQ blocks for the snapshots of each sequence, and
 * SPARE_STATES further blocks for snapshots. */
#define SNAPSHOTS_PER_SEQ 2u
#define SPARE_STATES      8u
/* Windows of earlier texts for which a WINDOW group has blocks. */
#define SPARE_WINDOWS 8u

int setup_graph(const struct inf_model *model, const struct setup *setup, struct graph **ret_graph,
                struct inf_err *reterr)
{
    switch (setup->graph) {
    case SETUP_MODEL:
        break;
    case SETUP_EXPORTING:
        return model_build_exporting(model->model, ret_graph, reterr);
    case SETUP_PREDICTOR:
        return model_build_predictor(model->model, ret_graph, reterr);
    case SETUP_TAPPED:
        return model_build_tapped(model->model, setup->pair->model, ret_graph, reterr);
    case SETUP_HEAD:
        return model_build_head(model->model, setup->pair->model, ret_graph, reterr);
    }
    return model_build(model->model, ret_graph, reterr);
}

/* Returns the width of the hidden states that the graph exports; 0: it exports none. */
static uint32_t hidden_width(const struct inf_model *model, const struct setup *setup)
{
    if (setup->graph == SETUP_MODEL)
        return 0;
    if (setup->graph == SETUP_TAPPED)
        return model_head_width(setup->pair->model);
    return setup->graph == SETUP_HEAD ? model_head_width(model->model) : model->info.n_embd;
}

/* Returns the width of the logits. */
static uint32_t logits_width(const struct inf_model *model, const struct setup *setup)
{
    uint32_t n = model->info.n_vocab;

    if (setup->graph == SETUP_HEAD && model_head_block(model->model, &(int32_t){0}) > 0)
        n = setup->pair->info.n_vocab;
    else if (setup->graph == SETUP_HEAD)
        model_head_tokens(model->model, &n);
    return n;
}

int setup_layout(const struct inf_model *model, const struct setup *setup,
                 struct kv_layout *ret_layout, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    const int r = setup_graph(model, setup, &graph, reterr);

    return r < 0 ? r : setup_layout_of_graph(model, graph, setup->kv_type, ret_layout, reterr);
}

int setup_kv_layout(const struct inf_model *model, const char *kv_type,
                    struct kv_layout *ret_layout, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    const int r = model_build(model->model, &graph, reterr);

    return r < 0 ? r : setup_layout_of_graph(model, graph, kv_type, ret_layout, reterr);
}

/* Returns how many blocks of a WINDOW group a row can see. A window that does not begin at the
 * border of a block needs one block more. */
static uint64_t window_blocks(const struct kv_layout *layout, uint32_t i_group)
{
    return DIV_UP((uint64_t)MAX(layout->groups[i_group].window, 1) - 1, layout->block_tokens) + 1;
}

struct inf_kv_size setup_layout_size(const struct kv_layout *layout)
{
    struct inf_kv_size size = {0};

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint64_t block = kv_layout_block_bytes(layout, g);

        if (layout->groups[g].rule == STATE_RECURRENT)
            size.recurrent += block;
        else if (layout->groups[g].rule == STATE_FULL)
            size.per_token += block / layout->block_tokens;
        else
            size.windows += block * window_blocks(layout, g);
    }
    return size;
}

int inf_model_kv_size(const struct inf_model *model, const char *kv_type,
                      struct inf_kv_size *ret_size, struct inf_err *reterr)
{
    struct kv_layout layout;
    int r = model->model ? 0 : model_refuse_text(model, reterr);

    if (r == 0)
        r = setup_kv_layout(model, kv_type, &layout, reterr);
    if (r < 0)
        return r;
    *ret_size = setup_layout_size(&layout);
    return 0;
}

uint64_t setup_text_bytes(const struct kv_layout *layout, uint64_t n_tokens)
{
    const struct inf_kv_size size = setup_layout_size(layout);

    return size.per_token * n_tokens + size.windows + size.recurrent;
}

uint32_t setup_main_group(const struct kv_layout *layout)
{
    for (uint32_t g = 0; g < layout->n_groups; g++)
        if (layout->groups[g].rule == STATE_FULL)
            return g;
    return 0;
}

int setup_kv_check(struct backend *backend, const struct kv_layout *layout, struct inf_err *reterr)
{
    return backend->ops->kv_check ? backend->ops->kv_check(backend, layout, reterr) : 0;
}

uint64_t setup_kv_room(struct backend *backend, const struct inf_model *model,
                       const struct setup *setup)
{
    const uint64_t budget = setup_memory(backend, setup);
    const uint64_t model_bytes = model->info.n_bytes + setup_spare();

    if (budget == UINT64_MAX)
        return memory_bytes() / 4;
    return MAX(budget / 4, budget > model_bytes ? budget - model_bytes : 0);
}

static int too_small(const struct kv_layout *layout, uint64_t max_blocks, uint32_t n_ctx,
                     struct inf_err *reterr)
{
    return err_set(reterr, EINVAL, "the device holds a KV cache of %llu tokens, but n_ctx is %u",
                   (unsigned long long)(max_blocks * layout->block_tokens), n_ctx);
}

static uint64_t pool_bytes(const struct inf_engine_params *p, uint64_t room)
{
    return p->kv_bytes > 0 ? p->kv_bytes : room;
}

/* Returns how many sequences of full length a KV cache should hold. */
static uint32_t full_seqs(const struct inf_engine_params *p, const struct setup *setup)
{
    return p->kv_bytes > 0 ? setup->max_seqs : MIN(setup->max_seqs, DEFAULT_KV_SEQS);
}

/* Returns the smallest and the best number of blocks of a WINDOW or RECURRENT group. */
static void other_range(const struct inf_engine_params *p, const struct setup *setup,
                        const struct kv_layout *layout, uint32_t i_group, uint64_t *ret_least,
                        uint64_t *ret_best)
{
    const struct state_group *group = &layout->groups[i_group];
    const uint64_t per_seq = DIV_UP((uint64_t)setup->n_ctx, layout->block_tokens);
    const uint64_t rows = DIV_UP((uint64_t)setup->max_rows, layout->block_tokens);
    uint64_t window;

    if (group->rule == STATE_RECURRENT) {
        *ret_least = 2;
        *ret_best = SNAPSHOTS_PER_SEQ * (uint64_t)setup->max_seqs + setup->max_seqs + SPARE_STATES;
        return;
    }
    window = MIN(window_blocks(layout, i_group), per_seq);
    *ret_least = window + rows;
    *ret_best = MAX(
        MIN((window + 1) * (setup->max_seqs + SPARE_WINDOWS), per_seq * full_seqs(p, setup)) + rows,
        *ret_least);
}

void setup_other_blocks(const struct inf_engine_params *p, uint64_t room, struct setup *setup,
                        struct kv_layout *layout)
{
    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint64_t fit = pool_bytes(p, room) / 4 / MAX(kv_layout_block_bytes(layout, g), 1u);
        uint64_t least, best;

        if (layout->groups[g].rule == STATE_FULL)
            continue;
        other_range(p, setup, layout, g, &least, &best);
        layout->n_blocks[g] = setup->other_blocks[g] =
            (uint32_t)MIN(MAX(least, MIN(best, fit)), UINT32_MAX / STATE_GROUPS_MAX);
    }
}

/* Returns the bytes of one block of all FULL groups together, and sets *ret_others to the bytes of
 * all blocks of the other groups; UINT64_MAX if a number overflows. */
static uint64_t full_bytes(const struct kv_layout *layout, uint64_t *ret_others)
{
    uint64_t full = 0, others = 0, n;

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint64_t block = kv_layout_block_bytes(layout, g);

        if (layout->groups[g].rule == STATE_FULL)
            full = block > UINT64_MAX - full ? UINT64_MAX : full + block;
        else if (!size_mul(block, layout->n_blocks[g], &n) || n > UINT64_MAX - others)
            others = UINT64_MAX;
        else
            others += n;
    }
    *ret_others = others;
    return full;
}

bool setup_kv_fits(const struct inf_engine_params *p, const struct kv_layout *layout,
                   struct backend *backend, uint64_t room, const struct setup *setup)
{
    const uint64_t per_seq = DIV_UP((uint64_t)setup->n_ctx, layout->block_tokens);
    struct setup own = *setup;
    struct kv_layout sized = *layout;
    uint64_t block, others;

    setup_other_blocks(p, room, &own, &sized);
    block = full_bytes(&sized, &others);
    if (block == 0)
        return pool_bytes(p, room) >= others;
    return pool_bytes(p, room) > others && (pool_bytes(p, room) - others) / block >= per_seq &&
           (!backend ||
            backend->ops->kv_max_blocks(backend, &sized, setup_main_group(&sized)) >= per_seq);
}

int setup_kv_size(const struct inf_engine_params *p, const struct kv_layout *layout, uint64_t room,
                  uint64_t max_blocks, struct setup *setup, struct inf_err *reterr)
{
    const uint64_t per_seq = DIV_UP((uint64_t)setup->n_ctx, layout->block_tokens);
    uint64_t others, n, bytes = pool_bytes(p, room);
    const uint64_t block = full_bytes(layout, &others);

    if (block == 0)
        return 0;
    bytes -= MIN(bytes, others);
    n = MIN(bytes / block, per_seq * full_seqs(p, setup));
    if (n < per_seq && p->n_ctx > 0 && p->kv_bytes > 0)
        return err_set(reterr, EINVAL, "%llu bytes of KV cache hold %llu tokens, but n_ctx is %u",
                       (unsigned long long)bytes, (unsigned long long)(n * layout->block_tokens),
                       setup->n_ctx);
    if (n < per_seq && p->n_ctx > 0)
        n = per_seq;
    if (n == 0)
        return err_set(reterr, EINVAL, "%llu bytes of KV cache hold no block of %llu",
                       (unsigned long long)bytes, (unsigned long long)block);
    if (max_blocks < (p->n_ctx > 0 ? per_seq : 1))
        return too_small(layout, max_blocks, setup->n_ctx, reterr);
    n = MIN(n, MIN(max_blocks, UINT32_MAX));
    if (n < per_seq)
        setup->n_ctx = (uint32_t)n * layout->block_tokens;
    setup->n_blocks = (uint32_t)n;
    return 0;
}

int setup_backend(const struct setup *setup, struct backend **ret_backend, struct inf_err *reterr)
{
    const struct backend_params params = {
        .device = setup->device,
        .isa = setup->isa,
        .n_threads = setup->n_threads,
        .cache_dir = setup->cache_dir,
        .cache_read_only = setup->cache_read_only,
        .watch = setup->watch,
    };

    return backend_new(&params, ret_backend, reterr);
}

/* Sets the numbers of blocks of all groups. */
static int count_blocks(struct backend *backend, const struct setup *setup,
                        struct kv_layout *layout, struct inf_err *reterr)
{
    const uint32_t per_seq = (uint32_t)DIV_UP((uint64_t)setup->n_ctx, layout->block_tokens);
    const uint32_t n_full = setup->n_blocks > 0 ? setup->n_blocks : per_seq;

    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const bool is_state = layout->groups[g].rule == STATE_RECURRENT;

        layout->n_blocks[g] = is_state ? setup->max_seqs : n_full;
        if (layout->groups[g].rule != STATE_FULL && setup->other_blocks[g] > 0)
            layout->n_blocks[g] = setup->other_blocks[g];
    }
    for (uint32_t g = 0; g < layout->n_groups; g++) {
        const uint64_t max_blocks = backend->ops->kv_max_blocks(backend, layout, g);

        if (layout->groups[g].rule != STATE_FULL)
            continue;
        if (max_blocks < per_seq)
            return too_small(layout, max_blocks, setup->n_ctx, reterr);
        layout->n_blocks[g] = (uint32_t)MIN(layout->n_blocks[g], max_blocks);
    }
    return 0;
}

int setup_runner_on(struct backend **backend, const struct inf_model *model,
                    const struct setup *setup, struct runner **ret_runner, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    struct runner_params params = {
        .limits = {setup->max_rows, setup->max_logits, setup->max_seqs, setup->n_ctx},
        .n_vocab = logits_width(model, setup),
        .n_hidden = hidden_width(model, setup),
        .shares_backend = setup->shares_backend,
    };
    int r;

    if (!model->model)
        return model_refuse_text(model, reterr);
    r = setup_graph(model, setup, &graph, reterr);
    if (r < 0)
        return r;
    params.graph = graph;
    params.pool = setup->pool;
    if (setup->pool)
        return runner_new(backend, &params, ret_runner, reterr);
    r = setup_layout_of_graph(model, graph, setup->kv_type, &params.layout, reterr);
    if (r < 0)
        return r;
    r = setup_kv_check(*backend, &params.layout, reterr);
    if (r < 0)
        return r;
    r = count_blocks(*backend, setup, &params.layout, reterr);
    if (r < 0)
        return r;
    r = setup->shares_backend
            ? 0
            : setup_fit(backend, setup, graph, &params.layout, &params.limits, reterr);
    if (r < 0)
        return r;
    return runner_new(backend, &params, ret_runner, reterr);
}

int model_check_tokens(const struct inf_model *m, const int32_t *tokens, size_t n,
                       struct inf_err *reterr)
{
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= m->info.n_vocab)
            return err_set(reterr, EINVAL, "token %d is not in the vocabulary", tokens[i]);
    return 0;
}

int setup_runner(const struct inf_model *model, const struct setup *setup,
                 struct runner **ret_runner, struct inf_err *reterr)
{
    _cleanup_(backend_freep) struct backend *backend = NULL;
    int r;

    if (!model->model)
        return model_refuse_text(model, reterr);
    r = setup_backend_for(model, setup, &backend, reterr);
    if (r < 0)
        return r;
    return setup_runner_on(&backend, model, setup, ret_runner, reterr);
}
