/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inf_imatrix(): runs a model over a text, and writes how much each column of its matrices matters.
 */
#include <errno.h>
#include <string.h>

#include <infer/convert.h>
#include <infer/tokenizer.h>

#include "api/handle.h"
#include "convert/imatrix-make.h"
#include "core/err.h"
#include "core/file.h"

#define MAX_TOKENS      (1u << 20)
#define MAX_STEP        256u
#define MAX_LOGIT_BYTES (64u << 20)
#define DEFAULT_CTX     512u

struct importance {
    const struct inf_imatrix_params *params;
    struct imatrix_maker *maker;
    struct runner *runner;
    struct kv_table table;
    int32_t *chunk; /* [n_ctx] */
    uint32_t n_ctx, n_step, n_chunks;
};

static int importance_check(const struct inf_imatrix_params *p, uint32_t n_ctx,
                            const int32_t *tokens, size_t n_tokens, struct inf_err *reterr)
{
    int r;

    if (!p->model || !p->out)
        return err_set(reterr, EINVAL, "no model or no path was given");
    r = inf_model_suits(p->model, INF_USE_GENERATE, reterr);
    if (r < 0)
        return r;
    if (n_ctx < 16 || n_ctx > MAX_TOKENS)
        return err_set(reterr, EINVAL, "a chunk has between 16 and %u tokens", MAX_TOKENS);
    if (n_tokens < n_ctx)
        return err_set(reterr, EINVAL, "the text has %zu tokens, but one chunk needs %u", n_tokens,
                       n_ctx);
    if (!p->replace && path_exists(p->out))
        return err_set(reterr, EEXIST, "%.200s exists", p->out);
    return model_check_tokens(p->model, tokens, n_tokens, reterr);
}

/* Runs one chunk. All rows have logits, so that no layer leaves out rows. */
static int importance_chunk(struct importance *m, const int32_t *tokens, int32_t bos)
{
    uint32_t rows[MAX_STEP];
    int r = 0;

    memcpy(m->chunk, tokens, m->n_ctx * sizeof(*tokens));
    if (bos >= 0)
        m->chunk[0] = bos;
    for (uint32_t i = 0; i < m->n_step; i++)
        rows[i] = i;
    for (uint32_t pos = 0, n; r == 0 && pos < m->n_ctx; pos += n) {
        struct batch_seq seq;
        struct batch batch;

        n = MIN(MIN(m->n_step, runner_max_rows(m->runner)), m->n_ctx - pos);
        seq = kv_table_part(&m->table, 0, pos, n);
        batch = (struct batch){n, m->chunk + pos, 1, &seq, n, rows};
        r = runner_forward(m->runner, &batch);
    }
    return r;
}

static int importance_run(struct importance *m, const int32_t *tokens, struct inf_err *reterr)
{
    const struct inf_tokenizer *tok = m->params->model->tok;
    const int32_t bos = tok && inf_tokenizer_adds_bos(tok) ? inf_tokenizer_bos(tok) : -1;
    bool go_on = true;
    int r;

    r = kv_table_init(&m->table, m->runner->pool, m->n_ctx);
    if (r < 0)
        return err_set(reterr, -r, "out of memory");
    r = kv_table_extend(&m->table, m->n_ctx);
    assert(r == 0);
    for (uint32_t i = 0; r == 0 && go_on && i < m->n_chunks; i++) {
        r = importance_chunk(m, tokens + (size_t)i * m->n_ctx, bos);
        if (r == 0)
            r = imatrix_maker_check(m->maker);
        if (r == 0 && m->params->chunk)
            go_on = m->params->chunk(m->params->chunk_data, i + 1, m->n_chunks);
    }
    kv_table_done(&m->table);
    if (r < 0)
        return err_set(reterr, -r,
                       r == -ENOMEM    ? "out of memory"
                       : r == -EBADMSG ? "a number in the model is not finite"
                                       : "the device failed");
    return go_on ? 0 : err_set(reterr, ECANCELED, "the computation was interrupted");
}

static int importance_setup(struct importance *m, struct inf_err *reterr)
{
    const uint32_t n_fit =
        (uint32_t)(MAX_LOGIT_BYTES / sizeof(float)) / m->params->model->info.n_vocab;
    const struct setup setup = {
        .device = "cpu",
        .isa = m->params->isa,
        .n_threads = m->params->n_threads,
        .n_ctx = m->n_ctx,
        .max_rows = MIN(MIN(MAX(n_fit, 1u), MAX_STEP), m->n_ctx),
        .max_logits = MIN(MIN(MAX(n_fit, 1u), MAX_STEP), m->n_ctx),
        .max_seqs = 1,
        .watch = imatrix_maker_watch(m->maker),
    };

    m->n_step = setup.max_rows;
    return setup_runner(m->params->model, &setup, &m->runner, reterr);
}

static int importance_make(struct importance *m, const int32_t *tokens, struct inf_err *reterr)
{
    const struct imatrix_save save = {
        .path = m->params->out,
        .dataset = m->params->dataset ? m->params->dataset : "",
        .n_chunks = m->n_chunks,
        .chunk_size = m->n_ctx,
        .replace = m->params->replace,
    };
    int r;

    r = importance_setup(m, reterr);
    if (r == 0)
        r = importance_run(m, tokens, reterr);
    if (r == 0)
        r = inf_model_check(m->params->model, reterr);
    return r == 0 ? imatrix_maker_save(m->maker, &save, reterr) : r;
}

int inf_imatrix(const struct inf_imatrix_params *params, const int32_t *tokens, size_t n_tokens,
                struct inf_imatrix_result *ret_result, struct inf_err *reterr)
{
    struct importance m = {.params = params,
                           .n_ctx = params->n_ctx > 0 ? params->n_ctx : DEFAULT_CTX};
    int r;

    r = importance_check(params, m.n_ctx, tokens, n_tokens, reterr);
    if (r < 0)
        return r;
    m.n_chunks = (uint32_t)MIN(n_tokens / m.n_ctx, UINT32_MAX);
    if (params->n_chunks > 0)
        m.n_chunks = MIN(m.n_chunks, params->n_chunks);
    m.chunk = NEW(int32_t, m.n_ctx);
    r = m.chunk ? imatrix_maker_new(params->head, &m.maker) : -ENOMEM;
    if (r < 0)
        err_set(reterr, -r, "out of memory");
    if (r == 0)
        r = importance_make(&m, tokens, reterr);
    if (r == 0)
        *ret_result = (struct inf_imatrix_result){
            .n_chunks = m.n_chunks,
            .n_tokens = (uint64_t)m.n_chunks * m.n_ctx,
            .n_matrices = imatrix_maker_n(m.maker),
        };
    runner_free(m.runner);
    imatrix_maker_free(m.maker);
    free(m.chunk);
    return r;
}
