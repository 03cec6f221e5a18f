/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds models by name or path, and the address of the gateway.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "common/config/config.h"
#include "common/models/models.h"
#include "core/file.h"

bool cli_models_option(struct cli_models *m, int option, const char *arg)
{
    if (option == 'C') {
        m->config = arg;
        return true;
    }
    if (option == 'M') {
        if (m->n_dirs < ARRAY_SIZE(m->dirs))
            m->dirs[m->n_dirs++] = arg;
        return true;
    }
    return false;
}

int cli_config(const char *verb, const struct cli_models *m, struct config **ret_config)
{
    _cleanup_(config_freep) struct config *config = NULL;
    struct inf_err err;

    if (config_load(m->config, &config, &err) < 0)
        return cli_error(verb, "%s", err.text);
    for (size_t i = m->n_dirs; i-- > 0;) {
        if (!path_is_dir(m->dirs[i]))
            return cli_error(verb, "--models %s: no such directory", m->dirs[i]);
        if (config_add_model_dir(config, m->dirs[i]) < 0)
            return cli_error(verb, "out of memory");
    }
    *ret_config = STEAL(config);
    return CLI_OK;
}

int cli_tell_no_model(const char *verb, const char *model, const struct config *config,
                      const struct models *models)
{
    _cleanup_free_ char *names = models_names(models);
    const struct models_broken *broken = models_find_broken(models, model);

    if (broken)
        return cli_error(verb, "the model \"%s\" cannot be used: %s", model, broken->why);
    if (models_count(models) > 0)
        return cli_error(verb, "there is no model \"%s\"; these are installed: %s", model,
                         names ? names : "");
    cli_error(verb, "there is no model \"%s\", and no model is installed.", model);
    fputs("Fetch one with `sconce pull`, put a .gguf file or a model directory into one of these\n"
          "directories, or give its path:\n",
          stderr);
    for (size_t i = 0; i < config->n_model_dirs; i++)
        fprintf(stderr, "  %s\n", config->model_dirs[i]);
    return CLI_FAILED;
}

int cli_find_model(const char *verb, const struct cli_models *m, const char *model, char **ret_path)
{
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    const struct models_entry *entry;
    int r;

    /* A word with a slash is a path if that path exists. Any other word is first looked up as a
     * name. */
    if (strchr(model, '/') && path_exists(model)) {
        *ret_path = strdup(model);
        return *ret_path ? CLI_OK : cli_error(verb, "out of memory");
    }
    r = cli_config(verb, m, &config);
    if (r != CLI_OK)
        return r;
    if (models_scan(config, &models) < 0)
        return cli_error(verb, "out of memory");
    entry = models_find(models, model);
    if (!entry && !path_exists(model))
        return cli_tell_no_model(verb, model, config, models);
    *ret_path = strdup(entry ? entry->path : model);
    return *ret_path ? CLI_OK : cli_error(verb, "out of memory");
}

static int find_and_open(const char *verb, const struct cli_models *m, const char *model,
                         struct inf_model_params params, struct inf_model **ret_model)
{
    _cleanup_free_ char *path = NULL;
    struct cli_progress progress = {.label = "loading"};
    struct inf_err err;
    int r;

    r = cli_find_model(verb, m, model, &path);
    if (r != CLI_OK)
        return r;
    params.path = path;
    params.progress = cli_progress;
    params.progress_data = &progress;
    r = inf_model_open(&params, ret_model, &err);
    cli_progress_done(&progress);
    return r < 0 ? cli_error(verb, "%s", err.text) : CLI_OK;
}

int cli_open_model(const char *verb, const struct cli_models *m, const char *model, bool vocab_only,
                   struct inf_model **ret_model)
{
    return find_and_open(verb, m, model, (struct inf_model_params){.vocab_only = vocab_only},
                         ret_model);
}

int cli_open_chat_model(const char *verb, const struct cli_models *m, const char *model,
                        const char *chat_template, struct inf_model **ret_model)
{
    return find_and_open(verb, m, model, (struct inf_model_params){.chat_template = chat_template},
                         ret_model);
}

int cli_settings(const char *verb, const struct cli_models *m, const char *model,
                 struct arena *arena, struct model_settings *ret)
{
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    const struct models_entry *entry;
    const int r = cli_config(verb, m, &config);

    model_settings_clear(ret);
    if (r != CLI_OK)
        return r;
    if (models_scan(config, &models) < 0)
        return cli_error(verb, "out of memory");
    /* As in cli_find_model(), a word with a slash is a path if that path exists. */
    if (strchr(model, '/') && path_exists(model))
        return CLI_OK;
    entry = models_find(models, model);
    if (entry && model_settings_copy(arena, &entry->settings, ret) < 0)
        return cli_error(verb, "out of memory");
    return CLI_OK;
}

char *cli_find_gateway(void)
{
    _cleanup_free_ char *path = NULL;
    char *address = NULL;

    if (config_socket_path("gateway", &path) < 0 || !path_exists(path)) {
        free(path);
        path = strdup("/run/sconce/gateway.sock");
    }
    if (!path || asprintf(&address, "unix:%s", path) < 0)
        return NULL;
    return address;
}

bool cli_tell_no_gateway(const char *verb, const char *address, int error)
{
    if (error == -EACCES)
        cli_error(verb, "you have no permission to use %s: " CLI_WAYS_IN, address);
    else if (error == -ECONNREFUSED || error == -ENOENT)
        cli_error(verb,
                  "no gateway listens at %s; start one with `sconce serve`, or run `sconce doctor` "
                  "to find out why there is none",
                  address);
    else
        return false;
    return true;
}
