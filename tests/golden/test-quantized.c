/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares tiny random models whose files hold quantized weights in Hugging Face layout with
 * transformers (make_families.py): packed ternary weights of BitNet, MXFP4 of gpt-oss, and affine
 * weights of MLX. Compares models in all formats of MLX with mlx-lm (make_mlx.py), which computes
 * in single precision. The graph is computed in double precision. The engine computes on every
 * instruction set of the CPU, or on $SCONCE_DEVICE. On the CPU it rounds the inputs of products to
 * int8: BitNet defines this rounding, and the other formats lose precision by it.
 */
#include <infer/bench.h>
#include <infer/engine.h>

#include <string.h>

#include "core/file.h"
#include "golden/logits-case.h"
#include "golden/subject.h"
#include "lib/draw.h"
#include "lib/open_model.h"

static const struct quantized {
    const char *name;
    /* Limits of the engine's error where it rounds inputs of products to int8 (the CPU, and GPUs
     * that multiply bytes), and where it does not. With codes of MLX, keys and values are stored as
     * F16. */
    double rounded, exact;
} models[] = {
    {"bitnet", 1e-9, 1e-9},
    {"gpt_oss", 2e-3, 1e-9},
    {"mlx2", 2e-3, 1e-6},
    {"mlx-llama-nvfp4", 2e-3, 1e-6},
    {"mlx-qwen3-6bit", 2e-3, 1e-6},
    {"mlx-qwen3_5_moe-8bit", 2e-2, 1e-6},
    {"mlx-gemma4-3bit", 2e-2, 1e-6},
    {"mlx-gemma4-mxfp8", 2e-2, 1e-6},
    {"mlx-gpt_oss-mxfp4", 2e-2, 1e-6},
    {"mlx-gemma3n-4bit", 2e-2, 1e-6},
    {"gptq4", 2e-3, 1e-6},
    {"gptq3", 2e-3, 1e-6},
    {"gptq8", 2e-3, 1e-6},
    {"awq4", 2e-3, 1e-6},
    {"ct4", 2e-3, 1e-6},
    {"ct8", 2e-3, 1e-6},
    {"fp8", 1e-9, 1e-6},
    {"ctfp4", 2e-3, 1e-6},
    {"nf4", 1e-9, 1e-6},
    {"gptq4-moe", 2e-2, 1e-6},
    {"awq4-moe", 2e-2, 1e-6},
    {"paro", 2e-3, 1e-6},
    {"paro-moe", 2e-2, 1e-6},
};

TEST(graphs_compute_what_transformers_computes)
{
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        struct inf_err err = {0};
        struct format *f;
        struct golden g;
        double e;

        golden_open(&g, models[i].name);
        ASSERT_OK_ERR(format_open(g.path, 0, model_archs(), &f, &err), err);
        e = golden_eval(&g, f);
        print_message("%-8s NMSE %.2g\n", models[i].name, e);
        assert_true(e < 1e-11);
        format_close(f);
        golden_done(&g);
    }
}

/* Returns whether inputs of products may be rounded. Products of experts multiply bytes on GPUs
 * that support this. Whether other products on a GPU round depends on the device and its
 * features. */
static bool may_round(const struct test_target *on)
{
    return on->gpu || strcmp(on->device, "cpu") == 0;
}

/* Returns whether to test a model on a target now. A software device takes seconds to open a model,
 * so it is tested only in one of @one_in runs. */
static bool is_drawn(const struct test_target *on, unsigned one_in)
{
    return may_round(on) || test_drawn(one_in);
}

static double limit_on(const struct quantized *q, const struct test_target *on)
{
    return may_round(on) ? MAX(q->rounded, q->exact) : q->exact;
}

TEST(the_engine_computes_nearly_the_same)
{
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        struct test_target on;
        struct golden g;
        struct inf_model *model;

        golden_open(&g, models[i].name);
        model = open_model(g.path);
        for (size_t j = 0; test_target_at(j, &on); j++) {
            double e;

            if (!is_drawn(&on, 8))
                continue;
            e = golden_run(&g, model, &on);
            print_message("%-8s %-8s NMSE %.2g\n", models[i].name, on.name, e);
            assert_true(e < limit_on(&models[i], &on));
        }
        inf_model_unref(model);
        golden_done(&g);
    }
}

