/* SPDX-License-Identifier: Apache-2.0 */
/* Implements export-case.h. */
#include "golden/export-case.h"

#include <math.h>
#include <string.h>

#include "core/macros.h"
#include "golden/subject.h"
#include "lib/test.h"

enum { BLOCK = 64 };

struct runner *export_runner(const struct model *m, const struct graph *g, uint32_t n_vocab,
                             uint32_t n_hidden)
{
    const struct hparams *hp = model_hparams(m);
    struct runner_params params = {
        .graph = g,
        .layout = kv_layout_full(hp->n_layers, hp->n_kv_heads, hp->head_dim, BLOCK, CODEC_F32, 2),
        .limits = {EXPORT_TOKENS, EXPORT_TOKENS, 1, EXPORT_TOKENS},
        .n_vocab = n_vocab,
        .n_hidden = n_hidden,
    };
    struct backend *backend = subject_cpu();
    const struct state_group *groups;
    struct inf_err err = {0};
    struct runner *r;
    uint32_t n_groups;

    groups = graph_groups(g, &n_groups);
    params.layout.n_groups = MAX(n_groups, 1u);
    for (uint32_t i = 0; i < n_groups; i++) {
        params.layout.groups[i] = groups[i];
        params.layout.n_blocks[i] = 2;
    }
    ASSERT_OK_ERR(runner_new(&backend, &params, &r, &err), err);
    return r;
}

void export_forward_to(struct runner *r, struct kv_table *table, const int32_t *tokens, uint32_t n,
                       uint32_t n_first, const float *input, float *to, float *hidden)
{
    uint32_t rows[EXPORT_TOKENS];

    for (uint32_t i = 0; i < EXPORT_TOKENS; i++)
        rows[i] = i;
    for (uint32_t pos = 0, n_rows; pos < n; pos += n_rows) {
        n_rows = pos == 0 ? n_first : n - pos;
        assert_int_equal(kv_table_extend(table, n_rows), 0);

        const struct batch_seq seq = kv_table_part(table, 0, pos, n_rows);
        const struct batch batch = {.n_rows = n_rows,
                                    .tokens = tokens + pos,
                                    .n_seqs = 1,
                                    .seqs = &seq,
                                    .n_logits = n_rows,
                                    .logit_rows = rows,
                                    .input = input ? input + (size_t)pos * r->n_hidden : NULL};

        ASSERT_OK(runner_forward(r, &batch));
        if (to)
            memcpy(to + (size_t)pos * r->n_vocab, r->logits,
                   (size_t)n_rows * r->n_vocab * sizeof(*to));
        memcpy(hidden + (size_t)pos * r->n_hidden, r->hidden,
               (size_t)n_rows * r->n_hidden * sizeof(*hidden));
    }
}

void export_forward(struct runner *r, const int32_t *tokens, uint32_t n, uint32_t n_first,
                    const float *input, float *to, float *hidden)
{
    struct kv_table table;

    ASSERT_OK(kv_table_init(&table, r->pool, EXPORT_TOKENS));
    export_forward_to(r, &table, tokens, n, n_first, input, to, hidden);
    kv_table_done(&table);
}

double export_nmse(const float *x, const float *want, size_t n)
{
    double error = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        error += pow((double)x[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    return error / all;
}

void export_pairs(const struct export_pair *pairs, size_t n,
                  void (*compare)(const char *path, const char *dir, const char *target))
{
    for (size_t i = 0; i < n; i++) {
        char dir[4200], file[4200], target[4200], sub[128];

        snprintf(sub, sizeof(sub), "models/%s", pairs[i].head);
        snprintf(dir, sizeof(dir), "%s", test_golden(sub));
        snprintf(sub, sizeof(sub), "models/%s.gguf", pairs[i].head);
        snprintf(file, sizeof(file), "%s", test_golden(sub));
        snprintf(sub, sizeof(sub), "models/%s", pairs[i].target);
        snprintf(target, sizeof(target), "%s", test_golden(sub));
        compare(dir, dir, target);
        compare(file, dir, target);
    }
}
