/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files: read-only maps, and whole small files. */

#include <infer/tier.h>
#include <infer/types.h>

#include "core/macros.h"

/* A read-only mapping of a whole regular file. Zeroed memory is an empty one. */
struct file_map {
    const unsigned char *data; /* NULL when size is 0 */
    uint64_t size;
    struct inf_tier_file id; /* when it was opened */
    bool settled; /* it changed last so long before that any later change shows in its times */
};

/* -ENOENT, -EACCES, -EISDIR, -EINVAL (no regular file)… with the path in *reterr. */
int file_map_open(const char *path, struct file_map *ret_map, struct inf_err *reterr);
void file_map_done(struct file_map *map);

/* Reads a file of at most @max bytes; the caller frees *ret_data, which ends with a NUL that
 * *ret_size does not count. -EFBIG when it is larger. */
int file_read(const char *path, size_t max, char **ret_data, size_t *ret_size,
              struct inf_err *reterr);

/* "dir/name" on the heap; NULL when out of memory. */
char *path_join(const char *dir, const char *name);
bool path_exists(const char *path);
bool path_is_dir(const char *path);
/* Whether @path is @dir or lies below it, by their texts alone; neither ends in a slash. */
bool path_is_below(const char *path, const char *dir);