/* Computes the logits of the first @n tokens of the text. The caller frees them. */
static float *logits_of(const struct golden *g, const char *path, const struct test_target *on,
                        uint32_t n_threads, size_t n)
{
    struct inf_model *model = open_model(path);
    const struct inf_logits_params params = {
        .model = model, .device = on->device, .isa = on->isa, .n_threads = n_threads};
    struct inf_err err = {0};
    float *logits;

    ASSERT_OK_ERR(inf_logits(&params, g->tokens, n, &logits, &err), err);
    inf_model_unref(model);
    return logits;
}

TEST(a_row_does_not_depend_on_other_rows_or_on_threads)
{
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        struct test_target on;
        struct golden g;

        golden_open(&g, models[i].name);
        for (size_t j = 0; test_target_at(j, &on); j++) {
            float *all;

            if (on.gpu || !is_drawn(&on, 12))
                continue;
            print_message("%-8s %s\n", models[i].name, on.name);
            all = logits_of(&g, g.path, &on, 2, g.n_tokens);
            for (size_t n = 1; n < 8; n += 2) {
                float *first = logits_of(&g, g.path, &on, 1, n);

                assert_memory_equal(first, all, n * g.n_vocab * sizeof(*all));
                free(first);
            }
            free(all);
        }
        golden_done(&g);
    }
}

/* Checks @made, the most likely tokens after the text according to mlx-lm. Where inputs of products
 * are rounded, logits that are nearly equal may change their order. Models with experts are not
 * checked there, because rounding may also change the choice of experts. */
static void check_made(const struct golden *g, const struct test_target *on, const int32_t *made,
                       size_t n_made)
{
    const float slack = may_round(on) ? 0.25f : 1e-3f;
    struct golden longer = *g;
    float *logits;

    longer.tokens = calloc(g->n_tokens + n_made, sizeof(*longer.tokens));
    assert_non_null(longer.tokens);
    memcpy(longer.tokens, g->tokens, g->n_tokens * sizeof(*longer.tokens));
    memcpy(longer.tokens + g->n_tokens, made, n_made * sizeof(*made));
    logits = logits_of(&longer, g->path, on, 2, g->n_tokens + n_made - 1);
    for (size_t i = 0; i < n_made; i++) {
        const float *row = logits + (g->n_tokens - 1 + i) * g->n_vocab;

        for (size_t t = 0; t < g->n_vocab; t++)
            if (!(row[made[i]] >= row[t] - slack))
                fail_msg("%s on %s: token %zu has %g, and another has %g", g->path, on->name, i,
                         (double)row[made[i]], (double)row[t]);
    }
    free(logits);
    free(longer.tokens);
}

TEST(the_most_likely_tokens_are_those_of_mlx)
{
    for (size_t i = 0; i < ARRAY_SIZE(models); i++) {
        struct test_target on;
        struct golden g;
        int32_t *made;
        size_t size;

        if (strncmp(models[i].name, "mlx-", 4) != 0)
            continue;
        golden_open(&g, models[i].name);
        made = subject_read(g.path, "greedy.bin", &size);
        for (size_t j = 0; test_target_at(j, &on); j++)
            if (is_drawn(&on, 8) && (!may_round(&on) || models[i].rounded < 1e-2))
                check_made(&g, &on, made, size / sizeof(*made));
        free(made);
        golden_done(&g);
    }
}

TEST(mxfp4_of_both_layouts_gives_the_same_bits)
{
    struct test_target on;
    struct golden g;
    char gguf[4096 + sizeof(".gguf")];

    golden_open(&g, "gpt_oss");
    snprintf(gguf, sizeof(gguf), "%s.gguf", g.path);
    for (size_t i = 0; test_target_at(i, &on); i++) {
        float *dir, *file;

        if (!is_drawn(&on, 4))
            continue;
        dir = logits_of(&g, g.path, &on, 2, g.n_tokens);
        file = logits_of(&g, gguf, &on, 2, g.n_tokens);
        assert_memory_equal(dir, file, g.n_tokens * g.n_vocab * sizeof(*dir));
        free(dir);
        free(file);
    }
    golden_done(&g);
}

RUN_TESTS(cmocka_unit_test(graphs_compute_what_transformers_computes),
          cmocka_unit_test(the_engine_computes_nearly_the_same),
          cmocka_unit_test(a_row_does_not_depend_on_other_rows_or_on_threads),
          cmocka_unit_test(the_most_likely_tokens_are_those_of_mlx),
          cmocka_unit_test(mxfp4_of_both_layouts_gives_the_same_bits))
