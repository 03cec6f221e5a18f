/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens draft models, draft heads, and the layers that predict further tokens.
 *
 * The tokens of both models must mean the same, because drafts are lists of tokens. Vocabularies of
 * one family often differ in unused tokens at their end, so up to MAX_EXTRA tokens may be missing
 * in one of them.
 */
#include "api/draft-model.h"

#include <errno.h>
#include <string.h>

#include <infer/kv.h>

#include "core/err.h"

#define MAX_EXTRA 1024u

bool draft_model_is_used(const struct inf_engine_params *p)
{
    return p->draft_model && (!p->draft_kind || strcmp(p->draft_kind, "model") == 0 ||
                              strcmp(p->draft_kind, "auto") == 0 || draft_head_name(p->draft_kind));
}

const char *draft_head_name(const char *kind)
{
    static const struct {
        const char *kind, *name;
    } heads[] = {{"eagle3", "a draft head of EAGLE-3"},
                 {"dflash", "a draft head of DFlash"},
                 {"gemma4-assistant", "an assistant of Gemma 4"}};

    for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
        if (strcmp(kind, heads[i].kind) == 0)
            return heads[i].name;
    return NULL;
}

/* Returns whether @p names a draft head, and a kind of drafts that uses it. */
static bool head_is_used(const struct inf_engine_params *p)
{
    return draft_model_is_used(p) && p->draft_model->model && model_is_head(p->draft_model->model);
}

