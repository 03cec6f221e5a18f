/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Maps files read-only, copies their beginnings to private memory, and reads whole small files. */

#include <infer/tier.h>
#include <infer/types.h>

#include <sys/types.h>

#include "core/macros.h"

struct file_hold;

/*
 * A read-only mapping of a whole regular file. A struct of zeros is an empty mapping.
 *
 * The file may change or become shorter while it is mapped. So nothing is parsed in a mapping (use
 * struct file_start). Results that are computed from a mapping are valid only if the mapping is not
 * lost (file_map_is_lost()) when the computation has ended.
 */
struct file_map {
    const unsigned char *data; /* NULL if size is 0 */
    uint64_t size;
    struct inf_tier_file id; /* identity when it was opened */
    bool settled; /* the last change is so old that any later change shows in the file's times */
    struct file_hold *hold; /* the open file; NULL: the memory is not a file and is never lost */
};

/* Maps the file @path. -ENOENT, -EACCES, -EISDIR, -EINVAL (not a regular file)…, with the path in
 * *reterr. */
int file_map_open(const char *path, struct file_map *ret_map, struct inf_err *reterr);
void file_map_done(struct file_map *map);
/* Reads @n bytes of the file from @offset on, each byte once and not through the mapping. -EBADMSG:
 * the file is shorter. */
int file_map_read(const struct file_map *map, uint64_t offset, void *ret, size_t n,
                  struct inf_err *reterr);
/* Returns whether the file is known to have changed or become shorter. Makes no system call. */
bool file_map_is_lost(const struct file_map *map);
/* Compares the file's size and modification time with those when the file was mapped. Returns 0, or
 * -ESTALE with the reason. Once a map is stale, the function always returns -ESTALE for the map.
 * Any thread may call this function. If another file was renamed over this file, the mapping is
 * still valid. */
int file_map_check(const struct file_map *map, struct inf_err *reterr);

/* A set of mapped files from which results were computed. The files are borrowed. A struct of
 * zeros is an empty set, which is never lost. */
struct file_set {
    const struct file_map *const *maps; /* [n] */
    size_t n;
    unsigned n_lost; /* value of guard_n_lost() when this set was last checked */
};
/* Returns whether any file of the set is lost (file_map_is_lost()). Costs one load from memory as
 * long as no file of the process is lost. Only one thread may call this function. */
bool file_set_is_lost(struct file_set *set);
/* Calls file_map_check() for all files of the set. Any thread may call this function. */
int file_set_check(const struct file_set *set, struct inf_err *reterr);

/* A private copy of the beginning of a mapped file. All zero: nothing was copied. */
struct file_start {
    const unsigned char *data; /* never moves */
    uint64_t size;             /* bytes at @data */
    uint64_t reserved;         /* bytes of addresses reserved at @data; 0: the mapping is not a
                                  file */
};
/* Makes sure that at least @size bytes are copied. -EBADMSG: the file is shorter; -ENOMEM. */
int file_start_read(struct file_start *start, const struct file_map *map, uint64_t size,
                    struct inf_err *reterr);
/* Frees all but the first @size bytes, which must have been copied. */
void file_start_trim(struct file_start *start, uint64_t size);
void file_start_done(struct file_start *start);

/* Returns whether a file begins with @bytes; false also if the file cannot be read. */
bool file_begins_with(const char *path, const char *bytes);

/* Reads a file of at most @max bytes. The caller frees *ret_data, which ends with a NUL that
 * *ret_size does not count. -EFBIG: the file is larger. */
int file_read(const char *path, size_t max, char **ret_data, size_t *ret_size,
              struct inf_err *reterr);

/* Returns "dir/name" on the heap; NULL if memory is short. */
char *path_join(const char *dir, const char *name);
/* Returns @path on the heap, below the working directory if it is relative; NULL if memory is short
 * or there is no working directory. Neither path has to exist. */
char *path_absolute(const char *path);
/* Returns the part of @path after its last slash. */
const char *path_base(const char *path);
bool path_exists(const char *path);
bool path_is_dir(const char *path);
/* Makes the directory @path and the missing directories above it, with the permissions @mode less
 * the umask. Returns 0, also if @path is a directory already, -ENOMEM, or the error of mkdir(2). */
int path_make_dirs(const char *path, mode_t mode);
/* Returns whether @path is @dir or below it, judged by the texts alone. Slashes at the end of @dir
 * do not count; @path must not end with a slash. */
bool path_is_below(const char *path, const char *dir);
