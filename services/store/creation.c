/* SPDX-License-Identifier: Apache-2.0 */
/* Makes models (see creation.h). */
#include "store/creation.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/models/manifest.h"
#include "common/models/models.h"
#include "common/models/templates.h"
#include "common/pull/pull.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "store/creation-inner.h"
#include "store/verified.h"

/* How the names of directories of jobs begin, in STORE_INCOMING. */
#define JOB_PREFIX "create-"

enum {
    JOB_ATTEMPTS = 8, /* to make the directory */
};

/* The state of one run. */
struct making {
    const struct store_creation *c;
    const char *dir; /* the store */
    struct verified *verified;
    char *job; /* the directory in which the model is put together */
    int lock;  /* of the directory */
    struct pull_plan plan;
};

/* --- files --- */

/* Adds the file @path to the plan, with a link in the directory of the job. @is_verified: the file
 * is known to have the digest @sha256. */
static int add_file(struct making *m, const char *name, const char *path, const char *sha256,
                    bool is_verified, struct inf_err *reterr)
{
    _cleanup_free_ char *local = path_join(m->job, sha256);
    char real[PATH_MAX];
    int r;

    if (!local)
        return err_set(reterr, ENOMEM, "out of memory");
    r = pull_plan_add(
        &m->plan,
        &(struct pull_file){
            .name = name, .size = UINT64_MAX, .sha256 = sha256, .is_verified = is_verified},
        reterr);
    if (r == 0 && (!realpath(path, real) || (link(real, local) < 0 && errno != EEXIST)))
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    return r == -EBADMSG ? err_set(reterr, EINVAL, "%s", reterr->text) : r;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that the files are a model, and finds its format. */
static int check_files(struct making *m, const char *first_path, struct inf_err *reterr)
{
    bool has_weights = false, has_config = false, all_gguf = true;

    for (size_t i = 0; i < m->plan.n; i++) {
        const char *name = m->plan.files[i].name;

        has_weights |= text_ends_with_nocase(name, ".safetensors");
        has_config |= strcmp(name, "config.json") == 0;
        all_gguf &= text_ends_with_nocase(name, ".gguf");
    }
    if (all_gguf && file_begins_with(first_path, "GGUF")) {
        m->plan.is_gguf = true;
        return 0;
    }
    if (all_gguf)
        return err_set(reterr, EINVAL, "%s is not a GGUF file", m->plan.files[0].name);
    if (has_weights && has_config)
        return 0;
    return err_set(reterr, EINVAL,
                   "the files are not a model: a model has .gguf files, or config.json and "
                   ".safetensors files");
}

static int add_uploads(struct making *m, struct inf_err *reterr)
{
    const size_t n = json_object_size(m->c->files);
    _cleanup_free_ const char **names = calloc(n, sizeof(*names));
    _cleanup_free_ char *first = NULL;
    const char *name;
    const json_t *value;
    size_t k = 0;
    int r = names ? 0 : err_set(reterr, ENOMEM, "out of memory");

    json_object_foreach((json_t *)m->c->files, name, value)
    {
        if (names)
            names[k++] = name;
    }
    if (r == 0)
        qsort(names, n, sizeof(*names), compare_names);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const char *digest =
            text_after(json_string_value(json_object_get(m->c->files, names[i])), "sha256:");
        _cleanup_free_ char *path = uploads_find(m->dir, digest);
        const bool is_bare = n == 1 && path && file_begins_with(path, "GGUF") &&
                             !text_ends_with_nocase(names[i], ".gguf");
        struct stat st;

        if (!path)
            return err_set(reterr, ENOENT, "%s has not been uploaded: there is no sha256:%s",
                           names[i], digest);
        r = add_file(m, is_bare ? "model.gguf" : names[i], path, digest,
                     stat(path, &st) == 0 && verified_has(m->verified, digest, &st), reterr);
        if (i == 0)
            first = STEAL(path);
    }
    return r < 0 ? r : check_files(m, first, reterr);
}

/* Copies the licence of the other model, but not its source: the new model has other settings than
 * the model that the source names. */
