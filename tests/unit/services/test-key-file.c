/* SPDX-License-Identifier: Apache-2.0 */
#include "common/config/key-file.h"

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

TEST(a_line_may_list_the_rights_of_its_key)
{
    static const struct {
        const char *line, *name;
        unsigned rights;
    } rows[] = {
        {"k", "", RIGHTS_UNSTATED},
        {"k laptop", "laptop", RIGHTS_UNSTATED},
        {"k rights=infer", "", RIGHT_INFER},
        {"k rights=observe the graphs", "the graphs", RIGHT_OBSERVE},
        {"k\trights=manage,infer \t Ada # x", "Ada # x", RIGHT_INFER | RIGHT_MANAGE},
        {"k rights=infer # laptop", "", RIGHT_INFER},
        {"k rights=observe,observe\r", "", RIGHT_OBSERVE},
        /* After a name, "rights=" is part of the name. */
        {"k my rights=manage", "my rights=manage", RIGHTS_UNSTATED},
        {"k rights", "rights", RIGHTS_UNSTATED},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct inf_err err;
        struct key_list list;

        ASSERT_OK_ERR(parse(&list, rows[i].line, &err), err);
        assert_int_equal(list.n, 1);
        ASSERT_STREQ(list.keys[0].key, "k");
        ASSERT_STREQ(list.keys[0].name, rows[i].name);
        assert_int_equal(list.keys[0].rights, rows[i].rights);
        key_list_done(&list);
    }
}

TEST(an_unknown_right_is_reported)
{
    static const char *const lines[] = {
        "secret rights=",       "secret rights= name",          "secret rights=,",
        "secret rights=infer,", "secret rights=infer,,observe", "secret rights=Infer",
        "secret rights=all",    "secret rights=infer;observe"};

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct inf_err err;
        struct key_list list;

        ASSERT_ERROR(parse(&list, lines[i], &err), EINVAL);
        ASSERT_CONTAINS(err.text, "api-keys:1: rights=");
        ASSERT_CONTAINS(err.text, "infer, manage, observe");
        assert_null(strstr(err.text, "secret"));
        key_list_done(&list);
    }
}

TEST(a_key_is_found_by_its_rights)
{
    struct inf_err err;
    struct key_list list;

    ASSERT_OK_ERR(parse(&list, "a rights=observe\nb rights=infer\nc", &err), err);
    ASSERT_STREQ(key_list_find(&list, RIGHT_INFER)->key, "b");
    ASSERT_STREQ(key_list_find(&list, RIGHT_INFER | RIGHT_OBSERVE)->key, "c");
    assert_null(key_list_find(&list, RIGHT_MANAGE));
    key_list_done(&list);
}

TEST(rights_are_written_as_they_are_read)
{
    for (unsigned rights = 1; rights <= RIGHTS_ALL; rights++) {
        char text[RIGHTS_TEXT_SIZE];
        unsigned again;

        rights_print(rights, text);
        ASSERT_OK(rights_parse(text, strlen(text), &again));
        assert_int_equal(again, rights);
    }
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
    /* A credentials directory without keys does not hide the key file. If it did, the endpoint
     * would be open. */
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
          cmocka_unit_test(a_line_may_list_the_rights_of_its_key),
          cmocka_unit_test(an_unknown_right_is_reported),
          cmocka_unit_test(a_key_is_found_by_its_rights),
          cmocka_unit_test(rights_are_written_as_they_are_read),
          cmocka_unit_test(mistakes_name_the_line_and_not_the_key),
          cmocka_unit_test(files_are_found_by_credential_then_home))
