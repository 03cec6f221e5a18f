/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_perplexity(): measures how well a model predicts a text, also compared with a base model.
 *
 * A chunk is computed in steps. The steps of its first part compute no logits. In its second part,
 * whose rows predict tokens, a step computes at most as many rows of logits as fit into
 * MAX_LOGIT_BYTES, and each row is reduced to a few numbers before the next step. If there is a
 * base model, both models compute a step before its rows are reduced.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <infer/bench.h>
#include <infer/tokenizer.h>

#include "api/divergence.h"
#include "api/handle.h"
#include "core/err.h"

#define MAX_TOKENS      (1u << 20)
#define MAX_BATCH       16384u
#define MAX_LOGIT_ROWS  256u
#define MAX_LOGIT_BYTES (64u << 20)
#define DEFAULT_CTX     512u
#define DEFAULT_BATCH   512u

/* A model that computes the chunks. */
struct pass {
    struct runner *runner;
    struct kv_table table;
    bool has_table;
};

struct perplexity {
    struct pass passes[2]; /* the model, and the base model */
    unsigned n_passes;
    struct divergence divergence; /* only with a base model */
    int32_t *chunk;               /* [n_ctx]: a copy of the chunk's tokens, with BOS */
    int32_t bos;                  /* replaces the first token of a chunk; -1: nothing does */
    uint32_t n_ctx;               /* tokens of a chunk */
    uint32_t first;               /* the first position of a chunk that predicts a token */
    uint32_t n_batch;             /* rows of a step without logits */
    uint32_t n_logits;            /* rows of a step with logits */
    double sum, squares;          /* of the predicted tokens' -ln(probability), and of its square */
    struct inf_perplexity_result result;
};

static int pass_step(struct pass *pass, const struct perplexity *p, uint32_t pos, uint32_t n_rows,
                     bool logits)
{
    const struct batch_seq seq = kv_table_part(&pass->table, 0, pos, n_rows);
    uint32_t rows[MAX_LOGIT_ROWS];
    const struct batch batch = {n_rows, p->chunk + pos, 1, &seq, logits ? n_rows : 0, rows};

    for (uint32_t i = 0; logits && i < n_rows; i++)
        rows[i] = i;
    return runner_forward(pass->runner, &batch);
}

/* Computes the positions @pos to @pos + @n_rows - 1 of the chunk, with logits of all or none. */
static int perplexity_step(struct perplexity *p, uint32_t pos, uint32_t n_rows, bool logits)
{
    struct runner *model = p->passes[0].runner, *base = p->passes[1].runner;

    for (unsigned i = 0; i < p->n_passes; i++) {
        const int r = pass_step(&p->passes[i], p, pos, n_rows, logits);

        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; logits && i < n_rows; i++) {
        const float *row = runner_logits(model, i);
        const int32_t next = p->chunk[pos + i + 1];
        const double nll =
            base ? divergence_add(&p->divergence, runner_logits(base, i), row, model->n_vocab, next)
                 : divergence_nll(row, model->n_vocab, next);

        p->sum += nll;
        p->squares += nll * nll;
    }
    p->result.n_tokens += logits ? n_rows : 0;
    return 0;
}

