/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements inf_bench().
 *
 * Prefill computes a prompt of random tokens in steps of n_batch rows, with logits of only its last
 * token. Decode computes token by token, for one or several sequences at once. Both start after
 * n_depth tokens that are not counted. llama-bench measures in this way too, so the figures of both
 * can be compared. The first round of prefill and the first of decode are a warm-up.
 *
 * A bound is measured before and after each round of the part (prefill or decode) that it bounds.
 * The memory bandwidth of shared machines changes from second to second, so each round is compared
 * with the measurements right before and right after it. The int8 peak of a machine does not
 * change, and a low value means that something disturbed the measurement. So all rounds are
 * compared with the highest value.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include <infer/bench.h>

#include "api/handle.h"
#include "backend/cpu/limits/limits.h"
#include "core/clock.h"
#include "core/cpu.h"
#include "core/err.h"
#include "core/rng.h"

#define MAX_TOKENS     (1u << 20)
#define MAX_REPEAT     10000u
#define MAX_BATCH      16384u
#define MAX_STREAMS    256u
#define DEFAULT_REPEAT 5u
#define DEFAULT_BATCH  512u

struct bench {
    struct runner *runner;
    struct kv_table *tables; /* [n_streams]; the first one holds the prompts */
    uint32_t n_streams;
    struct limits *limits; /* NULL: no bound is requested */
    struct rng rng;
    int32_t *tokens;   /* [max(n_prompt, n_depth)] */
    double *fractions; /* [n_repeat] */
    uint32_t n_batch, n_repeat;
    const struct inf_bench_params *params;
    struct inf_bench_result result;
    uint32_t n_done, n_total; /* rounds, for progress */
    /* For decoding with drafts: the tokens and the rows of logits of a step, and the tokens that
     * each stream has. */
    int32_t draft_tokens[MAX_STREAMS * (1 + INF_DRAFT_MAX)];
    uint32_t draft_rows[MAX_STREAMS * (1 + INF_DRAFT_MAX)];
    uint32_t n_written[MAX_STREAMS];
};

/* A benchmark to repeat. @round computes @n_tokens tokens. For this, @work bytes are read, or @work
 * operations are done. @bound measures the limit of work per second; @bound may be NULL. */
struct part {
    int (*round)(struct bench *b);
    int (*bound)(struct bench *b, double *ret_per_second);
    const double *peak; /* compare all rounds with this value; NULL: compare each with the bounds
                           measured around it */
    uint32_t n_tokens;
    double work;
};

/* Computes one step of stream @i from position @pos on. With @last the step computes the logits of
 * its last row. */
static int forward_stream(struct bench *b, uint32_t i, const int32_t *tokens, uint32_t pos,
                          uint32_t n_rows, bool last)
{
    const struct kv_table *table = &b->tables[i];
    const uint32_t row = n_rows - 1;
    const struct batch_seq seq = kv_table_part(table, 0, pos, n_rows);
    const struct batch batch = {n_rows, tokens, 1, &seq, last, &row};

    return runner_forward(b->runner, &batch);
}

static int32_t random_token(struct bench *b)
{
    return (int32_t)(rng_u32(&b->rng) % b->runner->n_vocab);
}

static int read_tokens(struct bench *b, uint32_t i_stream, uint32_t begin, uint32_t n_tokens)
{
    for (uint32_t i = 0; i < n_tokens; i++)
        b->tokens[i] = random_token(b);
    for (uint32_t pos = 0, n; pos < n_tokens; pos += n) {
        n = MIN(MIN(b->n_batch, runner_max_rows(b->runner)), n_tokens - pos);
        const int r =
            forward_stream(b, i_stream, b->tokens + pos, begin + pos, n, pos + n == n_tokens);

        if (r < 0)
            return r;
    }
    return 0;
}

static int run_prefill(struct bench *b)
{
    return read_tokens(b, 0, b->params->n_depth, b->params->n_prompt);
}

/* Computes one token of each stream, at position @pos. */
static int step_streams(struct bench *b, uint32_t pos)
{
    struct batch_seq seqs[MAX_STREAMS];
    int32_t tokens[MAX_STREAMS];
    uint32_t rows[MAX_STREAMS];
    const struct batch batch = {b->n_streams, tokens, b->n_streams, seqs, b->n_streams, rows};

    for (uint32_t i = 0; i < b->n_streams; i++) {
        tokens[i] = random_token(b);
        rows[i] = i;
        seqs[i] = kv_table_part(&b->tables[i], i, pos, 1);
    }
    return runner_forward(b->runner, &batch);
}

