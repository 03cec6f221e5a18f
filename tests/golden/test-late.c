/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares tiny random late-interaction models with sentence-transformers (make_late_models.py), on
 * every instruction set level of the CPU. It compares the vectors of all tokens, also in texts with
 * tokens to which no token attends (unseen tokens).
 */
#include <infer/embed.h>

#include <errno.h>
#include <math.h>

#include "core/file.h"
#include "format/json.h"
#include "lib/open_model.h"
#include "lib/device.h"

static const char *const names[] = {"colbert", "colbert-modern"};
/* The lists of texts for which the file has the vectors of all tokens. */
static const char *const lists[] = {"query", "unseen"};

enum { MAX_TEXTS = 8, MAX_TOKENS = 80 };

struct late {
    int32_t ids[MAX_TEXTS][MAX_TOKENS];
    struct inf_embed_text texts[MAX_TEXTS];
    const json_t *want[MAX_TEXTS]; /* arrays of arrays, of root */
    size_t n;
    json_t *root;
    char path[4096];
};

static void take(struct late *l, const json_t *text)
{
    const json_t *ids = json_object_get(text, "ids");
    const size_t n = json_array_size(ids);

    assert_in_range(n, 1, MAX_TOKENS);
    assert_true(l->n < MAX_TEXTS);
    for (size_t i = 0; i < n; i++)
        l->ids[l->n][i] = (int32_t)json_integer_value(json_array_get(ids, i));
    l->want[l->n] = json_object_get(text, "want");
    assert_int_equal(json_array_size(l->want[l->n]), n);
    l->texts[l->n] = (struct inf_embed_text){
        .tokens = l->ids[l->n],
        .n_tokens = n,
        .n_seen = (size_t)json_integer_value(json_object_get(text, "n_seen")),
    };
    l->n++;
}

static void late_open(struct late *l, const char *name)
{
    struct inf_err err = {0};
    char sub[128];
    char *path;

    *l = (struct late){0};
    snprintf(sub, sizeof(sub), "embed/%s", name);
    snprintf(l->path, sizeof(l->path), "%s", test_golden(sub));
    path = path_join(l->path, "case-late.json");
    ASSERT_OK_ERR(json_text_read(path, 1 << 20, 0, &l->root, &err), err);
    free(path);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const json_t *list = json_object_get(l->root, lists[i]);

        for (size_t j = 0; j < json_array_size(list); j++)
            take(l, json_array_get(list, j));
    }
}

static struct inf_embedder *open_embedder(struct inf_model *model, const char *isa,
                                          enum inf_embed_kind kind)
{
    const struct inf_embedder_params p = {
        .model = model, .device = "cpu", .isa = isa, .n_threads = 2, .kind = kind, .exact = true};
    struct inf_embedder *e;
    struct inf_err err = {0};

    ASSERT_OK_ERR(inf_embedder_new(&p, &e, &err), err);
    return e;
}

static struct inf_embed_result *compute(struct inf_embedder *e, const struct inf_embed_text *texts,
                                        size_t n)
{
    const struct inf_embed_request q = {.texts = texts, .n_texts = n};
    struct inf_embed_result *r;
    struct inf_err err = {0};
    uint64_t id;

    ASSERT_OK_ERR(inf_embedder_submit(e, &q, &id, &err), err);
    r = inf_embedder_wait_result(e, -1);
    assert_int_equal(r->error, 0);
    return r;
}

/* Returns the largest difference between @vectors and the expected vectors of text @i. Vectors have
 * length 1. */
static double worst_of(const struct late *l, size_t i, const float *vectors, size_t width)
{
    double worst = 0;

    for (size_t j = 0; j < l->texts[i].n_tokens; j++) {
        const json_t *row = json_array_get(l->want[i], j);

        assert_int_equal(json_array_size(row), width);
        for (size_t k = 0; k < width; k++)
            worst = fmax(worst, fabs((double)vectors[j * width + k] -
                                     json_number_value(json_array_get(row, k))));
    }
    return worst;
}

