/* SPDX-License-Identifier: Apache-2.0 */
#include "common/models/models.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/config/config.h"
#include "lib/tempdir.h"

static void put(const char *name, const char *text)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Makes a link to @target. A relative @target is relative to the test's directory. */
static void put_link(const char *name, const char *target)
{
    char path[512], to[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    snprintf(to, sizeof(to), "%s%s%s", *target == '/' ? "" : dir, *target == '/' ? "" : "/",
             target);
    ASSERT_OK(symlink(to, path));
}

static void put_safetensors(const char *name)
{
    const char head[] = "\x02\0\0\0\0\0\0\0{}";
    char path[512];
    FILE *f;

    put(name, "");
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "we");
    assert_int_equal(fwrite(head, sizeof(head) - 1, 1, f), 1);
    fclose(f);
}

static struct config *config_of(const char *sub)
{
    struct config *c = NULL;
    char text[256];
    struct inf_err err;

    ASSERT_OK(config_new(&c));
    snprintf(text, sizeof(text), "models:\n  directories: [%s%s]\n", dir, sub);
    ASSERT_OK_ERR(config_apply(c, "t", text, strlen(text), &err), err);
    return c;
}

static struct config *config_here(void)
{
    return config_of("");
}

/* Returns the reason why a model with this name cannot be used. */
static const char *why(const struct models *m, const char *name)
{
    const struct models_broken *b = models_find_broken(m, name);

    assert_non_null(b);
    return b->why;
}

TEST(files_directories_and_splits_have_names)
{
    struct config *c = config_here();
    struct models *m = NULL;

    put("b.gguf", "12345");
    put("A-Q8.GGUF", "1");
    put("big-00001-of-00002.gguf", "123");
    put("big-00002-of-00002.gguf", "4567");
    put("hf/config.json", "{}");
    put("hf/model.safetensors", "123456");
    put("org/name/config.json", "{}");
    put("org/name/model-00001-of-00002.safetensors", "12");
    put("org/name/model-00002-of-00002.safetensors", "34");
    put("nomodel/config.json", "{}");
    put("notes.txt", "");
    put(".hidden.gguf", "");
    ASSERT_OK(models_scan(c, &m));
    assert_int_equal(models_count(m), 5);
    ASSERT_STREQ(models_at(m, 0)->name, "A-Q8");
    assert_int_equal(models_find(m, "big")->size, 7);
    assert_int_equal(models_find(m, "HF")->size, 6);
    ASSERT_STREQ(models_find(m, "hf")->kind, "safetensors");
    assert_int_equal(models_find(m, "org/name")->size, 4);
    assert_null(models_find(m, "nomodel"));
    assert_ptr_equal(models_find(m, "big:latest"), models_find(m, "big"));
    assert_null(models_find(m, "big:7b"));
    assert_null(models_default(m, c));
    models_free(m);
    config_free(c);
}

TEST(a_manifest_names_and_aliases)
{
    struct config *c = config_here();
    struct models *m = NULL;

    put("store/x.gguf", "1");
    put("chat.yaml", "path: store/x.gguf\naliases: [gpt-4o, default]\n");
    ASSERT_OK(models_scan(c, &m));
    assert_ptr_equal(models_find(m, "gpt-4o"), models_find(m, "chat"));
    assert_false(models_find(m, "chat")->matryoshka);
    models_free(m);

    put("chat.yaml", "path: store/x.gguf\nmatryoshka: true\n");
    ASSERT_OK(models_scan(c, &m));
    assert_true(models_find(m, "chat")->matryoshka);
    models_free(m);
    config_free(c);
}

