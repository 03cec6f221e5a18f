/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_perplexity(): measures how well a model predicts a text.
 *
 * A chunk is computed in steps. The steps of its first half compute no logits. In its second half,
 * a step computes at most as many rows of logits as fit into MAX_LOGIT_BYTES, and each row is
 * reduced to one number before the next step.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <infer/bench.h>
#include <infer/tokenizer.h>

#include "api/handle.h"
#include "core/err.h"

#define MAX_TOKENS      (1u << 20)
#define MAX_BATCH       16384u
#define MAX_LOGIT_ROWS  256u
#define MAX_LOGIT_BYTES (64u << 20)
#define DEFAULT_CTX     512u
#define DEFAULT_BATCH   512u

struct perplexity {
    struct runner *runner;
    struct kv_table table;
    int32_t *chunk;      /* [n_ctx]: a copy of the chunk's tokens, with BOS */
    int32_t bos;         /* replaces the first token of a chunk; -1: nothing does */
    uint32_t n_ctx;      /* tokens of a chunk */
    uint32_t n_batch;    /* rows of a step without logits */
    uint32_t n_logits;   /* rows of a step with logits */
    double sum, squares; /* of the predicted tokens' -ln(probability), and of its square */
    struct inf_perplexity_result result;
};

/* Returns -ln(softmax(logits)[token]). */
static double perplexity_nll(const float *logits, uint32_t n_vocab, int32_t token)
{
    float max = logits[0];
    double sum = 0;

    for (uint32_t i = 1; i < n_vocab; i++)
        max = MAX(max, logits[i]);
    for (uint32_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - (double)max);
    return log(sum) + (double)max - (double)logits[token];
}

/* Computes the positions @pos to @pos + @n_rows - 1 of the chunk, with logits of all or none. */
static int perplexity_step(struct perplexity *p, uint32_t pos, uint32_t n_rows, bool logits)
{
    const struct batch_seq seq = kv_table_part(&p->table, 0, pos, n_rows);
    uint32_t rows[MAX_LOGIT_ROWS];
    const struct batch batch = {n_rows, p->chunk + pos, 1, &seq, logits ? n_rows : 0, rows};
    int r;

    for (uint32_t i = 0; logits && i < n_rows; i++)
        rows[i] = i;
    r = runner_forward(p->runner, &batch);
    if (r < 0 || !logits)
        return r;
    for (uint32_t i = 0; i < n_rows; i++) {
        const double nll =
            perplexity_nll(runner_logits(p->runner, i), p->runner->n_vocab, p->chunk[pos + i + 1]);

        p->sum += nll;
        p->squares += nll * nll;
    }
    p->result.n_tokens += n_rows;
    return 0;
}

/* The last token of a chunk has no next token in the chunk, so its row is not computed. */
static int perplexity_chunk(struct perplexity *p, const int32_t *tokens)
{
    const uint32_t first = p->n_ctx / 2;

    memcpy(p->chunk, tokens, p->n_ctx * sizeof(*tokens));
    if (p->bos >= 0)
        p->chunk[0] = p->bos;
    for (uint32_t pos = 0, n; pos < p->n_ctx - 1; pos += n) {
        const bool logits = pos >= first;
        const uint32_t n_most = MIN(logits ? p->n_logits : p->n_batch, runner_max_rows(p->runner));
        int r;

        n = MIN(n_most, (logits ? p->n_ctx - 1 : first) - pos);
        r = perplexity_step(p, pos, n, logits);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Updates the estimate after a chunk. The error of the mean of n values is
 * sqrt(variance ÷ (n - 1)), and exp() multiplies a small error by its own result. */
static void perplexity_update(struct perplexity *p)
{
    struct inf_perplexity_result *res = &p->result;
    const double n = (double)res->n_tokens, mean = p->sum / n;
    const double variance = p->squares / n - mean * mean;

    res->n_chunks_done++;
    res->nll = mean;
    res->ppl = exp(mean);
    res->error = n > 1 && variance > 0 ? sqrt(variance / (n - 1)) * res->ppl : 0;
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
    if (info->n_ctx_train > 0 && n_ctx > info->n_ctx_train)
        return err_set(reterr, EINVAL,
                       "the model has a context of %u tokens, which is less than %u",
                       info->n_ctx_train, n_ctx);
    if (n_tokens < n_ctx)
        return err_set(reterr, EINVAL, "the text has %zu tokens, but one chunk needs %u", n_tokens,
                       n_ctx);
    return model_check_tokens(params->model, tokens, n_tokens, reterr);
}

static int perplexity_run(struct perplexity *p, const struct inf_perplexity_params *params,
                          const int32_t *tokens)
{
    int r;

    r = kv_table_init(&p->table, p->runner->pool, p->n_ctx);
    if (r < 0)
        return r;
    r = kv_table_extend(&p->table, p->n_ctx);
    assert(r == 0);
    for (uint32_t i = 0; r == 0 && i < p->result.n_chunks; i++) {
        r = perplexity_chunk(p, tokens + (size_t)i * p->n_ctx);
        if (r == 0)
            perplexity_update(p);
        if (r == 0 && params->chunk)
            params->chunk(params->chunk_data, &p->result);
    }
    kv_table_done(&p->table);
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
        .bos = tok && inf_tokenizer_adds_bos(tok) ? inf_tokenizer_bos(tok) : -1,
        .n_ctx = n_ctx,
        .n_batch = n_batch,
        .n_logits = MIN(n_batch, MIN(MAX(n_fit, 1u), MAX_LOGIT_ROWS)),
        .result.n_chunks = params->n_chunks > 0 ? MIN(params->n_chunks, n_chunks) : n_chunks,
    };
}

int inf_perplexity(const struct inf_perplexity_params *params, const int32_t *tokens,
                   size_t n_tokens, struct inf_perplexity_result *ret_result,
                   struct inf_err *reterr)
{
    const uint32_t n_ctx = params->n_ctx > 0 ? params->n_ctx : DEFAULT_CTX;
    _cleanup_(runner_freep) struct runner *runner = NULL;
    _cleanup_free_ int32_t *chunk = NULL;
    struct perplexity p;
    struct setup setup;
    int r;

    r = perplexity_check(params, n_ctx, tokens, n_tokens, reterr);
    if (r < 0)
        return r;
    p = perplexity_plan(params, n_ctx, n_tokens);
    setup = (struct setup){
        .device = params->device,
        .cache_dir = params->cache_dir,
        .isa = params->isa,
        .kv_type = params->kv_type,
        .n_threads = params->n_threads,
        .n_ctx = n_ctx,
        .max_rows = p.n_batch,
        .max_logits = p.n_logits,
        .max_seqs = 1,
    };
    r = setup_runner(params->model, &setup, &runner, reterr);
    if (r < 0)
        return r;
    p.runner = runner;
    p.chunk = chunk = NEW(int32_t, n_ctx);
    if (!chunk)
        return err_set(reterr, ENOMEM, "out of memory");
    r = perplexity_run(&p, params, tokens);
    if (r < 0)
        return err_set(reterr, -r, r == -ENOMEM ? "out of memory" : "the device failed");
    r = inf_model_check(params->model, reterr);
    if (r < 0)
        return r;
    *ret_result = p.result;
    return 0;
}
