/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_logits(): runs one sequence through the model and keeps the logits of all rows.
 */
#include <errno.h>
#include <string.h>

#include <infer/bench.h>

#include "api/handle.h"
#include "core/err.h"

#define MAX_ROWS 64u /* per step, so that their logits are small compared with the result */

static int run_all(struct runner *runner, struct kv_table *table, const int32_t *tokens, uint32_t n,
                   float *logits)
{
    uint32_t rows[MAX_ROWS];

    for (uint32_t i = 0; i < MAX_ROWS; i++)
        rows[i] = i;
    for (uint32_t pos = 0; pos < n; pos += MAX_ROWS) {
        const uint32_t n_rows = MIN(MAX_ROWS, n - pos);
        const struct batch_seq seq = kv_table_part(table, 0, pos, n_rows);
        const struct batch batch = {n_rows, tokens + pos, 1, &seq, n_rows, rows};
        const int r = runner_forward(runner, &batch);

        if (r < 0)
            return r;
        memcpy(logits + (size_t)pos * runner->n_vocab, runner->logits,
               (size_t)n_rows * runner->n_vocab * sizeof(*logits));
    }
    return 0;
}

int inf_logits(const struct inf_logits_params *params, const int32_t *tokens, size_t n_tokens,
               float **ret_logits, struct inf_err *reterr)
{
    struct inf_model *model = params->model;
    _cleanup_(runner_freep) struct runner *runner = NULL;
    _cleanup_free_ float *logits = NULL;
    struct kv_table table;
    struct setup setup;
    uint64_t n;
    int r;

    if (!model || !tokens || n_tokens == 0 || n_tokens > 1u << 20)
        return err_set(reterr, EINVAL, "between one and a million tokens are needed");
    r = model_check_tokens(model, tokens, n_tokens, reterr);
    if (r < 0)
        return r;
    setup = (struct setup){
        .device = params->device,
        .cache_dir = params->cache_dir,
        .isa = params->isa,
        .kv_type = params->kv_type,
        .n_threads = params->n_threads,
        .n_ctx = (uint32_t)n_tokens,
        .max_rows = (uint32_t)MIN(n_tokens, MAX_ROWS),
        .max_logits = (uint32_t)MIN(n_tokens, MAX_ROWS),
        .max_seqs = 1,
    };
    r = setup_runner(model, &setup, &runner, reterr);
    if (r < 0)
        return r;
    if (!size_mul(n_tokens, model->info.n_vocab, &n))
        return err_set(reterr, ENOMEM, "out of memory");
    logits = NEW(float, n);
    if (!logits)
        return err_set(reterr, ENOMEM, "no memory for %zu rows of logits", n_tokens);
    r = kv_table_init(&table, runner->pool, (uint32_t)n_tokens);
    if (r < 0)
        return err_set(reterr, -r, "out of memory");
    r = kv_table_extend(&table, (uint32_t)n_tokens);
    assert(r == 0);
    r = run_all(runner, &table, tokens, (uint32_t)n_tokens, logits);
    kv_table_done(&table);
    if (r < 0)
        return err_set(reterr, -r, "the device failed");
    r = inf_model_check(model, reterr);
    if (r < 0)
        return r;
    *ret_logits = STEAL(logits);
    return 0;
}
