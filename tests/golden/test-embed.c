/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares tiny random encoders with transformers (make_embed_models.py), on every instruction set
 * level of the CPU: texts alone, texts in one batch, and a large request that a small request
 * interrupts.
 */
#include <infer/embed.h>
#include <infer/engine.h>

#include <errno.h>
#include <math.h>
#include <unistd.h>

#include "convert.h"
#include "embed-case.h"
#include "lib/device.h"
#include "model/model.h"

static const char *const names[] = {
    "bert-mean", "bert-cls-dense", "bert-rank",       "roberta-mean", "xlmr-rank",
    "bert-f16",  "nomic",          "qwen3-last",      "qwen3-rank",   "gemma",
    "gemma-old", "modernbert",     "modernbert-rank", "gte",          "gte-new",
    "gte-rank",  "qwen3-saved",    "llama-saved",     "bert-saved"};

static uint64_t submit(struct inf_embedder *e, const struct inf_embed_text *texts, size_t n,
                       bool bulk)
{
    const struct inf_embed_request q = {.texts = texts, .n_texts = n, .bulk = bulk};
    struct inf_err err = {0};
    uint64_t id;

    ASSERT_OK_ERR(inf_embedder_submit(e, &q, &id, &err), err);
    return id;
}

static double nmse(const float *x, const float *want, size_t n)
{
    double err = 0, sum = 0;

    for (size_t i = 0; i < n; i++) {
        err += pow((double)x[i] - (double)want[i], 2);
        sum += pow((double)want[i], 2);
    }
    return err / sum;
}

static void check_rung(const char *name, const struct embed_case *g, struct inf_model *model,
                       const char *isa, bool exact)
{
    struct inf_embedder *e = embed_case_embedder(g, model, isa, 2, 0, exact);
    float alone[EMBED_CASE_TEXTS][EMBED_CASE_WIDTH];
    struct inf_embed_result *r;
    double worst = 0;

    for (size_t i = 0; i < g->n; i++) {
        submit(e, &g->texts[i], 1, false);
        r = inf_embedder_wait_result(e, -1);
        assert_int_equal(r->error, 0);
        memcpy(alone[i], r->vectors, g->width * sizeof(float));
        worst = fmax(worst, nmse(alone[i], g->want[i], g->width));
        inf_embed_result_free(r);
    }
    print_message("%-16s %-8s NMSE %.2g\n", name, isa, worst);
    /* Rows and weights may be rounded to BF16, or rows and sums to F16; each error is at most 2^-9.
     * F32 numbers are split into two BF16 numbers. */
    assert_true(worst < (exact                                           ? 1e-9
                         : inf_model_info(model)->dtype == INF_DTYPE_F32 ? 1e-8
                                                                         : 1e-4));

    submit(e, g->texts, g->n, false);
    r = inf_embedder_wait_result(e, -1);
    assert_int_equal(r->n_vectors, g->n);
    for (size_t i = 0; i < g->n; i++)
        assert_memory_equal(r->vectors + i * g->width, alone[i], g->width * sizeof(float));
    inf_embed_result_free(r);
    inf_embedder_free(e);
}

TEST(vectors_and_scores_are_those_of_transformers)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inf_model *model;
        struct test_target on;
        struct embed_case g;

        embed_case_open(&g, names[i]);
        model = embed_case_model(&g);
        for (size_t j = 0; test_target_at(j, &on); j++)
            check_rung(names[i], &g, model, on.isa, true);
        for (size_t j = 0; test_target_at(j, &on); j++)
            check_rung(names[i], &g, model, on.isa, false);
        inf_model_unref(model);
    }
}

/* Converted files have the tensor names and keys of llama.cpp. */
TEST(gguf_files_make_the_same_vectors)
{
    static const char *const converted[] = {"bert-mean",      "bert-rank", "nomic",
                                            "qwen3-last",     "gemma-old", "modernbert",
                                            "modernbert-rank"};

    for (size_t i = 0; i < sizeof(converted) / sizeof(converted[0]); i++) {
        struct inf_err err = {0};
        struct inf_model *model;
        struct format *f;
        struct embed_case g;
        char *path;

        embed_case_open(&g, converted[i]);
        ASSERT_OK_ERR(format_open(g.path, 0, model_archs(), &f, &err), err);
        path = convert_to_gguf(f);
        snprintf(g.path, sizeof(g.path), "%s", path);
        format_close(f);
        model = embed_case_model(&g);
        check_rung(converted[i], &g, model, "ref", true);
        inf_model_unref(model);
        unlink(path);
        free(path);
    }
}

static uint64_t submit_task(struct inf_embedder *e, const struct embed_case *g, size_t i)
{
    const struct inf_embed_request q = {.texts = &g->texts[i], .n_texts = 1, .task = g->tasks[i]};
    struct inf_err err = {0};
    uint64_t id;

    ASSERT_OK_ERR(inf_embedder_submit(e, &q, &id, &err), err);
    return id;
}

