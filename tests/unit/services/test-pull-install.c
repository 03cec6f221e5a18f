/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests how files that arrived become a model (pull_install()), and what happens if a process still
 * writes a file, if something else has the name of the model, if the manifest is wrong, or if a
 * blob is damaged.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/pull/pull.h"
#include "common/store/store.h"
#include "core/file.h"
#include "lib/tempdir.h"

static const char content[] = "GGUF and some numbers";
/* SHA-256 of the content. */
static char digest[STORE_DIGEST + 1];
static char store[96], job[128], arrivals[160];
/* The settings of the next plans; NULL: none. */
static const char *settings;

static void put_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static const char *below(const char *parent, const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", parent, name);
    return path;
}

static void begin(void)
{
    uint64_t size;

    snprintf(store, sizeof(store), "%s/models", dir);
    snprintf(job, sizeof(job), "%s/" STORE_INCOMING "/1", store);
    snprintf(arrivals, sizeof(arrivals), "%s/fetch", job);
    assert_int_equal(path_make_dirs(arrivals, 0755), 0);
    settings = NULL;
    put_file(below(store, "content"), content);
    assert_int_equal(store_digest(below(store, "content"), NULL, NULL, digest, &size, NULL), 0);
}

/* Installs the model @name, whose file has the digest of the content. Returns the error. */
static int install(const char *name)
{
    struct pull_plan plan = {.is_gguf = true, .settings = settings};
    struct inf_err err = {0};
    int r;

    snprintf(plan.name, sizeof(plan.name), "%s", name);
    r = pull_plan_add(&plan,
                      &(struct pull_file){.name = "m.gguf",
                                          .url = "https://hub.example/m.gguf",
                                          .size = strlen(content),
                                          .sha256 = digest},
                      &err);
    assert_int_equal(r, 0);
    r = pull_install(store, job, arrivals, &plan, NULL, NULL, &err);
    pull_plan_done(&plan);
    return r;
}

/* Writes the file as sconce-fetch does. */
static const char *arrive(void)
{
    static char part[256];

    snprintf(part, sizeof(part), "%s/%s.part", arrivals, digest);
    put_file(part, content);
    return part;
}

TEST(a_file_that_arrived_becomes_a_model)
{
    begin();
    arrive();
    assert_int_equal(install("org/m"), 0);
    assert_true(path_exists(below(store, "org/m/m.gguf")));
}

TEST(a_file_that_is_still_written_is_refused)
{
    int fd;

    begin();
    fd = open(arrive(), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(install("m"), -EIO);
    assert_false(path_exists(below(store, "m")));
    close(fd);
    /* The file has been taken out of the directory, so the next attempt finds it. */
    assert_int_equal(install("m"), 0);
}

TEST(a_link_to_another_file_is_refused)
{
    char part[256];

    begin();
    snprintf(part, sizeof(part), "%s", arrive());
    unlink(part);
    assert_int_equal(link(below(store, "content"), part), 0);
    assert_int_equal(install("m"), -EBADMSG);
    assert_false(path_exists(below(store, "m")));
}

TEST(a_directory_of_other_models_is_not_replaced)
{
    begin();
    arrive();
    assert_int_equal(path_make_dirs(below(store, "m/other"), 0755), 0);
    assert_int_equal(install("m"), -EEXIST);
    assert_true(path_is_dir(below(store, "m/other")));
}

TEST(an_empty_directory_is_replaced)
{
    begin();
    arrive();
    assert_int_equal(path_make_dirs(below(store, "m"), 0755), 0);
    assert_int_equal(install("m"), 0);
}

TEST(a_file_and_a_link_are_not_replaced)
{
    begin();
    arrive();
    put_file(below(store, "m"), content);
    assert_int_equal(install("m"), -EEXIST);
    unlink(below(store, "m"));
    assert_int_equal(install("other"), 0);
    assert_int_equal(symlink("other", below(store, "m")), 0);
    assert_int_equal(install("m"), -EEXIST);
}

TEST(a_model_is_not_put_into_another_one)
{
    begin();
    arrive();
    assert_int_equal(install("m"), 0);
    assert_int_equal(install("m/sub"), -EEXIST);
    assert_int_equal(install("content/sub"), -EEXIST);
    assert_int_equal(install("m"), 0);
}

TEST(a_manifest_that_cannot_be_read_replaces_nothing)
{
    begin();
    arrive();
    assert_int_equal(install("m"), 0);
    settings = "stop: [\"\xc2\x81\"]\n";
    assert_int_equal(install("m"), -EINVAL);
    settings = "context: 8\ncontext: 9\n";
    assert_int_equal(install("m"), -EINVAL);
    settings = "template: absent.jinja\n";
    assert_int_equal(install("m"), -EINVAL);
    settings = "context: 8\n";
    assert_int_equal(install("m"), 0);
    settings = NULL;
}

TEST(a_damaged_blob_is_removed_and_fetched_again)
{
    char blob[300];

    begin();
    arrive();
    assert_int_equal(install("a"), 0);
    snprintf(blob, sizeof(blob), "%s/" STORE_BLOBS "/sha256-%s", store, digest);
    put_file(blob, "GGUF and same numbers");
    assert_int_equal(path_make_dirs(arrivals, 0755), 0);
    assert_int_equal(install("b"), -EBADMSG);
    assert_false(path_exists(blob));
    arrive();
    assert_int_equal(install("b"), 0);
    assert_true(path_exists(blob));
}

#define INSTALL_TEST(name) cmocka_unit_test_setup_teardown(name, tempdir_make, tempdir_remove)
RUN_TESTS(INSTALL_TEST(a_file_that_arrived_becomes_a_model),
          INSTALL_TEST(a_file_that_is_still_written_is_refused),
          INSTALL_TEST(a_link_to_another_file_is_refused),
          INSTALL_TEST(a_directory_of_other_models_is_not_replaced),
          INSTALL_TEST(an_empty_directory_is_replaced),
          INSTALL_TEST(a_file_and_a_link_are_not_replaced),
          INSTALL_TEST(a_model_is_not_put_into_another_one),
          INSTALL_TEST(a_manifest_that_cannot_be_read_replaces_nothing),
          INSTALL_TEST(a_damaged_blob_is_removed_and_fetched_again))
