/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the limits of control groups
 *
 * /proc/self/cgroup names the groups of the process: "0::PATH" in the unified hierarchy,
 * "N:CONTROLLERS:PATH" in a hierarchy of version 1. Hierarchies are searched where distributions
 * mount them. In a container, /proc/self/cgroup may give a path of the host; directories of this
 * path that do not exist in the container are skipped.
 */
#include "core/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/macros.h"
#include "core/pages.h"

#define MOUNT "/sys/fs/cgroup"

/* A search for the smallest limit of all groups. */
struct search {
    const char *root, *controller;
    /* Reads the limit of the group in @dir, and lowers @cpus or @bytes to it. */
    void (*visit)(struct search *s, const char *dir, bool v2);
    double cpus;
    uint64_t bytes;
};

/* Visits the group at @path below @mount, and its parents up to the mount. */
static void visit_group(struct search *s, const char *mount, const char *path, bool v2)
{
    char dir[4608];
    size_t mount_len;

    mount_len = (size_t)snprintf(dir, sizeof(dir), "%s" MOUNT "%s", s->root, mount);
    if (mount_len >= sizeof(dir))
        return;
    if ((size_t)snprintf(dir + mount_len, sizeof(dir) - mount_len, "%s", path) >=
        sizeof(dir) - mount_len)
        return;
    for (;;) {
        char *slash;

        s->visit(s, dir, v2);
        slash = strrchr(dir + mount_len, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

static bool has_controller(char *list, const char *name)
{
    char *save = NULL;

    for (char *at = strtok_r(list, ",", &save); at; at = strtok_r(NULL, ",", &save))
        if (strcmp(at, name) == 0)
            return true;
    return false;
}

static void visit_line(struct search *s, char *line)
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    char mount[300];

    if (!path)
        return;
    *list++ = *path++ = 0;
    if (*list == 0) {
        visit_group(s, "", path, true);
        visit_group(s, "/unified", path, true);
        return;
    }
    snprintf(mount, sizeof(mount), "/%s", list);
    if (!has_controller(list, s->controller))
        return;
    /* The hierarchy is mounted at a directory whose name is the list of its controllers, such as
     * "cpu,cpuacct". Some systems have only a directory or a link with the controller's name. */
    visit_group(s, mount, path, false);
    snprintf(mount, sizeof(mount), "/%s", s->controller);
    visit_group(s, mount, path, false);
}

static void search_groups(struct search *s)
{
    char name[4352], line[4352];
    FILE *f;

    snprintf(name, sizeof(name), "%s/proc/self/cgroup", s->root);
    f = fopen(name, "re");
    if (!f)
        return;
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        visit_line(s, line);
    }
    fclose(f);
}

/* Reads up to two numbers, and stops before a word such as "max". Returns how many it has read. */
static int read_numbers(const char *dir, const char *file, long long *ret_a, long long *ret_b)
{
    char name[4700];
    int n = 0;
    FILE *f;

    snprintf(name, sizeof(name), "%s/%s", dir, file);
    f = fopen(name, "re");
    if (f) {
        n = fscanf(f, "%lld %lld", ret_a, ret_b);
        fclose(f);
    }
    return MAX(n, 0);
}

static void visit_cpu(struct search *s, const char *dir, bool v2)
{
    long long quota, period, none;

    if (v2 ? read_numbers(dir, "cpu.max", &quota, &period) < 2
           : read_numbers(dir, "cpu.cfs_quota_us", &quota, &none) < 1 ||
                 read_numbers(dir, "cpu.cfs_period_us", &period, &none) < 1)
        return;
    if (quota <= 0 || period <= 0)
        return;
    if (s->cpus == 0 || (double)quota / (double)period < s->cpus)
        s->cpus = (double)quota / (double)period;
}

static void visit_memory(struct search *s, const char *dir, bool v2)
{
    static const char *const files[] = {"memory.max", "memory.high", "memory.limit_in_bytes"};
    long long limit, none;

    for (size_t i = v2 ? 0 : 2; i < (v2 ? 2u : 3u); i++)
        if (read_numbers(dir, files[i], &limit, &none) >= 1 && limit > 0)
            s->bytes = MIN(s->bytes, (uint64_t)limit);
}

double cgroup_cpus(const char *root)
{
    struct search s = {.root = root, .controller = "cpu", .visit = visit_cpu};

    search_groups(&s);
    return s.cpus;
}

uint64_t cgroup_memory(const char *root)
{
    struct search s = {
        .root = root, .controller = "memory", .visit = visit_memory, .bytes = UINT64_MAX};

    search_groups(&s);
    return s.bytes;
}

uint64_t memory_bytes(void)
{
    uint64_t bytes = pages_memory();

    if (bytes == 0)
        bytes = UINT64_C(1) << 32;
    return MIN(bytes, cgroup_memory(""));
}
