/* SPDX-License-Identifier: Apache-2.0 */
#include "embed-case.h"

#include "core/file.h"
#include "format/json.h"
#include "lib/test.h"

static void text_read(struct embed_case *g, size_t i, const json_t *text)
{
    const json_t *ids = json_object_get(text, "ids"), *types = json_object_get(text, "types");
    const json_t *want = json_object_get(text, "want"), *task = json_object_get(text, "task");
    const size_t n = json_array_size(ids);

    assert_in_range(n, 1, EMBED_CASE_TOKENS);
    for (size_t j = 0; j < n; j++) {
        g->ids[i][j] = (int32_t)json_integer_value(json_array_get(ids, j));
        g->types[i][j] = (uint8_t)json_integer_value(json_array_get(types, j));
    }
    snprintf(g->tasks[i], sizeof(g->tasks[i]), "%s", task ? json_string_value(task) : "");
    g->texts[i] = (struct inf_embed_text){g->ids[i], g->types[i], n};
    g->width = json_array_size(want);
    assert_in_range(g->width, 1, EMBED_CASE_WIDTH);
    for (size_t j = 0; j < g->width; j++)
        g->want[i][j] = (float)json_number_value(json_array_get(want, j));
}

void embed_case_read(struct embed_case *g, const char *name, const char *file)
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
    assert_in_range(g->n, 1, EMBED_CASE_TEXTS);
    for (size_t i = 0; i < g->n; i++)
        text_read(g, i, json_array_get(texts, i));
}

void embed_case_open(struct embed_case *g, const char *name)
{
    embed_case_read(g, name, "case.json");
}

struct inf_embedder *embed_case_embedder(const struct embed_case *g, struct inf_model *model,
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

struct inf_model *embed_case_model(const struct embed_case *g)
{
    const struct inf_model_params params = {.path = g->path};
    struct inf_model *model;
    struct inf_err err = {0};

    ASSERT_OK_ERR(inf_model_open(&params, &model, &err), err);
    return model;
}
