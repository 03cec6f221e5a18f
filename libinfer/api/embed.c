/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_embedder_*: checks arguments, resolves defaults, and calls embed/.
 */
#include <infer/embed.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "api/handle.h"
#include "core/err.h"
#include "embed/embedder.h"

#define MAX_TOKENS        (1u << 17)
#define MAX_BATCH         16384u
#define DEFAULT_TOKENS    8192u /* for models that allow more */
#define DEFAULT_BATCH     512u
#define DEFAULT_MAX_QUEUE ((uint64_t)4 << 20)

struct inf_embedder {
    struct inf_model *model;
    struct embedder *e;
    uint32_t max_tokens;
    bool scores;
};

/* Returns -1 if the model has no such token, or no tokenizer. */
static int32_t token_of(const struct inf_model *model, const char *piece)
{
    return model->tok ? inf_tokenizer_find(model->tok, piece, strlen(piece)) : -1;
}

static void choose_graph(const struct inf_embedder_params *p, struct model_embed *ret_how)
{
    static const enum pooling poolings[] = {
        [INF_POOLING_MEAN] = POOLING_MEAN,
        [INF_POOLING_CLS] = POOLING_CLS,
        [INF_POOLING_LAST] = POOLING_LAST,
    };
    const struct model *m = p->model->model;

    *ret_how = (struct model_embed){
        .make = p->kind == INF_EMBED_VECTORS ? MODEL_MAKE_VECTOR
                : p->kind == INF_EMBED_ROWS  ? MODEL_MAKE_ROWS
                                             : MODEL_MAKE_SCORE,
        .pooling = p->pooling == INF_POOLING_MODEL ? model_pooling(m) : poolings[p->pooling],
        .tokens = {token_of(p->model, "no"), token_of(p->model, "yes")},
    };
    if (p->kind == INF_EMBED_SCORES && p->pooling == INF_POOLING_MODEL)
        ret_how->pooling = model_score_pooling(m);
}

static enum job_pick pick_of(const struct model_embed *how)
{
    if (how->make == MODEL_MAKE_ROWS)
        return JOB_PICK_ALL;
    return how->pooling == POOLING_LAST ? JOB_PICK_LAST : JOB_PICK_FIRST;
}

int embed_check(struct inf_model *m, enum inf_model_use use, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    const struct inf_embedder_params params = {
        .model = m,
        .kind = use == INF_USE_VECTORS         ? INF_EMBED_VECTORS
                : use == INF_USE_TOKEN_VECTORS ? INF_EMBED_ROWS
                                               : INF_EMBED_SCORES,
    };
    struct model_embed how;

    choose_graph(&params, &how);
    if (use == INF_USE_SCORES && model_embed_width(m->model, &how) > 2)
        return err_set(reterr, EOPNOTSUPP,
                       "it is a classifier of %u classes and does not rank texts",
                       model_embed_width(m->model, &how));
    return model_build_embed(m->model, &how, &g, reterr);
}

static int check_params(const struct inf_embedder_params *p, struct inf_err *reterr)
{
    if (!p || !p->model)
        return err_set(reterr, EINVAL, "no model was given");
    if (!p->model->model)
        return model_refuse_text(p->model, reterr);
    if ((unsigned)p->kind > INF_EMBED_SCORES || (unsigned)p->pooling > INF_POOLING_LAST)
        return err_set(reterr, EINVAL, "unknown kind or pooling");
    if (p->batch_tokens > MAX_BATCH)
        return err_set(reterr, EINVAL, "batch_tokens must not be above %u", MAX_BATCH);
    return 0;
}

/* Chooses the limit of tokens per text. If the model has a table of positions, a text can have at
 * most as many tokens as this table has rows. */
static int choose_max_tokens(const struct inf_embedder_params *p, uint32_t *ret_max,
                             struct inf_err *reterr)
{
    const struct hparams *hp = model_hparams(p->model->model);
    const uint32_t own =
        hp->embed.max_tokens > 0 ? hp->embed.max_tokens : MIN(hp->n_ctx_train, DEFAULT_TOKENS);
    const uint32_t most = hp->embed.n_pos > 0 ? hp->n_ctx_train : MAX_TOKENS;

