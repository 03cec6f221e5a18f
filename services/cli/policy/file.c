/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads policies from files (see file.h).
 *
 * The parser gets a table of texts, with the texts of files before the built-in ones. So a file
 * overrides a built-in text of the same name.
 */
#include "cli/policy/file.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

enum {
    FILE_MAX = 1 << 20,
    FILES_MAX = 64,
};

struct files {
    struct policy_text texts[FILES_MAX]; /* the first n_own names and texts are owned */
    size_t n, n_own;
};

static void files_done(struct files *files)
{
    for (size_t i = 0; i < files->n_own; i++) {
        free((void *)(uintptr_t)files->texts[i].name);
        free((void *)(uintptr_t)files->texts[i].text);
    }
}

/* Adds a file; takes ownership of @name and @text. */
static int policy_file_add(struct files *files, char *name, char *text, size_t len,
                           struct inf_err *reterr)
{
    if (!name || !text || files->n == FILES_MAX) {
        free(name);
        free(text);
        return err_set(reterr, ENOMEM, "out of memory");
    }
    files->texts[files->n++] = (struct policy_text){name, text, len};
    files->n_own = files->n;
    return 0;
}

static int add_file(struct files *files, const char *folder, const char *path,
                    struct inf_err *reterr)
{
    const char *base = path_base(path);
    char *text = NULL;
    size_t len = 0;
    const int r = file_read(path, FILE_MAX, &text, &len, reterr);

    return r < 0 ? r : policy_file_add(files, path_join(folder, base), text, len, reterr);
}

/* Adds the files in "@dir/fragments" as fragments of @folder. */
static int add_fragments(struct files *files, const char *dir, const char *folder,
                         struct inf_err *reterr)
{
    _cleanup_free_ char *pattern = path_join(dir, "fragments/*.yaml");
    _cleanup_free_ char *fragments = path_join(folder, "fragments");
    glob_t list = {0};
    int r = 0;

    if (!pattern || !fragments)
        return err_set(reterr, ENOMEM, "out of memory");
    if (glob(pattern, 0, NULL, &list) == 0)
        for (size_t i = 0; r == 0 && i < list.gl_pathc; i++)
            r = add_file(files, fragments, list.gl_pathv[i], reterr);
    globfree(&list);
    return r;
}

static int add_paths(struct files *files, const char *dir, const char *base, struct inf_err *reterr)
{
    static const char none[] = "about: no files\n";
    _cleanup_free_ char *folder = path_join(dir, "../landlock");
    _cleanup_free_ char *path = folder ? path_join(folder, base) : NULL;

    if (path && path_exists(path)) {
        const int r = add_file(files, "landlock", path, reterr);

        return r < 0 ? r : add_fragments(files, folder, "landlock", reterr);
    }
    return policy_file_add(files, path_join("landlock", base), strdup(none), sizeof(none) - 1,
                           reterr);
}

int policy_file_load(const char *path, struct policy **ret_policy, struct inf_err *reterr)
{
    _cleanup_(files_done) struct files files = {0};
    _cleanup_free_ char *dir = strdup(path), *name = NULL;
    char *slash = dir ? strrchr(dir, '/') : NULL;
    const char *base = slash ? slash + 1 : path;
    const size_t len = strlen(base);
    int r;

    if (len < 6 || !text_ends_with(base, ".yaml"))
        return err_set(reterr, EINVAL, "%s: the name of a policy file must end in .yaml", path);
    name = strndup(base, len - 5);
    if (!dir || !name)
        return err_set(reterr, ENOMEM, "out of memory");
    r = add_file(&files, "seccomp", path, reterr);
    if (r < 0)
        return r;
    base = strrchr(files.texts[0].name, '/') + 1;
    if (slash)
        *slash = 0;
    r = add_fragments(&files, slash ? dir : ".", "seccomp", reterr);
    if (r == 0)
        r = add_paths(&files, slash ? dir : ".", base, reterr);
    for (size_t i = 0; r == 0 && i < n_policy_texts && files.n < FILES_MAX; i++)
        files.texts[files.n++] = policy_texts[i];
    return r < 0 ? r : policy_load(files.texts, files.n, name, ret_policy, reterr);
}
