/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes the store, the model directory into which the commands of a user install models.
 *
 *     NAME/manifest.yaml   a model: its manifest (common/models/manifest.h) and its files
 *     NAME/FILE            NAME may be ORG/NAME
 *     .blobs/sha256-HEX    files by content: hard links to the files of models
 *     .incoming/JOB/       files that have arrived; those that are being fetched are in JOB/fetch
 *     .uploads/sha256-HEX  files that clients have uploaded, until a model is made of them
 *     .removed.XXXXXX/     what is being removed
 *     .lock                only one command changes the store at a time
 *
 * A file that several models share is stored once: its name in each model and the name of its blob
 * are hard links to it. Confinement needs no rule for hard links: a service that may read the model
 * directory can read the file without following a link. The kernel counts the links, so there is no
 * list of references that could be wrong after a crash. A blob that no model has any more is
 * removed.
 *
 * The search for models skips names that begin with a dot, so a model appears and disappears as a
 * whole, when its directory is renamed.
 */

#include "common/models/models.h"
#include "core/arena.h"
#include "core/macros.h"

struct config;
struct str;

#define STORE_BLOBS    ".blobs"
#define STORE_INCOMING ".incoming"
#define STORE_UPLOADS  ".uploads"
/* The length of a digest as text. */
#define STORE_DIGEST 64

/* --- the directory --- */

/* Finds the store. It is the first model directory if the command line names it (@chosen), else the
 * first one that exists and that this user may write. If there is none, it is a directory that does
 * not exist yet: /var/lib/sconce/models for root if the configuration has it, else the first model
 * directory. The caller frees *ret_dir. -ENOENT: the configuration names no model directory;
 * -ENOMEM. */
int store_directory(const struct config *config, bool chosen, char **ret_dir,
                    struct inf_err *reterr);
/* Makes @path and the missing directories above it. */
int store_make_dirs(const char *path, struct inf_err *reterr);
/* If root runs this process, and the store @dir exists and belongs to another user, the process
 * becomes this user, so that new files belong to this user. -errno. */
int store_become_owner(const char *dir, struct inf_err *reterr);
/* Waits for the lock of the store @dir, and makes @dir if it is missing. Closing *ret_fd releases
 * the lock. -errno. */
int store_lock(const char *dir, int *ret_fd, struct inf_err *reterr);
/* Writes all bytes to the file. 0 or the negative errno value of write(2). */
int store_write_all(int fd, const char *data, size_t len);
/* Returns DIR/SUB/sha256-DIGEST on the heap, the path of a file that is named by its digest; @sub
 * is STORE_BLOBS or STORE_UPLOADS. NULL: there is no memory. */
char *store_digest_path(const char *dir, const char *sub, const char *digest);
/* Replaces the file @path with @text at once: after a crash the file has the old or the new
 * content. */
int store_put(const char *path, const char *text, size_t len, struct inf_err *reterr);
/* Renames the directory @path to a name that searches skip, and then removes it with its
 * contents. The caller has the lock of the store. */
int store_discard(const char *dir, const char *path, struct inf_err *reterr);
/* Calls @visit with the path of each entry of the directory @dir whose name begins with @prefix,
 * until @visit returns true. Returns whether it did; without @visit, whether there is such an
 * entry. @dir may be NULL. */
bool store_walk(const char *dir, const char *prefix, bool (*visit)(const char *path, void *arg),
                void *arg);
/* Returns whether there is something that store_clean_removed() would remove. */
bool store_has_removed(const char *dir);
/* Removes what processes that were killed in store_discard() have left. The caller has the lock of
 * the store. Files that cannot be removed stay. */
void store_clean_removed(const char *dir);
/* Removes blobs that no model has. *ret_bytes gets their size. */
int store_clean_blobs(const char *dir, uint64_t *ret_bytes, struct inf_err *reterr);

/* --- models --- */

