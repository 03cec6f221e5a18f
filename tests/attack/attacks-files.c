/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks files: tries to read files that the service does not need, and to write in all possible
 * ways.
 *
 * Attacks on the model store use a decoy file, which is created again before each attack.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "attack.h"

long attack_open(struct victim *v, const char *path, int flags)
{
    return CALL(v, SYS_openat, (uint64_t)AT_FDCWD, victim_text(v, path), (uint64_t)flags, 0600);
}

/* Opening a file is not enough for success: a byte must be read. */
static int read_file(struct victim *v, const char *path)
{
    char byte = 0;
    long fd, n;

    if (!path)
        return ATTACK_ABSENT;
    fd = attack_open(v, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0)
        return (int)fd;
    n = CALL(v, SYS_read, (uint64_t)fd, victim_put(v, &byte, 1), 1);
    return n < 0 ? (int)n : n == 0 ? -ENODATA : 0;
}

/* Listing a directory succeeds if it shows the entry @name, because confinement may replace the
 * directory by an empty one. */
static int list_directory(struct victim *v, const char *path, const char *name)
{
    char entries[2048] = {};
    uint64_t there;
    long fd, n;

    if (!path || !name)
        return ATTACK_ABSENT;
    fd = attack_open(v, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return (int)fd;
    there = victim_put(v, entries, sizeof(entries));
    n = CALL(v, SYS_getdents64, (uint64_t)fd, there, sizeof(entries));
    if (n < 0 || victim_get(v, there, entries, (size_t)n) < 0)
        return n < 0 ? (int)n : -EIO;
    return memmem(entries, (size_t)n, name, strlen(name) + 1) ? 0 : -ENOENT;
}

static int other_file(struct victim *v, const struct scene *s)
{
    return read_file(v, s->other_file);
}

static int home_file(struct victim *v, const struct scene *s)
{
    return read_file(v, s->home_file);
}

static int root_file(struct victim *v, const struct scene *s)
{
    return read_file(v, s->root_file);
}

static int own_file(struct victim *v, const struct scene *s)
{
    return read_file(v, s->own_file);
}

static int shadow(struct victim *v, const struct scene *s UNUSED)
{
    return read_file(v, "/etc/shadow");
}

static int homes(struct victim *v, const struct scene *s)
{
    char *home = s->home_file ? strdupa(s->home_file) : NULL;

    return list_directory(v, s->homes, home ? basename(dirname(home)) : NULL);
}

static int cache(struct victim *v, const struct scene *s)
{
    return list_directory(v, s->cache_dir, "entry");
}

static int state(struct victim *v, const struct scene *s)
{
    return list_directory(v, s->state_dir, "entry");
}

static int user_cache(struct victim *v, const struct scene *s)
{
    return list_directory(v, s->user_cache, "entry");
}

static int device(struct victim *v, const char *path, int flags)
{
    long fd;

    if (access(path, F_OK) < 0)
        return ATTACK_ABSENT;
    fd = attack_open(v, path, flags | O_NONBLOCK);
    return fd < 0 ? (int)fd : 0;
}

static int dev_mem(struct victim *v, const struct scene *s UNUSED)
{
    return device(v, "/dev/mem", O_RDONLY);
}

static int dev_kmsg(struct victim *v, const struct scene *s UNUSED)
{
    return device(v, "/dev/kmsg", O_RDONLY);
}

static int dev_gpu(struct victim *v, const struct scene *s UNUSED)
{
    const int r = device(v, "/dev/dri/renderD128", O_RDWR);

    /* The device node has no driver, so a process that may open it gets one of these errors. */
    return r == -ENXIO || r == -ENODEV ? 0 : r;
}

static int tunable(struct victim *v, const struct scene *s UNUSED)
{
    return device(v, "/proc/sys/kernel/core_pattern", O_WRONLY);
}

static int write_outside(struct victim *v, const struct scene *s)
{
    char path[512];
    long fd;

    if (!s->outside_dir)
        return ATTACK_ABSENT;
    snprintf(path, sizeof(path), "%s/sconce-attack-%d", s->outside_dir, victim_pid(v));
    fd = attack_open(v, path, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return (int)fd;
    return (int)CALL(v, SYS_unlinkat, (uint64_t)AT_FDCWD, victim_text(v, path), 0);
}

/* Creates the decoy in the store with the rights of this program, not of the victim; returns its
 * path. */
static const char *decoy(const struct scene *s, const char *name)
{
    static char path[512];
    int fd;

    snprintf(path, sizeof(path), "%s/decoy.gguf", s->store);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd >= 0 && ftruncate(fd, 4096) == 0)
        fchmod(fd, 0644);
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof(path), "%s/%s", s->store, name);
    return path;
}

