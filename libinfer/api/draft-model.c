/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens draft models and the layers that predict further tokens.
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

/* Returns whether @p names a kind of drafts that the layer of the model itself can make. */
static bool wants_predictor(const struct inf_engine_params *p)
{
    return p->draft_kind && (strcmp(p->draft_kind, "mtp") == 0 ||
                             (strcmp(p->draft_kind, "auto") == 0 && !p->draft_model));
}

/* Checks that the device can compute the graph @which of a model. */
static int check_device(struct backend *b, const struct inf_model *model, enum setup_graph which,
                        struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    int r;

    if (!b->ops->check)
        return 0;
    r = setup_graph(model, which, &graph, reterr);
    return r < 0 ? r : b->ops->check(b, graph, reterr);
}

int draft_choose_graph(const struct inf_engine_params *p, struct backend *b, struct setup *setup,
                       struct inf_err *reterr)
{
    const bool must = p->draft_kind && strcmp(p->draft_kind, "mtp") == 0;
    int r;

    if (!wants_predictor(p))
        return 0;
    if (!model_predicts(p->model->model))
        return must ? err_set(reterr, EINVAL,
                              "drafts of the kind \"mtp\" need a model with a layer that predicts "
                              "further tokens, and this model has none")
                    : 0;
    r = check_device(b, p->model, SETUP_EXPORTING, must ? reterr : NULL);
    if (r == 0)
        setup->graph = SETUP_EXPORTING;
    return must ? r : 0;
}

/* Makes the layout of the keys and values of the drafter. A drafter whose heads do not allow the
 * type in @setup gets the default type. */
static int drafter_layout(const struct inf_model *model, enum setup_graph which,
                          struct setup *setup, struct kv_layout *ret_layout, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    int r = setup_graph(model, which, &graph, reterr);

    if (r == 0)
        r = setup_layout_of_graph(model, graph, setup->kv_type, ret_layout, reterr);
    if (r != -EOPNOTSUPP || !setup->kv_type)
        return r;
    setup->kv_type = NULL;
    return setup_layout_of_graph(model, graph, NULL, ret_layout, reterr);
}

/* Returns the bytes of keys and values of a text of @n tokens; 0: unknown. */
static double kv_bytes(const struct inf_model *model, enum setup_graph which, const char *kv_type,
                       uint32_t n)
{
    struct setup setup = {.kv_type = kv_type};
    struct kv_layout layout;
    double bytes = 0;

    if (drafter_layout(model, which, &setup, &layout, NULL) < 0)
        return 0;
    for (uint32_t g = 0; g < layout.n_groups; g++) {
        const double block = (double)kv_layout_block_bytes(&layout, g);
        const uint32_t n_seen =
            layout.groups[g].rule == STATE_WINDOW ? MIN(layout.groups[g].window, n) : n;

        bytes +=
            layout.groups[g].rule == STATE_RECURRENT ? block : block / layout.block_tokens * n_seen;
    }
    return bytes;
}

double draft_share(const struct inf_engine_params *p, const struct setup *setup)
{
    const uint32_t n = p->n_ctx > 0 ? p->n_ctx : 8192;
    double model, draft;

    if (!draft_model_is_used(p) && setup->graph != SETUP_EXPORTING)
        return 0;
    model = kv_bytes(p->model, SETUP_MODEL, p->kv_type, n);
    draft = draft_model_is_used(p) ? kv_bytes(p->draft_model, SETUP_MODEL, p->kv_type, n)
                                   : kv_bytes(p->model, SETUP_PREDICTOR, p->kv_type, n);
    return model + draft > 0 ? draft / (model + draft) : 0;
}

/* Sets the sizes of the KV cache of the drafter, the graph @setup->graph of @model. */
static int size_kv(const struct inf_engine_params *p, const struct inf_model *model, double share,
                   struct backend *b, uint64_t room, struct setup *setup, struct inf_err *reterr)
{
    const struct inf_engine_params own = {
        .kv_bytes = p->kv_bytes > 0 ? MAX((uint64_t)((double)p->kv_bytes * share), 1) : 0,
    };
    struct kv_layout layout;
    const int r = drafter_layout(model, setup->graph, setup, &layout, reterr);

    if (r < 0)
        return r;
    setup_other_blocks(&own, room, setup, &layout);
    return setup_kv_size(&own, &layout, room, b->ops->kv_max_blocks(b, &layout, 0), setup, reterr);
}

int draft_attach(struct inf_engine *engine, const struct inf_engine_params *p,
                 const struct setup *base, uint64_t room, struct inf_err *reterr)
{
    struct backend *shared = engine->sched->runner->backend;
    const bool is_split = strcmp(shared->ops->name, "split") == 0;
    const bool predicts = base->graph == SETUP_EXPORTING;
    struct inf_model *model = predicts ? p->model : p->draft_model;
    const uint32_t trained = model->info.n_ctx_train;
    struct setup setup = *base;
    _cleanup_(backend_freep) struct backend *own = NULL;
    _cleanup_(runner_freep) struct runner *runner = NULL;
    struct backend *b = shared;
    int r;

    setup.n_ctx = trained > 0 ? MIN(trained, base->n_ctx) : base->n_ctx;
    setup.max_logits = setup.max_seqs;
    setup.shares_backend = !is_split;
    setup.graph = predicts ? SETUP_PREDICTOR : SETUP_MODEL;
    setup.n_blocks = 0;
    memset(setup.other_blocks, 0, sizeof(setup.other_blocks));
    if (is_split) {
        setup.device = "cpu";
        r = setup_backend(&setup, &own, reterr);
        if (r < 0)
            return r;
        b = own;
    }
    r = check_device(b, model, setup.graph, reterr);
    if (r == 0)
        r = size_kv(p, model, draft_share(p, base), b, room, &setup, reterr);
    if (r == 0)
        r = setup_runner_on(is_split ? &own : &shared, model, &setup, &runner, reterr);
    if (r < 0)
        return r;
    if (sched_add_drafter(engine->sched, &runner) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    engine->draft_model = predicts ? NULL : inf_model_ref(model);
    return 0;
}