/* The last token of a chunk has no next token in the chunk, so its row is not computed. */
static int perplexity_chunk(struct perplexity *p, const int32_t *tokens)
{
    memcpy(p->chunk, tokens, p->n_ctx * sizeof(*tokens));
    if (p->bos >= 0)
        p->chunk[0] = p->bos;
    for (uint32_t pos = 0, n; pos < p->n_ctx - 1; pos += n) {
        const bool logits = pos >= p->first;
        uint32_t n_most = logits ? p->n_logits : p->n_batch;
        int r;

        for (unsigned i = 0; i < p->n_passes; i++)
            n_most = MIN(n_most, runner_max_rows(p->passes[i].runner));
        n = MIN(n_most, (logits ? p->n_ctx - 1 : p->first) - pos);
        r = perplexity_step(p, pos, n, logits);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Updates the estimate after a chunk. The error of the mean of n values is
 * sqrt(variance ÷ (n - 1)), and the error of exp(x) is about exp(x) times the error of x. */
static void perplexity_update(struct perplexity *p)
{
    struct inf_perplexity_result *res = &p->result;
    const double n = (double)res->n_tokens, mean = p->sum / n;
    const double variance = p->squares / n - mean * mean;

    res->n_chunks_done++;
    res->nll = mean;
    res->ppl = exp(mean);
    res->error = n > 1 && variance > 0 ? sqrt(variance / (n - 1)) * res->ppl : 0;
    if (p->n_passes > 1)
        divergence_estimate(&p->divergence, &res->divergence);
}

static int perplexity_check_base(const struct inf_perplexity_params *params, uint32_t n_ctx,
                                 struct inf_err *reterr)
{
    const struct inf_model_info *info, *base;
    int r;

    if (!params->base)
        return 0;
    r = inf_model_suits(params->base, INF_USE_GENERATE, reterr);
    if (r < 0)
        return r;
    info = inf_model_info(params->model);
    base = inf_model_info(params->base);
    if (base->n_vocab != info->n_vocab)
        return err_set(reterr, EINVAL,
                       "the models cannot be compared: one has %u tokens in its vocabulary, the "
                       "base model %u",
                       info->n_vocab, base->n_vocab);
    if (base->n_ctx_train > 0 && n_ctx > base->n_ctx_train)
        return err_set(reterr, EINVAL,
                       "the base model has a context of %u tokens, which is less than %u",
                       base->n_ctx_train, n_ctx);
    return 0;
}

static int perplexity_check(const struct inf_perplexity_params *params, uint32_t n_ctx,
                            const int32_t *tokens, size_t n_tokens, struct inf_err *reterr)
{
    const struct inf_model_info *info;
    int r;

    if (!params->model)
        return err_set(reterr, EINVAL, "no model was given");
    r = inf_model_suits(params->model, INF_USE_GENERATE, reterr);
    if (r < 0)
        return r;
    info = inf_model_info(params->model);
    if (n_ctx < 4 || n_ctx > MAX_TOKENS || params->n_batch > MAX_BATCH)
        return err_set(reterr, EINVAL,
                       "a chunk has between 4 and %u tokens, and a step at most %u rows",
                       MAX_TOKENS, MAX_BATCH);
    if (params->n_predict >= n_ctx)
        return err_set(reterr, EINVAL, "a chunk of %u tokens cannot have %u that are predicted",
                       n_ctx, params->n_predict);
    if (info->n_ctx_train > 0 && n_ctx > info->n_ctx_train)
        return err_set(reterr, EINVAL,
                       "the model has a context of %u tokens, which is less than %u",
                       info->n_ctx_train, n_ctx);
    if (n_tokens < n_ctx)
        return err_set(reterr, EINVAL, "the text has %zu tokens, but one chunk needs %u", n_tokens,
                       n_ctx);
    r = perplexity_check_base(params, n_ctx, reterr);
    return r < 0 ? r : model_check_tokens(params->model, tokens, n_tokens, reterr);
}

static int pass_begin(struct pass *pass, uint32_t n_ctx)
{
    int r = kv_table_init(&pass->table, pass->runner->pool, n_ctx);

    if (r < 0)
        return r;
    pass->has_table = true;
    r = kv_table_extend(&pass->table, n_ctx);
    assert(r == 0);
    return r;
}

static void pass_done(struct pass *pass)
{
    if (pass->has_table)
        kv_table_done(&pass->table);
    if (pass->runner)
        runner_free(pass->runner);
}

static int perplexity_run(struct perplexity *p, const struct inf_perplexity_params *params,
                          const int32_t *tokens)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < p->n_passes; i++)
        r = pass_begin(&p->passes[i], p->n_ctx);
    for (uint32_t i = 0; r == 0 && i < p->result.n_chunks; i++) {
        r = perplexity_chunk(p, tokens + (size_t)i * p->n_ctx);
        if (r == 0)
            perplexity_update(p);
        if (r == 0 && i + 1 == p->result.n_chunks && p->n_passes > 1)
            divergence_quantiles(&p->divergence, &p->result.divergence);
        if (r == 0 && params->chunk)
            params->chunk(params->chunk_data, &p->result);
    }
    return r;
}

