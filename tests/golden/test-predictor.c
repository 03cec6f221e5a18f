/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the layer that predicts a further token with what make_predictors.py computed, for
 * models in both forms: a directory and a GGUF file.
 */
#include <math.h>

#include "core/macros.h"
#include "golden/subject.h"
#include "lib/test.h"
#include "sched/runner.h"

enum { MAX_TOKENS = 128, BLOCK = 64 };

static const char *const names[] = {"qwen3_5-mtp", "qwen3_5_moe-mtp"};

/* Creates a runner that exports hidden states. */
static struct runner *new_runner(const struct model *m, const struct graph *g)
{
    const struct hparams *hp = model_hparams(m);
    struct runner_params params = {
        .graph = g,
        .layout = kv_layout_full(hp->n_layers, hp->n_kv_heads, hp->head_dim, BLOCK, CODEC_F32, 2),
        .limits = {MAX_TOKENS, MAX_TOKENS, 1, MAX_TOKENS},
        .n_vocab = hp->n_vocab,
        .n_hidden = hp->n_embd,
    };
    struct backend *backend = subject_cpu();
    const struct state_group *groups;
    struct inf_err err = {0};
    struct runner *r;

    groups = graph_groups(g, &params.layout.n_groups);
    for (uint32_t i = 0; i < params.layout.n_groups; i++) {
        params.layout.groups[i] = groups[i];
        params.layout.n_blocks[i] = 2;
    }
    ASSERT_OK_ERR(runner_new(&backend, &params, &r, &err), err);
    return r;
}

/* Computes @n tokens in two steps, the first of which has @n_first tokens, and requests the logits
 * of all rows. @to: the logits, [n, n_vocab], or NULL. @hidden: the exported rows, [n, n_hidden].
 */
static void forward(struct runner *r, const int32_t *tokens, uint32_t n, uint32_t n_first,
                    const float *input, float *to, float *hidden)
{
    uint32_t rows[MAX_TOKENS];
    struct kv_table table;

    ASSERT_OK(kv_table_init(&table, r->pool, MAX_TOKENS));
    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        rows[i] = i;
    for (uint32_t pos = 0, n_rows; pos < n; pos += n_rows) {
        n_rows = pos == 0 ? n_first : n - pos;
        assert_int_equal(kv_table_extend(&table, n_rows), 0);

        const struct batch_seq seq = kv_table_part(&table, 0, pos, n_rows);
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
    kv_table_done(&table);
}

static double nmse(const float *x, const float *want, size_t n)
{
    double error = 0, all = 0;

    for (size_t i = 0; i < n; i++) {
        error += pow((double)x[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    return error / all;
}

/* Compares the model at @path with the numbers in the directory @dir. */
static void compare(const char *path, const char *dir)
{
    struct subject s;
    size_t n_tokens, n_logits, n_predicted;
    int32_t *tokens = subject_read(dir, "tokens.bin", &n_tokens);
    float *logits = subject_read(dir, "logits.bin", &n_logits);
    float *predicted = subject_read(dir, "predicted.bin", &n_predicted);
    struct graph *exporting, *predictor;
    struct inf_err err = {0};

    subject_open(&s, path);
    assert_true(model_predicts(s.m));
    ASSERT_OK_ERR(model_build_exporting(s.m, &exporting, &err), err);
    ASSERT_OK_ERR(model_build_predictor(s.m, &predictor, &err), err);

    const uint32_t n = (uint32_t)(n_tokens / sizeof(*tokens)), n_vocab = subject_n_vocab(&s),
                   n_embd = model_hparams(s.m)->n_embd;
    struct runner *model = new_runner(s.m, exporting), *layer = new_runner(s.m, predictor);
    float *made = NEW(float, (size_t)n *n_vocab);
    float *hidden = NEW(float, (size_t)(n + 1) * n_embd), *own = NEW(float, (size_t)n *n_embd);

    assert_int_equal(n_logits, (size_t)n * n_vocab * sizeof(float));
    assert_int_equal(n_predicted, n_logits);
    forward(model, tokens, n, 40, NULL, made, hidden + n_embd);
    assert_true(nmse(made, logits, (size_t)n * n_vocab) < 1e-9);
    forward(layer, tokens, n, 29, hidden, made, own);
    assert_true(nmse(made, predicted, (size_t)n * n_vocab) < 1e-9);
    runner_free(model);
    runner_free(layer);
    graph_free(exporting);
    graph_free(predictor);
    subject_close(&s);
    free(made);
    free(hidden);
    free(own);
    free(tokens);
    free(logits);
    free(predicted);
}

TEST(the_layer_predicts_what_transformers_computes)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char dir[4200], file[4200], sub[128];

        snprintf(sub, sizeof(sub), "models/%s", names[i]);
        snprintf(dir, sizeof(dir), "%s", test_golden(sub));
        snprintf(sub, sizeof(sub), "models/%s.gguf", names[i]);
        snprintf(file, sizeof(file), "%s", test_golden(sub));
        compare(dir, dir);
        compare(file, dir);
    }
}

TEST(a_model_without_the_layer_says_so)
{
    struct inf_err err = {0};
    struct graph *g;
    struct subject s;

    subject_open_golden(&s, "qwen3_5");
    assert_false(model_predicts(s.m));
    assert_int_equal(model_build_predictor(s.m, &g, &err), -EOPNOTSUPP);
    subject_close(&s);
}

RUN_TESTS(cmocka_unit_test(the_layer_predicts_what_transformers_computes),
          cmocka_unit_test(a_model_without_the_layer_says_so))
