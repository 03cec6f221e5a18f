/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes small files atomically (see edits.h).
 *
 * A file is written under a temporary name in the same directory, gets its mode before its content,
 * and is renamed. The mark of a generated file (see edits.h) contains a hash of the content, which
 * detects edits but does not protect against forgery.
 */
#include "cli/machine/edits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/err.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/str.h"

enum {
    EDIT_MAX_FILE = 1 << 20,
};

#define EDIT_MARK "# Written by `sconce setup`; edit freely, it keeps your text as *.old: "

static uint64_t body_hash(const char *body)
{
    return hash_bytes(0x73636f6e6365, body, strlen(body));
}

char *edit_marked(const char *body)
{
    char *text;

    return asprintf(&text, EDIT_MARK "%016" PRIx64 "\n%s", body_hash(body), body) < 0 ? NULL : text;
}

enum edit_state edit_whose(const char *text)
{
    const size_t n = strlen(EDIT_MARK);
    const char *body = strchr(text, '\n');
    uint64_t hash;

    if (!body || strncmp(text, EDIT_MARK, n) != 0 || sscanf(text + n, "%16" SCNx64, &hash) != 1)
        return EDIT_PERSON;
    return hash == body_hash(body + 1) ? EDIT_OURS : EDIT_PERSON;
}

/* Reads the file; NULL if it does not exist or cannot be read. */
static char *old_text(const char *path)
{
    char *text = NULL;
    size_t len;

    return file_read(path, EDIT_MAX_FILE, &text, &len, NULL) < 0 ? NULL : text;
}

static int edit_failed(const char *path, struct inf_err *reterr)
{
    const int code = errno;

    return err_set(reterr, code, "%s: %s", path, strerror(code));
}

static int make_parents(const char *path, struct inf_err *reterr)
{
    _cleanup_free_ char *copy = strdup(path);

    if (!copy)
        return err_set(reterr, ENOMEM, "out of memory");
    for (char *p = copy + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        if (mkdir(copy, 0755) < 0) {
            if (errno != EEXIST)
                return edit_failed(copy, reterr);
        } else if (geteuid() == 0) {
            /* The machine's services must be able to read in this directory, whatever root's umask
             * is. */
            chmod(copy, 0755);
        }
        *p = '/';
    }
    return 0;
}

static int write_all(int fd, const char *text)
{
    size_t len = strlen(text);

    while (len > 0) {
        const ssize_t n = write(fd, text, len);

        if (n < 0)
            return -errno;
        text += n;
        len -= (size_t)n;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

static int write_file(const char *path, mode_t mode, const char *text, struct inf_err *reterr)
{
    _cleanup_free_ char *temporary = NULL;
    _cleanup_close_ int fd = -1;
    int r;

    r = make_parents(path, reterr);
    if (r < 0)
        return r;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
        temporary = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return edit_failed(path, reterr);
    r = fchmod(fd, mode) < 0 ? -errno : write_all(fd, text);
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0) {
        unlink(temporary);
        return err_set(reterr, -r, "%s: %s", path, strerror(-r));
    }
    return 0;
}

static void tell_text(const char *text)
{
    while (*text) {
        const size_t n = strcspn(text, "\n");

        printf("    %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

/* Renames a file that a person edited to NAME.old. */
static int keep_old(struct edits *e, const char *path, struct inf_err *reterr)
{
    _cleanup_free_ char *old = NULL;

    if (asprintf(&old, "%s.old", path) < 0) {
        old = NULL;
        return err_set(reterr, ENOMEM, "out of memory");
    }
    printf("%s was edited by hand; it %s %s\n", path, e->dry_run ? "would be kept as" : "is now",
           old);
    if (e->dry_run)
        return 0;
    return rename(path, old) < 0 ? edit_failed(path, reterr) : 0;
}

int edit_replace(struct edits *e, const char *path, mode_t mode, const char *text,
                 const char *shown, struct inf_err *reterr)
{
    /* If the path is a symbolic link, it is kept and its target is replaced. */
    _cleanup_free_ char *real = realpath(path, NULL);
    int r;

    e->n_changes++;
    if (e->dry_run) {
        printf("would write %s (mode %04o):\n", path, (unsigned)mode);
        tell_text(shown);
        return 0;
    }
    r = write_file(real ? real : path, mode, text, reterr);
    if (r == 0 && !e->quiet)
        printf("wrote %s\n", path);
    return r;
}

int edit_generate(struct edits *e, const char *path, const char *body, struct inf_err *reterr)
{
    _cleanup_free_ char *old = old_text(path), *text = edit_marked(body);
    int r = 0;

    if (!text)
        return err_set(reterr, ENOMEM, "out of memory");
    if (old && strcmp(old, text) == 0)
        return 0;
    if (old && edit_whose(old) == EDIT_PERSON)
        r = keep_old(e, path, reterr);
    return r < 0 ? r : edit_replace(e, path, 0644, text, text, reterr);
}

int edit_remove(struct edits *e, const char *path, struct inf_err *reterr)
{
    _cleanup_free_ char *old = old_text(path);

    if (!path_exists(path))
        return 0;
    if (!old || edit_whose(old) == EDIT_PERSON) {
        e->n_changes++;
        return keep_old(e, path, reterr);
    }
    return edit_unlink(e, path, reterr);
}

int edit_link(struct edits *e, const char *target, const char *path, struct inf_err *reterr)
{
    struct stat st;
    int r;

    if (lstat(path, &st) == 0)
        return 0;
    e->n_changes++;
    if (!e->quiet || e->dry_run)
        printf("%s %s -> %s\n", e->dry_run ? "would link" : "linked", path, target);
    if (e->dry_run)
        return 0;
    r = make_parents(path, reterr);
    if (r < 0)
        return r;
    return symlink(target, path) < 0 && errno != EEXIST ? edit_failed(path, reterr) : 0;
}

int edit_unlink(struct edits *e, const char *path, struct inf_err *reterr)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : edit_failed(path, reterr);
    e->n_changes++;
    if (!e->quiet || e->dry_run)
        printf("%s %s\n", e->dry_run ? "would remove" : "removed", path);
    if (e->dry_run)
        return 0;
    return unlink(path) < 0 && errno != ENOENT ? edit_failed(path, reterr) : 0;
}