/* Compares the vector of each text, or the vector of the last token of each text. */
static void check_tasks(const struct embed_case *g, struct inf_model *model, const char *isa)
{
    struct inf_embedder *e = embed_case_embedder(g, model, isa, 2, 0, true);
    float alone[EMBED_CASE_TEXTS][EMBED_CASE_WIDTH];
    struct inf_embed_result *r;
    uint64_t ids[EMBED_CASE_TEXTS];
    double worst = 0;

    for (size_t i = 0; i < g->n; i++) {
        submit_task(e, g, i);
        r = inf_embedder_wait_result(e, -1);
        assert_int_equal(r->n_vectors, g->kind == INF_EMBED_ROWS ? g->texts[i].n_tokens : 1);
        memcpy(alone[i], r->vectors + (r->n_vectors - 1) * g->width, g->width * sizeof(float));
        worst = fmax(worst, nmse(alone[i], g->want[i], g->width));
        inf_embed_result_free(r);
    }
    print_message("%-16s %-8s NMSE %.2g\n", "tasks", isa, worst);
    assert_true(worst < 1e-9);

    /* Texts of different tasks are never in one batch. */
    for (size_t i = 0; i < g->n; i++)
        ids[i] = submit_task(e, g, i);
    for (size_t i = 0; i < g->n; i++) {
        r = inf_embedder_wait_result(e, -1);
        for (size_t j = 0; j < g->n; j++)
            if (ids[j] == r->request)
                assert_memory_equal(r->vectors + (r->n_vectors - 1) * g->width, alone[j],
                                    g->width * sizeof(float));
        inf_embed_result_free(r);
    }
    inf_embedder_free(e);
}

TEST(adapters_of_tasks_give_the_expected_vectors)
{
    static const char *const files[] = {"case.json", "case-rows.json"};
    struct test_target on;
    struct embed_case g;

    for (size_t i = 0; i < 2; i++) {
        struct inf_model *model;

        embed_case_read(&g, "jina-v4", files[i]);
        model = embed_case_model(&g);
        for (size_t j = 0; test_target_at(j, &on); j++)
            check_tasks(&g, model, on.isa);
        inf_model_unref(model);
    }
}

TEST(tasks_have_names)
{
    struct inf_embed_request q = {.n_texts = 1, .task = "clustering"};
    struct inf_err err = {0};
    struct inf_embedder *e;
    struct inf_model *model;
    struct embed_case g;
    uint64_t id;

    embed_case_open(&g, "jina-v4");
    model = embed_case_model(&g);
    e = embed_case_embedder(&g, model, NULL, 1, 0, true);
    ASSERT_STREQ(inf_embedder_task(e, 0), "retrieval");
    ASSERT_STREQ(inf_embedder_task(e, 2), "code");
    assert_null(inf_embedder_task(e, 3));
    q.texts = g.texts;
    assert_int_equal(inf_embedder_submit(e, &q, &id, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no task \"clustering\""));
    inf_embedder_free(e);
    inf_model_unref(model);

    embed_case_open(&g, "bert-mean");
    model = embed_case_model(&g);
    e = embed_case_embedder(&g, model, NULL, 1, 0, true);
    assert_null(inf_embedder_task(e, 0));
    assert_int_equal(inf_embedder_submit(e, &q, &id, &err), -EINVAL);
    inf_embedder_free(e);
    inf_model_unref(model);
}

/* The bits do not depend on threads, on the size of batches, or on requests that run between two
 * matrix products. */
TEST(an_interrupted_request_has_the_same_bits)
{
    struct inf_embed_text many[256];
    struct inf_embed_result *r;
    struct inf_embedder *e;
    struct inf_model *model;
    uint64_t large, last = 0;
    float want[EMBED_CASE_TEXTS][EMBED_CASE_WIDTH];
    size_t n_small = 0;
    struct embed_case g;

    embed_case_open(&g, "nomic");
    model = embed_case_model(&g);
    e = embed_case_embedder(&g, model, NULL, 1, 16, true);
    submit(e, g.texts, g.n, false);
    r = inf_embedder_wait_result(e, -1);
    for (size_t i = 0; i < g.n; i++)
        memcpy(want[i], r->vectors + i * g.width, g.width * sizeof(float));
    inf_embed_result_free(r);
    inf_embedder_free(e);

    e = embed_case_embedder(&g, model, NULL, 2, 64, true);
    for (size_t i = 0; i < 256; i++)
        many[i] = g.texts[i % g.n];
    large = submit(e, many, 256, true);
    while (n_small < 20 || last != large) {
        if (n_small < 20)
            submit(e, g.texts, g.n, false);
        r = inf_embedder_wait_result(e, -1);
        last = r->request;
        assert_int_equal(r->error, 0);
        for (size_t i = 0; i < r->n_texts; i++)
            assert_memory_equal(r->vectors + i * g.width, want[i % g.n], g.width * sizeof(float));
        n_small += last != large;
        inf_embed_result_free(r);
    }
    inf_embedder_free(e);
    inf_model_unref(model);
}