TEST(a_manifest_with_a_mistake_concerns_itself_alone)
{
    static const struct {
        const char *name, *text, *why;
    } rows[] = {
        {"alias", "path: x.gguf\nalias: [gpt-4o]\n", "alias.yaml:2:1: \"alias\" is not a key"},
        {"compose", "services:\n  db:\n", "compose.yaml:1:1: \"services\" is not a key"},
        {"list", "- a\n", "list.yaml: this is not a manifest"},
        {"bad", "a: [\n", "bad.yaml:2:1: "},
        {"none", "name: n\n", "none.yaml: a manifest needs a path"},
        {"gone", "name: gone\npath: lost.gguf\n", "gone.yaml:2:7: lost.gguf is not there"},
        {"notes", "path: notes.txt\n", "notes.yaml:1:7: notes.txt is not a model"},
        {"number", "path: [x.gguf]\n", "number.yaml:1:1: \"path\""},
        {"zero", "path: \"x.gguf\\0\"\n", "zero.yaml:1:1: \"path\""},
        {"flag", "path: x.gguf\nmatryoshka: 3\n", "flag.yaml:2:1: \"matryoshka\""},
        {"hot", "path: x.gguf\nsampling:\n  temperature: 1000\n", "hot.yaml:3:3: \"sampling\""},
        {"cold", "path: x.gguf\nsampling: 1\n", "cold.yaml:2:1: \"sampling\""},
    };
    struct config *c = config_here();
    struct models *m = NULL;

    put("x.gguf", "1");
    put("notes.txt", "");
    put("sub/late.yaml", "what is this\n");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char file[32];

        snprintf(file, sizeof(file), "%s.yaml", rows[i].name);
        put(file, rows[i].text);
    }
    ASSERT_OK(models_scan(c, &m));
    assert_int_equal(models_count(m), 1);
    assert_non_null(models_find(m, "x"));
    assert_ptr_equal(models_default(m, c), models_at(m, 0));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        ASSERT_CONTAINS(
            models_n_broken(m) ? why(m, strcmp(rows[i].name, "none") ? rows[i].name : "n") : "",
            rows[i].why);
    ASSERT_CONTAINS(why(m, "sub/late"), "sub/late.yaml: this is not a manifest");
    assert_int_equal(models_n_broken(m), ARRAY_SIZE(rows) + 1);
    models_free(m);
    config_free(c);
}

TEST(a_manifest_beside_its_own_file_is_one_model)
{
    struct config *c = config_here();
    struct models *m = NULL;

    put("same.gguf", "1");
    put("same.yaml", "path: same.gguf\naliases: [gpt-4o]\n");
    put("small-q4.gguf", "12");
    put("small.yaml", "path: ./small-q4.gguf\n");
    put("hf/config.json", "{}");
    put("hf/model.safetensors", "123456");
    put("pretty.yaml", "name: Pretty\npath: hf\naliases: [p]\n");
    put("big-00001-of-00002.gguf", "123");
    put("big-00002-of-00002.gguf", "4567");
    put("large.yaml", "path: big-00001-of-00002.gguf\n");
    ASSERT_OK(models_scan(c, &m));
    assert_int_equal(models_count(m), 4);
    assert_int_equal(models_n_broken(m), 0);
    /* The file's own name still works. */
    assert_ptr_equal(models_find(m, "small-q4"), models_find(m, "small"));
    assert_ptr_equal(models_find(m, "hf"), models_find(m, "Pretty"));
    assert_ptr_equal(models_find(m, "p"), models_find(m, "Pretty"));
    assert_ptr_equal(models_find(m, "big"), models_find(m, "large"));
    assert_int_equal(models_find(m, "large")->size, 7);
    assert_null(models_find(m, "same")->aliases[1]);
    models_free(m);
    config_free(c);
}