/* A file of a model. */
struct store_file {
    const char *name; /* relative to the model's directory */
    const char *path;
    uint64_t size;      /* in bytes, as the manifest says, else on disk; UINT64_MAX: unknown */
    const char *sha256; /* STORE_DIGEST digits; NULL: unknown */
};

struct store_files {
    struct arena arena; /* owns the texts */
    struct store_file *files;
    size_t n, cap;
};

/* Lists the files of the model @e. The digests are those of its manifest. Without a manifest, a
 * file has a digest if it is a blob: then its name is its digest. -ENOMEM, -EBADMSG (a damaged
 * manifest), or -errno. */
int store_files_list(const struct models_entry *e, struct store_files *ret, struct inf_err *reterr);
void store_files_done(struct store_files *files);

/* Returns whether the commands may change the model: it is in the store @dir. */
bool store_has(const char *dir, const struct models_entry *e);
/* Removes the model @e from the store @dir, with its manifest. *ret_bytes gets the number of bytes
 * that are free now: a file that another model shares is not counted. -EPERM: the model is not in
 * the store. */
int store_remove(const char *dir, const struct models_entry *e, uint64_t *ret_bytes,
                 struct inf_err *reterr);
/* Gives the model @e another name. The alias of a model outside of the store is a manifest in the
 * store. */
int store_alias_add(const char *dir, const struct models_entry *e, const char *alias,
                    struct inf_err *reterr);
/* Removes the name @alias of the model @e. -ENOENT: it is not an alias that a command can
 * remove. */
int store_alias_remove(const char *dir, const struct models_entry *e, const char *alias,
                       struct inf_err *reterr);

/* --- digests --- */

/* Computes the SHA-256 of a file, as text. @progress, which may be NULL, is called with the number
 * of bytes of each step. */
int store_digest(const char *path, void (*progress)(void *data, uint64_t bytes), void *data,
                 char ret_digest[STORE_DIGEST + 1], uint64_t *ret_size, struct inf_err *reterr);

/* Writes the digest @digest of SHA-256 as text. */
void store_digest_text(const uint8_t digest[32], char ret[STORE_DIGEST + 1]);

/* --- growing.c: the digest of a file that another process still writes --- */

struct store_growing;

/* Returned if the file must be read again for its digest. */
#define STORE_GROWING_DIFFERS 1

/* Prepares the digest of the file @path, which may be missing yet. NULL: no memory or no random
 * numbers. */
struct store_growing *store_growing_new(const char *path);
struct store_growing *store_growing_free(struct store_growing *g);
/* Reads the bytes that were not read yet, up to the byte @size. The caller expects that the bytes
 * before @size do not change any more; if they do, store_growing_end() notices it. @g may be
 * NULL. */
void store_growing_read(struct store_growing *g, uint64_t size);
/* Must be called when no process can write the file any more. Reads the rest of the file, which is
 * now at @path, and checks that the file has the bytes that were read. If so, ret_digest gets the
 * SHA-256 of the file as text, and *ret_size gets its size. @progress is called as by
 * store_digest(). STORE_GROWING_DIFFERS: there is no digest, because the file was changed, cannot
 * be read, or was not read while it grew. */
int store_growing_end(struct store_growing *g, const char *path,
                      void (*progress)(void *data, uint64_t bytes), void *data,
                      char ret_digest[STORE_DIGEST + 1], uint64_t *ret_size);

/* --- manifests --- */

/* These functions append to the text of a manifest, and return 0 or -ENOMEM. */

/* Appends a text as a YAML scalar in double quotes. */
int store_put_quoted(struct str *out, const char *text);
/* Appends a line with the key @key, unless @value is NULL. */
int store_put_key(struct str *out, const char *key, const char *value);
/* Appends the key `sampling` with the parameters that are set, if there are any. */
int store_put_sampling(struct str *out, const struct inf_sampling *sampling);
/* Appends the key `stop`, unless @n is 0. */
int store_put_stops(struct str *out, const char *const *stops, size_t n);
/* Appends the key `messages`, unless @n is 0. */
int store_put_messages(struct str *out, const struct model_message *messages, size_t n);
