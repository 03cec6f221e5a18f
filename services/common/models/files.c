/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the files of models (see files.h).
 *
 * A file is checked through a descriptor, and the visitor gets the same descriptor, so nobody can
 * replace the file between the two.
 */
#include "common/models/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/config/config.h"
#include "core/err.h"
#include "core/file.h"

/* Number of hexadecimal digits of SHA-1, the shortest hash that names a blob. */
#define BLOB_MIN_DIGITS 40
/* In bytes. Safetensors files with larger headers are refused. */
#define SAFETENSORS_MAX_HEADER ((uint64_t)32 << 20)
#define REFUSALS_MAX           1024

struct model_files {
    char **dirs; /* [n_dirs], with links followed */
    size_t n_dirs;
    model_files_fn visit;
    void *data;
    bool remember;
};

/* Struct target is the target of a link or manifest while it is checked. */
struct target {
    const char *path;
    char real[PATH_MAX];
    enum model_file what;
    const char *own_dir; /* MODEL_FILE_PART: the directory of the model; NULL: none */
};

/* Targets that this process refused before it was confined. Entries are added only before threads
 * start. */
static struct {
    char *links[REFUSALS_MAX], *reasons[REFUSALS_MAX];
    size_t n;
} refusals;

/* Patterns for the names of the files that libinfer looks for in a model, except for weights. */
static const char *const part_names[] = {
    "added_tokens.json",
    "adapter_config.json",
    "artifact.metadata",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "config_sentence_transformers.json",
    "generation_config.json",
    "merges.txt",
    "model.safetensors.index.json",
    "modules.json",
    "preprocessor_config.json",
    "sentence_bert_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "*vocab.txt",
    "*.model",
};

static bool is_part_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(part_names); i++)
        if (fnmatch(part_names[i], name, FNM_PERIOD) == 0)
            return true;
    return false;
}

/* Cuts the file name off @path and returns the rest, its directory. */
static const char *cut_name(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash)
        slash[slash == path ? 1 : 0] = 0;
    return path;
}

int model_files_new(const struct config *config, model_files_fn visit, void *data, bool remember,
                    struct model_files **ret_files)
{
    _cleanup_(model_files_freep) struct model_files *files = NEW(struct model_files, 1);

    if (!files)
        return -ENOMEM;
    files->visit = visit;
    files->data = data;
    files->remember = remember;
    files->dirs = NEW(char *, config->n_model_dirs);
    if (!files->dirs)
        return -ENOMEM;
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        char *real = realpath(config->model_dirs[i], NULL);

        if (real)
            files->dirs[files->n_dirs++] = real;
        else if (errno == ENOMEM)
            return -ENOMEM;
    }
    *ret_files = STEAL(files);
    return 0;
}

struct model_files *model_files_free(struct model_files *files)
{
    if (!files)
        return NULL;
    for (size_t i = 0; i < files->n_dirs; i++)
        free(files->dirs[i]);
    free(files->dirs);
    free(files);
    return NULL;
}

static bool is_below_dirs(const struct model_files *files, const char *real)
{
    for (size_t i = 0; i < files->n_dirs; i++)
        if (path_is_below(real, files->dirs[i]))
            return true;
    return false;
}

bool model_files_is_above(const struct model_files *files, const char *path)
{
    char real[PATH_MAX];

    if (!realpath(path, real))
        return false;
    for (size_t i = 0; i < files->n_dirs; i++)
        if (path_is_below(files->dirs[i], real))
            return true;
    return false;
}

/* --- refusals --- */

/* Returns the key of a refusal, which has the link and its present target. */
static char *refusal_key(const struct target *t)
{
    char *key;

    return asprintf(&key, "%s\n%s", t->path, t->real) < 0 ? NULL : key;
}

static void remember_refusal(const struct target *t, const struct inf_err *err)
{
    char *key = refusals.n < REFUSALS_MAX ? refusal_key(t) : NULL;
    char *reason = key ? strdup(err->text) : NULL;

    if (!reason) {
        free(key);
        return;
    }
    refusals.links[refusals.n] = key;
    refusals.reasons[refusals.n++] = reason;
}

static const char *find_refusal(const struct target *t)
{
    _cleanup_free_ char *key = refusals.n > 0 ? refusal_key(t) : NULL;

    for (size_t i = 0; key && i < refusals.n; i++)
        if (strcmp(refusals.links[i], key) == 0)
            return refusals.reasons[i];
    return NULL;
}

/* --- one file --- */

