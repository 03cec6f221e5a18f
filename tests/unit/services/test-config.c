/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/config.h"

#include <errno.h>
#include <sys/stat.h>

#include "lib/test.h"

static int apply(struct config **ret, const char *text, struct inf_err *err)
{
    ASSERT_OK(config_new(ret));
    return config_apply(*ret, "t.yaml", text, strlen(text), err);
}

TEST(values_replace_defaults)
{
    struct inf_err err;
    struct config *c = NULL;

    ASSERT_OK_ERR(
        apply(&c,
              "gateway:\n  max_body: 2MiB\n  idle_timeout: 5min\n  api_keys: [a, \"b c\"]\n"
              "chat:\n  threads: 3\n  device: cpu\n  request_timeout: 1500ms\n"
              "models:\n  directories:\n    - /x\n  default: m\n"
              "confinement:\n  landlock: optional\n",
              &err),
        err);
    assert_int_equal(c->gateway.max_body, 2 << 20);
    assert_int_equal(c->gateway.idle_timeout_usec, 300000000);
    assert_int_equal(c->gateway.api_keys.n, 2);
    ASSERT_STREQ(c->gateway.api_keys.keys[1].key, "b c");
    assert_int_equal(c->gateway.api_keys.keys[1].rights, RIGHTS_UNSTATED);
    assert_int_equal(c->chat.threads, 3);
    assert_int_equal(c->chat.request_timeout_usec, 1500000);
    assert_int_equal(c->n_model_dirs, 1);
    ASSERT_STREQ(c->default_model, "m");
    assert_int_equal(c->gateway.tcp_access, CONFIG_TCP_KEY);
    assert_int_equal(c->gateway.unix_access, CONFIG_UNIX_OPEN);
    assert_int_equal(c->confinement.landlock, CONFIG_LANDLOCK_OPTIONAL);
    config_free(c);
}

TEST(api_keys_have_names_and_rights)
{
    struct inf_err err;
    struct config *c = NULL;

    ASSERT_OK_ERR(apply(&c,
                        "gateway:\n  api_keys:\n    - plain\n    - {key: graphs, name: the graphs, "
                        "rights: [observe]}\n    - key: both\n      rights: [manage, infer]\n",
                        &err),
                  err);
    assert_int_equal(c->gateway.api_keys.n, 3);
    ASSERT_STREQ(c->gateway.api_keys.keys[0].name, "");
    ASSERT_STREQ(c->gateway.api_keys.keys[1].key, "graphs");
    ASSERT_STREQ(c->gateway.api_keys.keys[1].name, "the graphs");
    assert_int_equal(c->gateway.api_keys.keys[1].rights, RIGHT_OBSERVE);
    assert_int_equal(c->gateway.api_keys.keys[2].rights, RIGHT_INFER | RIGHT_MANAGE);
    /* A later list replaces the earlier list with all its keys and rights. */
    ASSERT_OK_ERR(config_apply(c, "u.yaml", "gateway: {api_keys: [other]}", 28, &err), err);
    assert_int_equal(c->gateway.api_keys.n, 1);
    ASSERT_STREQ(c->gateway.api_keys.keys[0].key, "other");
    ASSERT_OK_ERR(config_apply(c, "u.yaml", "gateway: {api_keys: }", 21, &err), err);
    assert_int_equal(c->gateway.api_keys.n, 0);
    config_free(c);
}

TEST(devices_have_names)
{
    static const char *const names[] = {"auto", "cpu", "vulkan", "vulkan:0", "vulkan:15"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct config *c = NULL;
        char text[64];
        struct inf_err err;

        snprintf(text, sizeof(text), "chat:\n  device: %s\n", names[i]);
        ASSERT_OK_ERR(apply(&c, text, &err), err);
        ASSERT_STREQ(c->chat.device, names[i]);
        ASSERT_OK(config_set_device(c, "cpu"));
        ASSERT_STREQ(c->chat.device, "cpu");
        config_free(c);
    }
}

