/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files: read-only maps, their beginnings in private memory, and whole small files. */

#include <infer/tier.h>
#include <infer/types.h>

#include "core/macros.h"

struct file_hold;

/*
 * A read-only mapping of a whole regular file. Zeroed memory is an empty one.
 *
 * The file may change, or become shorter, while it is mapped. So nothing is parsed in a mapping
 * (struct file_start), and what is computed with one counts only when the mapping is not lost
 * afterwards.
 */
struct file_map {
    const unsigned char *data; /* NULL when size is 0 */
    uint64_t size;
    struct inf_tier_file id; /* when it was opened */
    bool settled; /* it changed last so long before that any later change shows in its times */
    struct file_hold *hold; /* the open file; NULL: memory that is no file, and never lost */
};

/* -ENOENT, -EACCES, -EISDIR, -EINVAL (no regular file)… with the path in *reterr. */
int file_map_open(const char *path, struct file_map *ret_map, struct inf_err *reterr);
void file_map_done(struct file_map *map);
/* Reads @n bytes from @offset on, each once. -EBADMSG: the file is shorter. */
int file_map_read(const struct file_map *map, uint64_t offset, void *ret, size_t n,
                  struct inf_err *reterr);
/* Whether it is known that the file changed or became shorter. Without a system call. */
bool file_map_is_lost(const struct file_map *map);
/* Looks at the file's size and time: 0, or -ESTALE with the reason, from then on for ever. Any
 * thread. A file that another took the place of is what it was. */
int file_map_check(const struct file_map *map, struct inf_err *reterr);

/* The files that something was made of; borrowed. Zeroed: none, which are never lost. */
struct file_set {
    const struct file_map *const *maps; /* [n] */
    size_t n;
    unsigned n_lost; /* of all guards, when this set was looked at */
};
/* As file_map_is_lost() of any of them; one load as long as no file of the process was lost. One
 * thread. */
bool file_set_is_lost(struct file_set *set);
/* As file_map_check() of all of them. Any thread. */
int file_set_check(const struct file_set *set, struct inf_err *reterr);

/* The beginning of a mapped file, in memory that nobody else writes. Zeroed: nothing of it. */
struct file_start {
    const unsigned char *data; /* does not move */
    uint64_t size;             /* of @data */
    uint64_t reserved;         /* addresses behind @data; 0: it is the mapping of no file */
};
/* Makes at least @size bytes be there. -EBADMSG: the file is shorter; -ENOMEM. */
int file_start_read(struct file_start *start, const struct file_map *map, uint64_t size,
                    struct inf_err *reterr);
/* Gives back all but the first @size bytes, which are there. */
void file_start_trim(struct file_start *start, uint64_t size);
void file_start_done(struct file_start *start);

/* Whether a file begins with these bytes; false also when it cannot be read. */
bool file_begins_with(const char *path, const char *bytes);

/* Reads a file of at most @max bytes; the caller frees *ret_data, which ends with a NUL that
 * *ret_size does not count. -EFBIG when it is larger. */
int file_read(const char *path, size_t max, char **ret_data, size_t *ret_size,
              struct inf_err *reterr);

/* "dir/name" on the heap; NULL when out of memory. */
char *path_join(const char *dir, const char *name);
/* The part of @path behind its last slash. */
const char *path_base(const char *path);
bool path_exists(const char *path);
bool path_is_dir(const char *path);
/* Whether @path is @dir or lies below it, by their texts alone; neither ends in a slash. */
bool path_is_below(const char *path, const char *dir);
