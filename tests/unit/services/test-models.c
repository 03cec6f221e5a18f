/* SPDX-License-Identifier: Apache-2.0 */
#include "common/models.h"

#include <errno.h>
#include <sys/stat.h>

#include "common/config.h"
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

static struct config *config_here(void)
{
    struct config *c = NULL;
    char text[256];
    struct inf_err err;

    ASSERT_OK(config_new(&c));
    snprintf(text, sizeof(text), "models:\n  directories: [%s]\n", dir);
    ASSERT_OK_ERR(config_apply(c, "t", text, strlen(text), &err), err);
    return c;
}

TEST(files_directories_and_splits_have_names)
{
    struct config *c = config_here();
    struct models *m = NULL;
    struct inf_err err;

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
    ASSERT_OK_ERR(models_scan(c, &m, &err), err);
    assert_int_equal(models_count(m), 5);
    ASSERT_STREQ(models_at(m, 0)->name, "A-Q8");
    assert_int_equal(models_find(m, "big")->size, 7);
    assert_int_equal(models_find(m, "HF")->size, 6);
    ASSERT_STREQ(models_find(m, "hf")->kind, "safetensors");
    assert_int_equal(models_find(m, "org/name")->size, 4);
    assert_null(models_find(m, "nomodel"));
    assert_null(models_default(m, c));
    models_free(m);
    config_free(c);
}

TEST(a_manifest_names_and_aliases)
{
    struct config *c = config_here();
    struct models *m = NULL;
    struct inf_err err;

    put("store/x.gguf", "1");
    put("chat.yaml", "path: store/x.gguf\naliases: [gpt-4o, default]\n");
    ASSERT_OK_ERR(models_scan(c, &m, &err), err);
    assert_ptr_equal(models_find(m, "gpt-4o"), models_find(m, "chat"));
    models_free(m);
    put("chat.yaml", "path: store/x.gguf\nalias: [gpt-4o]\n");
    ASSERT_ERROR(models_scan(c, &m, &err), EBADMSG);
    ASSERT_CONTAINS(err.text, "chat.yaml:2:1: \"alias\"");
    config_free(c);
}

TEST(the_only_model_is_the_default)
{
    struct config *c = config_here();
    struct models *m = NULL;
    struct inf_err err;
    char *names;

    ASSERT_OK_ERR(models_scan(c, &m, &err), err);
    assert_null(models_default(m, c));
    models_free(m);
    put("one.gguf", "1");
    ASSERT_OK_ERR(models_scan(c, &m, &err), err);
    ASSERT_STREQ(models_default(m, c)->name, "one");
    names = models_names(m);
    ASSERT_STREQ(names, "one");
    free(names);
    models_free(m);
    config_free(c);
}

RUN_TESTS(cmocka_unit_test_setup_teardown(files_directories_and_splits_have_names, tempdir_make,
                                          tempdir_remove),
          cmocka_unit_test_setup_teardown(a_manifest_names_and_aliases, tempdir_make,
                                          tempdir_remove),
          cmocka_unit_test_setup_teardown(the_only_model_is_the_default, tempdir_make,
                                          tempdir_remove))
