/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the weights of voice activity detection. Only model directories are searched, because the
 * service can read no others.
 */
#include "audio/vad-file.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/config/config.h"
#include "core/err.h"
#include "core/file.h"
#include "core/macros.h"
#include "core/text.h"

static bool is_weights(const char *file)
{
    return (strncasecmp(file, "silero", 6) == 0 && text_ends_with_nocase(file, ".safetensors")) ||
           (strncasecmp(file, "ggml-silero", 11) == 0 && text_ends_with_nocase(file, ".bin"));
}

/* Returns the file whose name sorts last, which is the latest version; NULL: none. */
static char *find_weights(const char *dir)
{
    DIR *d = opendir(dir);
    _cleanup_free_ char *best = NULL;
    struct dirent *e;

    while (d && (e = readdir(d))) {
        char *name = is_weights(e->d_name) && (!best || strcmp(e->d_name, best) > 0)
                         ? strdup(e->d_name)
                         : NULL;

        if (name) {
            free(best);
            best = name;
        }
    }
    if (d)
        closedir(d);
    return best ? path_join(dir, best) : NULL;
}

/* Finds @file as configured: a name in a model directory, or a path. */
static int find_configured(const struct config *config, const char *file, char **ret_path,
                           struct inf_err *reterr)
{
    bool below = file[0] != '/';

    for (size_t i = 0; i < config->n_model_dirs; i++) {
        const char *dir = config->model_dirs[i];
        _cleanup_free_ char *path = file[0] == '/' ? strdup(file) : path_join(dir, file);

        if (!path)
            return err_set(reterr, ENOMEM, "out of memory");
        if (!path_is_below(path, dir))
            continue;
        below = true;
        if (path_exists(path)) {
            *ret_path = STEAL(path);
            return 0;
        }
    }
    if (!below)
        return err_set(reterr, EINVAL, "audio.vad_model, %s, is outside of the model directories",
                       file);
    return err_set(reterr, ENOENT, "audio.vad_model, %s, was not found in the model directories",
                   file);
}

int vad_file_find(const struct config *config, char **ret_path, struct inf_err *reterr)
{
    if (config->audio.vad_model)
        return find_configured(config, config->audio.vad_model, ret_path, reterr);
    *ret_path = NULL;
    for (size_t i = 0; !*ret_path && i < config->n_model_dirs; i++)
        *ret_path = find_weights(config->model_dirs[i]);
    return 0;
}
