/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a service for one command (see own-service.h).
 *
 * A temporary directory in /tmp holds the service's socket and, if the model is given by its path,
 * a manifest with that path. The directory is removed at the end.
 */
#include "cli/suite/own-service.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/suite/http-get.h"
#include "cli/suite/path-model.h"
#include "cli/suite/supervisor.h"
#include "common/config/config.h"
#include "common/models/models.h"
#include "common/wire/json.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

struct own {
    const struct own_service *params;
    char dir[32];      /* "": not created yet */
    char *program;     /* path of the service's program */
    char *name;        /* name of the model in the manifest; NULL: there is no manifest */
    char models[48];   /* path of the directory with the manifest */
    char manifest[80]; /* path of the manifest */
    char address[64];  /* address of the service's socket */
    struct supervisor_service service;
};

/* Returns whether a model of this name is installed. Prints no errors: own_service_run() reports a
 * wrong configuration. */
static bool is_installed(const struct own_service *params)
{
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    const struct cli_models *m = params->models;
    struct inf_err err;

    if (config_load(m->config, &config, &err) < 0)
        return false;
    for (size_t i = 0; i < m->n_dirs; i++)
        if (config_add_model_dir(config, m->dirs[i]) < 0)
            return false;
    return models_scan(config, &models) == 0 && models_find(models, params->model);
}

/* Returns whether the model is given by its path. As in `sconce run`, a word with a slash is a path
 * if the path exists. Any other word is a path if the path exists and no model has this name. */
static bool model_is_path(const struct own_service *params)
{
    const char *model = params->model;

    return model && path_exists(model) && (strchr(model, '/') || !is_installed(params));
}

bool own_service_is_needed(const struct own_service *params, const char *address)
{
    int fd;

    if (params->models->n_dirs || params->models->config || model_is_path(params))
        return true;
    fd = http_connect(address);
    if (fd >= 0)
        close(fd);
    return fd == -ENOENT || fd == -ECONNREFUSED || fd == -EACCES;
}

static void own_done(struct own *own)
{
    if (own->manifest[0])
        unlink(own->manifest);
    if (own->models[0])
        rmdir(own->models);
    if (own->address[0])
        unlink(own->address + strlen("unix:"));
    if (own->dir[0])
        rmdir(own->dir);
    free(own->program);
    free(own->name);
}

static int write_manifest(struct own *own, const char *path)
{
    snprintf(own->models, sizeof(own->models), "%s/models", own->dir);
    if (mkdir(own->models, 0700) < 0)
        return -errno;
    snprintf(own->manifest, sizeof(own->manifest), "%s/model.yaml", own->models);
    return path_model_write(own->manifest, path, own->name, NULL);
}

/* Creates a manifest for a model that is given by its path; prints an error if it is not a
 * model. */
static int take_model(struct own *own)
{
    const struct own_service *params = own->params;
    _cleanup_free_ char *path = realpath(params->model, NULL);
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_(models_freep) struct models *models = NULL;
    int r;

    own->name = path ? path_model_name(path) : NULL;
    if (!own->name)
        return cli_error(params->verb, "%s: %s", params->model, strerror(errno));
    r = write_manifest(own, path);
    if (r < 0)
        return cli_error(params->verb, "%s: %s", own->dir, strerror(-r));
    if (config_new(&config) < 0 || config_add_model_dir(config, own->models) < 0 ||
        models_scan(config, &models) < 0)
        return cli_error(params->verb, "out of memory");
    for (size_t i = 0; i < models_count(models); i++)
        if (strcmp(models_at(models, i)->path, path) == 0)
            return CLI_OK;
    return cli_error(
        params->verb,
        "%s is not a model: a model is a .gguf file, a ggml-*.bin file of whisper.cpp, or a "
        "directory with config.json and *.safetensors",
        params->model);
}

static int find_program(struct own *own)
{
    const struct own_service *params = own->params;
    const struct service_row *row = params->service;

    own->program = serve_program(row);
    if (own->program)
        return CLI_OK;
    if (row->package)
        return cli_error(params->verb, "%s is not installed; it is in the package %s", row->program,
                         row->package);
    return cli_error(params->verb, "%s is not installed in %s", row->program, SCONCE_LIBEXECDIR);
}

static void fill_args(struct own *own)
{
    const struct cli_models *models = own->params->models;
    const char **argv = own->service.argv;
    size_t n = 0;

    argv[n++] = own->program;
    if (models->config) {
        argv[n++] = "--config";
        argv[n++] = models->config;
    }
    if (own->name) {
        argv[n++] = "--models";
        argv[n++] = own->models;
    }
    for (size_t i = 0; i < models->n_dirs && n + 2 < SUPERVISOR_MAX_ARGS; i++) {
        argv[n++] = "--models";
        argv[n++] = models->dirs[i];
    }
}

static int open_socket(struct own *own, struct inf_err *reterr)
{
    unsigned port;
    int fd;

    snprintf(own->address, sizeof(own->address), "unix:%s/%s", own->dir,
             own->params->service->socket);
    fd = supervisor_listen(own->address, &port, reterr);
    if (fd < 0)
        return fd;
    own->service.name = own->params->service->name;
    own->service.sockets[own->service.n_sockets++] =
        (struct supervisor_socket){own->params->service->name, fd};
    return 0;
}

static int exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int own_service_supervise(struct own *own,
                                 int (*work)(const char *address, const char *model, void *data),
                                 void *data)
{
    _cleanup_(supervisor_freep) struct supervisor *sup = NULL;
    struct inf_err err = {.text = "out of memory"};
    int status = 0;
    pid_t pid;

    if (open_socket(own, &err) < 0 || supervisor_new(own->dir, &sup, &err) < 0 ||
        supervisor_add(sup, &own->service) < 0)
        return cli_error(own->params->verb, "%s", err.text);
    fflush(NULL);
    pid = supervisor_fork(sup, &err);
    /* The child cleans nothing up, because the parent removes the temporary files. */
    if (pid == 0)
        exit(work(own->address, own->name ? own->name : own->params->model, data));
    if (pid < 0 || supervisor_run(sup, &err) < 0)
        return cli_error(own->params->verb, "%s", err.text);
    if (!supervisor_ended(sup, &status))
        return cli_error(own->params->verb, "the %s service does not start",
                         own->params->service->name);
    return exit_status(status);
}

int own_service_run(const struct own_service *params,
                    int (*work)(const char *address, const char *model, void *data), void *data)
{
    _cleanup_(own_done) struct own own = {.params = params};
    _cleanup_(config_freep) struct config *config = NULL;
    char template[] = "/tmp/sconce-XXXXXX";
    int r = cli_config(params->verb, params->models, &config);

    if (r == CLI_OK)
        r = find_program(&own);
    if (r != CLI_OK)
        return r;
    if (!mkdtemp(template))
        return cli_error(params->verb, "%s: %s", template, strerror(errno));
    memcpy(own.dir, template, sizeof(template));
    if (model_is_path(params) && (r = take_model(&own)) != CLI_OK)
        return r;
    fill_args(&own);
    /* The service logs only errors. It would also log a warning for each refused request, but the
     * answer has the same text, and the verb prints the answer. */
    setenv("SCONCE_LOG", "error", 0);
    return own_service_supervise(&own, work, data);
}
