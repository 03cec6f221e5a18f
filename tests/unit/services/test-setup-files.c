/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>

#include "cli/machine/api-keys.h"
#include "cli/machine/edits.h"
#include "cli/machine/places.h"
#include "common/config/key-file.h"
#include "core/file.h"
#include "lib/tempdir.h"

static const char *in_dir(const char *name)
{
    static char ring[4][256];
    static unsigned next;
    char *path = ring[next++ % 4];

    snprintf(path, sizeof(ring[0]), "%s/%s", dir, name);
    return path;
}

static char *text_of(const char *path)
{
    char *text = NULL;
    size_t len;

    return file_read(path, 1 << 20, &text, &len, NULL) < 0 ? NULL : text;
}

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(path, mode), 0);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

TEST(a_generated_file_is_written_once)
{
    struct edits e = {.quiet = true};
    const char *path = in_dir("a/b/50-x.conf");
    _cleanup_free_ char *text = NULL;
    struct inf_err err;

    ASSERT_OK_ERR(edit_generate(&e, path, "[Socket]\n", &err), err);
    assert_int_equal(e.n_changes, 1);
    text = text_of(path);
    assert_int_equal(edit_whose(text), EDIT_OURS);
    ASSERT_CONTAINS(text, "\n[Socket]\n");
    assert_int_equal(mode_of(path), 0644);
    ASSERT_OK_ERR(edit_generate(&e, path, "[Socket]\n", &err), err);
    assert_int_equal(e.n_changes, 1);
    ASSERT_OK_ERR(edit_generate(&e, path, "[Socket]\nA=b\n", &err), err);
    assert_int_equal(e.n_changes, 2);
    assert_false(path_exists(in_dir("a/b/50-x.conf.old")));
}

TEST(files_edited_by_hand_are_kept_beside)
{
    struct edits e = {.quiet = true};
    const char *path = in_dir("50-x.conf"), *old = in_dir("50-x.conf.old");
    _cleanup_free_ char *first = edit_marked("[Socket]\nA=b\n"), *kept = NULL;
    struct inf_err err;

    first[strlen(first) - 2] = 'c';
    assert_int_equal(edit_whose(first), EDIT_PERSON);
    put(path, first, 0644);
    ASSERT_OK_ERR(edit_generate(&e, path, "[Socket]\nA=d\n", &err), err);
    kept = text_of(old);
    ASSERT_STREQ(kept, first);
    put(path, "made by hand\n", 0644);
    ASSERT_OK_ERR(edit_remove(&e, path, &err), err);
    assert_false(path_exists(path));
    free(kept);
    kept = text_of(old);
    ASSERT_STREQ(kept, "made by hand\n");
}

TEST(removal_deletes_only_generated_files)
{
    struct edits e = {.quiet = true};
    const char *path = in_dir("50-x.conf");
    struct inf_err err;

    ASSERT_OK_ERR(edit_remove(&e, path, &err), err);
    assert_int_equal(e.n_changes, 0);
    ASSERT_OK_ERR(edit_generate(&e, path, "x\n", &err), err);
    ASSERT_OK_ERR(edit_remove(&e, path, &err), err);
    assert_false(path_exists(path));
    assert_false(path_exists(in_dir("50-x.conf.old")));
}

TEST(a_dry_run_changes_nothing)
{
    struct edits e = {.dry_run = true};
    struct inf_err err;

    put(in_dir("mine"), "by hand\n", 0644);
    ASSERT_OK_ERR(edit_generate(&e, in_dir("new/50-x.conf"), "x\n", &err), err);
    ASSERT_OK_ERR(edit_generate(&e, in_dir("mine"), "x\n", &err), err);
    ASSERT_OK_ERR(edit_link(&e, "/usr/lib/x", in_dir("new/link"), &err), err);
    ASSERT_OK_ERR(api_keys_add(&e, in_dir("keys"), "sk-sconce-secret", NULL, RIGHT_INFER, &err),
                  err);
    assert_int_equal(e.n_changes, 4);
    assert_false(path_exists(in_dir("new")));
    assert_false(path_exists(in_dir("keys")));
    assert_false(path_exists(in_dir("mine.old")));
}