static int run_decode(struct bench *b)
{
    for (uint32_t i = 0; i < b->params->n_generate; i++) {
        const int r = step_streams(b, b->params->n_depth + i);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Makes the part of a step in which stream @i verifies drafted tokens after its last token. */
static struct batch_seq draft_part(struct bench *b, uint32_t i, uint32_t i_row, uint32_t n_rows)
{
    return kv_table_part(&b->tables[i], i_row, b->params->n_depth + b->n_written[i], n_rows);
}

/* Returns how many of @n drafted tokens are accepted. */
static uint32_t draw_accepted(struct bench *b, uint32_t n)
{
    uint32_t n_accepted = 0;

    while (n_accepted < n && rng_u32(&b->rng) < b->params->accept * 4294967296.0)
        n_accepted++;
    return n_accepted;
}

/* Computes a step with drafted tokens for all streams that are not complete. */
static int step_drafts(struct bench *b)
{
    const uint32_t n_generate = b->params->n_generate;
    struct batch_seq seqs[MAX_STREAMS];
    struct batch batch = {.tokens = b->draft_tokens, .seqs = seqs, .logit_rows = b->draft_rows};
    int r;

    for (uint32_t i = 0; i < b->n_streams; i++) {
        const uint32_t n = MIN(1 + b->params->n_draft, n_generate - b->n_written[i]);

        if (n > 0)
            seqs[batch.n_seqs++] = draft_part(b, i, batch.n_rows, n);
        for (uint32_t k = 0; k < n; k++, batch.n_rows++) {
            b->draft_tokens[batch.n_rows] = random_token(b);
            b->draft_rows[batch.n_rows] = batch.n_rows;
        }
    }
    batch.n_logits = batch.n_rows;
    r = runner_forward(b->runner, &batch);
    for (uint32_t i = 0; r == 0 && i < b->n_streams; i++) {
        const uint32_t n = MIN(1 + b->params->n_draft, n_generate - b->n_written[i]);

        b->n_written[i] += n > 0 ? 1 + draw_accepted(b, n - 1) : 0;
    }
    return r;
}

static bool is_written(const struct bench *b)
{
    for (uint32_t i = 0; i < b->n_streams; i++)
        if (b->n_written[i] < b->params->n_generate)
            return false;
    return true;
}

static int run_drafts(struct bench *b)
{
    int r = 0;

    memset(b->n_written, 0, sizeof(b->n_written));
    while (r == 0 && !is_written(b))
        r = step_drafts(b);
    return r;
}

static int run_fill(struct bench *b)
{
    const uint64_t begin = clock_nsec();
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < b->n_streams; i++)
        r = read_tokens(b, i, 0, b->params->n_depth);
    b->result.fill_tok_s =
        (double)b->params->n_depth * b->n_streams * 1e9 / (double)MAX(clock_nsec() - begin, 1u);
    return r;
}

static int bound_read(struct bench *b, double *ret_per_second)
{
    const char *how;
    const int r = limits_read(b->limits, ret_per_second, &how);

    if (r == 0 && *ret_per_second > b->result.read_bytes_s) {
        b->result.read_bytes_s = *ret_per_second;
        b->result.read_how = how;
    }
    return r;
}

static int bound_int8(struct bench *b, double *ret_per_second)
{
    *ret_per_second = limits_dot(b->limits);
    b->result.int8_ops_s = MAX(b->result.int8_ops_s, *ret_per_second);
    b->result.int8_how = limits_dot_name(b->limits);
    return 0;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(double *x, uint32_t n)
{
    qsort(x, n, sizeof(*x), compare_doubles);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static void tell_progress(struct bench *b)
{
    b->n_done++;
    if (b->params->progress)
        b->params->progress(b->params->progress_data, (double)b->n_done / b->n_total);
}

/* Computes the mean and the standard deviation of the speed over the repetitions, and the median of
 * the fractions of the bound. */
static int measure_part(struct bench *b, const struct part *part, double *ret_mean,
                        double *ret_stddev, double *ret_fraction)
{
    double mean = 0, squares = 0, before = 0, after = 0;

    for (uint32_t i = 0; i <= b->n_repeat; i++) {
        uint64_t nsec = clock_nsec();
        double speed, diff;
        int r;

        r = part->round(b);
        nsec = MAX(clock_nsec() - nsec, 1u);
        if (r == 0 && part->bound)
            r = part->bound(b, &after);
        if (r < 0)
            return r;
        tell_progress(b);
        if (i > 0) {
            speed = part->n_tokens * 1e9 / (double)nsec;
            /* Welford's algorithm for the mean and the sum of squared differences. */
            diff = speed - mean;
            mean += diff / i;
            squares += diff * (speed - mean);
            b->fractions[i - 1] = part->work * 1e9 / (double)nsec;
            if (!part->peak)
                b->fractions[i - 1] /= (before + after) / 2;
        }
        before = after;
    }
    *ret_mean = mean;
    *ret_stddev = b->n_repeat > 1 ? sqrt(squares / (b->n_repeat - 1)) : 0;
    if (part->bound)
        *ret_fraction = median_of(b->fractions, b->n_repeat) / (part->peak ? *part->peak : 1);
    return 0;
}

static int measure_model(struct bench *b)
{
    const struct inf_bench_params *p = b->params;
    const struct inf_model_info *info = inf_model_info(p->model);
    const uint64_t madds = (info->n_madds_token - info->n_madds_head) * p->n_prompt;
    struct inf_bench_result *res = &b->result;
    /* The bounds are measured on the CPU, so they do not apply to another device. */
    const bool cpu = strcmp(b->runner->backend->device, "cpu") == 0;
    const struct part pp = {
        run_prefill, cpu && p->peak && limits_dot_name(b->limits) ? bound_int8 : NULL,
        &res->int8_ops_s, p->n_prompt, 2.0 * (double)(madds + info->n_madds_head)};
    const struct part tg = {run_decode, cpu && p->membw ? bound_read : NULL, NULL,
                            p->n_generate * b->n_streams,
                            (double)info->n_bytes_token * p->n_generate};
    const struct part drafts = {run_drafts, NULL, NULL, p->n_generate * b->n_streams, 0};
    double fraction;
    int r = 0;

    if (p->n_depth > 0)
        r = run_fill(b);
    if (r == 0 && p->n_prompt > 0)
        r = measure_part(b, &pp, &res->pp_tok_s, &res->pp_stddev, &res->pp_of_peak);
    if (r == 0 && p->n_generate > 0)
        r = measure_part(b, &tg, &res->tg_tok_s, &res->tg_stddev, &res->tg_of_bound);
    if (r == 0 && p->n_generate > 0 && p->n_draft > 0)
        r = measure_part(b, &drafts, &res->draft_tok_s, &res->draft_stddev, &fraction);
    return r;
}

/* Measures the requested bounds that the benchmarks of the model did not measure. */
static int measure_bounds(struct bench *b)
{
    const bool read = b->params->membw && b->result.read_bytes_s == 0;
    const bool int8 = b->params->peak && b->result.int8_ops_s == 0;
    double per_second;
    int r = 0;

    for (uint32_t i = 0; r == 0 && (read || int8) && i < b->n_repeat; i++) {
        if (read)
            r = bound_read(b, &per_second);
        if (r == 0 && int8)
            r = bound_int8(b, &per_second);
        if (r == 0 && !b->params->model)
            tell_progress(b);
    }
    return r;
}

static int check_params(const struct inf_bench_params *p, struct inf_err *reterr)
{
    if (!p)
        return err_set(reterr, EINVAL, "nothing to measure");
    if (!p->model && (p->n_prompt > 0 || p->n_generate > 0 || p->n_depth > 0))
        return err_set(reterr, EINVAL, "no model was given");
    if (p->n_prompt == 0 && p->n_generate == 0 && !p->membw && !p->peak)
        return err_set(reterr, EINVAL, "nothing to measure");
    if (p->n_prompt > MAX_TOKENS || p->n_generate > MAX_TOKENS || p->n_depth > MAX_TOKENS)
        return err_set(reterr, EINVAL, "more than %u tokens", MAX_TOKENS);
    if (p->n_repeat > MAX_REPEAT || p->n_batch > MAX_BATCH)
        return err_set(reterr, EINVAL, "more than %u repeats or %u rows", MAX_REPEAT, MAX_BATCH);
    if (p->n_draft > INF_DRAFT_MAX || !(p->accept >= 0 && p->accept <= 1))
        return err_set(reterr, EINVAL, "more than %d drafted tokens, or a wrong probability",
                       INF_DRAFT_MAX);
    if (p->n_streams > MAX_STREAMS)
        return err_set(reterr, EINVAL, "more than %u streams", MAX_STREAMS);
    return 0;
}

/* Makes a KV table for each stream, with room for all tokens of the stream. */
static int make_tables(struct bench *b, uint32_t n_ctx)
{
    int r;

    for (uint32_t i = 0; i < b->n_streams; i++) {
        r = kv_table_init(&b->tables[i], b->runner->pool, n_ctx);
        if (r == 0 && kv_table_extend(&b->tables[i], n_ctx) != 0)
            r = -ENOMEM;
        if (r < 0)
            return r;
    }
    return 0;
}

static int run_on(struct bench *b, struct runner *runner, uint32_t n_ctx)
{
    int r;

    b->runner = runner;
    /* Requests only the largest logit of each row, as greedy decoding does. */
    for (uint32_t i = 0; runner->tops && i < runner->limits.max_logits; i++)
        runner->tops[i].n_wanted = 1;
    r = make_tables(b, n_ctx);
    if (r == 0)
        r = measure_model(b);
    for (uint32_t i = 0; i < b->n_streams; i++)
        if (b->tables[i].pool)
            kv_table_done(&b->tables[i]);
    return r;
}

/* Runs the model if there is one. */
static int run_model(struct bench *b, struct inf_err *reterr)
{
    const struct inf_bench_params *p = b->params;
    const uint32_t n_read = MAX(p->n_prompt, p->n_depth);
    struct setup setup = {
        .device = p->device,
        .cache_dir = p->cache_dir,
        .isa = p->isa,
        .kv_type = p->kv_type,
        .n_threads = p->n_threads,
        .n_ctx = p->n_depth + MAX(p->n_prompt, p->n_generate),
        .max_rows = MAX(n_read > 0 ? MIN(b->n_batch, n_read) : 1, b->n_streams * (1 + p->n_draft)),
        .max_logits = b->n_streams * (1 + p->n_draft),
        .max_seqs = b->n_streams,
    };
    _cleanup_(runner_freep) struct runner *runner = NULL;
    _cleanup_free_ int32_t *tokens = NEW(int32_t, n_read);
    _cleanup_free_ struct kv_table *tables = NEW(struct kv_table, b->n_streams);
    struct kv_layout layout;
    int r;

    if (!tokens || !tables)
        return err_set(reterr, ENOMEM, "out of memory");
    b->tokens = tokens;
    b->tables = tables;
    r = setup_kv_layout(p->model, p->kv_type, &layout, reterr);
    if (r < 0)
        return r;
    setup.n_blocks = DIV_UP(setup.n_ctx, layout.block_tokens) * b->n_streams;
    r = setup_runner(p->model, &setup, &runner, reterr);
    if (r < 0)
        return r;
    r = run_on(b, runner, setup.n_ctx);
    if (r < 0)
        return err_set(reterr, -r, r == -ENOMEM ? "out of memory" : "the device failed");
    return 0;
}

int inf_bench(const struct inf_bench_params *params, struct inf_bench_result *ret_result,
              struct inf_err *reterr)
{
    _cleanup_(limits_freep) struct limits *limits = NULL;
    _cleanup_free_ double *fractions = NULL;
    struct bench b = {.params = params};
    unsigned flags, n_threads;
    int r;

    r = check_params(params, reterr);
    if (r < 0)
        return r;
    r = cpu_rung_flags(params->isa, &flags);
    if (r < 0)
        return err_set(reterr, -r,
                       r == -EOPNOTSUPP ? "this CPU has no %s" : "unknown instruction set %s",
                       params->isa);
    n_threads = params->n_threads > 0 ? params->n_threads : cpu_count();
    b.n_batch = params->n_batch > 0 ? params->n_batch : DEFAULT_BATCH;
    b.n_streams = MAX(params->n_streams, 1u);
    b.n_repeat = params->n_repeat > 0 ? params->n_repeat : DEFAULT_REPEAT;
    b.n_total = params->model
                    ? (b.n_repeat + 1) * ((params->n_prompt > 0) + (params->n_generate > 0) +
                                          (params->n_generate > 0 && params->n_draft > 0))
                    : b.n_repeat;
    b.result.n_threads = n_threads;
    b.result.isa = cpu_rung_name(flags);
    b.fractions = fractions = NEW(double, b.n_repeat);
    if (!fractions)
        return err_set(reterr, ENOMEM, "out of memory");
    rng_seed(&b.rng, 1);
    if (params->membw || params->peak) {
        r = limits_new(n_threads, flags, &limits);
        if (r < 0)
            return err_set(reterr, -r, "cannot start %u threads", n_threads);
        b.limits = limits;
    }
    if (params->n_prompt > 0 || params->n_generate > 0)
        r = run_model(&b, reterr);
    if (r == 0 && params->model)
        r = inf_model_check(params->model, reterr);
    if (r < 0)
        return r;
    r = measure_bounds(&b);
    if (r < 0)
        return err_set(reterr, -r, "there is too little memory to measure the speed of memory");
    *ret_result = b.result;
    return 0;
}
