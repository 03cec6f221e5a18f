/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiny random encoders against transformers (make_embed_models.py), on every rung of the CPU:
 * alone, in one batch, and as a large request that a small one interrupts.
 */
#include <infer/embed.h>
#include <infer/engine.h>

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert.h"
#include "core/file.h"
#include "format/json.h"
#include "lib/device.h"

static const char *const names[] = {
    "bert-mean", "bert-cls-dense", "bert-rank",       "roberta-mean", "xlmr-rank",
    "bert-f16",  "nomic",          "qwen3-last",      "qwen3-rank",   "gemma",
    "gemma-old", "modernbert",     "modernbert-rank", "gte",          "gte-new",
    "gte-rank",  "qwen3-saved",    "llama-saved",     "bert-saved"};

enum { MAX_TEXTS = 8, MAX_TOKENS = 128, MAX_WIDTH = 64 };

struct golden {
    char path[4096];
    enum inf_embed_kind kind;
    size_t n, width;
    uint32_t max_tokens; /* 0: it is not told */
    struct inf_embed_text texts[MAX_TEXTS];
    int32_t ids[MAX_TEXTS][MAX_TOKENS];
    uint8_t types[MAX_TEXTS][MAX_TOKENS];
    char tasks[MAX_TEXTS][32]; /* "": none is asked for */
    float want[MAX_TEXTS][MAX_WIDTH];
};

static void text_read(struct golden *g, size_t i, const json_t *text)
{
    const json_t *ids = json_object_get(text, "ids"), *types = json_object_get(text, "types");
    const json_t *want = json_object_get(text, "want"), *task = json_object_get(text, "task");
    const size_t n = json_array_size(ids);

    assert_in_range(n, 1, MAX_TOKENS);
    for (size_t j = 0; j < n; j++) {
        g->ids[i][j] = (int32_t)json_integer_value(json_array_get(ids, j));
        g->types[i][j] = (uint8_t)json_integer_value(json_array_get(types, j));
    }
    snprintf(g->tasks[i], sizeof(g->tasks[i]), "%s", task ? json_string_value(task) : "");
    g->texts[i] = (struct inf_embed_text){g->ids[i], g->types[i], n};
    g->width = json_array_size(want);
    assert_in_range(g->width, 1, MAX_WIDTH);
    for (size_t j = 0; j < g->width; j++)
        g->want[i][j] = (float)json_number_value(json_array_get(want, j));
}

static void golden_read(struct golden *g, const char *name, const char *file)
{
    _cleanup_json_ json_t *root = NULL;
    struct inf_err err = {0};
    const char *kind;
    char sub[128];
    const json_t *texts;
    char *path;

    snprintf(sub, sizeof(sub), "embed/%s", name);
    snprintf(g->path, sizeof(g->path), "%s", test_golden(sub));
    path = path_join(g->path, file);
    ASSERT_OK_ERR(json_text_read(path, 1 << 20, 0, &root, &err), err);
    free(path);
    texts = json_object_get(root, "texts");
    g->n = json_array_size(texts);
    g->max_tokens = (uint32_t)json_integer_value(json_object_get(root, "max_tokens"));
    kind = json_string_value(json_object_get(root, "kind"));
    g->kind = strcmp(kind, "scores") == 0 ? INF_EMBED_SCORES
              : strcmp(kind, "rows") == 0 ? INF_EMBED_ROWS
                                          : INF_EMBED_VECTORS;
    assert_in_range(g->n, 1, MAX_TEXTS);
    for (size_t i = 0; i < g->n; i++)
        text_read(g, i, json_array_get(texts, i));
}

static void golden_open(struct golden *g, const char *name)
{
    golden_read(g, name, "case.json");
}

static struct inf_embedder *embedder_open(const struct golden *g, struct inf_model *model,
                                          const char *isa, uint32_t n_threads, uint32_t batch,
                                          bool exact)
{
    const struct inf_embedder_params p = {.model = model,
                                          .device = "cpu",
                                          .isa = isa,
                                          .n_threads = n_threads,
                                          .kind = g->kind,
                                          .batch_tokens = batch,
                                          .exact = exact};
    struct inf_embedder *e;
    struct inf_err err = {0};

    ASSERT_OK_ERR(inf_embedder_new(&p, &e, &err), err);
    assert_int_equal(inf_embedder_width(e), g->width);
    if (g->max_tokens > 0)
        assert_int_equal(inf_embedder_max_tokens(e), g->max_tokens);
    return e;
}

