/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that the logits of a text do not depend, bit for bit, on how its rows are spread over
 * steps. For a tiny model of each family, the logits of one step are compared with those of two
 * steps, cut at every position; of steps of a few rows; of steps that also compute another text; of
 * other numbers of threads; and of a text that is continued from a snapshot. The tests run on
 * each instruction set of the CPU or on $SCONCE_DEVICE.
 */
#include "golden/family-run.h"
#include "golden/logits-case.h"
#include "lib/draw.h"

static const char *const files[] = {
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_next",
    "qwen3_moe",
    "qwen2_moe",
    "mixtral",
    "gemma2",
    "gemma3",
    "gemma4",
    "gemma4-keys",
    "gemma4-moe",
    "qwen3-yarn",
    "bitnet-plain",
    "qwen2-tied",
    "llama-gqa",
    "gpt_oss.gguf",
    "gpt_oss-plain.gguf",
    "qwen3_5.gguf",
};

struct ways {
    const char *name;
    const struct test_target *on;
    struct family_run run;
    float *whole, *logits; /* [n_tokens, n_vocab]; whole: the logits of one step */
};

/* Compares the logits of one way of cutting with those of one step. @how: the way; @at: its
 * parameter; @r: the result of the computation. */
static void compare(struct ways *w, int r, const char *how, uint32_t at)
{
    const size_t row = w->run.n_vocab * sizeof(float);

    if (r < 0)
        fail_msg("%s on %s, %s %u: error %d", w->name, w->on->name, how, at, r);
    for (uint32_t i = 0; i < w->run.n_tokens; i++)
        if (memcmp((char *)w->logits + i * row, (char *)w->whole + i * row, row) != 0)
            fail_msg("%s on %s, %s %u: row %u differs", w->name, w->on->name, how, at, i);
    memset(w->logits, 0xff, w->run.n_tokens * row);
}

/* Returns whether to run a way now. */
static bool is_drawn(const struct ways *w)
{
    return test_drawn(strcmp(w->on->device, "cpu") == 0 ? 2 : 5);
}

static void check_steps(struct ways *w)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 8, 16, 17, 31, 33, 64};
    struct family_run *r = &w->run;

    for (uint32_t i = 1; i < r->n_tokens; i++)
        if (is_drawn(w))
            compare(w, family_run_cut(r, i, w->logits), "cut at", i);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        if (is_drawn(w))
            compare(w, family_run_steps(r, sizes[i], w->logits), "in steps of", sizes[i]);
        if (is_drawn(w))
            compare(w, family_run_beside(r, sizes[i], w->logits), "beside steps of", sizes[i]);
    }
    for (uint32_t i = 1; i * FAMILY_BLOCK < r->n_tokens; i++)
        compare(w, family_run_resume(r, i, w->logits), "continued from block", i);
}

/* Opens the model on @w->on with @n_threads threads. */
static void ways_open(const struct ways *w, const struct golden *g, const char *path,
                      uint32_t n_threads, struct family_run *ret_run)
{
    const struct backend_params params = {
        .device = w->on->device, .isa = w->on->isa, .n_threads = n_threads};
    struct inf_err err = {0};

    ASSERT_OK_ERR(family_run_open(path, &params, g->tokens, (uint32_t)g->n_tokens, ret_run, &err),
                  err);
}

static void check_threads(struct ways *w, const struct golden *g, const char *path)
{
    for (uint32_t n = 2; n <= 3; n++) {
        struct family_run run;

        ways_open(w, g, path, n, &run);
        compare(w, family_run_steps(&run, run.n_tokens, w->logits), "threads", n);
        compare(w, family_run_steps(&run, 7, w->logits), "in steps of 7, threads", n);
        family_run_done(&run);
    }
}

static void check(const char *name, const struct test_target *on)
{
    struct ways w = {.name = name, .on = on};
    struct golden g;
    char dir[64], path[4096 + sizeof(".gguf")];

    snprintf(dir, sizeof(dir), "%.*s", (int)strcspn(name, "."), name);
    golden_open(&g, dir);
    snprintf(path, sizeof(path), "%s%s", g.path, strlen(name) > strlen(dir) ? ".gguf" : "");
    ways_open(&w, &g, path, 1, &w.run);
    w.whole = calloc(g.n_tokens * g.n_vocab, sizeof(float));
    w.logits = calloc(g.n_tokens * g.n_vocab, sizeof(float));
    assert_true(w.whole && w.logits);
    ASSERT_OK(family_run_steps(&w.run, w.run.n_tokens, w.whole));
    check_steps(&w);
    if (strcmp(on->device, "cpu") == 0)
        check_threads(&w, &g, path);
    free(w.whole);
    free(w.logits);
    family_run_done(&w.run);
    golden_done(&g);
}

TEST(logits_do_not_depend_on_steps)
{
    struct test_target on;

    for (size_t t = 0; test_target_at(t, &on); t++)
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
            /* lavapipe takes seconds to compile the kernels of a model. */
            if (strcmp(on.device, "cpu") == 0 || test_drawn(3))
                check(files[i], &on);
}

RUN_TESTS(cmocka_unit_test(logits_do_not_depend_on_steps))
