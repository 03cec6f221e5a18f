/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares tiny random models of every architecture with transformers (make_models.py), as Hugging
 * Face directories and as GGUF files. First the model's graph is computed in double precision. Then
 * the engine runs the model, with every instruction set of the CPU or on $SCONCE_DEVICE.
 */
#include "convert.h"
#include "golden/logits-case.h"
#include "lib/draw.h"

static const char *const names[] = {
    "llama-gqa",      "llama3-scaled", "llama-linear",     "llama-yarn",
    "mistral-window", "qwen2-tied",    "qwen2-window-mix", "qwen3-norm",
    "qwen3-bf16",     "mistral-mix",   "llama-own-head",
};

TEST(graphs_of_directories_compute_what_transformers_computes)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inf_err err = {0};
        struct format *f;
        struct golden g;
        double e;

        golden_open(&g, names[i]);
        ASSERT_OK_ERR(format_open(g.path, 0, model_archs(), &f, &err), err);
        e = golden_eval(&g, f);
        print_message("%-18s NMSE %.2g\n", names[i], e);
        assert_true(e < 1e-11);
        format_close(f);
        golden_done(&g);
    }
}

/* GGUF has no key for the activation, so only models with the usual one can be converted. */
static bool has_gguf(const struct format *f)
{
    return format_hparams(f)->act == GRAPH_ACT_SILU;
}

TEST(graphs_of_gguf_files_compute_the_same)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct format *dir, *f;
        struct inf_err err = {0};
        struct golden g;
        char *path;
        double e;

        golden_open(&g, names[i]);
        ASSERT_OK_ERR(format_open(g.path, 0, model_archs(), &dir, &err), err);
        if (has_gguf(dir)) {
            path = convert_to_gguf(dir);
            ASSERT_OK_ERR(format_open(path, 0, model_archs(), &f, &err), err);
            ASSERT_STREQ(format_kind(f), "gguf");
            e = golden_eval(&g, f);
            print_message("%-18s NMSE %.2g\n", names[i], e);
            assert_true(e < 1e-11);
            format_close(f);
            unlink(path);
            free(path);
        }
        format_close(dir);
        golden_done(&g);
    }
}

/* Returns the allowed NMSE. Models of half precision also store K and V in half precision. CPUs
 * that multiply bfloat16 round the rows of products with BF16 weights to 8 bits, and CPUs that
 * multiply F16 round sums. */
static double engine_bound(const struct inf_model *model, const struct test_target *on)
{
    const enum inf_dtype dtype = inf_model_info(model)->dtype;
    unsigned flags = 0;

    if (dtype == INF_DTYPE_F32)
        return 1e-9;
    /* GPUs may multiply numbers in half precision. */
    if (!on->isa)
        return 2e-4;
    assert_int_equal(cpu_rung_flags(on->isa, &flags), 0);
    if (dtype == INF_DTYPE_F16 && (flags & CPU_AVX512_FP16))
        return 3e-5;
    return dtype == INF_DTYPE_BF16 && (flags & CPU_AVX512_BF16) ? 2e-4 : 1e-5;
}

static void check_engine(const char *name, const char *path, const struct golden *g)
{
    const struct inf_model_params params = {.path = path};
    struct inf_err err = {0};
    struct test_target on;
    struct inf_model *model;

    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    for (size_t i = 0; test_target_at(i, &on); i++) {
        double e;

        /* lavapipe takes seconds for each model. */
        if (strcmp(on.device, "cpu") != 0 && !test_drawn(3))
            continue;
        e = golden_run(g, model, &on);
        print_message("%-18s %-8s NMSE %.2g\n", name, on.name, e);
        assert_true(e < engine_bound(model, &on));
    }
    inf_model_unref(model);
}

TEST(the_engine_computes_the_same)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inf_err err = {0};
        struct format *dir;
        struct golden g;

        golden_open(&g, names[i]);
        check_engine(names[i], g.path, &g);
        ASSERT_OK_ERR(format_open(g.path, 0, model_archs(), &dir, &err), err);
        if (has_gguf(dir)) {
            char *path = convert_to_gguf(dir);

            check_engine(names[i], path, &g);
            unlink(path);
            free(path);
        }
        format_close(dir);
        golden_done(&g);
    }
}

RUN_TESTS(cmocka_unit_test(graphs_of_directories_compute_what_transformers_computes),
          cmocka_unit_test(graphs_of_gguf_files_compute_the_same),
          cmocka_unit_test(the_engine_computes_the_same))