static struct inf_model *model_open_golden(const struct golden *g)
{
    const struct inf_model_params params = {.path = g->path};
    struct inf_model *model;
    struct inf_err err = {0};

    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    return model;
}

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

static void check_rung(const char *name, const struct golden *g, struct inf_model *model,
                       const char *isa, bool exact)
{
    struct inf_embedder *e = embedder_open(g, model, isa, 2, 0, exact);
    float alone[MAX_TEXTS][MAX_WIDTH];
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
    /* Rows and weights rounded to BF16, or rows to F16 with sums in it: 2^-9 of each. F32 is split
     * into two BF16. */
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
        struct golden g;

        golden_open(&g, names[i]);
        model = model_open_golden(&g);
        for (size_t j = 0; test_target_at(j, &on); j++)
            check_rung(names[i], &g, model, on.isa, true);
        for (size_t j = 0; test_target_at(j, &on); j++)
            check_rung(names[i], &g, model, on.isa, false);
        inf_model_unref(model);
    }
}

/* As converters write them; llama.cpp's names and keys. */
TEST(gguf_files_make_the_same_vectors)
{
    static const char *const converted[] = {"bert-mean",      "bert-rank", "nomic",
                                            "qwen3-last",     "gemma-old", "modernbert",
                                            "modernbert-rank"};

    for (size_t i = 0; i < sizeof(converted) / sizeof(converted[0]); i++) {
        struct inf_err err = {0};
        struct inf_model *model;
        struct format *f;
        struct golden g;
        char *path;

        golden_open(&g, converted[i]);
        ASSERT_OK_ERR(format_open(g.path, 0, &f, &err), err);
        path = convert_to_gguf(f);
        snprintf(g.path, sizeof(g.path), "%s", path);
        format_close(f);
        model = model_open_golden(&g);
        check_rung(converted[i], &g, model, "ref", true);
        inf_model_unref(model);
        unlink(path);
        free(path);
    }
}

static uint64_t submit_task(struct inf_embedder *e, const struct golden *g, size_t i)
{
    const struct inf_embed_request q = {.texts = &g->texts[i], .n_texts = 1, .task = g->tasks[i]};
    struct inf_err err = {0};
    uint64_t id;

    ASSERT_OK_ERR(inf_embedder_submit(e, &q, &id, &err), err);
    return id;
}

