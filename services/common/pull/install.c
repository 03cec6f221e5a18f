/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verifies fetched files and installs the model (see pull.h).
 *
 * Before a file that has arrived is verified, it is moved out of the directory of sconce-fetch,
 * which then cannot open it any more. After that it becomes a blob of the store, with its name in
 * the model as a second hard link. The model's directory is made below the job's directory and
 * renamed when it is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/pull/pull.h"
#include "common/models/manifest.h"
#include "common/store/store.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"

/* Computes the SHA-1 that git gives to the content of a small file, as text. */
static int git_digest(const char *path, char ret[41], struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    char head[64];
    size_t len;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int r = file_read(path, PULL_MAX_METADATA, &text, &len, reterr);
    bool ok = false;

    if (r == 0 && ctx) {
        snprintf(head, sizeof(head), "blob %zu", len);
        ok = EVP_DigestInit_ex(ctx, EVP_sha1(), NULL) == 1 &&
             EVP_DigestUpdate(ctx, head, strlen(head) + 1) == 1 &&
             EVP_DigestUpdate(ctx, text, len) == 1 && EVP_DigestFinal_ex(ctx, digest, &n) == 1;
    }
    EVP_MD_CTX_free(ctx);
    if (r < 0)
        return r;
    if (!ok || n != 20)
        return err_set(reterr, EIO, "SHA-1 cannot be computed");
    for (unsigned i = 0; i < n; i++)
        snprintf(ret + (size_t)2 * i, 3, "%02x", digest[i]);
    return 0;
}

static char *joined(const char *dir, const char *a, const char *b)
{
    char *path = NULL;

    return asprintf(&path, "%s/%s%s", dir, a, b) < 0 ? NULL : path;
}

/* Compares a file with what the metadata says. On success the file's own digest and size are in the
 * plan. */
static int check_file(struct pull_plan *plan, struct pull_file *f, const char *path,
                      void (*progress)(void *data, uint64_t bytes), void *data,
                      struct inf_err *reterr)
{
    char digest[STORE_DIGEST + 1], git[41];
    uint64_t size;
    int r = f->growing ? store_growing_end(f->growing, path, progress, data, digest, &size)
                       : STORE_GROWING_DIFFERS;

    if (r == STORE_GROWING_DIFFERS)
        r = store_digest(path, progress, data, digest, &size, reterr);
    if (r == 0 && f->sha1)
        r = git_digest(path, git, reterr);
    if (r < 0)
        return r;
    if ((f->size != UINT64_MAX && f->size != size) || (f->sha256 && strcmp(f->sha256, digest)) ||
        (f->sha1 && strcmp(f->sha1, git)))
        return err_set(reterr, EBADMSG,
                       "%s has %llu bytes with the digest %s, not those that the source names; "
                       "the file was removed",
                       f->name, (unsigned long long)size, f->sha1 ? git : digest);
    f->size = size;
    f->sha256 = arena_strndup(&plan->arena, digest, STORE_DIGEST);
    return f->sha256 ? 0 : err_set(reterr, ENOMEM, "out of memory");
}

/* Puts the size of a file that is not read again into the plan. */
static int measure_file(struct pull_file *f, const char *path, struct inf_err *reterr)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    f->size = (uint64_t)st.st_size;
    return 0;
}

static int check_weights(const struct pull_file *f, const char *path, struct inf_err *reterr)
{
    if (f->sha256 || file_begins_with(path, "GGUF"))
        return 0;
    return err_set(reterr, EBADMSG, "%s is not a GGUF file; it was removed", f->name);
}

/* Makes the missing directories above the file @path. */
static int make_parent(const char *path, struct inf_err *reterr)
{
    _cleanup_free_ char *parent = strndup(path, (size_t)(path_base(path) - path - 1));

    return parent ? store_make_dirs(parent, reterr) : err_set(reterr, ENOMEM, "out of memory");
}

/* Returns whether the blob, which another model made, has the content of the verified file. */
static bool is_same_content(const char *blob, const char *arrived, const char *sha256)
{
    char digest[STORE_DIGEST + 1];
    struct stat a, b;
    uint64_t size;

    if (stat(blob, &a) == 0 && stat(arrived, &b) == 0 && a.st_ino == b.st_ino)
        return true;
    return store_digest(blob, NULL, NULL, digest, &size, NULL) == 0 && strcmp(digest, sha256) == 0;
}

/* Gives a verified file its names: that of its blob, and that in the new model. A damaged blob is
 * replaced. */
