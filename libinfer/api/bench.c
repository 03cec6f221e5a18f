/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_bench(): prefill of a prompt of random tokens in steps of n_batch rows, logits of its last
 * token alone; decoding token by token from an empty context. As llama-bench measures, so that
 * figures may be compared. One round of each warms up and is not counted.
 */
#include <errno.h>
#include <math.h>

#include <infer/bench.h>

#include "api/handle.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/rng.h"

#define MAX_TOKENS (1u << 20)
#define MAX_REPEAT 10000u
#define MAX_BATCH  16384u

struct bench {
    struct runner *runner;
    struct kv_table table;
    struct rng rng;
    int32_t *tokens; /* [n_prompt] */
    uint32_t n_prompt, n_generate, n_batch;
    const struct inf_bench_params *params;
    uint32_t n_done, n_total; /* rounds, for progress */
};

/* One step at @pos; logits of the last row only where @last. */
static int forward(struct bench *b, const int32_t *tokens, uint32_t pos, uint32_t n_rows, bool last)
{
    const uint32_t row = n_rows - 1;
    const struct batch_seq seq = {0, n_rows, pos, b->table.n_blocks, b->table.blocks};
    const struct batch batch = {n_rows, tokens, 1, &seq, last, &row};

    return runner_forward(b->runner, &batch);
}

static int32_t random_token(struct bench *b)
{
    return (int32_t)(rng_u32(&b->rng) % b->runner->n_vocab);
}

static int prefill(struct bench *b)
{
    for (uint32_t i = 0; i < b->n_prompt; i++)
        b->tokens[i] = random_token(b);
    for (uint32_t pos = 0; pos < b->n_prompt; pos += b->n_batch) {
        const uint32_t n = MIN(b->n_batch, b->n_prompt - pos);
        const int r = forward(b, b->tokens + pos, pos, n, pos + n == b->n_prompt);

        if (r < 0)
            return r;
    }
    return 0;
}

static int decode(struct bench *b)
{
    for (uint32_t pos = 0; pos < b->n_generate; pos++) {
        const int32_t token = random_token(b);
        const int r = forward(b, &token, pos, 1, true);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Mean and standard deviation of the speed over the repeats. */
static int measure(struct bench *b, int (*round)(struct bench *), uint32_t n_tokens,
                   double *ret_mean, double *ret_stddev)
{
    const uint32_t n = b->params->n_repeat > 0 ? b->params->n_repeat : 5;
    double mean = 0, squares = 0;

    for (uint32_t i = 0; i <= n; i++) {
        const uint64_t begin = clock_nsec();
        double speed, diff;
        int r;

        r = round(b);
        if (r < 0)
            return r;
        b->n_done++;
        if (b->params->progress)
            b->params->progress(b->params->progress_data, (double)b->n_done / b->n_total);
        if (i == 0)
            continue;
        speed = n_tokens * 1e9 / (double)MAX(clock_nsec() - begin, 1);
        /* Welford's update. */
        diff = speed - mean;
        mean += diff / i;
        squares += diff * (speed - mean);
    }
    *ret_mean = mean;
    *ret_stddev = n > 1 ? sqrt(squares / (n - 1)) : 0;
    return 0;
}

static int measure_all(struct bench *b, struct inf_bench_result *result)
{
    int r = 0;

    if (b->n_prompt > 0)
        r = measure(b, prefill, b->n_prompt, &result->pp_tok_s, &result->pp_stddev);
    if (r == 0 && b->n_generate > 0)
        r = measure(b, decode, b->n_generate, &result->tg_tok_s, &result->tg_stddev);
    return r;
}

static int check(const struct inf_bench_params *p, struct inf_err *reterr)
{
    if (!p || !p->model)
        return err_set(reterr, EINVAL, "no model was given");
    if (p->n_prompt == 0 && p->n_generate == 0)
        return err_set(reterr, EINVAL, "nothing to measure");
    if (p->n_prompt > MAX_TOKENS || p->n_generate > MAX_TOKENS)
        return err_set(reterr, EINVAL, "more than %u tokens", MAX_TOKENS);
    if (p->n_repeat > MAX_REPEAT || p->n_batch > MAX_BATCH)
        return err_set(reterr, EINVAL, "more than %u repeats or %u rows", MAX_REPEAT, MAX_BATCH);
    return 0;
}

int inf_bench(const struct inf_bench_params *params, struct inf_bench_result *ret_result,
              struct inf_err *reterr)
{
    _cleanup_(runner_freep) struct runner *runner = NULL;
    _cleanup_free_ int32_t *tokens = NULL;
    struct inf_bench_result result = {0};
    struct setup setup;
    struct bench b;
    int r;

    r = check(params, reterr);
    if (r < 0)
        return r;
    b = (struct bench){
        .params = params,
        .n_prompt = params->n_prompt,
        .n_generate = params->n_generate,
        .n_batch = params->n_batch > 0 ? params->n_batch : 512,
        .n_total = (params->n_repeat > 0 ? params->n_repeat + 1 : 6) *
                   ((params->n_prompt > 0) + (params->n_generate > 0)),
    };
    setup = (struct setup){
        .isa = params->isa,
        .n_threads = params->n_threads,
        .n_ctx = MAX(b.n_prompt, b.n_generate),
        .max_rows = b.n_prompt > 0 ? MIN(b.n_batch, b.n_prompt) : 1,
        .max_logits = 1,
        .max_seqs = 1,
    };
    rng_seed(&b.rng, 1);
    b.tokens = tokens = NEW(int32_t, b.n_prompt);
    if (!tokens)
        return err_set(reterr, ENOMEM, "out of memory");
    r = setup_runner(params->model, &setup, &runner, reterr);
    if (r < 0)
        return r;
    b.runner = runner;
    r = kv_table_init(&b.table, runner->pool, setup.n_ctx);
    if (r < 0)
        return err_set(reterr, -r, "out of memory");
    r = kv_table_extend(&b.table, setup.n_ctx);
    assert(r == 0);
    r = measure_all(&b, &result);
    kv_table_done(&b.table);
    if (r < 0)
        return err_set(reterr, -r, "the device failed");
    result.n_threads = runner->backend->ops->n_threads(runner->backend);
    result.isa = runner->backend->ops->isa(runner->backend);
    *ret_result = result;
    return 0;
}
