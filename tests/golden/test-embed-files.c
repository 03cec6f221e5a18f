/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the files beside the weights change the results of the tiny models in embed/, and which
 * files are refused. */
#include <infer/embed.h>
#include <infer/engine.h>

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "embed-case.h"
#include "lib/test.h"

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

/* Makes links in @to to some files of @from. */
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

TEST(unsupported_adapters_are_refused)
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
        {"{\"r\":4,\"lora_alpha\":\"x\"}", "not a number", -EBADMSG},
    };
    char dir[] = "/tmp/test-embed-XXXXXX";
    const struct inf_model_params params = {.path = dir};
    struct inf_model *model;
    struct embed_case g;

    embed_case_open(&g, "jina-v4");
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

/* Texts are truncated to the length in the module's configuration, or else to the length in the
 * tokenizer's configuration. They never exceed the positions of the model (80 here). */
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
    struct embed_case g;

    embed_case_open(&g, "bert-saved");
    assert_non_null(mkdtemp(dir));
    make_folder(dir, "1_Pooling");
    link_files(g.path, dir, files);
    snprintf(g.path, sizeof(g.path), "%s", dir);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct inf_embedder *e;
        struct inf_model *model;

        write_text(dir, "tokenizer_config.json", table[i].tokenizer);
        write_text(dir, "sentence_bert_config.json", table[i].module);
        model = embed_case_model(&g);
        g.max_tokens = table[i].want;
        e = embed_case_embedder(&g, model, NULL, 1, 0, true);
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

static int engine_open(const char *name, struct inf_err *reterr)
{
    struct inf_engine_params p = {.device = "cpu"};
    struct inf_engine *engine = NULL;
    struct embed_case g;
    int r;

    embed_case_open(&g, name);
    p.model = embed_case_model(&g);
    r = inf_engine_new(&p, &engine, reterr);
    inf_engine_free(engine);
    inf_model_unref(p.model);
    return r;
}

/* Like transformers, libinfer generates text with a model class that has no head if the embedding
 * is also the head. */
TEST(models_without_a_head_generate_when_they_are_tied)
{
    struct inf_err err = {0};

    ASSERT_OK_ERR(engine_open("qwen3-saved", &err), err);
    assert_int_equal(engine_open("llama-saved", &err), -EOPNOTSUPP);
    assert_non_null(strstr(err.text, "without its head"));
}

RUN_TESTS(cmocka_unit_test(unsupported_adapters_are_refused),
          cmocka_unit_test(texts_have_the_length_that_sentence_transformers_gives_them),
          cmocka_unit_test(models_without_a_head_generate_when_they_are_tied))