    if (p->max_tokens > most)
        return err_set(reterr, EINVAL, "max_tokens must not be above %u for this model", most);
    *ret_max = p->max_tokens > 0 ? p->max_tokens : own;
    return 0;
}

/* Builds one graph per task. The caller owns all graphs in @graphs, on failure too. */
static int build_graphs(struct model *m, struct model_embed *how, uint32_t n, struct graph **graphs,
                        struct inf_err *reterr)
{
    int r = 0;

    static_assert(LANE_MAX_PLANS >= HPARAMS_MAX_TASKS, "each task has a plan");
    for (how->i_task = 0; r == 0 && how->i_task < n; how->i_task++)
        r = model_build_embed(m, how, &graphs[how->i_task], reterr);
    return r;
}

/* Returns whether weights are multiplied at full precision. A score, or the dot product of two
 * token vectors, is a single number that can be small relative to its terms. Therefore scores and
 * token vectors of models in F32 are computed at full precision. */
static bool is_exact(const struct inf_embedder_params *p)
{
    return p->exact || (p->kind != INF_EMBED_VECTORS && p->model->info.dtype == INF_DTYPE_F32);
}

static int make_embedder(const struct inf_embedder_params *p, uint32_t max_tokens,
                         struct embedder **ret_embedder, struct inf_err *reterr)
{
    const struct backend_params on = {.device = p->device,
                                      .isa = p->isa,
                                      .n_threads = p->n_threads,
                                      .many_rows = true,
                                      .exact = is_exact(p),
                                      .cache_dir = p->cache_dir};
    struct model *m = p->model->model;
    const struct hparams *hp = model_hparams(m);
    const uint32_t n_graphs = MAX(hp->embed.n_tasks, 1u);
    _cleanup_(backend_freep) struct backend *backend = NULL;
    struct graph *graphs[LANE_MAX_PLANS] = {0};
    struct embedder_params params;
    struct model_embed how;
    int r;

    choose_graph(p, &how);
    r = build_graphs(m, &how, n_graphs, graphs, reterr);
    if (r == 0)
        r = backend_new(&on, &backend, reterr);
    params = (struct embedder_params){
        .lane = {.width = model_embed_width(m, &how),
                 .batch_tokens = p->batch_tokens > 0 ? p->batch_tokens : DEFAULT_BATCH,
                 .max_tokens = max_tokens,
                 .n_kv_heads = hp->n_kv_heads,
                 .head_dim = hp->head_dim,
                 .pick = pick_of(&how),
                 .padding = hp->embed.pos_skips ? (int32_t)hp->embed.pos_first - 1 : -1},
        .graphs = (const struct graph *const *)graphs,
        .n_graphs = n_graphs,
        .exact = is_exact(p),
        .shape = {.n_vocab = hp->n_vocab,
                  .n_types = hp->embed.n_types,
                  .max_tokens = max_tokens,
                  .width = model_embed_width(m, &how),
                  .window = hp->window,
                  .encoder = hp->embed.encoder,
                  .pick = pick_of(&how),
                  .normalize = how.make != MODEL_MAKE_SCORE && !hp->embed.raw,
                  .tasks = hp->embed.tasks,
                  .n_tasks = hp->embed.n_tasks},
        .files = model_files(p->model),
        .max_queue_tokens = p->max_queue_tokens > 0 ? p->max_queue_tokens : DEFAULT_MAX_QUEUE,
    };
    if (r == 0)
        r = embedder_new(&backend, &params, ret_embedder, reterr);
    for (uint32_t i = 0; i < n_graphs; i++)
        graph_free(graphs[i]);
    return r;
}

int inf_embedder_new(const struct inf_embedder_params *params, struct inf_embedder **ret_embedder,
                     struct inf_err *reterr)
{
    _cleanup_(embedder_freep) struct embedder *e = NULL;
    struct inf_embedder *embedder;
    uint32_t max_tokens = 0;
    int r;

