/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a runner from an open model. Only this file combines a model, a backend and a KV pool.
 */
#include <errno.h>
#include <string.h>

#include "api/handle.h"
#include "core/cgroup.h"
#include "core/err.h"
#include "quant/codec.h"

#define BLOCK_TOKENS    64
#define DEFAULT_KV_SEQS 4u /* sequences of full length in a KV cache of the default size */

/* Finds the number format that @name, a text of @len bytes, means for keys or for values. */
static int find_codec(const struct inf_model *model, const char *name, size_t len,
                      enum codec *ret_codec, struct inf_err *reterr)
{
    const uint32_t head_dim = model_hparams(model->model)->head_dim;
    enum codec codec;

    if (len == 4 && memcmp(name, "auto", 4) == 0) {
        *ret_codec = model->info.dtype == INF_DTYPE_F32 ? CODEC_F32 : CODEC_F16;
        return 0;
    }
    if (!codec_find(name, len, &codec))
        return err_set(reterr, EINVAL,
                       "unknown type of the KV cache: %.*s; the types are auto, f32, f16, bf16, "
                       "q8_0, q4_0 and fp8, or two of them as K:V",
                       (int)MIN(len, 32u), name);
    if (head_dim % codec_info(codec)->head_unit != 0)
        return err_set(reterr, EOPNOTSUPP,
                       "a KV cache of %s needs a head size that is a multiple of %u, not %u; "
                       "fp8 works with any head size",
                       codec_info(codec)->name, codec_info(codec)->head_unit, head_dim);
    *ret_codec = codec;
    return 0;
}

int setup_kv_layout(const struct inf_model *model, const char *kv_type,
                    struct kv_layout *ret_layout, struct inf_err *reterr)
{
    const struct hparams *hp = model_hparams(model->model);
    const char *k = kv_type ? kv_type : "auto";
    const char *colon = strchr(k, ':'), *v = colon ? colon + 1 : k;
    struct kv_layout layout =
        kv_layout_full(hp->n_layers, hp->n_kv_heads, hp->head_dim, BLOCK_TOKENS, CODEC_F32, 0);
    int r;

    r = find_codec(model, k, colon ? (size_t)(colon - k) : strlen(k), &layout.k, reterr);
    if (r == 0)
        r = find_codec(model, v, strlen(v), &layout.v, reterr);
    if (r < 0)
        return r;
    *ret_layout = layout;
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

int setup_kv_size(const struct inf_engine_params *p, const struct kv_layout *layout, uint64_t room,
                  uint64_t max_blocks, struct setup *setup, struct inf_err *reterr)
{
    const uint64_t block = kv_layout_block_bytes(layout, 0);
    const uint64_t bytes = p->kv_bytes > 0 ? p->kv_bytes : room;
    const uint64_t per_seq = DIV_UP((uint64_t)setup->n_ctx, layout->block_tokens);
    const uint32_t n_seqs =
        p->kv_bytes > 0 ? setup->max_seqs : MIN(setup->max_seqs, DEFAULT_KV_SEQS);
    uint64_t n = MIN(bytes / block, per_seq * n_seqs);

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
    };

    return backend_new(&params, ret_backend, reterr);
}

int setup_runner_on(struct backend **backend, const struct inf_model *model,
                    const struct setup *setup, struct runner **ret_runner, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    const uint32_t per_seq = (uint32_t)DIV_UP((uint64_t)setup->n_ctx, BLOCK_TOKENS);
    struct runner_params params = {
        .limits = {setup->max_rows, setup->max_logits, setup->max_seqs, setup->n_ctx},
        .n_vocab = model->info.n_vocab,
    };
    uint64_t max_blocks;
    int r;

    if (!model->model)
        return model_refuse_text(model, reterr);
    r = setup_kv_layout(model, setup->kv_type, &params.layout, reterr);
    if (r < 0)
        return r;
    r = setup_kv_check(*backend, &params.layout, reterr);
    if (r < 0)
        return r;
    max_blocks = (*backend)->ops->kv_max_blocks(*backend, &params.layout, 0);
    if (max_blocks < per_seq)
        return too_small(&params.layout, max_blocks, setup->n_ctx, reterr);
    params.layout.n_blocks[0] =
        (uint32_t)MIN(setup->n_blocks > 0 ? setup->n_blocks : per_seq, max_blocks);
    r = model_build(model->model, &graph, reterr);
    if (r < 0)
        return r;
    params.graph = graph;
    r = setup_fit(backend, setup, graph, &params.layout, &params.limits, reterr);
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
    r = setup_backend(setup, &backend, reterr);
    if (r < 0)
        return r;
    return setup_runner_on(&backend, model, setup, ret_runner, reterr);
}
