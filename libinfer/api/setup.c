/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an open model to one that runs: the one place that joins model, backend and KV pool.
 */
#include <errno.h>

#include "api/handle.h"
#include "core/err.h"

#define BLOCK_TOKENS 64

struct kv_layout setup_kv_layout(const struct inf_model *model)
{
    const struct hparams *hp = model_hparams(model->model);

    return (struct kv_layout){
        .n_layers = hp->n_layers,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .block_tokens = BLOCK_TOKENS,
        .dtype = model->info.dtype == INF_DTYPE_F32 ? INF_DTYPE_F32 : INF_DTYPE_F16,
    };
}

int setup_runner(const struct inf_model *model, const struct setup *setup,
                 struct runner **ret_runner, struct inf_err *reterr)
{
    _cleanup_(backend_freep) struct backend *backend = NULL;
    _cleanup_(graph_freep) struct graph *graph = NULL;
    const struct backend_params where = {
        .device = setup->device, .isa = setup->isa, .n_threads = setup->n_threads};
    struct runner_params params;
    int r;

    if (!model->model)
        return err_set(reterr, EINVAL, "only the vocabulary of this model was opened");
    r = backend_new(&where, &backend, reterr);
    if (r < 0)
        return r;
    r = model_build(model->model, &graph, reterr);
    if (r < 0)
        return r;
    params = (struct runner_params){
        .graph = graph,
        .layout = setup_kv_layout(model),
        .n_blocks = setup->n_blocks,
        .limits = {setup->max_rows, setup->max_logits, setup->max_seqs, setup->n_ctx},
        .n_vocab = model->info.n_vocab,
    };
    if (params.n_blocks == 0)
        params.n_blocks = (uint32_t)DIV_UP((uint64_t)setup->n_ctx, BLOCK_TOKENS);
    return runner_new(&backend, &params, ret_runner, reterr);
}