static int place_file(const char *dir, const struct pull_file *f, const char *arrived,
                      const char *model, struct inf_err *reterr)
{
    _cleanup_free_ char *blob = store_digest_path(dir, STORE_BLOBS, f->sha256);
    _cleanup_free_ char *path = path_join(model, f->name);
    int r = blob && path ? make_parent(path, reterr) : err_set(reterr, ENOMEM, "out of memory");

    if (r == 0)
        r = make_parent(blob, reterr);
    if (r < 0)
        return r;
    if (path_exists(blob) && !is_same_content(blob, arrived, f->sha256))
        unlink(blob);
    /* A file system without hard links stores no blobs. */
    if (link(arrived, blob) < 0 && errno != EEXIST)
        return rename(arrived, path) < 0 ? err_set(reterr, errno, "%s: %s", path, strerror(errno))
                                         : 0;
    unlink(path);
    if (link(blob, path) < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    unlink(arrived);
    return 0;
}

int pull_put_manifest(const struct pull_plan *plan, const char *settings, struct str *out)
{
    const char *path = plan->path ? plan->path : plan->is_gguf ? plan->files[0].name : NULL;
    /* The files of a model outside of the store are not those of the plan. */
    const size_t n = plan->path ? 0 : plan->n;
    int r = store_put_key(out, "path", path);

    if (r == 0 && plan->alias[0] && (r = str_puts(out, "aliases: [")) == 0 &&
        (r = store_put_quoted(out, plan->alias)) == 0)
        r = str_puts(out, "]\n");
    r = r < 0 || !settings ? r : str_puts(out, settings);
    r = r < 0 ? r : store_put_key(out, "source", plan->source);
    r = r < 0 ? r : store_put_key(out, "revision", plan->revision);
    r = r < 0 ? r : store_put_key(out, "licence", plan->licence);
    if (r == 0 && n)
        r = str_puts(out, "files:\n");
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = str_puts(out, "  - name: ");
        r = r < 0 ? r : store_put_quoted(out, plan->files[i].name);
        r = r < 0 ? r
                  : str_printf(out, "\n    size: %llu\n    sha256: %s\n",
                               (unsigned long long)plan->files[i].size, plan->files[i].sha256);
    }
    return r;
}

/* Writes the manifest of the new model, and reads it as the services will. */
static int store_manifest(const char *model, struct pull_plan *plan, struct inf_err *reterr)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_free_ char *path = path_join(model, MODEL_MANIFEST);
    _cleanup_str_ struct str text = {0}, settings = {0};
    struct model_manifest manifest;
    struct inf_err err = {0};
    int r = path ? 0 : err_set(reterr, ENOMEM, "out of memory");

    if (r == 0 && plan->n && !plan->settings)
        r = ollama_put_settings(model, plan, &settings, reterr);
    if (r < 0)
        return r;
    if (pull_put_manifest(plan, plan->settings ? plan->settings : settings.data, &text) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (text.len > MODEL_MANIFEST_MAX_FILE)
        return err_set(reterr, EINVAL, "the manifest of the model would have more than %d bytes",
                       MODEL_MANIFEST_MAX_FILE);
    r = store_put(path, text.data, text.len, reterr);
    if (r == 0 && model_manifest_read(&arena, path, &manifest, &err) < 0)
        r = err_set(reterr, EINVAL, "the manifest of the model would be wrong: %s", err.text);
    return r;
}

/* Checks that the model gets a directory of its own. An existing file is not replaced, and neither
 * is a directory without a manifest, because it may hold other models. The directory must not be
 * inside of another model either, because searches find no model there. */
static int check_place(const char *dir, const char *name, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(dir, name);
    _cleanup_free_ char *old = path ? path_join(path, MODEL_MANIFEST) : NULL;
    const char *slash = strchr(name, '/');
    struct stat st;

    if (!old)
        return err_set(reterr, ENOMEM, "out of memory");
    /* An empty directory is replaced. */
    if (lstat(path, &st) == 0 && !(S_ISDIR(st.st_mode) && (path_exists(old) || rmdir(path) == 0)))
        return err_set(reterr, EEXIST,
                       "%s has not been pulled, so it is not replaced; choose another name", path);
    if (slash) {
        _cleanup_free_ char *org = strndup(path, strlen(path) - strlen(slash));
        _cleanup_free_ char *manifest = org ? path_join(org, MODEL_MANIFEST) : NULL;
        _cleanup_free_ char *config = org ? path_join(org, "config.json") : NULL;

        if (!manifest || !config)
            return err_set(reterr, ENOMEM, "out of memory");
        if (path_exists(manifest) || path_exists(config) || (path_exists(org) && !path_is_dir(org)))
            return err_set(reterr, EEXIST,
                           "%s is a model or a file, so no model is put into it; choose another "
                           "name",
                           org);
    }
    return 0;
}