/* Of each text the vector, or that of its last token. */
static void check_tasks(const struct golden *g, struct inf_model *model, const char *isa)
{
    struct inf_embedder *e = embedder_open(g, model, isa, 2, 0, true);
    float alone[MAX_TEXTS][MAX_WIDTH];
    struct inf_embed_result *r;
    uint64_t ids[MAX_TEXTS];
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

    /* Of several tasks at once none is in a batch of another. */
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

TEST(tasks_add_to_what_a_model_computes)
{
    static const char *const files[] = {"case.json", "case-rows.json"};
    struct test_target on;
    struct golden g;

    for (size_t i = 0; i < 2; i++) {
        struct inf_model *model;

        golden_read(&g, "jina-v4", files[i]);
        model = model_open_golden(&g);
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
    struct golden g;
    uint64_t id;

    golden_open(&g, "jina-v4");
    model = model_open_golden(&g);
    e = embedder_open(&g, model, NULL, 1, 0, true);
    ASSERT_STREQ(inf_embedder_task(e, 0), "retrieval");
    ASSERT_STREQ(inf_embedder_task(e, 2), "code");
    assert_null(inf_embedder_task(e, 3));
    q.texts = g.texts;
    assert_int_equal(inf_embedder_submit(e, &q, &id, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no task \"clustering\""));
    inf_embedder_free(e);
    inf_model_unref(model);

    golden_open(&g, "bert-mean");
    model = model_open_golden(&g);
    e = embedder_open(&g, model, NULL, 1, 0, true);
    assert_null(inf_embedder_task(e, 0));
    assert_int_equal(inf_embedder_submit(e, &q, &id, &err), -EINVAL);
    inf_embedder_free(e);
    inf_model_unref(model);
}

static void write_text(const char *dir, const char *name, const char *text)
{
    char *path = path_join(dir, name);
    FILE *f = fopen(path, "w");

    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
    free(path);
}

static const char *const jina_files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                         "adapters/adapter_model.safetensors", NULL};

static void make_folder(const char *dir, const char *name)
{
    char *path = path_join(dir, name);

    assert_int_equal(mkdir(path, 0700), 0);
    free(path);
}

/* Some of a directory's files. */
static void link_files(const char *from, const char *to, const char *const *files)
{
    for (size_t i = 0; files[i]; i++) {
        char *a = path_join(from, files[i]), *b = path_join(to, files[i]);
        char *whole = realpath(a, NULL);

        assert_int_equal(symlink(whole, b), 0);
        free(whole);
        free(a);
        free(b);
    }
}

static void remove_in(const char *dir, const char *name)
{
    char *path = path_join(dir, name);

    assert_int_equal(remove(path), 0);
    free(path);
}

TEST(adapters_that_add_otherwise_are_refused)
{
    static const struct {
        const char *config, *message;
        int error;
    } table[] = {
        {"{\"r\":4,\"lora_alpha\":6,\"use_dora\":true}", "use_dora", -EOPNOTSUPP},
        {"{\"r\":4,\"lora_alpha\":6,\"bias\":\"all\"}", "bias", -EOPNOTSUPP},
        {"{\"r\":4,\"rank_pattern\":{\"q_proj\":8}}", "rank_pattern", -EOPNOTSUPP},
        {"{\"r\":4,\"peft_type\":\"IA3\"}", "peft_type", -EOPNOTSUPP},
        {"{\"r\":0}", "r is 0", -EBADMSG},
        {"{\"r\":5}", "expected 5 x 64", -EBADMSG},
        {"{\"r\":4,\"lora_alpha\":\"x\"}", "no number", -EBADMSG},
    };
    char dir[] = "/tmp/test-embed-XXXXXX";
    const struct inf_model_params params = {.path = dir};
    struct inf_model *model;
    struct golden g;

    golden_open(&g, "jina-v4");
    assert_non_null(mkdtemp(dir));
    make_folder(dir, "adapters");
    link_files(g.path, dir, jina_files);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct inf_err err = {0};
        int r;

        write_text(dir, "adapters/adapter_config.json", table[i].config);
        r = inf_model_open(&params, &model, &err);
        if (r != table[i].error || !strstr(err.text, table[i].message))
            fail_msg("%s: %d, \"%s\"", table[i].config, r, err.text);
    }
    for (size_t i = 0; jina_files[i]; i++)
        remove_in(dir, jina_files[i]);
    remove_in(dir, "adapters/adapter_config.json");
    remove_in(dir, "adapters");
    rmdir(dir);
}

/* Where texts are cut: what a module says counts before what the tokenizer says, and neither when
 * the model has fewer positions (80 here). */
TEST(texts_have_the_length_that_sentence_transformers_gives_them)
{
    static const char *const files[] = {"config.json",  "model.safetensors",     "tokenizer.json",
                                        "modules.json", "1_Pooling/config.json", NULL};
    static const struct {
        const char *tokenizer, *module;
        uint32_t want;
    } table[] = {
        {"{\"model_max_length\":20}", "{}", 20},
        {"{\"model_max_length\":20}", "{\"max_seq_length\":33,\"do_lower_case\":false}", 33},
        {"{\"model_max_length\":20}", "{\"max_seq_length\":null}", 20},
        {"{\"model_max_length\":1000000000000000019884624838656}", "{}", 80},
        {"{\"model_max_length\":1e30}", "{}", 80},
        {"{\"model_max_length\":512}", "{\"max_seq_length\":40}", 40},
        {"{\"model_max_length\":\"20\"}", "{}", 80},
    };
    char dir[] = "/tmp/test-embed-XXXXXX";
    struct golden g;

    golden_open(&g, "bert-saved");
    assert_non_null(mkdtemp(dir));
    make_folder(dir, "1_Pooling");
    link_files(g.path, dir, files);
    snprintf(g.path, sizeof(g.path), "%s", dir);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct inf_embedder *e;
        struct inf_model *model;

        write_text(dir, "tokenizer_config.json", table[i].tokenizer);
        write_text(dir, "sentence_bert_config.json", table[i].module);
        model = model_open_golden(&g);
        g.max_tokens = table[i].want;
        e = embedder_open(&g, model, NULL, 1, 0, true);
        inf_embedder_free(e);
        inf_model_unref(model);
    }
    remove_in(dir, "tokenizer_config.json");
    remove_in(dir, "sentence_bert_config.json");
    for (size_t i = 0; files[i]; i++)
        remove_in(dir, files[i]);
    remove_in(dir, "1_Pooling");
    rmdir(dir);
}

