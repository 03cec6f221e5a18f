/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cannot be read or does not exist is skipped: opening it says why, when somebody wants it.
 */
#include "common/model-links.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/config.h"
#include "common/models.h"
#include "core/file.h"

enum {
    LINKS_DEPTH = 3, /* "org/name/file" */
};

struct links {
    const struct config *config;
    int (*visit)(void *data, const char *path);
    void *data;
    size_t n;
    bool has_manifests;
};

static int walk(struct links *links, const char *dir, int depth);

static bool is_below(const char *path, const char *dir)
{
    char real[PATH_MAX];

    return realpath(dir, real) && path_is_below(path, real);
}

/* Where @path leads, unless that is in a model directory anyway. */
static int found(struct links *links, const char *path, int depth)
{
    char real[PATH_MAX];
    struct stat st;
    int r;

    if (links->n >= MODEL_LINKS_MAX || !realpath(path, real) || stat(real, &st) < 0 ||
        !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return 0;
    for (size_t i = 0; i < links->config->n_model_dirs; i++)
        if (is_below(real, links->config->model_dirs[i]))
            return 0;
    links->n++;
    r = links->visit(links->data, real);
    if (r < 0 || !S_ISDIR(st.st_mode))
        return r;
    return walk(links, real, depth + 1);
}

static bool is_manifest(const char *name)
{
    const size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".yaml") == 0;
}

static int walk(struct links *links, const char *dir, int depth)
{
    const struct dirent *e;
    DIR *d;
    int r = 0;

    if (depth >= LINKS_DEPTH)
        return 0;
    d = opendir(dir);
    if (!d)
        return 0;
    while (r == 0 && (e = readdir(d))) {
        _cleanup_free_ char *path = NULL;
        struct stat st;

        if (e->d_name[0] == '.')
            continue;
        links->has_manifests |= is_manifest(e->d_name);
        if (e->d_type == DT_REG)
            continue;
        path = path_join(dir, e->d_name);
        if (!path)
            r = -ENOMEM;
        else if (lstat(path, &st) < 0)
            continue;
        else if (S_ISLNK(st.st_mode))
            r = found(links, path, depth);
        else if (S_ISDIR(st.st_mode))
            r = walk(links, path, depth + 1);
    }
    closedir(d);
    return r;
}

/* The other parts of a model "…-00001-of-00003.gguf" stand beside the first. */
static int found_parts(struct links *links, const char *path)
{
    const char *of = strstr(path, "-00001-of-");
    glob_t list = {0};
    int r = 0;

    if (of && !strpbrk(path, "*?[\\")) {
        _cleanup_free_ char *pattern = strdup(path);

        if (!pattern)
            return -ENOMEM;
        memset(pattern + (of - path) + 1, '?', 5);
        if (glob(pattern, GLOB_NOSORT, NULL, &list) == 0)
            for (size_t i = 0; r == 0 && i < list.gl_pathc; i++)
                r = found(links, list.gl_pathv[i], 0);
        globfree(&list);
    }
    return r;
}

static int visit_manifests(struct links *links)
{
    _cleanup_(models_freep) struct models *models = NULL;
    struct inf_err err;
    int r = models_scan(links->config, &models, &err);

    /* A bad manifest stops the listing as well, and there it is told. */
    if (r == -ENOMEM)
        return r;
    for (size_t i = 0; models && r == 0 && i < models_count(models); i++) {
        const char *path = models_at(models, i)->path;

        r = found(links, path, 0);
        if (r == 0)
            r = found_parts(links, path);
    }
    return r < 0 && models ? r : 0;
}

int model_links_visit(const struct config *config, int (*visit)(void *data, const char *path),
                      void *data)
{
    struct links links = {.config = config, .visit = visit, .data = data};
    int r = 0;

    for (size_t i = 0; r == 0 && i < config->n_model_dirs; i++)
        r = walk(&links, config->model_dirs[i], 0);
    if (r == 0 && links.has_manifests)
        r = visit_manifests(&links);
    return r;
}