/* Puts the complete model @fresh in the place of an older one, if there is one. */
static int reveal(const char *dir, const char *fresh, const char *name, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(dir, name);
    int r = path ? make_parent(path, reterr) : err_set(reterr, ENOMEM, "out of memory");

    if (r < 0)
        return r;
    if (rename(fresh, path) == 0)
        return 0;
    if (renameat2(AT_FDCWD, fresh, AT_FDCWD, path, RENAME_EXCHANGE) < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    return store_discard(dir, fresh, reterr);
}

/* Moves a file from the directory of sconce-fetch to @to, if it is there. At @to, sconce-fetch can
 * no longer open the file. To check that no process still has it open for writing, this function
 * takes a lease on it, which the kernel refuses if there is such a process. Some network file
 * systems have no leases; on these, sconce-fetch must have ended before. */
static int take_arrived(const char *arrivals, const struct pull_file *f, const char *to,
                        struct inf_err *reterr)
{
    _cleanup_free_ char *name = joined(arrivals, f->local, ".part");
    _cleanup_close_ int fd = -1;
    struct stat st;

    if (!name)
        return err_set(reterr, ENOMEM, "out of memory");
    if (rename(name, to) < 0)
        return errno == ENOENT ? 0 : err_set(reterr, errno, "%s: %s", name, strerror(errno));
    fd = open(to, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return err_set(reterr, errno, "%s: %s", to, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
        return err_set(reterr, EBADMSG, "%s did not arrive as a file of its own", f->name);
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0 && errno == EAGAIN)
        return err_set(reterr, EIO, "%s is still being written", f->name);
    return 0;
}

/* If a file has not arrived, makes a hard link to its blob in the job's directory, which
 * sconce-fetch cannot see. The blob may belong to another model, or to an earlier command that was
 * interrupted after it had placed the file. */
static int take_blob(const char *blob, const char *arrived, struct inf_err *reterr)
{
    return link(blob, arrived) < 0 ? err_set(reterr, errno, "%s: %s", blob, strerror(errno)) : 0;
}

/* Verifies and places the file @f. */
static int install_file(const char *dir, const char *job, const char *arrivals, const char *model,
                        struct pull_plan *plan, struct pull_file *f,
                        void (*progress)(void *data, uint64_t bytes), void *data,
                        struct inf_err *reterr)
{
    _cleanup_free_ char *arrived = path_join(job, f->local);
    _cleanup_free_ char *state = joined(arrivals, f->local, ".state");
    _cleanup_free_ char *blob = store_digest_path(dir, STORE_BLOBS, f->sha256 ? f->sha256 : "");
    bool is_blob = false;
    int r = arrived && state && blob ? 0 : err_set(reterr, ENOMEM, "out of memory");

    if (r == 0 && f->url)
        r = take_arrived(arrivals, f, arrived, reterr);
    if (r == 0 && f->sha256 && !path_exists(arrived)) {
        r = take_blob(blob, arrived, reterr);
        is_blob = r == 0;
    }
    if (r == 0 && plan->is_gguf && !f->sha256)
        r = check_weights(f, arrived, reterr);
    if (r == 0)
        r = f->is_verified ? measure_file(f, arrived, reterr)
                           : check_file(plan, f, arrived, progress, data, reterr);
    if (r == -EBADMSG)
        unlink(arrived);
    /* The blob is damaged. Models that use it keep their own links, and the next pull fetches the
     * file again. */
    if (r == -EBADMSG && is_blob)
        unlink(blob);
    if (r == 0 || r == -EBADMSG)
        unlink(state);
    return r < 0 ? r : place_file(dir, f, arrived, model, reterr);
}

int pull_install(const char *dir, const char *job, const char *arrivals, struct pull_plan *plan,
                 void (*progress)(void *data, uint64_t bytes), void *data, struct inf_err *reterr)
{
    _cleanup_free_ char *model = path_join(job, "model");
    _cleanup_close_ int lock = -1;
    int r = model ? store_make_dirs(model, reterr) : err_set(reterr, ENOMEM, "out of memory");

    if (r == 0)
        r = store_lock(dir, &lock, reterr);
    if (r == 0)
        store_clean_removed(dir);
    if (r == 0)
        r = check_place(dir, plan->name, reterr);
    for (size_t i = 0; r == 0 && i < plan->n; i++)
        r = install_file(dir, job, arrivals, model, plan, &plan->files[i], progress, data, reterr);
    if (r == 0)
        r = store_manifest(model, plan, reterr);
    return r < 0 ? r : reveal(dir, model, plan->name, reterr);
}