/* Explains why the links of a path cannot be followed to an existing file. */
static int leads_nowhere(const char *path, int error, struct inf_err *reterr)
{
    char to[PATH_MAX];
    const ssize_t n = readlink(path, to, sizeof(to) - 1);

    if (error == ELOOP)
        return err_set(reterr, ELOOP, "is part of a loop of links");
    if (n < 0)
        return err_set(reterr, error, "%s", error == ENOENT ? "is not there" : strerror(error));
    to[n] = 0;
    if (error == ENOENT || error == ENOTDIR)
        return err_set(reterr, ENOENT, "leads to %s, which is not there", to);
    return err_set(reterr, error, "leads to %s: %s", to, strerror(error));
}

int model_files_follow(const char *path, struct inf_err *reterr)
{
    char real[PATH_MAX];

    if (!realpath(path, real))
        return leads_nowhere(path, errno, reterr);
    return MODEL_FILES_NONE;
}

static uint64_t read_u64(const unsigned char *p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* Returns whether a file begins like weights of the kind @what. */
static bool begins_as(int fd, uint64_t size, enum model_file what)
{
    unsigned char head[9];

    if (pread(fd, head, sizeof(head), 0) != sizeof(head))
        return false;
    switch (what) {
    case MODEL_FILE_GGUF:
        return memcmp(head, "GGUF", 4) == 0;
    case MODEL_FILE_GGML:
        return memcmp(head, "lmgg", 4) == 0;
    case MODEL_FILE_SAFETENSORS:
        return head[8] == '{' && read_u64(head) <= SAFETENSORS_MAX_HEADER &&
               read_u64(head) <= size - 8;
    case MODEL_FILE_PART:
        break;
    }
    return false;
}

/* Opens a regular file without following a link. It opens no device, because opening one may have
 * effects. */
static int open_regular(const char *path, struct stat *ret_st)
{
    _cleanup_close_ int fd = -1;

    if (lstat(path, ret_st) < 0)
        return -errno;
    if (!S_ISREG(ret_st->st_mode))
        return -EINVAL;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, ret_st) < 0)
        return -errno;
    return S_ISREG(ret_st->st_mode) ? STEAL_FD(fd) : -EINVAL;
}

/* Returns whether the directory contains weights; subdirectories do not count. */
static bool holds_weights(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *e;
    bool found = false;

    while (d && !found && (e = readdir(d))) {
        const enum model_file what =
            fnmatch("*.gguf", e->d_name, FNM_CASEFOLD) == 0 ? MODEL_FILE_GGUF
            : fnmatch("*.safetensors", e->d_name, 0) == 0   ? MODEL_FILE_SAFETENSORS
            : fnmatch("ggml-*.bin", e->d_name, 0) == 0      ? MODEL_FILE_GGML
                                                            : MODEL_FILE_PART;
        _cleanup_free_ char *path = what != MODEL_FILE_PART ? path_join(dir, e->d_name) : NULL;
        _cleanup_close_ int fd = -1;
        struct stat st;

        fd = path ? open_regular(path, &st) : -1;
        found = fd >= 0 && begins_as(fd, (uint64_t)st.st_size, what);
    }
    if (d)
        closedir(d);
    return found;
}

/* Returns whether @real is ".../blobs/HASH", possibly with the prefix "sha256-" or "sha256:" before
 * the hash. */
static bool is_blob(const char *real)
{
    static const char dir[] = "/blobs";
    const char *name = path_base(real);
    const ptrdiff_t len = name - 1 - real;
    const char *digits =
        strncmp(name, "sha256", 6) == 0 && (name[6] == '-' || name[6] == ':') ? name + 7 : name;
    const size_t n = strspn(digits, "0123456789abcdef");

    return len >= (ptrdiff_t)strlen(dir) &&
           strncmp(real + len - strlen(dir), dir, strlen(dir)) == 0 && digits[n] == 0 &&
           n >= BLOB_MIN_DIGITS;
}

static int judge_part(const struct target *t, struct inf_err *reterr)
{
    char dir[PATH_MAX];

    if (is_blob(t->real))
        return 0;
    if (!is_part_name(path_base(t->real)))
        return err_set(reterr, EBADMSG, "leads to %s, whose name is not that of a model's file",
                       t->real);
    snprintf(dir, sizeof(dir), "%s", t->real);
    if ((t->own_dir && path_is_below(t->real, t->own_dir)) || holds_weights(cut_name(dir)))
        return 0;
    return err_set(reterr, EBADMSG, "leads to %s, beside which there are no weights", t->real);
}