static void copy_licence(struct making *m, const struct models_entry *e)
{
    struct model_manifest manifest;

    if (e->manifest && model_manifest_read(&m->plan.arena, e->manifest, &manifest, NULL) == 0)
        m->plan.licence = manifest.licence;
}

/* Returns whether the file or directory @path, with all links followed, is in the store. Also
 * returns true if there is no file or directory at @path. */
static bool is_in_store(const struct making *m, const char *path)
{
    char dir[PATH_MAX], real[PATH_MAX];

    return !realpath(m->dir, dir) || !realpath(path, real) || path_is_below(real, dir);
}

/* Returns whether the file is the blob with this digest, which was verified when it was placed. */
static bool is_blob(const struct making *m, const struct store_file *f)
{
    _cleanup_free_ char *blob =
        f->sha256 ? store_digest_path(m->dir, STORE_BLOBS, f->sha256) : NULL;
    struct stat a, b;

    return blob && stat(blob, &a) == 0 && stat(f->path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev && (f->size == UINT64_MAX || f->size == (uint64_t)b.st_size);
}

/* Adds a file of the model @e. If @e is a directory, the name of the file in the new model is
 * relative to this directory. */
static int add_model_file(struct making *m, const struct models_entry *e,
                          const struct store_file *f, struct inf_err *reterr)
{
    const bool is_below = path_is_dir(e->path) && path_is_below(f->path, e->path);
    const char *name = is_below ? f->path + strlen(e->path) + 1 : f->name;
    char digest[STORE_DIGEST + 1];
    bool is_verified = is_blob(m, f);
    uint64_t size;
    int r = 0;

    if (!is_in_store(m, f->path))
        return err_set(reterr, EINVAL, "%s is outside of the store, so %s cannot be copied",
                       f->path, e->name);
    if (f->sha256) {
        snprintf(digest, sizeof(digest), "%s", f->sha256);
    } else {
        r = store_digest(f->path, NULL, NULL, digest, &size, reterr);
        is_verified = true;
    }
    return r < 0 ? r : add_file(m, name, f->path, digest, is_verified, reterr);
}

/* Adds the files of the model @e. The file at e->path comes first. */
static int add_model_files(struct making *m, const struct models_entry *e,
                           const struct store_files *files, struct inf_err *reterr)
{
    int r = 0;

    for (unsigned pass = 0; pass < 2; pass++)
        for (size_t i = 0; r == 0 && i < files->n; i++) {
            const struct store_file *f = &files->files[i];

            if ((pass == 0) == (strcmp(f->path, e->path) == 0) &&
                strcmp(path_base(f->name), MODEL_MANIFEST) != 0)
                r = add_model_file(m, e, f, reterr);
        }
    return r;
}

/* Returns the path of a model outside of the store, as the new manifest names it. A link is
 * replaced by its target, because the link may be removed later. If the target lacks the ending of
 * a model's file, which only the link has, the path of the link is returned. */
static const char *outside_path(struct making *m, const char *path)
{
    const char *end = strrchr(path_base(path), '.');
    _cleanup_free_ char *absolute = NULL;
    char real[PATH_MAX];

    if (!realpath(path, real) ||
        !(path_is_dir(real) || (end && text_ends_with_nocase(real, end)))) {
        absolute = path_absolute(path);
        return absolute ? arena_strndup(&m->plan.arena, absolute, strlen(absolute)) : NULL;
    }
    return arena_strndup(&m->plan.arena, real, strlen(real));
}

static int add_model(struct making *m, const struct models_entry *e, struct inf_err *reterr)
{
    _cleanup_(store_files_done) struct store_files files = {0};
    int r;

    copy_licence(m, e);
    if (e->layout != MODELS_OWN || !is_in_store(m, e->path)) {
        m->plan.path = outside_path(m, e->path);
        return m->plan.path ? 0 : err_set(reterr, ENOMEM, "out of memory");
    }
    r = store_files_list(e, &files, reterr);
    m->plan.is_gguf = !path_is_dir(e->path);
    return r < 0 ? r : add_model_files(m, e, &files, reterr);
}

/* If the template of the model @e is a file, adds a copy of this file to the plan. *ret_template
 * gets the template as the new manifest names it; NULL: there is none. */
static int add_template(struct making *m, const struct models_entry *e, const char **ret_template,
                        struct inf_err *reterr)
{
    const char *path = e->settings.template, *name;
    _cleanup_free_ char *copy = path_join(m->job, "template"), *text = NULL, *local = NULL;
    char digest[STORE_DIGEST + 1];
    uint64_t size;
    size_t len;
    int r = copy ? 0 : err_set(reterr, ENOMEM, "out of memory");

    *ret_template = path;
    if (r < 0 || !path || template_find(path))
        return r;
    name = e->manifest_dir && path_is_below(path, e->manifest_dir)
               ? path + strlen(e->manifest_dir) + 1
               : path_base(path);
    r = file_read(path, TEMPLATES_MAX_FILE, &text, &len, reterr);
    r = r < 0 ? r : store_put(copy, text, len, reterr);
    r = r < 0 ? r : store_digest(copy, NULL, NULL, digest, &size, reterr);
    if (r < 0)
        return r;
    *ret_template = arena_strndup(&m->plan.arena, name, strlen(name));
    local = path_join(m->job, digest);
    if (!local || !*ret_template)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < m->plan.n; i++)
        if (strcmp(m->plan.files[i].name, name) == 0)
            return strcmp(m->plan.files[i].sha256, digest) == 0
                       ? 0
                       : err_set(reterr, EINVAL, "%s has two files with the name %s", e->name,
                                 name);
    if (rename(copy, local) < 0)
        return err_set(reterr, errno, "%s: %s", local, strerror(errno));
    return pull_plan_add(
        &m->plan, &(struct pull_file){.name = name, .size = UINT64_MAX, .sha256 = digest}, reterr);
}

