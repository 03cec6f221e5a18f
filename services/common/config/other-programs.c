/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the model directories of other programs (see common/models/foreign.h).
 *
 * For each program, a table has the environment variable that names its directory, and its default
 * directories. Only directories that exist are added.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config/table.h"
#include "core/file.h"

/* A directory with models of a program. The environment variable @variable names a directory, and
 * the models are in @below ("": in the directory itself). If the variable has no absolute path,
 * the models are in @usual, relative to the home directory unless it is absolute. */
static const struct program_place {
    const char *program;
    enum models_layout layout;
    const char *variable, *below, *usual;
} places[] = {
    {"huggingface", MODELS_HUGGING_FACE, "HF_HUB_CACHE", "", NULL},
    {"huggingface", MODELS_HUGGING_FACE, "HF_HOME", "/hub", ".cache/huggingface/hub"},
    {"ollama", MODELS_OLLAMA, "OLLAMA_MODELS", "", ".ollama/models"},
    {"ollama", MODELS_OLLAMA, NULL, "", "/usr/share/ollama/.ollama/models"},
    {"lm-studio", MODELS_LM_STUDIO, NULL, "", ".lmstudio/models"},
    {"lm-studio", MODELS_LM_STUDIO, NULL, "", ".cache/lm-studio/models"},
    {"llama.cpp", MODELS_LLAMA_CPP, "LLAMA_CACHE", "", ".cache/llama.cpp"},
};

const char *config_check_program(const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (strcmp(text, places[i].program) == 0)
            return NULL;
    return "huggingface, ollama, lm-studio or llama.cpp";
}

/* Returns the directory of @place, which the caller frees. NULL: there is none, or memory is
 * short. */
static char *place_path(const struct program_place *place)
{
    const char *given = place->variable ? getenv(place->variable) : NULL;
    const char *home = getenv("HOME");
    char *path = NULL;

    if (given && given[0] == '/')
        return asprintf(&path, "%s%s", given, place->below) < 0 ? NULL : path;
    if (!place->usual || place->usual[0] == '/')
        return place->usual ? strdup(place->usual) : NULL;
    return home && home[0] == '/' ? path_join(home, place->usual) : NULL;
}

static bool is_model_dir(const struct config *config, const char *path)
{
    for (size_t i = 0; i < config->n_model_dirs; i++)
        if (strcmp(config->model_dirs[i], path) == 0)
            return true;
    return false;
}

/* Adds the directory of @place, if it exists. */
static int add_place(struct config *config, const struct program_place *place)
{
    _cleanup_free_ char *path = place_path(place);
    unsigned char *layouts;
    char **dirs;

    if (!path || !path_is_dir(path) || is_model_dir(config, path))
        return 0;
    dirs = realloc(config->model_dirs, (config->n_model_dirs + 1) * sizeof(*dirs));
    if (!dirs)
        return -ENOMEM;
    config->model_dirs = dirs;
    layouts = realloc(config->foreign, config->n_foreign + 1);
    if (!layouts)
        return -ENOMEM;
    config->foreign = layouts;
    layouts[config->n_foreign++] = (unsigned char)place->layout;
    dirs[config->n_model_dirs++] = STEAL(path);
    return 0;
}

int config_add_other_programs(struct config *config)
{
    int r = 0;

    for (size_t i = 0; i < config->n_other_programs; i++)
        for (size_t k = 0; r == 0 && k < ARRAY_SIZE(places); k++)
            if (strcmp(config->other_programs[i], places[k].program) == 0)
                r = add_place(config, &places[k]);
    return r;
}

enum models_layout config_model_layout(const struct config *config, size_t i)
{
    const size_t n_own = config->n_model_dirs - config->n_foreign;

    return i < n_own ? MODELS_OWN : (enum models_layout)config->foreign[i - n_own];
}
