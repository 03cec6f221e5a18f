/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a tiny random model of each family with transformers (make_families.py), as a Hugging
 * Face directory and as the GGUF file that llama.cpp's converter made of it. First the model's
 * graph is computed in double precision. Then the engine computes the logits, and continues the
 * text with the most likely tokens, with every instruction set of the CPU or on $SCONCE_DEVICE.
 */
#include <infer/engine.h>

#include "core/file.h"
#include "golden/logits-case.h"
#include "golden/subject.h"
#include "lib/open_model.h"
#include "lib/draw.h"

static const char *const families[] = {
    "qwen3_5",      "qwen3_5_moe", "qwen3_next",  "qwen3_moe",       "qwen2_moe",
    "mixtral",      "gemma2",      "gemma3",      "gemma4",          "gemma4-keys",
    "gemma4-moe",   "gemma3n",     "gpt_oss",     "qwen3-yarn",      "gpt_oss-plain",
    "bitnet-plain", "bitnet-silu", "qwen3_5-mtp", "qwen3_5_moe-mtp",
};
/* Models of this architecture are only read from GGUF files. */
static const char gpt_oss[] = "gpt_oss";
/* This model has experts in MXFP4. */
static const char quantized[] = "gpt_oss";

enum { CHUNK = 10 };

typedef void (*check_fn)(const struct golden *g, const char *name, const char *path);

/* Checks each family's directory, and its GGUF file if it has one. */
static void check_all(check_fn check)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        char gguf[4096 + sizeof(".gguf")];
        struct golden g;

        golden_open(&g, families[i]);
        if (strncmp(families[i], gpt_oss, strlen(gpt_oss)) != 0)
            check(&g, families[i], g.path);
        snprintf(gguf, sizeof(gguf), "%s.gguf", g.path);
        if (path_exists(gguf))
            check(&g, families[i], gguf);
        golden_done(&g);
    }
}

static void check_graph(const struct golden *g, const char *name, const char *path)
{
    struct inf_err err = {0};
    struct format *f;
    double e;

    ASSERT_OK_ERR(format_open(path, 0, model_archs(), &f, &err), err);
    e = golden_eval(g, f);
    print_message("%-12s %-5s NMSE %.2g\n", name, format_kind(f), e);
    assert_true(e < 1e-11);
    format_close(f);
}

TEST(graphs_compute_what_transformers_computes)
{
    check_all(check_graph);
}

/* Returns whether to test a device now. lavapipe takes seconds for each model. */
static bool is_drawn(const struct test_target *on)
{
    return strcmp(on->device, "cpu") == 0 || test_drawn(6);
}

/* Returns the largest error that is allowed. On the CPU, the inputs of products with quantized
 * weights are rounded to 8 bits. That also changes the choice of experts for some rows. */
static double bound_of(const char *name, const struct test_target *on)
{
    return strcmp(on->device, "cpu") == 0 && strcmp(name, quantized) == 0 ? 1e-2 : 1e-9;
}

static void check_engine(const struct golden *g, const char *name, const char *path)
{
    struct inf_model *model = open_model(path);
    struct test_target on;

    for (size_t i = 0; test_target_at(i, &on); i++) {
        double e;

        if (!is_drawn(&on))
            continue;
        e = golden_run(g, model, &on);
        print_message("%-12s %-8s NMSE %.2g\n", name, on.name, e);
        assert_true(e < bound_of(name, &on));
    }
    inf_model_unref(model);
}

TEST(the_engine_computes_the_same)
{
    check_all(check_engine);
}

/* Rounding must explain the whole error of the CPU with quantized weights. */
TEST(rounded_inputs_explain_the_error_of_quantized_experts)
{
    struct inf_model *model;
    struct inf_err err = {0};
    struct test_target on;
    struct format *f;
    struct golden g;
    char gguf[4096 + sizeof(".gguf")];

    golden_open(&g, quantized);
    snprintf(gguf, sizeof(gguf), "%s.gguf", g.path);
    ASSERT_OK_ERR(format_open(gguf, 0, model_archs(), &f, &err), err);
    model = open_model(gguf);
    for (size_t i = 0; test_target_at(i, &on) && strcmp(on.device, "cpu") == 0; i++) {
        const struct golden_rounding e = golden_run_rounded(&g, f, model, &on);

        print_message("%-8s NMSE %.2g, %zu of %zu rows are close\n", on.name, e.nmse, e.n_close,
                      g.n_tokens);
        assert_true(e.nmse < 1e-3 && e.n_close > g.n_tokens / 4);
    }
    inf_model_unref(model);
    format_close(f);
    golden_done(&g);
}

/* Reads the tokens of a request until it ends. */
static size_t read_tokens(struct inf_engine *engine, int32_t *tokens, size_t max)
{
    struct inf_event e;
    size_t n = 0;

    while (inf_engine_wait_event(engine, 60000, &e) == 1) {
        if (e.kind == INF_EVENT_FINISH) {
            assert_int_equal(e.finish, INF_FINISH_LENGTH);
            return n;
        }
        for (size_t i = 0; e.kind == INF_EVENT_TOKENS && i < e.n_tokens; i++) {
            assert_true(n < max);
            tokens[n++] = e.tokens[i].token;
        }
    }
    fail_msg("no event within a minute");
    return 0;
}

/* Continues the text twice: the second request may find the beginning of its prompt in the cache.
 * The prompt is computed in chunks. */
static void tell(const struct golden *g, struct inf_model *model, const struct test_target *on,
                 const int32_t *want, size_t n)
{
    const struct inf_engine_params params = {.model = model,
                                             .device = on->device,
                                             .isa = on->isa,
                                             .n_threads = 2,
                                             .max_batch_tokens = CHUNK};
    const struct inf_request q = {.tokens = g->tokens,
                                  .n_tokens = g->n_tokens,
                                  .max_tokens = (uint32_t)n,
                                  .ignore_eos = true,
                                  .n_logprobs = -1};
    struct inf_err err = {0};
    struct inf_engine *engine;
    int32_t tokens[64];
    uint64_t id;

    ASSERT_OK_ERR(inf_engine_new(&params, &engine, &err), err);
    for (int turn = 0; turn < 2; turn++) {
        ASSERT_OK_ERR(inf_engine_submit(engine, &q, &id, &err), err);
        assert_int_equal(read_tokens(engine, tokens, 64), n);
        assert_memory_equal(tokens, want, n * sizeof(*tokens));
    }
    inf_engine_free(engine);
}

static void check_text(const struct golden *g, const char *name, const char *path)
{
    struct inf_model *model = open_model(path);
    struct test_target on;
    size_t size;
    int32_t *want = subject_read(g->path, "greedy.bin", &size);

    print_message("%s\n", name);
    for (size_t i = 0; test_target_at(i, &on); i++)
        if (is_drawn(&on) && bound_of(name, &on) < 1e-6)
            tell(g, model, &on, want, size / sizeof(*want));
    free(want);
    inf_model_unref(model);
}

TEST(the_most_likely_tokens_are_those_of_transformers)
{
    check_all(check_text);
}

RUN_TESTS(cmocka_unit_test(graphs_compute_what_transformers_computes),
          cmocka_unit_test(the_engine_computes_the_same),
          cmocka_unit_test(rounded_inputs_explain_the_error_of_quantized_experts),
          cmocka_unit_test(the_most_likely_tokens_are_those_of_transformers))
