/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens, closes and reports the resident models of the embed service.
 *
 * A model that is used for vectors and for ranking becomes two residents.
 */
#include "embed/embed-resident.h"

#include <errno.h>
#include <string.h>

#include "common/config/config.h"
#include "common/service/log.h"
#include "common/service/service.h"
#include "core/err.h"
#include "embed/embed-request.h"
#include "embed/late-interaction.h"
#include "embed/matryoshka.h"
#include "embed/prompts.h"
#include "host/model-host.h"

/* The speed is computed again after this many seconds of computing. */
#define SPEED_SECONDS 0.5

static int resident_serves(const struct resident *resident, const void *key,
                           struct problem *problem)
{
    (void)problem;
    return embed_resident_of(resident)->kind == *(const enum inf_embed_kind *)key;
}

static int resident_init(struct resident *resident, const void *key)
{
    embed_resident_of(resident)->kind = *(const enum inf_embed_kind *)key;
    return 0;
}

bool embed_resident_ranks_by_rows(const struct embed_resident *resident)
{
    return resident->kind == INF_EMBED_SCORES &&
           inf_model_info(resident->base.model)->token_width > 0;
}

bool embed_resident_is_asked(const struct embed_resident *resident)
{
    /* Encoders read query and document as one input; decoders get a question about them. */
    return resident->kind == INF_EMBED_SCORES && !embed_resident_ranks_by_rows(resident) &&
           !strstr(inf_model_info(resident->base.model)->arch, "bert");
}

/* Returns whether the vocabulary has the special tokens of the question. Without them the scores
 * would be meaningless. */
static bool knows_question(const struct inf_model *model)
{
    static const char mark[] = "<|im_start|>";

    return inf_tokenizer_find(inf_model_tokenizer(model), mark, sizeof(mark) - 1) >= 0;
}

static enum inf_model_use resident_use(const struct embed_resident *own)
{
    if (own->kind == INF_EMBED_VECTORS)
        return INF_USE_VECTORS;
    return own->kind == INF_EMBED_ROWS || embed_resident_ranks_by_rows(own) ? INF_USE_TOKEN_VECTORS
                                                                            : INF_USE_SCORES;
}

static int resident_suits(struct resident *resident, struct inf_err *reterr)
{
    struct embed_resident *own = embed_resident_of(resident);
    const struct inf_model_info *info = inf_model_info(resident->model);
    int r = inf_model_suits(resident->model, resident_use(own), reterr);

    if (r == 0 && embed_resident_is_asked(own) && !knows_question(resident->model))
        r = err_set(reterr, EOPNOTSUPP, "it is not a reranker with a known prompt");
    if (r == 0)
        r = prompts_read(resident->path, info->arch, &own->prompts, reterr);
    if (r == 0 && info->token_width > 0)
        r = interaction_read(resident->path, own->prompts, inf_model_tokenizer(resident->model),
                             &own->interaction, reterr);
    own->matryoshka = matryoshka_is_known(resident->path, resident->name, info);
    return r;
}

static int resident_open(struct resident *resident, struct inf_err *reterr)
{
    struct embed_resident *own = embed_resident_of(resident);
    const struct model_host *host = resident->pool->data;
    const struct inf_embedder_params params = {
        .model = resident->model,
        .device = "cpu",
        .isa = host->config->embed.isa,
        .n_threads = host->config->embed.threads,
        .kind = embed_resident_ranks_by_rows(own) ? INF_EMBED_ROWS : own->kind,
        .max_tokens =
            resident->settings.context ? resident->settings.context : host->config->embed.context,
        .max_queue_tokens = host->config->embed.max_queue_tokens,
    };

    return inf_embedder_new(&params, &own->embedder, reterr);
}

static void resident_close(struct resident *resident)
{
    struct embed_resident *own = embed_resident_of(resident);

    inf_embedder_free(own->embedder);
    json_decref(own->prompts);
    interaction_free(own->interaction);
}

static int resident_fd(const struct resident *resident)
{
    return inf_embedder_event_fd(embed_resident_of(resident)->embedder);
}

static void resident_on_results(struct resident *resident)
{
    struct inf_embed_result *result;

    service_touch(resident->pool->service);
    while ((result = inf_embedder_next_result(embed_resident_of(resident)->embedder)))
        call_on_result(result->user, result);
}

static const char *resident_makes(const struct resident *resident)
{
    static const char *const names[] = {
        [INF_EMBED_VECTORS] = "vectors",
        [INF_EMBED_ROWS] = "token_vectors",
        [INF_EMBED_SCORES] = "scores",
    };

    return names[embed_resident_of(resident)->kind];
}

static void resident_loaded(const struct resident *resident)
{
    const struct inf_embedder *embedder = embed_resident_of(resident)->embedder;

    log_event(LOG_ID_MODEL_LOADED, LOG_INFO, resident->name, "loaded %s for %s: %u threads, %s",
              resident->name, resident_makes(resident), inf_embedder_n_threads(embedder),
              inf_embedder_isa(embedder));
}

static void resident_failed(const struct resident *resident, const char *why,
                            struct problem *problem)
{
    static const char *const makes[] = {
        [INF_EMBED_VECTORS] = "vectors of texts",
        [INF_EMBED_ROWS] = "vectors of tokens",
        [INF_EMBED_SCORES] = "scores",
    };

    if (resident->load_status == -EOPNOTSUPP && resident->model)
        problem_set(problem, 400, "unsupported_model", "model", "The model '%s' makes no %s: %s.",
                    resident->name, makes[embed_resident_of(resident)->kind], why);
    else
        resident_load_problem(resident, why, problem);
    log_event(LOG_ID_MODEL_FAILED, LOG_WARNING, resident->name, "%s", problem->message);
}

double embed_resident_speed(struct embed_resident *resident)
{
    struct inf_embedder_stats now;
    double seconds;

    inf_embedder_stats(resident->embedder, &now);
    seconds = now.busy_seconds - resident->before.busy_seconds;
    if (seconds >= SPEED_SECONDS || (resident->tok_s <= 0 && seconds > 0)) {
        resident->tok_s = (double)(now.n_tokens - resident->before.n_tokens) / seconds;
        resident->before = now;
    }
    return resident->tok_s;
}

_Static_assert(sizeof(struct embed_resident_stats) <= MODEL_STATS_MAX,
               "model_host_put_metrics() has a buffer of MODEL_STATS_MAX bytes for them");

static void resident_stats(struct resident *resident, void *ret_stats)
{
    struct embed_resident *own = embed_resident_of(resident);
    struct embed_resident_stats *s = ret_stats;

    inf_embedder_stats(own->embedder, &s->embedder);
    s->tok_s = embed_resident_speed(own);
    s->n_threads = inf_embedder_n_threads(own->embedder);
}

const struct residents_ops embed_residents_ops = {
    .size = sizeof(struct embed_resident),
    .serves = resident_serves,
    .init = resident_init,
    .suits = resident_suits,
    .open = resident_open,
    .close = resident_close,
    .fd = resident_fd,
    .readable = resident_on_results,
    .loaded = resident_loaded,
    .failed = resident_failed,
    .purpose_name = "makes",
    .purpose = resident_makes,
    .stats = resident_stats,
};