TEST(rows_are_pooled_to_the_vector)
{
    float sum[EMBED_CASE_WIDTH] = {0};
    struct inf_embedder_params p;
    struct inf_embed_request q;
    struct inf_embed_result *r;
    struct inf_embedder *e;
    struct inf_model *model;
    struct inf_err err = {0};
    struct embed_case g;
    uint64_t id;

    embed_case_open(&g, "bert-mean");
    model = embed_case_model(&g);
    p = (struct inf_embedder_params){.model = model, .device = "cpu", .kind = INF_EMBED_ROWS};
    ASSERT_OK_ERR(inf_embedder_new(&p, &e, &err), err);
    q = (struct inf_embed_request){
        .texts = g.texts, .n_texts = 3, .normalize = INF_NORMALIZE_NO, .dimensions = 24};
    ASSERT_OK_ERR(inf_embedder_submit(e, &q, &id, &err), err);
    r = inf_embedder_wait_result(e, -1);
    assert_int_equal(r->n_vectors, r->first[3]);
    assert_int_equal(r->width, 24);
    for (size_t i = r->first[2]; i < r->first[3]; i++)
        for (size_t j = 0; j < 24; j++)
            sum[j] += r->vectors[i * 24 + j];
    assert_true(inf_similarity(sum, g.want[2], 24) > 0.999999);
    inf_embed_result_free(r);
    inf_embedder_free(e);
    inf_model_unref(model);
}

static int refused(struct inf_embedder *e, const struct inf_embed_request *q, struct inf_err *err)
{
    uint64_t id;
    const int r = inf_embedder_submit(e, q, &id, err);

    assert_true(r < 0 && err->text[0]);
    return r;
}

TEST(bad_requests_are_refused_with_a_reason)
{
    int32_t outside[] = {3, 96}, *long_text = calloc(200, sizeof(int32_t));
    const uint8_t types[] = {0, 2};
    struct inf_embed_text t = {.tokens = outside, .n_tokens = 2};
    struct inf_embed_request q = {.texts = &t, .n_texts = 1};
    struct inf_err err = {0};
    struct inf_embedder *e;
    struct inf_model *model;
    struct embed_case g;

    embed_case_open(&g, "bert-mean");
    model = embed_case_model(&g);
    e = embed_case_embedder(&g, model, NULL, 1, 0, true);
    assert_int_equal(refused(e, &q, &err), -EINVAL);
    outside[1] = 95;
    t.types = types;
    assert_int_equal(refused(e, &q, &err), -EINVAL);
    t = (struct inf_embed_text){.tokens = outside};
    assert_int_equal(refused(e, &q, &err), -EINVAL);
    t = (struct inf_embed_text){.tokens = long_text, .n_tokens = 200};
    assert_int_equal(refused(e, &q, &err), -E2BIG);
    t.n_tokens = 2;
    q.dimensions = 33;
    assert_int_equal(refused(e, &q, &err), -EINVAL);
    q.n_texts = 0;
    assert_int_equal(refused(e, &q, &err), -EINVAL);
    inf_embedder_free(e);
    free(long_text);
    inf_model_unref(model);
}

TEST(cancelled_requests_end_at_once)
{
    struct inf_embed_text many[512];
    struct inf_embed_result *r;
    struct inf_embedder *e;
    struct inf_model *model;
    struct embed_case g;
    uint64_t id;

    embed_case_open(&g, "bert-mean");
    model = embed_case_model(&g);
    e = embed_case_embedder(&g, model, NULL, 1, 16, true);
    for (size_t i = 0; i < 512; i++)
        many[i] = g.texts[2];
    id = submit(e, many, 512, true);
    inf_embedder_cancel(e, id);
    inf_embedder_cancel(e, id + 1);
    r = inf_embedder_wait_result(e, -1);
    assert_int_equal(r->error, -ECANCELED);
    assert_null(r->vectors);
    inf_embed_result_free(r);
    submit(e, many, 300, true);
    inf_embedder_free(e);
    inf_model_unref(model);
}

TEST(encoders_do_not_generate)
{
    struct inf_engine_params p = {.device = "cpu"};
    struct inf_engine *engine;
    struct inf_err err = {0};
    struct embed_case g;

    embed_case_open(&g, "bert-mean");
    p.model = embed_case_model(&g);
    assert_int_equal(inf_engine_new(&p, &engine, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "do not generate text"));
    inf_model_unref(p.model);
}

RUN_TESTS(cmocka_unit_test(vectors_and_scores_are_those_of_transformers),
          cmocka_unit_test(gguf_files_make_the_same_vectors),
          cmocka_unit_test(adapters_of_tasks_give_the_expected_vectors),
          cmocka_unit_test(tasks_have_names),
          cmocka_unit_test(an_interrupted_request_has_the_same_bits),
          cmocka_unit_test(rows_are_pooled_to_the_vector),
          cmocka_unit_test(bad_requests_are_refused_with_a_reason),
          cmocka_unit_test(cancelled_requests_end_at_once),
          cmocka_unit_test(encoders_do_not_generate))