/* Returns whether @p names an assistant, and a kind of drafts that uses it. */
static bool assistant_is_used(const struct inf_engine_params *p)
{
    return head_is_used(p) && model_head_assists(p->draft_model->model);
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
    if (model_is_head(draft->model))
        return model->model ? model_head_fits(draft->model, model->model, reterr)
                            : model_refuse_text(model, reterr);
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

/* Checks that the device can compute the graph that @setup names. */
static int check_device(struct backend *b, const struct inf_model *model, const struct setup *setup,
                        struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    int r;

    if (!b->ops->check)
        return 0;
    r = setup_graph(model, setup, &graph, reterr);
    return r < 0 ? r : b->ops->check(b, graph, reterr);
}

int draft_choose_graph(const struct inf_engine_params *p, struct backend *b, struct setup *setup,
                       struct inf_err *reterr)
{
    const bool must = p->draft_kind && strcmp(p->draft_kind, "mtp") == 0;
    struct setup exporting = *setup;
    int r;

    if (head_is_used(p)) {
        setup->graph = SETUP_TAPPED;
        setup->pair = p->draft_model;
        return check_device(b, p->model, setup, reterr);
    }
    if (!wants_predictor(p))
        return 0;
    if (!model_predicts(p->model->model))
        return must ? err_set(reterr, EINVAL,
                              "drafts of the kind \"mtp\" need a model with a layer that predicts "
                              "further tokens, and this model has none")
                    : 0;
    exporting.graph = SETUP_EXPORTING;
    r = check_device(b, p->model, &exporting, must ? reterr : NULL);
    if (r == 0)
        setup->graph = SETUP_EXPORTING;
    return must ? r : 0;
}

/* Makes the layout of the keys and values of the drafter. A drafter whose heads do not allow the
 * type in @setup gets the default type. */
static int drafter_layout(const struct inf_model *model, struct setup *setup,
                          struct kv_layout *ret_layout, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    int r = setup_graph(model, setup, &graph, reterr);

    if (r < 0)
        return r;
    r = setup_layout_of_graph(model, graph, setup->kv_type, ret_layout, reterr);
    if (r != -EOPNOTSUPP || !setup->kv_type)
        return r;
    setup->kv_type = NULL;
    return setup_layout_of_graph(model, graph, NULL, ret_layout, reterr);
}

/* Returns the bytes of keys and values of a text of @n tokens; 0: unknown. */
static double kv_bytes(const struct inf_model *model, struct setup setup, uint32_t n)
{
    struct kv_layout layout;
    double bytes = 0;

    if (drafter_layout(model, &setup, &layout, NULL) < 0)
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

/* Returns the model whose graph drafts, and says in @setup which of its graphs this is. @base: the
 * graph of the engine's model. */
static struct inf_model *choose_drafter(const struct inf_engine_params *p, enum setup_graph base,
                                        struct setup *setup)
{
    setup->graph = SETUP_MODEL;
    setup->pair = NULL;
    if (base == SETUP_EXPORTING) {
        setup->graph = SETUP_PREDICTOR;
        return p->model;
    }
    if (base == SETUP_TAPPED) {
        setup->graph = SETUP_HEAD;
        setup->pair = p->model;
    }
    return p->draft_model;
}

double draft_share(const struct inf_engine_params *p, const struct setup *setup)
{
    const uint32_t n = p->n_ctx > 0 ? p->n_ctx : 8192;
    const struct setup plain = {.kv_type = p->kv_type};
    const struct inf_model *drafter;
    struct setup own = plain;
    double model, draft;

    /* An assistant has no keys and values. */
    if ((!draft_model_is_used(p) && setup->graph != SETUP_EXPORTING) || assistant_is_used(p))
        return 0;
    drafter = choose_drafter(p, setup->graph, &own);
    model = kv_bytes(p->model, plain, n);
    draft = kv_bytes(drafter, own, n);
    return model + draft > 0 ? draft / (model + draft) : 0;
}

int inf_model_draft_kv_size(const struct inf_engine_params *params, struct inf_kv_size *ret_size,
                            struct inf_err *reterr)
{
    const bool own =
        wants_predictor(params) && params->model->model && model_predicts(params->model->model);
    const enum setup_graph base = head_is_used(params) ? SETUP_TAPPED
                                  : own                ? SETUP_EXPORTING
                                                       : SETUP_MODEL;
    struct setup setup = {.kv_type = params->kv_type};
    struct kv_layout layout;
    int r;

    if (assistant_is_used(params) || (!draft_model_is_used(params) && base == SETUP_MODEL)) {
        *ret_size = (struct inf_kv_size){0};
        return 0;
    }
    r = drafter_layout(choose_drafter(params, base, &setup), &setup, &layout, reterr);
    if (r == 0)
        *ret_size = setup_layout_size(&layout);
    return r;
}

/* Sets the sizes of the KV cache of the drafter, the graph @setup->graph of @model. */
static int size_kv(const struct inf_engine_params *p, const struct inf_model *model, double share,
                   struct backend *b, uint64_t room, struct setup *setup, struct inf_err *reterr)
{
    const struct inf_engine_params own = {
        .kv_bytes = p->kv_bytes > 0 ? MAX((uint64_t)((double)p->kv_bytes * share), 1) : 0,
    };
    struct kv_layout layout;
    const int r = drafter_layout(model, setup, &layout, reterr);

    if (r < 0)
        return r;
    setup_other_blocks(&own, room, setup, &layout);
    return setup_kv_size(&own, &layout, room, b->ops->kv_max_blocks(b, &layout, 0), setup, reterr);
}

/* Returns the rows of logits of a step of the drafter. */
static uint32_t draft_logits(const struct inf_model *model, const struct setup *setup)
{
    const uint32_t block =
        setup->graph == SETUP_HEAD ? model_head_block(model->model, &(int32_t){0}) : 0;

    if (block == 0)
        return setup->max_seqs;
    return MIN(MAX(setup->max_seqs, MIN(block, DRAFT_MAX) + DRAFT_MAX_EXTRA), setup->max_rows);
}

/* Makes the engine's drafter that of the draft head @m. */
static int use_head(struct drafter *d, const struct model *m, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *graph = NULL;
    int32_t mask = 0;
    const uint32_t block = model_head_block(m, &mask);
    int r;

    if (model_head_assists(m)) {
        drafter_use_assistant(d);
        return 0;
    }
    if (block == 0)
        return drafter_use_head(d, model_head_tokens(m, &(uint32_t){0})) < 0
                   ? err_set(reterr, ENOMEM, "out of memory")
                   : 0;
    r = model_build_store(m, &graph, reterr);
    if (r == 0)
        r = runner_add_store(d->runner, graph, reterr);
    if (r == 0)
        drafter_use_blocks(d, block, mask);
    return r;
}

int draft_attach(struct inf_engine *engine, const struct inf_engine_params *p,
                 const struct setup *base, uint64_t room, struct inf_err *reterr)
{
    struct backend *shared = engine->sched->runner->backend;
    const bool is_split = strcmp(shared->ops->name, "split") == 0;
    const bool is_head = base->graph == SETUP_TAPPED, assists = assistant_is_used(p);
    struct setup setup = *base;
    struct inf_model *model = choose_drafter(p, base->graph, &setup);
    /* Draft heads are trained with short texts, but follow long ones. */
    const uint32_t trained = is_head ? 0 : model->info.n_ctx_train;
    _cleanup_(backend_freep) struct backend *own = NULL;
    _cleanup_(runner_freep) struct runner *runner = NULL;
    struct backend *b = shared;
    int r;

    setup.n_ctx = trained > 0 ? MIN(trained, base->n_ctx) : base->n_ctx;
    setup.max_logits = draft_logits(model, &setup);
    setup.shares_backend = !is_split;
    setup.n_blocks = 0;
    memset(setup.other_blocks, 0, sizeof(setup.other_blocks));
    if (is_split && assists)
        return err_set(reterr, EOPNOTSUPP,
                       "an assistant cannot read the keys of a model that runs on two devices: use "
                       "the device \"cpu\"");
    if (assists) {
        setup.pool = engine->sched->runner->pool;
        setup.max_rows = setup.max_seqs;
    }
    if (is_split) {
        setup.device = "cpu";
        r = setup_backend(&setup, &own, reterr);
        if (r < 0)
            return r;
        b = own;
    }
    r = check_device(b, model, &setup, reterr);
    if (r == 0 && !assists)
        r = size_kv(p, model, draft_share(p, base), b, room, &setup, reterr);
    if (r == 0)
        r = setup_runner_on(is_split ? &own : &shared, model, &setup, &runner, reterr);
    if (r < 0)
        return r;
    if (sched_add_drafter(engine->sched, &runner) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    engine->draft_model = model == p->model ? NULL : inf_model_ref(model);
    if (!is_head)
        return 0;
    r = use_head(engine->sched->speculation->drafter, model->model, reterr);
    engine->sched->speculation->cost.at_once = engine->sched->speculation->drafter->block > 0;
    return r;
}