static int judge_weights(const struct target *t, int fd, uint64_t size, struct inf_err *reterr)
{
    static const char *const kinds[] = {[MODEL_FILE_GGUF] = "GGUF",
                                        [MODEL_FILE_SAFETENSORS] = "safetensors",
                                        [MODEL_FILE_GGML] = "ggml .bin"};

    if (begins_as(fd, size, t->what))
        return 0;
    return err_set(reterr, EBADMSG, "leads to %s, which is not a %s file", t->real, kinds[t->what]);
}

/* Checks a file outside of the model directories and passes it to the visitor, or explains why it
 * is refused. */
static int target_judge(const struct model_files *files, const struct target *t,
                        struct inf_err *reterr)
{
    _cleanup_close_ int fd = -1;
    struct stat st;
    int r;

    fd = open_regular(t->real, &st);
    if (fd == -EINVAL)
        return err_set(reterr, EINVAL, "leads to %s, which is not a regular file", t->real);
    if (fd < 0)
        return err_set(reterr, -fd, "leads to %s: %s", t->real, strerror(-fd));
    r = t->what == MODEL_FILE_PART ? judge_part(t, reterr)
                                   : judge_weights(t, fd, (uint64_t)st.st_size, reterr);
    return r == 0 && files->visit ? files->visit(files->data, fd, false) : r;
}

static int target_check(struct model_files *files, const char *path, enum model_file what,
                        const char *own_dir, struct inf_err *reterr)
{
    struct target t = {.path = path, .what = what, .own_dir = own_dir};
    const char *reason;
    struct inf_err err;
    int r;

    if (!realpath(path, t.real))
        return leads_nowhere(path, errno, reterr);
    if (is_below_dirs(files, t.real))
        return 0;
    r = target_judge(files, &t, &err);
    if (r == -EACCES && !files->remember) {
        reason = find_refusal(&t);
        return reason ? err_set(reterr, EACCES, "%s", reason) : 0;
    }
    if (r < 0 && r != -ENOMEM && files->remember)
        remember_refusal(&t, &err);
    return r < 0 ? err_set(reterr, -r, "%s", err.text) : 0;
}

int model_files_check(struct model_files *files, const char *path, enum model_file what,
                      struct inf_err *reterr)
{
    return target_check(files, path, what, NULL, reterr);
}

/* --- directories --- */

/* Struct walk is a walk over a model's directory. */
struct walk {
    struct model_files *files;
    const char *dir;     /* as the caller named it */
    const char *own_dir; /* its path without links; NULL: it is in a model directory */
    uint64_t size;       /* bytes of all weights */
    size_t n_weights;
    bool has_config;
    int refused;         /* the first refusal; 0: none */
    bool refused_itself; /* the refused file was not in a subdirectory */
    struct inf_err why;
};