TEST(links_to_models_are_models)
{
    struct config *c = config_of("/models");
    struct models *m = NULL;

    put("models/here.gguf", "1");
    put("disk/a.gguf", "GGUF\3fill");
    put_safetensors("disk/hf/model.safetensors");
    put("disk/hf/config.json", "{}");
    put("disk/hf/tokenizer.json", "{}");
    put_link("models/a.gguf", "disk/a.gguf");
    put_link("models/chain.gguf", "models/a.gguf");
    put_link("models/hf", "disk/hf");
    /* The layout of Hugging Face's cache. */
    put_safetensors("hub/models--o--n/blobs/"
                    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    put("hub/models--o--n/blobs/0123456789abcdef0123456789abcdef01234567", "{}");
    put("hub/models--o--n/snapshots/1/readme", "");
    put_link("hub/models--o--n/snapshots/1/model.safetensors",
             "hub/models--o--n/blobs/"
             "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef");
    put_link("hub/models--o--n/snapshots/1/config.json",
             "hub/models--o--n/blobs/0123456789abcdef0123456789abcdef01234567");
    put_link("models/snap", "hub/models--o--n/snapshots/1");
    /* A directory in which each file is a link. */
    put("models/parts/README.md", "");
    put_link("models/parts/config.json", "disk/hf/config.json");
    put_link("models/parts/tokenizer.json", "disk/hf/tokenizer.json");
    put_link("models/parts/model.safetensors", "disk/hf/model.safetensors");
    put("models/far.yaml", "path: ../disk/a.gguf\n");
    ASSERT_OK(models_scan(c, &m));
    for (size_t i = 0; i < models_n_broken(m); i++)
        print_error("%s\n", models_broken_at(m, i)->why);
    assert_int_equal(models_n_broken(m), 0);
    assert_int_equal(models_count(m), 7);
    assert_int_equal(models_find(m, "snap")->size, 10);
    models_free(m);
    config_free(c);
}

TEST(links_to_other_files_are_reported)
{
    static const struct {
        const char *name, *target, *why;
    } rows[] = {
        {"root", "/", "/models/root leads to the directory /, which is not a model"},
        {"etc", "/etc", "/models/etc leads to the directory /etc, which is not a model"},
        {"folder", "disk", "/disk, which is not a model: it needs config.json and *.safetensors"},
        {"docker", "disk/docker", "/disk/docker, which is not a model"},
        {"passwd.gguf", "/etc/passwd", "leads to /etc/passwd, which is not a GGUF file"},
        {"zero.gguf", "/dev/zero", "zero.gguf is not a regular file"},
        {"lost.gguf", "disk/lost.gguf", "/disk/lost.gguf, which is not there"},
        {"gone", "disk/gone", "/disk/gone, which is not there"},
        {"circle", "models/circle", "circle is part of a loop of links"},
        {"up", "models", "up leads back to a model directory"},
        {"ggml-x.bin", "/etc/passwd", "leads to /etc/passwd, which is not a ggml .bin file"},
    };
    struct config *c = config_of("/models");
    struct models *m = NULL;

    put("models/here.gguf", "1");
    put("disk/notes", "");
    put("disk/docker/config.json", "{\"auths\": {}}");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char link[64];

        snprintf(link, sizeof(link), "models/%s", rows[i].name);
        put_link(link, rows[i].target);
    }
    ASSERT_OK(models_scan(c, &m));
    assert_int_equal(models_count(m), 1);
    assert_int_equal(models_n_broken(m), ARRAY_SIZE(rows));
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char name[32];

        snprintf(name, sizeof(name), "%s", rows[i].name);
        if (strchr(name, '.'))
            *strchr(name, '.') = 0;
        ASSERT_CONTAINS(why(m, name), rows[i].why);
    }
    models_free(m);
    config_free(c);
}

TEST(files_of_a_model_do_not_lead_to_anything_else)
{
    static const struct {
        const char *file, *target, *why;
    } rows[] = {
        {"tokenizer.json", "/etc/passwd", "whose name is not that of a model's file"},
        {"config.json", "disk/docker/config.json", "beside which there are no weights"},
        {"model.safetensors", "/etc/passwd", "which is not a safetensors file"},
        {"merges.txt", "disk/gone", "which is not there"},
        {"vocab.json", "/dev/null", "which is not a regular file"},
        {"1_Pooling/config.json", "disk/docker/config.json", "beside which there are no weights"},
    };
    struct config *c = config_of("/models");

    put("disk/docker/config.json", "{\"auths\": {}}");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct models *m = NULL;
        char path[256];

        put("models/m/1_Pooling/note", "");
        put("models/m/config.json", "{}");
        put_safetensors("models/m/model.safetensors");
        snprintf(path, sizeof(path), "%s/models/m/%s", dir, rows[i].file);
        unlink(path);
        put_link(path + strlen(dir) + 1, rows[i].target);
        ASSERT_OK(models_scan(c, &m));
        assert_int_equal(models_count(m), 0);
        ASSERT_CONTAINS(why(m, "m"), rows[i].file);
        ASSERT_CONTAINS(why(m, "m"), rows[i].why);
        models_free(m);
        ASSERT_OK(unlink(path));
    }
    config_free(c);
}

TEST(the_only_model_is_the_default)
{
    struct config *c = config_here();
    struct models *m = NULL;
    char *names;

    ASSERT_OK(models_scan(c, &m));
    assert_null(models_default(m, c));
    models_free(m);
    put("one.gguf", "1");
    ASSERT_OK(models_scan(c, &m));
    ASSERT_STREQ(models_default(m, c)->name, "one");
    names = models_names(m);
    ASSERT_STREQ(names, "one");
    free(names);
    models_free(m);
    config_free(c);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, tempdir_make, tempdir_remove)

RUN_TESTS(CASE(files_directories_and_splits_have_names), CASE(a_manifest_names_and_aliases),
          CASE(a_manifest_with_a_mistake_concerns_itself_alone),
          CASE(a_manifest_beside_its_own_file_is_one_model), CASE(links_to_models_are_models),
          CASE(links_to_other_files_are_reported),
          CASE(files_of_a_model_do_not_lead_to_anything_else), CASE(the_only_model_is_the_default))
