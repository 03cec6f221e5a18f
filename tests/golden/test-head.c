/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares draft heads with what make_heads.py computed, in both forms: a directory and a GGUF
 * file.
 */
#include <errno.h>

#include "core/macros.h"
#include "golden/export-case.h"
#include "golden/subject.h"
#include "lib/test.h"

static const struct export_pair pairs[] = {{"eagle3-llama", "llama-gqa"},
                                           {"eagle3-qwen3", "qwen3-norm"}};

/* Compares the head at @path with the numbers in the directory @dir. */
static void compare(const char *path, const char *dir, const char *target_dir)
{
    size_t n_tokens, n_predicted, n_own, n_logits;
    int32_t *tokens = subject_read(target_dir, "tokens.bin", &n_tokens);
    float *logits = subject_read(target_dir, "logits.bin", &n_logits);
    float *predicted = subject_read(dir, "predicted.bin", &n_predicted);
    float *own = subject_read(dir, "own.bin", &n_own);
    struct graph *tapped, *graph;
    struct inf_err err = {0};
    struct subject target, head;
    uint32_t n_head;

    subject_open(&target, target_dir);
    subject_open(&head, path);
    assert_true(model_is_head(head.m));
    assert_non_null(model_head_tokens(head.m, &n_head));
    ASSERT_OK_ERR(model_head_fits(head.m, target.m, &err), err);
    ASSERT_OK_ERR(model_build_tapped(target.m, head.m, &tapped, &err), err);
    ASSERT_OK_ERR(model_build_head(head.m, target.m, &graph, &err), err);

    const uint32_t n = (uint32_t)(n_tokens / sizeof(*tokens)), n_vocab = subject_n_vocab(&target),
                   width = model_hparams(head.m)->n_embd;
    struct runner *model = export_runner(target.m, tapped, n_vocab, width);
    struct runner *layer = export_runner(head.m, graph, n_head, width);
    float *made = NEW(float, (size_t)n *n_vocab);
    float *hidden = NEW(float, (size_t)n *width), *stream = NEW(float, (size_t)n *width);

    assert_int_equal(n_predicted, (size_t)(n - 1) * n_head * sizeof(float));
    assert_int_equal(n_own, (size_t)(n - 1) * width * sizeof(float));
    export_forward(model, tokens, n, 25, NULL, made, hidden);
    assert_true(export_nmse(made, logits, (size_t)n * n_vocab) < 1e-9);
    export_forward(layer, tokens + 1, n - 1, 17, hidden, made, stream);
    assert_true(export_nmse(made, predicted, (size_t)(n - 1) * n_head) < 1e-9);
    assert_true(export_nmse(stream, own, (size_t)(n - 1) * width) < 1e-9);
    runner_free(model);
    runner_free(layer);
    graph_free(tapped);
    graph_free(graph);
    subject_close(&head);
    subject_close(&target);
    free(made);
    free(hidden);
    free(stream);
    free(tokens);
    free(logits);
    free(predicted);
    free(own);
}

TEST(heads_predict_what_the_formulas_say)
{
    export_pairs(pairs, ARRAY_SIZE(pairs), compare);
}

TEST(a_head_computes_neither_text_nor_vectors)
{
    const struct model_embed how = {.make = MODEL_MAKE_VECTOR, .pooling = POOLING_LAST};
    struct inf_err err = {0};
    struct subject s;
    struct graph *g;

    subject_open_golden(&s, "eagle3-llama");
    assert_int_equal(model_build(s.m, &g, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "only drafts tokens"));
    assert_int_equal(model_build_embed(s.m, &how, &g, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "only drafts tokens"));
    subject_close(&s);
}

TEST(a_head_of_another_model_is_refused)
{
    struct inf_err err = {0};
    struct subject head, target;

    subject_open_golden(&head, "eagle3-llama");
    subject_open_golden(&target, "qwen3-norm");
    assert_int_equal(model_head_fits(head.m, target.m, &err), -EINVAL);
    assert_non_null(strstr(err.text, "width"));
    subject_close(&head);
    subject_close(&target);
}

RUN_TESTS(cmocka_unit_test(heads_predict_what_the_formulas_say),
          cmocka_unit_test(a_head_computes_neither_text_nor_vectors),
          cmocka_unit_test(a_head_of_another_model_is_refused))