static void check_rung(const struct late *l, struct inf_model *model, const char *name,
                       const char *isa)
{
    struct inf_embedder *e = open_embedder(model, isa, INF_EMBED_ROWS);
    const uint32_t width = inf_embedder_width(e);
    struct inf_embed_result *all = compute(e, l->texts, l->n);
    double worst = 0;

    assert_int_equal(inf_model_info(model)->token_width, width);
    for (size_t i = 0; i < l->n; i++) {
        struct inf_embed_result *alone = compute(e, &l->texts[i], 1);

        worst = fmax(worst, worst_of(l, i, alone->vectors, width));
        assert_memory_equal(alone->vectors, all->vectors + all->first[i] * width,
                            alone->n_vectors * width * sizeof(float));
        inf_embed_result_free(alone);
    }
    inf_embed_result_free(all);
    inf_embedder_free(e);
    print_message("%-16s %-8s off by %.2g\n", name, isa, worst);
    assert_true(worst < 2e-5);
}

TEST(vectors_of_tokens_are_those_of_sentence_transformers)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inf_model *model;
        struct test_target on;
        struct late l;

        late_open(&l, names[i]);
        model = open_model(l.path);
        for (size_t j = 0; test_target_at(j, &on); j++)
            check_rung(&l, model, names[i], on.isa);
        inf_model_unref(model);
        json_decref(l.root);
    }
}

/* Unseen tokens do not change the vectors of the other tokens. */
TEST(unseen_tokens_change_nothing_else)
{
    struct inf_embed_result *with, *without;
    struct inf_embed_text text;
    struct inf_embedder *e;
    struct inf_model *model;
    struct late l;

    late_open(&l, "colbert");
    model = open_model(l.path);
    e = open_embedder(model, NULL, INF_EMBED_ROWS);
    text = l.texts[0];
    assert_true(text.n_seen > 0 && text.n_seen < text.n_tokens);
    with = compute(e, &text, 1);
    text.n_tokens = text.n_seen;
    text.n_seen = 0;
    without = compute(e, &text, 1);
    assert_memory_equal(with->vectors, without->vectors,
                        without->n_vectors * without->width * sizeof(float));
    inf_embed_result_free(with);
    inf_embed_result_free(without);
    inf_embedder_free(e);
    inf_model_unref(model);
    json_decref(l.root);
}

static void check_refused(const char *name, enum inf_embed_kind kind, size_t n, size_t n_seen)
{
    int32_t ids[MAX_TOKENS] = {0};
    const struct inf_embed_text text = {.tokens = ids, .n_tokens = n, .n_seen = n_seen};
    const struct inf_embed_request q = {.texts = &text, .n_texts = 1};
    struct inf_embedder *e;
    struct inf_model *model;
    struct inf_err err = {0};
    char sub[128];
    uint64_t id;

    snprintf(sub, sizeof(sub), "embed/%s", name);
    model = open_model(test_golden(sub));
    e = open_embedder(model, NULL, kind);
    assert_int_equal(inf_embedder_submit(e, &q, &id, &err), -EINVAL);
    assert_non_null(strstr(err.text, "unseen"));
    inf_embedder_free(e);
    inf_model_unref(model);
}

TEST(unseen_tokens_are_refused_where_they_cannot_work)
{
    check_refused("colbert", INF_EMBED_ROWS, 5, 6);
    check_refused("bert-mean", INF_EMBED_VECTORS, 5, 3);
    check_refused("jina-v4", INF_EMBED_ROWS, 5, 3);
    /* The window of the last token contains no seen token. */
    check_refused("colbert-modern", INF_EMBED_ROWS, 40, 4);
}

TEST(late_models_make_no_other_results)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct inf_embedder_params p = {.device = "cpu", .kind = INF_EMBED_VECTORS};
        struct inf_embedder *e;
        struct inf_err err = {0};
        char sub[128];

        snprintf(sub, sizeof(sub), "embed/%s", names[i]);
        p.model = open_model(test_golden(sub));
        assert_int_equal(inf_embedder_new(&p, &e, &err), -EOPNOTSUPP);
        assert_non_null(strstr(err.text, "late interaction"));
        p.kind = INF_EMBED_SCORES;
        assert_int_equal(inf_embedder_new(&p, &e, &err), -EOPNOTSUPP);
        inf_model_unref(p.model);
    }
}

RUN_TESTS(cmocka_unit_test(vectors_of_tokens_are_those_of_sentence_transformers),
          cmocka_unit_test(unseen_tokens_change_nothing_else),
          cmocka_unit_test(unseen_tokens_are_refused_where_they_cannot_work),
          cmocka_unit_test(late_models_make_no_other_results))
