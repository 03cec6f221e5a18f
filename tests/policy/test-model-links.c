/* SPDX-License-Identifier: Apache-2.0 */
/* Tests which files a confined service can read through links and manifests. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "confined.h"

static int try_open(const void *arg)
{
    char text[600];
    const int fd = open(arg, O_RDONLY | O_CLOEXEC);

    if (fd >= 0)
        return 0;
    return errno == EACCES && confine_explain_path(arg, text, sizeof(text)) ? 50 : errno;
}

static int open_status(const char *name)
{
    char path[256];
    int status;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    status = confined("chat", SEALED, try_open, path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void put_text(const char *name, const char *text, size_t len)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

/* Writes a file whose first bytes are those of a model. The check of a link's target reads only
 * these bytes. */
static void put(const char *name)
{
    put_text(name, "GGUF\3 and more", 14);
}

static void put_link(const char *name, const char *target)
{
    char path[256], to[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    snprintf(to, sizeof(to), "%s/%s", dir, target);
    ASSERT_OK(symlink(to, path));
}

static void put_dir(const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    ASSERT_OK(mkdir(path, 0700));
}

/* Makes a link after the process is confined, and opens it. */
static int link_then_open(const void *arg)
{
    const int *fds = arg;
    char path[256], c;

    if (write(fds[3], "x", 1) != 1 || read(fds[0], &c, 1) != 1)
        return 1;
    snprintf(path, sizeof(path), "%s/models/late.gguf", dir);
    return try_open(path);
}

TEST(chat_opens_models_and_the_targets_of_their_links)
{
    int to[2], from[2], status;
    pid_t helper;
    char c;

    put_dir("models");
    put_dir("models/org");
    put_dir("blobs");
    put_dir("elsewhere");
    put("models/a.gguf");
    put("models/org/b.gguf");
    put("blobs/c");
    put("elsewhere/d.gguf");
    put("elsewhere/part-00001-of-00002.gguf");
    put("elsewhere/part-00002-of-00002.gguf");
    put_text("secret", "secret of somebody", 18);
    put_link("models/c.gguf", "blobs/c");
    assert_int_equal(open_status("models/a.gguf"), 0);
    assert_int_equal(open_status("models/org/b.gguf"), 0);
    assert_int_equal(open_status("models/c.gguf"), 0);
    assert_int_equal(open_status("secret"), 50);
    assert_int_equal(open_status("models/none.gguf"), ENOENT);

    ASSERT_OK(pipe(to));
    ASSERT_OK(pipe(from));
    helper = fork();
    if (helper == 0) {
        if (read(from[0], &c, 1) != 1)
            _exit(1);
        put_link("models/late.gguf", "secret");
        _exit(write(to[1], "x", 1) == 1 ? 0 : 1);
    }
    status = confined("chat", SEALED, link_then_open, (int[]){to[0], to[1], from[0], from[1]});
    assert_int_equal(waitpid(helper, NULL, 0), helper);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 50);
}

TEST(manifests_lead_to_all_parts_of_a_model)
{
    char path[256];
    FILE *f;

    snprintf(path, sizeof(path), "%s/models/m.yaml", dir);
    f = fopen(path, "we");
    assert_non_null(f);
    fprintf(f, "name: m\npath: %s/elsewhere/part-00001-of-00002.gguf\n", dir);
    fclose(f);
    assert_int_equal(open_status("elsewhere/part-00001-of-00002.gguf"), 0);
    assert_int_equal(open_status("elsewhere/part-00002-of-00002.gguf"), 0);
    assert_int_equal(open_status("elsewhere/d.gguf"), 50);
}

static void put_safetensors(const char *name)
{
    put_text(name, "\2\0\0\0\0\0\0\0{}", 10);
}

TEST(only_the_model_in_a_linked_directory_is_opened)
{
    put_dir("disk");
    put_dir("disk/hf");
    put_dir("disk/hf/2_Dense");
    put_dir("disk/hf/deep");
    put_dir("disk/hf/deep/er");
    put_safetensors("disk/hf/model.safetensors");
    put_safetensors("disk/hf/2_Dense/model.safetensors");
    put_text("disk/hf/config.json", "{}", 2);
    put_text("disk/hf/vocab.txt", "a", 1);
    put_text("disk/hf/id_rsa", "secret", 6);
    put_text("disk/hf/notes.txt", "secret", 6);
    put_text("disk/hf/deep/er/config.json", "secret", 6);
    put_link("models/hf", "disk/hf");
    assert_int_equal(open_status("models/hf/config.json"), 0);
    assert_int_equal(open_status("models/hf/vocab.txt"), 0);
    assert_int_equal(open_status("models/hf/model.safetensors"), 0);
    assert_int_equal(open_status("models/hf/2_Dense/model.safetensors"), 0);
    assert_int_equal(open_status("models/hf"), 0);
    assert_int_equal(open_status("models/hf/id_rsa"), 50);
    assert_int_equal(open_status("models/hf/notes.txt"), 50);
    assert_int_equal(open_status("models/hf/deep/er/config.json"), 50);
}

TEST(links_to_other_files_open_nothing)
{
    put_dir("docker");
    put_dir("models/m");
    put_text("docker/config.json", "{}", 2);
    put_safetensors("models/m/model.safetensors");
    put_link("models/m/config.json", "docker/config.json");
    put_link("models/docker", "docker");
    put_link("models/secret.gguf", "secret");
    put_link("models/secret.safetensors", "secret");
    put_link("models/tokenizer.json", "secret");
    put_link("models/top", "");
    assert_int_equal(open_status("docker/config.json"), 50);
    assert_int_equal(open_status("docker"), 50);
    assert_int_equal(open_status("secret"), 50);
    assert_int_equal(open_status("models/top"), 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_opens_models_and_the_targets_of_their_links),
        cmocka_unit_test(manifests_lead_to_all_parts_of_a_model),
        cmocka_unit_test(only_the_model_in_a_linked_directory_is_opened),
        cmocka_unit_test(links_to_other_files_open_nothing),
    };

    return cmocka_run_group_tests(tests, setup_dir, remove_dir);
}
