/* SPDX-License-Identifier: Apache-2.0 */
#include "golden/family-run.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

enum { STATES = 3 };

/* Returns a layout with room for two sequences. */
static struct kv_layout family_layout(const struct family_run *r)
{
    const struct hparams *hp = model_hparams(r->model);
    const uint32_t n_blocks = 2 * (uint32_t)DIV_UP(r->n_tokens, FAMILY_BLOCK);
    struct kv_layout layout = kv_layout_full(hp->n_layers, hp->n_kv_heads, hp->head_dim,
                                             FAMILY_BLOCK, CODEC_F32, n_blocks);
    const struct state_group *groups;
    uint32_t n;

    groups = graph_groups(r->graph, &n);
    for (uint32_t i = 0; i < n; i++) {
        layout.groups[i] = groups[i];
        layout.n_blocks[i] = groups[i].rule == STATE_RECURRENT ? (uint32_t)STATES : n_blocks;
    }
    layout.n_groups = MAX(n, 1u);
    return layout;
}

static int family_compile(struct family_run *r, const struct backend_params *on,
                          struct inf_err *reterr)
{
    const struct runner_params params = {
        .graph = r->graph,
        .layout = family_layout(r),
        .limits = {2 * r->n_tokens, 2 * r->n_tokens, 2, r->n_tokens},
        .n_vocab = r->n_vocab,
    };
    _cleanup_(backend_freep) struct backend *backend = NULL;
    const int rc = backend_new(on, &backend, reterr);

    return rc < 0 ? rc : runner_new(&backend, &params, &r->runner, reterr);
}

int family_run_open(const char *path, const struct backend_params *on, const int32_t *tokens,
                    uint32_t n_tokens, struct family_run *ret_run, struct inf_err *reterr)
{
    struct family_run r = {.tokens = tokens, .n_tokens = n_tokens};
    int rc;

    rc = format_open(path, 0, model_archs(), &r.format, reterr);
    if (rc == 0)
        rc = model_open(r.format, &r.model, reterr);
    if (rc == 0)
        rc = model_build(r.model, &r.graph, reterr);
    if (rc == 0)
        r.n_vocab = model_hparams(r.model)->n_vocab;
    for (uint32_t i = 0; rc == 0 && i < n_tokens; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= r.n_vocab)
            rc = err_set(reterr, EINVAL, "token %d is not in the vocabulary", tokens[i]);
    if (rc == 0)
        rc = family_compile(&r, on, reterr);
    if (rc < 0)
        family_run_done(&r);
    else
        *ret_run = r;
    return rc;
}

void family_run_done(struct family_run *r)
{
    runner_free(r->runner);
    graph_free(r->graph);
    model_close(r->model);
    format_close(r->format);
}