static int store_create(struct victim *v, const struct scene *s)
{
    char path[512];
    long fd;

    if (!s->store)
        return ATTACK_ABSENT;
    snprintf(path, sizeof(path), "%s/attack.gguf", s->store);
    fd = attack_open(v, path, O_WRONLY | O_CREAT);
    unlink(path);
    return fd < 0 ? (int)fd : 0;
}

static int store_write(struct victim *v, const struct scene *s)
{
    const long fd = s->store ? attack_open(v, decoy(s, "decoy.gguf"), O_RDWR) : -1;

    return !s->store ? ATTACK_ABSENT : fd < 0 ? (int)fd : 0;
}

static int store_truncate(struct victim *v, const struct scene *s)
{
    if (!s->store)
        return ATTACK_ABSENT;
    return (int)CALL(v, SYS_truncate, victim_text(v, decoy(s, "decoy.gguf")), 1);
}

static int store_rename(struct victim *v, const struct scene *s)
{
    uint64_t from, to;
    long r;

    if (!s->store)
        return ATTACK_ABSENT;
    from = victim_text(v, decoy(s, "decoy.gguf"));
    to = victim_text(v, decoy(s, "decoy2.gguf"));
    r = CALL(v, SYS_renameat2, (uint64_t)AT_FDCWD, from, (uint64_t)AT_FDCWD, to, 0);
    unlink(decoy(s, "decoy2.gguf"));
    return (int)r;
}

static int store_unlink(struct victim *v, const struct scene *s)
{
    if (!s->store)
        return ATTACK_ABSENT;
    return (int)CALL(v, SYS_unlinkat, (uint64_t)AT_FDCWD, victim_text(v, decoy(s, "decoy.gguf")),
                     0);
}

static int store_chmod(struct victim *v, const struct scene *s)
{
    if (!s->store)
        return ATTACK_ABSENT;
    return (int)CALL(v, SYS_fchmodat, (uint64_t)AT_FDCWD, victim_text(v, decoy(s, "decoy.gguf")),
                     0666);
}

const struct attack attacks_files[] = {
    {"other-file", "read another user's private file", other_file},
    {"home-file", "read a public file in another user's home", home_file},
    {"homes", "list the homes", homes},
    {"root-file", "read a file in root's home", root_file},
    {"own-file", "read the user's own files", own_file},
    {"shadow", "read the password hashes", shadow},
    {"cache", "read the cache directory of the system", cache},
    {"state", "read what other services keep", state},
    {"user-cache", "read the cache directory of the user", user_cache},
    {"dev-mem", "open the physical memory", dev_mem},
    {"dev-kmsg", "read the kernel's log", dev_kmsg},
    {"dev-gpu", "open a graphics device", dev_gpu},
    {"tunable", "open a kernel setting for writing", tunable},
    {"write", "create a file where everybody may", write_outside},
    {},
};

const struct attack attacks_store[] = {
    {"store-create", "create a file in the model store", store_create},
    {"store-write", "open a model for writing", store_write},
    {"store-truncate", "truncate a model", store_truncate},
    {"store-rename", "rename a model", store_rename},
    {"store-unlink", "delete a model", store_unlink},
    {"store-chmod", "make a model writable", store_chmod},
    {},
};
