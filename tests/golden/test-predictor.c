/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the layer that predicts a further token with what make_predictors.py computed, for
 * models in both forms: a directory and a GGUF file.
 */
#include "core/macros.h"
#include "golden/export-case.h"
#include "golden/subject.h"
#include "lib/test.h"

static const char *const names[] = {"qwen3_5-mtp", "qwen3_5_moe-mtp"};

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
    struct runner *model = export_runner(s.m, exporting, n_vocab, n_embd),
                  *layer = export_runner(s.m, predictor, n_vocab, n_embd);
    float *made = NEW(float, (size_t)n *n_vocab);
    float *hidden = NEW(float, (size_t)(n + 1) * n_embd), *own = NEW(float, (size_t)n *n_embd);

    assert_int_equal(n_logits, (size_t)n * n_vocab * sizeof(float));
    assert_int_equal(n_predicted, n_logits);
    export_forward(model, tokens, n, 40, NULL, made, hidden + n_embd);
    assert_true(export_nmse(made, logits, (size_t)n * n_vocab) < 1e-9);
    export_forward(layer, tokens, n, 29, hidden, made, own);
    assert_true(export_nmse(made, predicted, (size_t)n * n_vocab) < 1e-9);
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