/* --- the run --- */

/* Makes a directory, and locks it as long as this process lives. Returns -EAGAIN if another process
 * has locked or removed the new directory, because it seemed to belong to a process that was
 * killed. */
static int make_job(struct making *m, const char *incoming, struct inf_err *reterr)
{
    int r;

    m->job = path_join(incoming, JOB_PREFIX "XXXXXX");
    if (!m->job)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!mkdtemp(m->job)) {
        r = err_set(reterr, errno, "%s cannot be written: %s", incoming, strerror(errno));
        free(STEAL(m->job));
        return r;
    }
    m->lock = open(m->job, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->lock >= 0 && flock(m->lock, LOCK_EX | LOCK_NB) == 0 && path_exists(m->job))
        return 0;
    if (m->lock >= 0)
        close(m->lock);
    m->lock = -1;
    free(STEAL(m->job));
    return err_set(reterr, EAGAIN, "%s cannot be locked", incoming);
}

static int open_job(struct making *m, struct inf_err *reterr)
{
    _cleanup_free_ char *incoming = path_join(m->dir, STORE_INCOMING);
    int r = incoming ? store_make_dirs(incoming, reterr) : err_set(reterr, ENOMEM, "out of memory");

    if (r < 0)
        return r;
    r = -EAGAIN;
    for (unsigned i = 0; r == -EAGAIN && i < JOB_ATTEMPTS; i++)
        r = make_job(m, incoming, reterr);
    return r;
}

bool creation_has_left(const char *dir)
{
    _cleanup_free_ char *incoming = path_join(dir, STORE_INCOMING);

    return store_walk(incoming, JOB_PREFIX, NULL, NULL);
}

struct tidying {
    const char *dir; /* the store */
    bool removed;
};

/* Removes the directory of a job if the job's process has ended. */
static bool tidy_job(const char *path, void *arg)
{
    struct tidying *t = arg;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
        t->removed |= store_discard(t->dir, path, NULL) == 0;
    return false;
}

void creation_tidy(const char *dir)
{
    _cleanup_free_ char *incoming = path_join(dir, STORE_INCOMING);
    struct tidying t = {dir, false};
    uint64_t bytes;

    store_walk(incoming, JOB_PREFIX, tidy_job, &t);
    /* Removes the blobs of files that only the removed directories had. */
    if (t.removed)
        store_clean_blobs(dir, &bytes, NULL);
}

/* Refuses a name that another model already has. The model in the directory of this name in the
 * store does not count, because the new model replaces it. */