/* Computes the rows at @pos … @end - 1 in one step. @logits may be NULL. */
static int family_step(struct family_run *r, struct kv_table *table, uint32_t pos, uint32_t end,
                       float *logits)
{
    const uint32_t n = end - pos;
    _cleanup_free_ uint32_t *rows = NEW(uint32_t, n);
    struct batch_seq seq;
    struct batch batch;
    int rc;

    if (!rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        rows[i] = i;
    if (kv_table_open(table, pos, n) < n)
        return -ENOSPC;
    seq = kv_table_part(table, 0, pos, n);
    batch = (struct batch){.n_rows = n,
                           .tokens = r->tokens + pos,
                           .n_seqs = 1,
                           .seqs = &seq,
                           .n_logits = n,
                           .logit_rows = rows};
    rc = runner_forward(r->runner, &batch);
    if (rc == 0 && logits)
        memcpy(logits + (size_t)pos * r->n_vocab, r->runner->logits,
               (size_t)n * r->n_vocab * sizeof(*logits));
    return rc;
}

/* Computes the rows up to @end in steps of @n_rows rows. */
static int family_rows(struct family_run *r, struct kv_table *table, uint32_t pos, uint32_t end,
                       uint32_t n_rows, float *logits)
{
    int rc = kv_table_reserve(table, end - pos) == 0 ? 0 : -ENOSPC;

    while (rc == 0 && pos < end) {
        const uint32_t next = end - pos > n_rows ? pos + n_rows : end;

        rc = family_step(r, table, pos, next, logits);
        pos = next;
    }
    return rc;
}

int family_run_steps(struct family_run *r, uint32_t n_rows, float *logits)
{
    struct kv_table table;
    int rc = kv_table_init(&table, r->runner->pool, r->n_tokens);

    if (rc < 0)
        return rc;
    rc = family_rows(r, &table, 0, r->n_tokens, n_rows, logits);
    kv_table_done(&table);
    return rc;
}

int family_run_cut(struct family_run *r, uint32_t n_rows, float *logits)
{
    struct kv_table table;
    int rc = kv_table_init(&table, r->runner->pool, r->n_tokens);

    if (rc < 0)
        return rc;
    rc = family_rows(r, &table, 0, n_rows, n_rows, logits);
    if (rc == 0)
        rc = family_rows(r, &table, n_rows, r->n_tokens, r->n_tokens, logits);
    kv_table_done(&table);
    return rc;
}

/* Computes and stores the first blocks of the text. @names: [n_blocks] */
static int family_store(struct family_run *r, const struct kv_name *names, uint32_t n_blocks,
                        float *logits)
{
    struct kv_table table;
    int rc = kv_table_init(&table, r->runner->pool, r->n_tokens);

    if (rc < 0)
        return rc;
    rc = family_rows(r, &table, 0, n_blocks * FAMILY_BLOCK, n_blocks * FAMILY_BLOCK, logits);
    if (rc == 0) {
        kv_table_name(&table, names, n_blocks);
        rc = kv_table_snapshot(&table, names, n_blocks) ? 0 : -ENOSPC;
    }
    kv_table_done(&table);
    return rc;
}

/* Continues the text from what family_store() left. */
static int family_continue(struct family_run *r, const struct kv_name *names, uint32_t n_blocks,
                           float *logits)
{
    struct kv_table table;
    int rc = kv_table_init(&table, r->runner->pool, r->n_tokens);

    if (rc < 0)
        return rc;
    if (kv_pool_n_usable(r->runner->pool, names, n_blocks, r->n_tokens) != n_blocks * FAMILY_BLOCK)
        rc = -ENOENT;
    else
        rc = kv_table_adopt(&table, names, n_blocks * FAMILY_BLOCK) == 0 ? 0 : -ENOSPC;
    if (rc == 0)
        rc = family_rows(r, &table, n_blocks * FAMILY_BLOCK, r->n_tokens, r->n_tokens, logits);
    kv_table_done(&table);
    return rc;
}

/* Returns another text of the same length, which the caller frees, or NULL. */
static int32_t *family_other_text(const struct family_run *r)
{
    int32_t *tokens = NEW(int32_t, r->n_tokens);

    for (uint32_t i = 0; tokens && i < r->n_tokens; i++)
        tokens[i] = r->tokens[r->n_tokens - 1 - i];
    return tokens;
}

/* Computes another text, which overwrites the blocks that have no name. */
static int family_disturb(const struct family_run *r)
{
    _cleanup_free_ int32_t *tokens = family_other_text(r);
    struct family_run other = *r;

    if (!tokens)
        return -ENOMEM;
    other.tokens = tokens;
    return family_run_steps(&other, r->n_tokens, NULL);
}

/* Computes the rows at @pos … @end - 1 of two texts in one step, and writes the logits of the
 * second text. */
static int family_pair(struct family_run *r, struct kv_table tables[2], const int32_t *texts[2],
                       uint32_t pos, uint32_t end, float *logits)
{
    const uint32_t n = end - pos;
    _cleanup_free_ int32_t *tokens = NEW(int32_t, (size_t)2 * n);
    _cleanup_free_ uint32_t *rows = NEW(uint32_t, (size_t)2 * n);
    struct batch_seq seqs[2];
    struct batch batch = {.n_rows = 2 * n,
                          .tokens = tokens,
                          .n_seqs = 2,
                          .seqs = seqs,
                          .n_logits = 2 * n,
                          .logit_rows = rows};
    int rc;

    if (!tokens || !rows)
        return -ENOMEM;
    for (uint32_t i = 0; i < 2 * n; i++) {
        rows[i] = i;
        tokens[i] = texts[i / n][pos + i % n];
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (kv_table_open(&tables[i], pos, n) < n)
            return -ENOSPC;
        seqs[i] = kv_table_part(&tables[i], i * n, pos, n);
    }
    rc = runner_forward(r->runner, &batch);
    if (rc == 0)
        memcpy(logits + (size_t)pos * r->n_vocab, r->runner->logits + (size_t)n * r->n_vocab,
               (size_t)n * r->n_vocab * sizeof(*logits));
    return rc;
}

int family_run_beside(struct family_run *r, uint32_t n_rows, float *logits)
{
    _cleanup_free_ int32_t *other = family_other_text(r);
    const int32_t *texts[] = {other, r->tokens};
    struct kv_table tables[2] = {0};
    int rc = other ? 0 : -ENOMEM;

    for (unsigned i = 0; rc == 0 && i < 2; i++) {
        rc = kv_table_init(&tables[i], r->runner->pool, r->n_tokens);
        if (rc == 0 && kv_table_reserve(&tables[i], r->n_tokens) != 0)
            rc = -ENOSPC;
    }
    for (uint32_t pos = 0; rc == 0 && pos < r->n_tokens; pos += n_rows)
        rc = family_pair(r, tables, texts, pos, MIN(r->n_tokens, pos + n_rows), logits);
    for (unsigned i = 0; i < 2; i++)
        if (tables[i].pool)
            kv_table_done(&tables[i]);
    return rc;
}

int family_run_resume(struct family_run *r, uint32_t n_blocks, float *logits)
{
    static const struct kv_name root = {{1}};
    _cleanup_free_ struct kv_name *names = NEW(struct kv_name, n_blocks);
    int rc;

    if (!names)
        return -ENOMEM;
    kv_name_blocks(&root, r->tokens, FAMILY_BLOCK, n_blocks, names);
    rc = family_store(r, names, n_blocks, logits);
    if (rc == 0)
        rc = family_disturb(r);
    if (rc == 0)
        rc = family_continue(r, names, n_blocks, logits);
    kv_pool_forget(r->runner->pool);
    return rc;
}