    r = check_params(params, reterr);
    if (r == 0)
        r = choose_max_tokens(params, &max_tokens, reterr);
    if (r == 0)
        r = make_embedder(params, max_tokens, &e, reterr);
    /* Copies of weights were made, so check that the files are unchanged. */
    if (r == 0)
        r = inf_model_check(params->model, reterr);
    if (r < 0)
        return r;
    embedder = NEW(struct inf_embedder, 1);
    if (!embedder)
        return err_set(reterr, ENOMEM, "out of memory");
    embedder->model = inf_model_ref(params->model);
    embedder->e = STEAL(e);
    embedder->max_tokens = max_tokens;
    embedder->scores = params->kind == INF_EMBED_SCORES;
    *ret_embedder = embedder;
    return 0;
}

struct inf_embedder *inf_embedder_free(struct inf_embedder *embedder)
{
    if (!embedder)
        return NULL;
    embedder_free(embedder->e);
    inf_model_unref(embedder->model);
    free(embedder);
    return NULL;
}

int inf_embedder_submit(struct inf_embedder *embedder, const struct inf_embed_request *request,
                        uint64_t *ret_id, struct inf_err *reterr)
{
    struct inf_embed_request q;
    int r;

    assert(embedder && ret_id);
    if (!request)
        return err_set(reterr, EINVAL, "there is no request");
    r = inf_model_check(embedder->model, reterr);
    if (r < 0)
        return r;
    q = *request;
    if (embedder->scores)
        q.normalize = INF_NORMALIZE_NO;
    return embedder_submit(embedder->e, &q, ret_id, reterr);
}

void inf_embedder_cancel(struct inf_embedder *embedder, uint64_t id)
{
    assert(embedder);
    embedder_cancel(embedder->e, id);
}

int inf_embedder_event_fd(const struct inf_embedder *embedder)
{
    return embedder->e->results.fd;
}

struct inf_embed_result *inf_embedder_next_result(struct inf_embedder *embedder)
{
    return embedder_next(embedder->e);
}

struct inf_embed_result *inf_embedder_wait_result(struct inf_embedder *embedder, int timeout_msec)
{
    const uint64_t end = outbox_deadline(timeout_msec);
    struct inf_embed_result *result;

    while (!(result = embedder_next(embedder->e)) && outbox_wait(embedder->e->results.fd, end))
        ;
    return result;
}

struct inf_embed_result *inf_embed_result_free(struct inf_embed_result *result)
{
    free(result);
    return NULL;
}

void inf_embedder_stats(struct inf_embedder *embedder, struct inf_embedder_stats *ret_stats)
{
    embedder_stats(embedder->e, ret_stats);
}

const char *inf_embedder_task(const struct inf_embedder *embedder, uint32_t i)
{
    const struct job_shape *shape = &embedder->e->params.shape;

    return i < shape->n_tasks ? shape->tasks[i] : NULL;
}

uint32_t inf_embedder_width(const struct inf_embedder *embedder)
{
    return embedder->e->params.shape.width;
}

uint32_t inf_embedder_max_tokens(const struct inf_embedder *embedder)
{
    return embedder->max_tokens;
}

uint32_t inf_embedder_n_threads(const struct inf_embedder *embedder)
{
    return embedder->e->backend->ops->n_threads(embedder->e->backend);
}

const char *inf_embedder_device(const struct inf_embedder *embedder)
{
    return embedder->e->backend->device;
}

const char *inf_embedder_isa(const struct inf_embedder *embedder)
{
    return embedder->e->backend->ops->isa(embedder->e->backend);
}

double inf_similarity(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

double inf_similarity_rows(const float *a, size_t n_a, const float *b, size_t n_b, size_t width)
{
    double total = 0;

    for (size_t i = 0; i < n_a; i++) {
        double best = -INFINITY;

        for (size_t j = 0; j < n_b; j++) {
            double sum = 0;

            for (size_t k = 0; k < width; k++)
                sum += (double)a[i * width + k] * (double)b[j * width + k];
            best = fmax(best, sum);
        }
        total += n_b > 0 ? best : 0;
    }
    return total;
}
