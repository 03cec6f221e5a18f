/* SPDX-License-Identifier: Apache-2.0 */
#include "common/key-file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "lib/test.h"

static int parse(struct key_list *list, const char *text, struct inf_err *err)
{
    *list = (struct key_list){};
    return key_list_parse(list, "api-keys", text, strlen(text), err);
}

TEST(lines_are_keys_with_names)
{
    struct inf_err err;
    struct key_list list;

    ASSERT_OK_ERR(parse(&list, "# all\n\nk1\r\n\tk2  Ada's laptop \nk3#x # y\nlast", &err), err);
    assert_int_equal(list.n, 4);
    ASSERT_STREQ(list.keys[0].key, "k1");
    ASSERT_STREQ(list.keys[0].name, "");
    ASSERT_STREQ(list.keys[1].key, "k2");
    ASSERT_STREQ(list.keys[1].name, "Ada's laptop");
    ASSERT_STREQ(list.keys[2].key, "k3#x");
    ASSERT_STREQ(list.keys[2].name, "");
    ASSERT_STREQ(list.keys[3].key, "last");
    key_list_done(&list);
    assert_int_equal(list.n, 0);
}

TEST(mistakes_name_the_line_and_not_the_key)
{
    struct inf_err err;
    struct key_list list;

    ASSERT_ERROR(parse(&list, "fine\nsecr\x7ft\n", &err), EINVAL);
    ASSERT_CONTAINS(err.text, "api-keys:2:");
    assert_null(strstr(err.text, "secr"));
    key_list_done(&list);
    list = (struct key_list){};
    ASSERT_ERROR(key_list_parse(&list, "api-keys", "a\0b", 3, &err), EINVAL);
    key_list_done(&list);
}

TEST(files_are_found_by_credential_then_home)
{
    char dir[] = "/tmp/test-key-file-XXXXXX", path[256];
    struct inf_err err;
    struct key_list list = {};
    FILE *f;

    assert_non_null(mkdtemp(dir));
    setenv("XDG_CONFIG_HOME", dir, 1);
    unsetenv("CREDENTIALS_DIRECTORY");
    ASSERT_OK_ERR(key_list_load(&list, &err), err);
    assert_int_equal(list.n, 0);
    snprintf(path, sizeof(path), "%s/sconce", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/sconce/api-keys", dir);
    f = fopen(path, "we");
    fputs("of-home\n", f);
    fclose(f);
    ASSERT_OK_ERR(key_list_load(&list, &err), err);
    assert_int_equal(list.n, 1);
    key_list_done(&list);
    /* Credentials of something else hide no keys: a door would be open then. */
    setenv("CREDENTIALS_DIRECTORY", dir, 1);
    ASSERT_OK_ERR(key_list_load(&list, &err), err);
    assert_int_equal(list.n, 1);
    key_list_done(&list);
    snprintf(path, sizeof(path), "%s/api-keys", dir);
    f = fopen(path, "we");
    fputs("handed-in\n", f);
    fclose(f);
    ASSERT_OK_ERR(key_list_load(&list, &err), err);
    assert_int_equal(list.n, 1);
    ASSERT_STREQ(list.keys[0].key, "handed-in");
    key_list_done(&list);
    assert_int_equal(unlink(path), 0);
    mkdir(path, 0700);
    ASSERT_ERROR(key_list_load(&list, &err), EISDIR);
    key_list_done(&list);
    snprintf(path, sizeof(path), "rm -r %s", dir);
    assert_int_equal(system(path), 0);
}

RUN_TESTS(cmocka_unit_test(lines_are_keys_with_names),
          cmocka_unit_test(mistakes_name_the_line_and_not_the_key),
          cmocka_unit_test(files_are_found_by_credential_then_home))