TEST(keys_are_long_and_differ)
{
    char a[API_KEY_SIZE], b[API_KEY_SIZE];

    ASSERT_OK(api_key_new(a));
    ASSERT_OK(api_key_new(b));
    assert_int_equal(strlen(a), API_KEY_SIZE - 1);
    assert_memory_equal(a, "sk-sconce-", 10);
    assert_int_equal(strspn(a + 10, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789-_"),
                     43);
    assert_string_not_equal(a, b);
}

TEST(every_byte_of_a_key_is_random)
{
    char first[API_KEY_SIZE], key[API_KEY_SIZE];
    bool changed[API_KEY_SIZE] = {0};

    ASSERT_OK(api_key_new(first));
    for (int i = 0; i < 200; i++) {
        ASSERT_OK(api_key_new(key));
        for (size_t k = 0; k < sizeof(key); k++)
            changed[k] |= key[k] != first[k];
    }
    for (size_t k = 10; k < sizeof(key) - 1; k++)
        assert_true(changed[k]);
}

TEST(the_key_file_keeps_what_people_wrote)
{
    static const char theirs[] = "# mine\n\n  abc  laptop of bob \n#no\nxyz # comment";
    struct edits e = {.quiet = true};
    const char *path = in_dir("api-keys");
    _cleanup_(key_list_done) struct key_list keys = {};
    _cleanup_free_ char *text = NULL;
    struct inf_err err;

    put(path, theirs, 0666);
    ASSERT_OK_ERR(api_keys_load(path, &keys, &err), err);
    assert_int_equal(keys.n, 2);
    ASSERT_STREQ(keys.keys[0].key, "abc");
    assert_true(api_keys_has_name(&keys, "laptop of bob"));
    assert_false(api_keys_has_name(&keys, "laptop"));
    ASSERT_OK_ERR(api_keys_add(&e, path, "new", "phone", RIGHT_INFER, &err), err);
    text = text_of(path);
    assert_memory_equal(text, theirs, strlen(theirs));
    ASSERT_STREQ(text + strlen(theirs), "\nnew rights=infer phone\n");
    assert_int_equal(mode_of(path), 0600);
}

TEST(a_link_stays_a_link)
{
    struct edits e = {.quiet = true};
    struct inf_err err;
    struct stat st;
    _cleanup_free_ char *text = NULL;

    put(in_dir("elsewhere"), "abc\n", 0600);
    assert_int_equal(symlink("elsewhere", in_dir("api-keys")), 0);
    ASSERT_OK_ERR(api_keys_add(&e, in_dir("api-keys"), "new", NULL, RIGHT_INFER, &err), err);
    assert_int_equal(lstat(in_dir("api-keys"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    text = text_of(in_dir("elsewhere"));
    ASSERT_STREQ(text, "abc\nnew rights=infer\n");
}

TEST(roots_umask_shuts_no_service_out)
{
    struct edits e = {.quiet = true};
    const mode_t old = umask(077);
    struct inf_err err;

    ASSERT_OK_ERR(edit_generate(&e, in_dir("new/sconce.d/50-x.yaml"), "x\n", &err), err);
    umask(old);
    assert_int_equal(mode_of(in_dir("new/sconce.d/50-x.yaml")), 0644);
    assert_int_equal(mode_of(in_dir("new/sconce.d")), geteuid() == 0 ? 0755 : 0700);
}

TEST(a_first_key_makes_the_file)
{
    struct edits e = {.quiet = true};
    const char *path = in_dir("config/api-keys");
    _cleanup_(key_list_done) struct key_list keys = {};
    struct inf_err err;

    ASSERT_OK_ERR(api_keys_load(path, &keys, &err), err);
    assert_int_equal(keys.n, 0);
    ASSERT_OK_ERR(api_keys_add(&e, path, "k1", NULL, RIGHT_INFER, &err), err);
    ASSERT_OK_ERR(api_keys_load(path, &keys, &err), err);
    assert_int_equal(keys.n, 1);
    ASSERT_STREQ(keys.keys[0].key, "k1");
    assert_int_equal(keys.keys[0].rights, RIGHT_INFER);
    assert_int_equal(mode_of(path), 0600);
    ASSERT_OK_ERR(api_keys_add(&e, path, "k2", "the graphs", RIGHT_OBSERVE | RIGHT_MANAGE, &err),
                  err);
    ASSERT_OK_ERR(api_keys_load(path, &keys, &err), err);
    assert_int_equal(keys.n, 3);
    assert_int_equal(keys.keys[2].rights, RIGHT_OBSERVE | RIGHT_MANAGE);
    ASSERT_STREQ(keys.keys[2].name, "the graphs");
}

TEST(places_lie_below_their_root)
{
    struct places p;
    struct inf_err err;
    _cleanup_free_ char *unit = NULL, *drop_in = NULL;
    char path[512];

    snprintf(path, sizeof(path), "%s/", dir);
    ASSERT_OK_ERR(places_init(false, path, &p, &err), err);
    ASSERT_STREQ(p.root, dir);
    ASSERT_STREQ(p.unit_dir, in_dir("etc/systemd/system"));
    assert_null(places_find_unit(&p, "sconce.target"));
    snprintf(path, sizeof(path), "mkdir -p %s/usr/lib/systemd/system && touch %s%s", dir, dir,
             "/usr/lib/systemd/system/sconce.target");
    assert_int_equal(system(path), 0);
    unit = places_find_unit(&p, "sconce.target");
    ASSERT_STREQ(unit, "/usr/lib/systemd/system/sconce.target");
    drop_in = places_drop_in(&p, "sconce-chat.service", "50-gpu.conf");
    ASSERT_STREQ(drop_in, in_dir("etc/systemd/system/sconce-chat.service.d/50-gpu.conf"));
    places_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_generated_file_is_written_once, tempdir_make,
                                        tempdir_remove),
        cmocka_unit_test_setup_teardown(files_edited_by_hand_are_kept_beside, tempdir_make,
                                        tempdir_remove),
        cmocka_unit_test_setup_teardown(removal_deletes_only_generated_files, tempdir_make,
                                        tempdir_remove),
        cmocka_unit_test_setup_teardown(a_dry_run_changes_nothing, tempdir_make, tempdir_remove),
        cmocka_unit_test(keys_are_long_and_differ),
        cmocka_unit_test(every_byte_of_a_key_is_random),
        cmocka_unit_test_setup_teardown(the_key_file_keeps_what_people_wrote, tempdir_make,
                                        tempdir_remove),
        cmocka_unit_test_setup_teardown(a_link_stays_a_link, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(roots_umask_shuts_no_service_out, tempdir_make,
                                        tempdir_remove),
        cmocka_unit_test_setup_teardown(a_first_key_makes_the_file, tempdir_make, tempdir_remove),
        cmocka_unit_test_setup_teardown(places_lie_below_their_root, tempdir_make, tempdir_remove),
    };

    return cmocka_run_group_tests_name("setup-files", tests, NULL, NULL);
}
