/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Visits the targets of links in the model directories.
 *
 * Refused and missing targets are skipped. The user sees the reason in the list of models, or when
 * a model is opened.
 */
#include "common/models/links.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "common/config/config.h"
#include "common/models/models.h"
#include "core/file.h"

static enum model_file kind_of(const char *name)
{
    return fnmatch("*.bin", name, FNM_CASEFOLD) == 0 ? MODEL_FILE_GGML : MODEL_FILE_SAFETENSORS;
}

/* Returns whether an entry of a model directory has weights of voice activity detection. Such
 * weights are not models, and are not looked for in subdirectories. */
static bool is_vad(const char *name)
{
    return fnmatch("silero*.safetensors", name, FNM_CASEFOLD) == 0 ||
           fnmatch("ggml-silero*.bin", name, FNM_CASEFOLD) == 0;
}

static int visit_file(struct model_files *files, const char *dir, const char *name)
{
    _cleanup_free_ char *path = name[0] == '/' ? strdup(name) : path_join(dir, name);
    int r;

    if (!path)
        return -ENOMEM;
    r = model_files_check(files, path, kind_of(name), NULL);
    return r == -ENOMEM ? r : 0;
}

static int visit_vad(struct model_files *files, const char *dir, const char *configured)
{
    const struct dirent *e;
    DIR *d = opendir(dir);
    int r = d && configured ? visit_file(files, dir, configured) : 0;

    while (d && r == 0 && (e = readdir(d)))
        if (is_vad(e->d_name))
            r = visit_file(files, dir, e->d_name);
    if (d)
        closedir(d);
    return r;
}

int model_links_visit(const struct config *config, model_files_fn visit, void *data)
{
    _cleanup_(model_files_freep) struct model_files *files = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    int r = model_files_new(config, visit, data, true, &files);

    if (r == 0)
        r = models_scan_with(config, files, &models);
    for (size_t i = 0; r == 0 && i < config->n_model_dirs; i++)
        r = visit_vad(files, config->model_dirs[i], config->audio.vad_model);
    return r;
}
