/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an open model to one that runs: the one place that joins model, backend and KV pool.
 */
#include <errno.h>
#include <string.h>

#include "api/handle.h"
#include "core/err.h"
#include "quant/dtype.h"

#define BLOCK_TOKENS 64

static int kv_dtype(const struct inf_model *model, const char *name, enum inf_dtype *ret_dtype,
                    struct inf_err *reterr)
{
    static const enum inf_dtype dtypes[] = {INF_DTYPE_F32, INF_DTYPE_F16, INF_DTYPE_BF16,
                                            INF_DTYPE_Q8_0};
    const uint32_t head_dim = model_hparams(model->model)->head_dim;

    if (!name || strcmp(name, "auto") == 0) {
        *ret_dtype = model->info.dtype == INF_DTYPE_F32 ? INF_DTYPE_F32 : INF_DTYPE_F16;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(dtypes); i++) {
        if (strcmp(name, inf_dtype_name(dtypes[i])) != 0)
            continue;
        if (head_dim % dtype_info(dtypes[i])->block_elems != 0)
            return err_set(reterr, EOPNOTSUPP,
                           "a KV cache of %s needs heads of a multiple of %u elements, not %u",
                           name, dtype_info(dtypes[i])->block_elems, head_dim);
        *ret_dtype = dtypes[i];
        return 0;
    }
    return err_set(reterr, EINVAL, "unknown type of the KV cache: %s", name);
}

int setup_kv_layout(const struct inf_model *model, const char *kv_type,
                    struct kv_layout *ret_layout, struct inf_err *reterr)
{
    const struct hparams *hp = model_hparams(model->model);
    enum inf_dtype dtype = INF_DTYPE_F16;
    int r;

    r = kv_dtype(model, kv_type, &dtype, reterr);
    if (r < 0)
        return r;
    *ret_layout = (struct kv_layout){
        .n_layers = hp->n_layers,
        .n_kv_heads = hp->n_kv_heads,
        .head_dim = hp->head_dim,
        .block_tokens = BLOCK_TOKENS,
        .dtype = dtype,
    };
    return 0;
}

int setup_runner(const struct inf_model *model, const struct setup *setup,
                 struct runner **ret_runner, struct inf_err *reterr)
{
    _cleanup_(backend_freep) struct backend *backend = NULL;
    _cleanup_(graph_freep) struct graph *graph = NULL;
    const struct backend_params where = {
        .device = setup->device, .isa = setup->isa, .n_threads = setup->n_threads};
    struct runner_params params = {
        .limits = {setup->max_rows, setup->max_logits, setup->max_seqs, setup->n_ctx},
        .n_vocab = model->info.n_vocab,
        .n_blocks = setup->n_blocks,
    };
    int r;

    if (!model->model)
        return err_set(reterr, EINVAL, "only the vocabulary of this model was opened");
    r = setup_kv_layout(model, setup->kv_type, &params.layout, reterr);
    if (r < 0)
        return r;
    r = backend_new(&where, &backend, reterr);
    if (r < 0)
        return r;
    r = model_build(model->model, &graph, reterr);
    if (r < 0)
        return r;
    params.graph = graph;
    if (params.n_blocks == 0)
        params.n_blocks = (uint32_t)DIV_UP((uint64_t)setup->n_ctx, BLOCK_TOKENS);
    return runner_new(&backend, &params, ret_runner, reterr);
}