/* Checks the file @name if it is a link or outside of the model directories. */
static int walk_file(struct walk *w, const char *name, bool is_link)
{
    const bool weights = fnmatch("*.safetensors", path_base(name), FNM_PERIOD) == 0;
    _cleanup_free_ char *path = NULL;
    struct inf_err err;
    struct stat st;
    int r = 0;

    if (!weights && !is_part_name(path_base(name)))
        return 0;
    path = path_join(w->dir, name);
    if (!path)
        return -ENOMEM;
    if (is_link || w->own_dir)
        r = target_check(w->files, path, weights ? MODEL_FILE_SAFETENSORS : MODEL_FILE_PART,
                         w->own_dir, &err);
    if (r == -ENOMEM)
        return r;
    if (r < 0 && w->refused == 0) {
        w->refused = r;
        w->refused_itself = !strchr(name, '/');
        err_set(&w->why, -r, "has a file %.60s that %s", name, err.text);
    }
    if (r < 0 || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    w->has_config |= strcmp(name, "config.json") == 0;
    if (weights && !strchr(name, '/')) {
        w->size += (uint64_t)st.st_size;
        w->n_weights++;
    }
    return 0;
}

static int walk_dir(struct walk *w, const char *sub);

/* Handles one entry of the directory, or of its subdirectory @sub. Directories in @sub are
 * ignored. */
static int walk_entry(struct walk *w, int dirfd, const char *sub, const struct dirent *e)
{
    char name[2 * NAME_MAX + 2];
    struct stat st;

    if (e->d_name[0] == '.')
        return 0;
    snprintf(name, sizeof(name), "%s%s%s", sub, *sub ? "/" : "", e->d_name);
    if (e->d_type == DT_REG)
        return walk_file(w, name, false);
    /* walk_file() reports a link that leads nowhere. */
    if (fstatat(dirfd, e->d_name, &st, 0) < 0 || !S_ISDIR(st.st_mode))
        return walk_file(w, name, true);
    return *sub ? 0 : walk_dir(w, name);
}

/* Handles the files of the subdirectory @sub; "": those of the directory itself. */
static int walk_dir(struct walk *w, const char *sub)
{
    _cleanup_free_ char *path = *sub ? path_join(w->dir, sub) : strdup(w->dir);
    const struct dirent *e;
    DIR *d = path ? opendir(path) : NULL;
    int r = path ? 0 : -ENOMEM;

    while (d && r == 0 && (e = readdir(d)))
        r = walk_entry(w, dirfd(d), sub, e);
    if (d)
        closedir(d);
    return r;
}

static int walk_all(struct walk *w)
{
    w->size = 0;
    w->n_weights = 0;
    w->has_config = false;
    w->refused = 0;
    return walk_dir(w, "");
}

/* Returns whether Landlock forbids this process to read the directory although the file permissions
 * allow it. Such a directory cannot be checked. */
static bool is_closed_to_us(const struct walk *w)
{
    _cleanup_free_ char *config = path_join(w->dir, "config.json");
    DIR *d = w->files->remember || !config || access(w->dir, R_OK) < 0 ? NULL : opendir(w->dir);

    if (d)
        closedir(d);
    return !d && !w->files->remember && config && path_exists(config) && access(w->dir, R_OK) == 0;
}

/* Checks a directory outside of the model directories, after a walk that did not call the
 * visitor. */
static int judge_dir(const struct walk *w, struct inf_err *reterr)
{
    if (w->refused < 0)
        return err_set(reterr, -w->refused, "%s", w->why.text);
    if (!w->has_config || w->n_weights == 0)
        return err_set(reterr, EBADMSG,
                       "leads to the directory %s, which is not a model: it needs config.json and "
                       "*.safetensors",
                       w->own_dir);
    return 0;
}

/* Passes the files of a directory outside of the model directories to the visitor, then the
 * directory, so that the visitor can allow listing it. */
static int visit_dir(struct walk *w)
{
    _cleanup_close_ int fd = -1;
    int r = w->files->visit ? walk_all(w) : 0;

    if (r < 0 || !w->files->visit)
        return r;
    fd = open(w->own_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd >= 0 ? w->files->visit(w->files->data, fd, true) : 0;
}

static int check_outside(struct walk *w, const struct target *t, struct inf_err *reterr)
{
    const model_files_fn visit = w->files->visit;
    const char *reason;
    struct inf_err err;
    int r;

    if (is_closed_to_us(w)) {
        reason = find_refusal(t);
        return reason ? err_set(reterr, EACCES, "%s", reason) : 0;
    }
    /* The visitor gets nothing before the directory is known to be a model. */
    w->files->visit = NULL;
    r = walk_all(w);
    w->files->visit = visit;
    if (r < 0)
        return err_set(reterr, -r, "out of memory");
    r = judge_dir(w, &err);
    if (r == 0)
        return visit_dir(w);
    if (w->files->remember)
        remember_refusal(t, &err);
    return err_set(reterr, -r, "%s", err.text);
}

int model_files_check_dir(struct model_files *files, const char *path, uint64_t *ret_size,
                          struct inf_err *reterr)
{
    struct target t = {.path = path};
    struct walk w = {.files = files, .dir = path};
    bool is_model;
    int r;

    *ret_size = 0;
    if (!realpath(path, t.real))
        return leads_nowhere(path, errno, reterr);
    if (!is_below_dirs(files, t.real)) {
        w.own_dir = t.real;
        r = check_outside(&w, &t, reterr);
        *ret_size = w.size;
        return r;
    }
    r = walk_all(&w);
    if (r < 0)
        return err_set(reterr, -r, "out of memory");
    is_model = w.has_config && w.n_weights > 0;
    /* A refused file in a subdirectory may belong to another model. */
    if (w.refused < 0 && (is_model || w.refused_itself))
        return err_set(reterr, -w.refused, "%s", w.why.text);
    *ret_size = w.size;
    return is_model ? 0 : MODEL_FILES_NONE;
}

int model_files_check_beside(struct model_files *files, const char *path, struct inf_err *reterr)
{
    char dir[PATH_MAX], own_dir[PATH_MAX];

    snprintf(dir, sizeof(dir), "%s", path);
    if (!realpath(cut_name(dir), own_dir))
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(part_names); i++) {
        _cleanup_free_ char *part = path_join(dir, part_names[i]);
        struct inf_err err;
        int r;

        if (!part)
            return err_set(reterr, ENOMEM, "out of memory");
        if (!path_exists(part))
            continue;
        r = target_check(files, part, MODEL_FILE_PART, own_dir, &err);
        if (r < 0)
            return err_set(reterr, -r, "has a file %s beside it that %s", part_names[i], err.text);
    }
    return 0;
}