/* Bits do not depend on threads, on the size of batches, nor on what goes between two layers. */
TEST(an_interrupted_request_has_the_same_bits)
{
    struct inf_embed_text many[256];
    struct inf_embed_result *r;
    struct inf_embedder *e;
    struct inf_model *model;
    uint64_t large, last = 0;
    float want[MAX_TEXTS][MAX_WIDTH];
    size_t n_small = 0;
    struct golden g;

    golden_open(&g, "nomic");
    model = model_open_golden(&g);
    e = embedder_open(&g, model, NULL, 1, 16, true);
    submit(e, g.texts, g.n, false);
    r = inf_embedder_wait_result(e, -1);
    for (size_t i = 0; i < g.n; i++)
        memcpy(want[i], r->vectors + i * g.width, g.width * sizeof(float));
    inf_embed_result_free(r);
    inf_embedder_free(e);

    e = embedder_open(&g, model, NULL, 2, 64, true);
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
    float sum[MAX_WIDTH] = {0};
    struct inf_embedder_params p;
    struct inf_embed_request q;
    struct inf_embed_result *r;
    struct inf_embedder *e;
    struct inf_model *model;
    struct inf_err err = {0};
    struct golden g;
    uint64_t id;

    golden_open(&g, "bert-mean");
    model = model_open_golden(&g);
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
    struct golden g;

    golden_open(&g, "bert-mean");
    model = model_open_golden(&g);
    e = embedder_open(&g, model, NULL, 1, 0, true);
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
    struct golden g;
    uint64_t id;

    golden_open(&g, "bert-mean");
    model = model_open_golden(&g);
    e = embedder_open(&g, model, NULL, 1, 16, true);
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
    struct golden g;

    golden_open(&g, "bert-mean");
    p.model = model_open_golden(&g);
    assert_int_equal(inf_engine_new(&p, &engine, &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "generate none"));
    inf_model_unref(p.model);
}

static int engine_open(const char *name, struct inf_err *reterr)
{
    struct inf_engine_params p = {.device = "cpu"};
    struct inf_engine *engine = NULL;
    struct golden g;
    int r;

    golden_open(&g, name);
    p.model = model_open_golden(&g);
    r = inf_engine_new(&p, &engine, reterr);
    inf_engine_free(engine);
    inf_model_unref(p.model);
    return r;
}

/* A class without a head generates when its embedding is the head, as transformers has it. */
TEST(models_without_a_head_generate_when_they_are_tied)
{
    struct inf_err err = {0};

    ASSERT_OK_ERR(engine_open("qwen3-saved", &err), err);
    assert_int_equal(engine_open("llama-saved", &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "without its head"));
}

RUN_TESTS(cmocka_unit_test(vectors_and_scores_are_those_of_transformers),
          cmocka_unit_test(gguf_files_make_the_same_vectors),
          cmocka_unit_test(tasks_add_to_what_a_model_computes), cmocka_unit_test(tasks_have_names),
          cmocka_unit_test(adapters_that_add_otherwise_are_refused),
          cmocka_unit_test(texts_have_the_length_that_sentence_transformers_gives_them),
          cmocka_unit_test(an_interrupted_request_has_the_same_bits),
          cmocka_unit_test(rows_are_pooled_to_the_vector),
          cmocka_unit_test(bad_requests_are_refused_with_a_reason),
          cmocka_unit_test(cancelled_requests_end_at_once),
          cmocka_unit_test(encoders_do_not_generate),
          cmocka_unit_test(models_without_a_head_generate_when_they_are_tied))