static struct perplexity perplexity_plan(const struct inf_perplexity_params *params, uint32_t n_ctx,
                                         size_t n_tokens)
{
    const struct inf_tokenizer *tok = params->model->tok;
    const uint32_t n_fit =
        (uint32_t)(MAX_LOGIT_BYTES / sizeof(float)) / params->model->info.n_vocab;
    const uint32_t n_batch = MIN(params->n_batch > 0 ? params->n_batch : DEFAULT_BATCH, n_ctx);
    const uint32_t n_chunks = (uint32_t)MIN(n_tokens / n_ctx, UINT32_MAX);

    return (struct perplexity){
        .n_passes = params->base ? 2 : 1,
        .bos = tok && inf_tokenizer_adds_bos(tok) ? inf_tokenizer_bos(tok) : -1,
        .n_ctx = n_ctx,
        .first = params->n_predict > 0 ? n_ctx - 1 - params->n_predict : n_ctx / 2,
        .n_batch = n_batch,
        .n_logits = MIN(n_batch, MIN(MAX(n_fit, 1u), MAX_LOGIT_ROWS)),
        .result.n_chunks = params->n_chunks > 0 ? MIN(params->n_chunks, n_chunks) : n_chunks,
    };
}

/* Opens the runners, and allocates what the chunks need. perplexity_done() frees it, also after an
 * error. */
static int perplexity_open(struct perplexity *p, const struct inf_perplexity_params *params,
                           struct inf_err *reterr)
{
    const uint64_t n_predicted = (uint64_t)p->result.n_chunks * (p->n_ctx - 1 - p->first);
    int r = 0;

    for (unsigned i = 0; r == 0 && i < p->n_passes; i++) {
        const struct setup setup = {
            .device = params->device,
            .cache_dir = params->cache_dir,
            .isa = params->isa,
            .kv_type = i == 0 ? params->kv_type : params->base_kv_type,
            .n_threads = params->n_threads,
            .n_ctx = p->n_ctx,
            .max_rows = p->n_batch,
            .max_logits = p->n_logits,
            .max_seqs = 1,
        };

        r = setup_runner(i == 0 ? params->model : params->base, &setup, &p->passes[i].runner,
                         reterr);
    }
    if (r < 0)
        return r;
    p->chunk = NEW(int32_t, p->n_ctx);
    if (!p->chunk || (p->n_passes > 1 && divergence_init(&p->divergence, n_predicted) < 0))
        return err_set(reterr, ENOMEM, "out of memory");
    return 0;
}

static void perplexity_done(struct perplexity *p)
{
    for (unsigned i = 0; i < p->n_passes; i++)
        pass_done(&p->passes[i]);
    divergence_done(&p->divergence);
    free(p->chunk);
}

int inf_perplexity(const struct inf_perplexity_params *params, const int32_t *tokens,
                   size_t n_tokens, struct inf_perplexity_result *ret_result,
                   struct inf_err *reterr)
{
    const uint32_t n_ctx = params->n_ctx > 0 ? params->n_ctx : DEFAULT_CTX;
    struct perplexity p;
    int r;

    r = perplexity_check(params, n_ctx, tokens, n_tokens, reterr);
    if (r < 0)
        return r;
    p = perplexity_plan(params, n_ctx, n_tokens);
    r = perplexity_open(&p, params, reterr);
    if (r == 0) {
        r = perplexity_run(&p, params, tokens);
        if (r < 0)
            err_set(reterr, -r, r == -ENOMEM ? "out of memory" : "the device failed");
    }
    perplexity_done(&p);
    if (r == 0)
        r = inf_model_check(params->model, reterr);
    if (r == 0 && params->base)
        r = inf_model_check(params->base, reterr);
    if (r == 0)
        *ret_result = p.result;
    return r;
}