TEST(the_directory_of_kernels_is_the_managers_or_the_users)
{
    char *dir;

    setenv("HOME", "/h", 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("CACHE_DIRECTORY");
    dir = config_cache_dir();
    ASSERT_STREQ(dir, "/h/.cache/sconce");
    free(dir);
    setenv("XDG_CACHE_HOME", "/c", 1);
    dir = config_cache_dir();
    ASSERT_STREQ(dir, "/c/sconce");
    free(dir);
    setenv("CACHE_DIRECTORY", "/var/cache/sconce:/other", 1);
    dir = config_cache_dir();
    ASSERT_STREQ(dir, "/var/cache/sconce");
    free(dir);
    unsetenv("CACHE_DIRECTORY");
    unsetenv("XDG_CACHE_HOME");
}

TEST(every_mistake_is_reported_with_line_and_column)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"gateway:\n  max_bdy: 1\n", "t.yaml:2:3: unknown key \"gateway.max_bdy\""},
        {"gatway: {}\n", "t.yaml:1:1: unknown section \"gatway\""},
        {"chat:\n  threads: many\n", "t.yaml:2:12: chat.threads must be a whole number"},
        {"chat:\n  threads: 4096\n", "t.yaml:2:12: chat.threads is 4096, outside 0 to 1024"},
        {"chat:\n  threads: -1\n", "t.yaml:2:12"},
        {"gateway:\n  max_body: 10 parsecs\n", "must be a size"},
        {"gateway:\n  max_body: 99999999999999999999\n", "must be a size"},
        {"gateway:\n  api_keys: secret\n", "must be a list"},
        {"gateway:\n  api_keys: [[]]\n", "t.yaml:2:14: entries of gateway.api_keys"},
        {"chat: [1]\n", "t.yaml:1:7: section \"chat\" must be a mapping"},
        {"gateway:\n  api_keys: [{name: x}]\n",
         "t.yaml:2:14: entries of gateway.api_keys must be texts, or mappings with a key"},
        {"gateway:\n  api_keys: [{key: k, key: l}]\n", "t.yaml:2:23: a field of an API key"},
        {"gateway:\n  api_keys: [{key: k, right: infer}]\n",
         "t.yaml:2:23: an API key has only the fields key, name and rights"},
        {"gateway:\n  api_keys: [{key: []}]\n", "t.yaml:2:20: key of an API key must be a text"},
        {"gateway:\n  api_keys: [{key: k, rights: observe}]\n",
         "t.yaml:2:31: rights must be a list of infer, manage, observe"},
        {"gateway:\n  api_keys: [{key: k, rights: [observ]}]\n",
         "t.yaml:2:32: the rights are infer, manage, observe"},
        {"gateway:\n  api_keys: [{key: k, rights: []}]\n",
         "t.yaml:2:31: a key needs at least one right"},
        {"- a\n", "must be a mapping of sections"},
        {"chat:\n  threads: 1\n  threads: 2\n", "t.yaml:3:3: \"chat.threads\" is given twice"},
        {"chat: {}\nchat: {}\n", "t.yaml:2:1: section \"chat\" is given twice"},
        {"chat: {\n", "t.yaml:2:1"},
        {"chat: {}\n---\ngateway: {}\n", "t.yaml:3:1: a second document"},
        {"a: &a [*a]\n", "t.yaml"},
        {"gateway:\n  tcp_access: keys\n",
         "t.yaml:2:15: gateway.tcp_access must be \"key\" or \"open\""},
        {"gateway:\n  unix_access: []\n", "gateway.unix_access must be \"open\" or \"key\""},
        {"chat:\n  device: gpu\n",
         "t.yaml:2:11: chat.device must be auto, cpu, vulkan or vulkan:N"},
        {"chat:\n  kv_type: q9\n", "t.yaml:2:12: chat.kv_type must be auto, f32, f16"},
        {"chat:\n  kv_type: \"f16:\"\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: f16:f16:f16\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0+new\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: f16:q4_0+recent\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0+recent:q3_0\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: iso3+recent\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: turbo4_qjl:turbo4+recent\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0/\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0/3\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0/3-=q8_0\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0/3=q8_0+recent\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0/window=q8_0\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  kv_type: q4_0/3=q8_0/\n", "t.yaml:2:12: chat.kv_type"},
        {"chat:\n  device: \"vulkan:\"\n", "t.yaml:2:11: chat.device"},
        {"chat:\n  device: vulkan:1x\n", "t.yaml:2:11: chat.device"},
        {"chat:\n  device: vulkan:1000\n", "t.yaml:2:11: chat.device"},
        {"models:\n  directories: [/a, models]\n",
         "t.yaml:2:21: each entry of models.directories must be an absolute path"},
        {"cache:\n  directory: blocks\n", "t.yaml:2:14: cache.directory must be an absolute path"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct inf_err err = {0};
        struct config *c = NULL;

        ASSERT_ERROR(apply(&c, cases[i].text, &err), EINVAL);
        ASSERT_CONTAINS(err.text, cases[i].want);
        config_free(c);
    }
}

TEST(empty_files_and_sections_change_nothing)
{
    static const char *texts[] = {"", "# only words\n", "chat:\n", "~\n"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct inf_err err;
        struct config *c = NULL;

        ASSERT_OK_ERR(apply(&c, texts[i], &err), err);
        assert_int_equal(c->chat.max_sequences, 16);
        config_free(c);
    }
}

TEST(later_files_win_and_a_named_file_stands_alone)
{
    char dir[] = "/tmp/test-config-XXXXXX", path[256];
    struct inf_err err;
    struct config *c = NULL;
    FILE *f;

    assert_non_null(mkdtemp(dir));
    setenv("XDG_CONFIG_HOME", dir, 1);
    snprintf(path, sizeof(path), "%s/sconce", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/sconce/sconce.yaml", dir);
    f = fopen(path, "we");
    fputs("chat:\n  threads: 1\n  max_queue: 7\n", f);
    fclose(f);
    snprintf(path, sizeof(path), "%s/sconce/sconce.d", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/sconce/sconce.d/10-a.yaml", dir);
    f = fopen(path, "we");
    fputs("chat:\n  threads: 2\n", f);
    fclose(f);

    ASSERT_OK_ERR(config_load(NULL, &c, &err), err);
    assert_int_equal(c->chat.threads, 2);
    assert_int_equal(c->chat.max_queue, 7);
    config_free(c);

    ASSERT_OK_ERR(config_load(path, &c, &err), err);
    assert_int_equal(c->chat.threads, 2);
    assert_int_equal(c->chat.max_queue, 256);
    config_free(c);

    ASSERT_ERROR(config_load("/nonexistent.yaml", &c, &err), ENOENT);
    snprintf(path, sizeof(path), "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

RUN_TESTS(cmocka_unit_test(values_replace_defaults),
          cmocka_unit_test(api_keys_have_names_and_rights), cmocka_unit_test(devices_have_names),
          cmocka_unit_test(the_directory_of_kernels_is_the_managers_or_the_users),
          cmocka_unit_test(every_mistake_is_reported_with_line_and_column),
          cmocka_unit_test(empty_files_and_sections_change_nothing),
          cmocka_unit_test(later_files_win_and_a_named_file_stands_alone))
