/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the directory of the cache (see directory.h). */
#include "cache/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/file.h"
#include "core/macros.h"

static int directory_make(const char *path)
{
    return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_both(const char *path)
{
    _cleanup_free_ char *parent = strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (!parent)
        return -ENOMEM;
    if (slash && slash != parent) {
        *slash = 0;
        directory_make(parent);
    }
    return directory_make(path);
}

static int hide_file(int dir, const char *name)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077) == 0)
        return 0;
    return fchmodat(dir, name, st.st_mode & 0700, 0) < 0 ? -errno : 0;
}

static int hide_files(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    int r = 0;

    if (!dir)
        return errno == ENOENT ? 0 : -errno;
    while (r == 0 && (errno = 0, entry = readdir(dir)))
        r = hide_file(dirfd(dir), entry->d_name);
    if (r == 0 && errno)
        r = -errno;
    closedir(dir);
    return r;
}

int directory_prepare(const char *path)
{
    _cleanup_free_ char *segments = path_join(path, "segments");
    int r = segments ? make_both(path) : -ENOMEM;

    if (r == 0)
        r = hide_files(path);
    return r < 0 ? r : hide_files(segments);
}