static int check_name(const struct making *m, const struct models *models, struct inf_err *reterr)
{
    const struct models_entry *taken = models_find(models, m->c->name);
    _cleanup_free_ char *path = path_join(m->dir, m->c->name);

    if (!path)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!taken || (taken->manifest_dir && strcmp(taken->manifest_dir, path) == 0))
        return 0;
    return err_set(reterr, EEXIST, "\"%.100s\" is a name of %s already", m->c->name, taken->path);
}

static int make_model(struct making *m, const struct models *models, struct inf_err *reterr)
{
    const struct models_entry *e = m->c->from ? models_find(models, m->c->from) : NULL;
    const char *template = NULL;
    int r;

    if (m->c->from && !e)
        return err_set(reterr, ENOENT, "model '%.200s' not found", m->c->from);
    r = check_name(m, models, reterr);
    if (r == 0)
        r = e ? add_model(m, e, reterr) : add_uploads(m, reterr);
    if (r == 0 && e && !m->c->template)
        r = add_template(m, e, &template, reterr);
    if (r < 0)
        return r;
    if (creation_plan(m->c, e, template, &m->plan) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return pull_install(m->dir, m->job, m->job, &m->plan, NULL, NULL, reterr);
}

/* Removes the names of uploaded files, which are files of the new model now. */
static void drop_uploads(const struct making *m)
{
    for (size_t i = 0; i < m->plan.n; i++) {
        _cleanup_free_ char *path =
            store_digest_path(m->dir, STORE_UPLOADS, m->plan.files[i].sha256);

        if (path)
            unlink(path);
    }
}

/* If the file does not have its digest, removes it and returns true. */
static bool drop_damaged(const char *dir, const char *sub, const struct pull_file *f)
{
    _cleanup_free_ char *path = store_digest_path(dir, sub, f->sha256);
    char digest[STORE_DIGEST + 1];
    uint64_t size;

    return path && store_digest(path, NULL, NULL, digest, &size, NULL) == 0 &&
           strcmp(digest, f->sha256) != 0 && unlink(path) == 0;
}

/* Makes the error of a file with a wrong digest. Damaged uploads and blobs are removed, so that the
 * client can send the file again; models that have a damaged file keep it. */
static int report_damage(const struct making *m, struct inf_err *reterr)
{
    _cleanup_close_ int lock = -1;
    const char *name = NULL;

    if (m->c->from)
        return err_set(reterr, EINVAL,
                       "model '%.200s' is damaged: a file does not have its digest; `sconce "
                       "verify` tells which",
                       m->c->from);
    if (store_lock(m->dir, &lock, NULL) == 0)
        for (size_t i = 0; i < m->plan.n; i++) {
            const struct pull_file *f = &m->plan.files[i];

            if (!f->is_verified &&
                drop_damaged(m->dir, STORE_UPLOADS, f) + drop_damaged(m->dir, STORE_BLOBS, f) > 0)
                name = f->name;
        }
    return err_set(reterr, ENOENT, "%s has been damaged since it was uploaded; upload it again",
                   name ? name : "a file");
}

/* Removes the directory of the job, and those of killed processes. */
static void close_job(struct making *m)
{
    _cleanup_close_ int lock = -1;

    if (store_lock(m->dir, &lock, NULL) == 0) {
        store_discard(m->dir, m->job, NULL);
        creation_tidy(m->dir);
    }
    close(m->lock);
    free(m->job);
}

int creation_run(const struct store_creation *c, const struct config *config, const char *dir,
                 struct verified *verified, struct inf_err *reterr)
{
    _cleanup_(models_freep) struct models *models = NULL;
    struct making m = {.c = c, .dir = dir, .verified = verified, .lock = -1};
    int r = models_scan(config, &models) < 0 ? err_set(reterr, ENOMEM, "out of memory") : 0;

    snprintf(m.plan.name, sizeof(m.plan.name), "%s", c->name);
    if (r == 0)
        r = open_job(&m, reterr);
    if (r == 0) {
        r = make_model(&m, models, reterr);
        if (r == 0)
            drop_uploads(&m);
        else if (r == -EBADMSG)
            r = report_damage(&m, reterr);
        close_job(&m);
    }
    pull_plan_done(&m.plan);
    return r;
}
