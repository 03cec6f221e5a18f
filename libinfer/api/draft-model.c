/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens draft models.
 *
 * The tokens of both models must mean the same, because drafts are lists of tokens. Vocabularies of
 * one family often differ in unused tokens at their end, so up to MAX_EXTRA tokens may be missing
 * in one of them.
 */
#include "api/draft-model.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

#define MAX_EXTRA 1024u

bool draft_model_is_used(const struct inf_engine_params *p)
{
    return p->draft_model && (!p->draft_kind || strcmp(p->draft_kind, "model") == 0 ||
                              strcmp(p->draft_kind, "auto") == 0);
}

static bool same_token(const struct inf_tokenizer *a, const struct inf_tokenizer *b, int32_t id)
{
    size_t len_a = 0, len_b = 0;
    const char *text_a = inf_tokenizer_token_text(a, id, &len_a);
    const char *text_b = inf_tokenizer_token_text(b, id, &len_b);

    return len_a == len_b && (len_a == 0 || memcmp(text_a, text_b, len_a) == 0);
}

static int check_vocabulary(const struct inf_model *model, const struct inf_model *draft,
                            struct inf_err *reterr)
{
    const uint32_t n_a = inf_tokenizer_n_vocab(model->tok);
    const uint32_t n_b = inf_tokenizer_n_vocab(draft->tok);
    const uint32_t n = MIN(n_a, n_b);

    if (MAX(n_a, n_b) - n > MAX_EXTRA)
        return err_set(
            reterr, EINVAL,
            "the draft model has %u tokens and the model has %u; both must have the same "
            "vocabulary",
            n_b, n_a);
    for (uint32_t i = 0; i < n; i++)
        if (!same_token(model->tok, draft->tok, (int32_t)i))
            return err_set(reterr, EINVAL,
                           "token %u of the draft model is not that of the model; both must have "
                           "the same vocabulary",
                           i);
    return 0;
}

int inf_model_can_draft(const struct inf_model *draft, const struct inf_model *model,
                        struct inf_err *reterr)
{
    if (!draft->model)
        return model_refuse_text(draft, reterr);
    if (!draft->tok || !model->tok)
        return err_set(reterr, EINVAL, "a draft model needs models with tokenizers");
    return check_vocabulary(model, draft, reterr);
}

/* Returns the bytes of keys and values of a text of @n tokens; 0: unknown. */
static double kv_bytes(const struct inf_model *model, const char *kv_type, uint32_t n)
{
    struct inf_kv_size size;

    if (inf_model_kv_size(model, kv_type, &size, NULL) < 0 &&
        inf_model_kv_size(model, NULL, &size, NULL) < 0)
        return 0;
    return (double)size.per_token * n + (double)size.windows + (double)size.recurrent;
}

double draft_model_share(const struct inf_engine_params *p)
{
    const uint32_t n = p->n_ctx > 0 ? p->n_ctx : 8192;
    double model, draft;

    if (!draft_model_is_used(p))
        return 0;
    model = kv_bytes(p->model, p->kv_type, n);
    draft = kv_bytes(p->draft_model, p->kv_type, n);
    return model + draft > 0 ? draft / (model + draft) : 0;
}

/* Sets the sizes of the KV cache of the draft model. */
static int size_kv(const struct inf_engine_params *p, struct backend *b, uint64_t room,
                   struct setup *setup, struct inf_err *reterr)
{
    const struct inf_engine_params own = {
        .model = p->draft_model,
        .kv_bytes =
            p->kv_bytes > 0 ? MAX((uint64_t)((double)p->kv_bytes * draft_model_share(p)), 1) : 0,
    };
    struct kv_layout layout;
    int r = setup_kv_layout(p->draft_model, setup->kv_type, &layout, reterr);

    if (r == -EOPNOTSUPP) {
        setup->kv_type = NULL;
        r = setup_kv_layout(p->draft_model, NULL, &layout, reterr);
    }
    if (r < 0)
        return r;
    setup_other_blocks(&own, room, setup, &layout);
    return setup_kv_size(&own, &layout, room, b->ops->kv_max_blocks(b, &layout, 0), setup, reterr);
}

/* Checks that the device can compute the draft model. */
static int check_device(struct backend *b, const struct inf_model *draft, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    int r;

    if (!b->ops->check)
        return 0;
    r = model_build(draft->model, &graph, reterr);
    return r < 0 ? r : b->ops->check(b, graph, reterr);
}

int draft_model_attach(struct inf_engine *engine, const struct inf_engine_params *p,
                       const struct setup *base, uint64_t room, struct inf_err *reterr)
{
    struct backend *shared = engine->sched->runner->backend;
    const bool is_split = strcmp(shared->ops->name, "split") == 0;
    const uint32_t trained = p->draft_model->info.n_ctx_train;
    struct setup setup = *base;
    _cleanup_(backend_freep) struct backend *own = NULL;
    _cleanup_(runner_freep) struct runner *runner = NULL;
    struct backend *b = shared;
    int r;

    setup.n_ctx = trained > 0 ? MIN(trained, base->n_ctx) : base->n_ctx;
    setup.max_logits = setup.max_seqs;
    setup.shares_backend = !is_split;
    setup.n_blocks = 0;
    memset(setup.other_blocks, 0, sizeof(setup.other_blocks));
    if (is_split) {
        setup.device = "cpu";
        r = setup_backend(&setup, &own, reterr);
        if (r < 0)
            return r;
        b = own;
    }
    r = check_device(b, p->draft_model, reterr);
    if (r == 0)
        r = size_kv(p, b, room, &setup, reterr);
    if (r == 0)
        r = setup_runner_on(is_split ? &own : &shared, p->draft_model, &setup, &runner, reterr);
    if (r < 0)
        return r;
    if (sched_add_drafter(engine->sched, &runner) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    engine->draft_model = inf_model_ref(p->draft_model);
    return 0;
}
