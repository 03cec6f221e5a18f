/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sconce setup models: gives the services access to the configured model directories
 *
 * Drop-ins bind directories that the units hide, so that the services see these directories again,
 * read-only. Directories given on the command line are first added to models.directories, with a
 * configuration file of their own.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/machine/manager.h"
#include "cli/machine/sandbox.h"
#include "cli/setup/setup.h"
#include "common/config/config.h"
#include "common/config/service-table.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"

#define MODELS_FILE "sconce.d/50-models.yaml"

static bool has_dir(const struct config *config, const char *dir)
{
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        _cleanup_free_ char *real = realpath(config->model_dirs[i], NULL);

        if (strcmp(config->model_dirs[i], dir) == 0 || (real && strcmp(real, dir) == 0))
            return true;
    }
    return false;
}

static int put_quoted(struct str *out, const char *text)
{
    int r = str_putc(out, '"');

    for (; *text && r == 0; text++) {
        if (strchr("\"\\", *text))
            r = str_putc(out, '\\');
        if (r == 0)
            r = str_putc(out, *text);
    }
    return r < 0 ? r : str_putc(out, '"');
}

/* Adds the directories of @dirs that are not configured yet. They come after all others, so that
 * existing model names keep their meaning. */
static int add_dirs(struct setup *s, struct config **config, size_t n_dirs, char **dirs,
                    struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(s->places.config_dir, MODELS_FILE);
    _cleanup_str_ struct str body = {0};
    size_t n_new = 0;
    int r = path ? str_puts(&body, "models:\n  directories:\n") : -ENOMEM;

    for (size_t i = 0; i < (*config)->n_model_dirs && r == 0; i++)
        if ((r = str_puts(&body, "    - ")) == 0 &&
            (r = put_quoted(&body, (*config)->model_dirs[i])) == 0)
            r = str_putc(&body, '\n');
    for (size_t i = 0; i < n_dirs && r == 0; i++) {
        _cleanup_free_ char *real = realpath(dirs[i], NULL);

        if (!real || !path_is_dir(real))
            return err_set(reterr, ENOTDIR, "%s is not a directory", dirs[i]);
        if (strpbrk(real, "\n\r\t"))
            return err_set(reterr, EINVAL, "%s has a control character in its name", real);
        if (has_dir(*config, real))
            continue;
        n_new++;
        if ((r = str_puts(&body, "    - ")) == 0 && (r = put_quoted(&body, real)) == 0)
            r = str_putc(&body, '\n');
    }
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (n_new == 0)
        return 0;
    /* Checks the text first, because the services must be able to read every file that is
     * written. */
    r = config_apply(*config, path, body.data, body.len, reterr);
    return r < 0 ? r : edit_generate(&s->edits, path, body.data, reterr);
}

/* Appends one word of BindReadOnlyPaths=, quoted, with systemd's specifiers escaped. */
static int put_bind(struct str *out, const char *path)
{
    int r = str_puts(out, "BindReadOnlyPaths=\"-");

    for (; *path && r == 0; path++) {
        if (strchr("\"\\", *path))
            r = str_putc(out, '\\');
        else if (*path == '%')
            r = str_putc(out, '%');
        if (r == 0)
            r = str_putc(out, *path);
    }
    return r < 0 ? r : str_puts(out, "\"\n");
}

/* Makes the content of the drop-in; "" if the units hide none of the directories. */
static int bind_dirs(const struct setup *s, const struct config *config, struct str *body)
{
    struct sandbox sandbox;
    bool in_home = false;
    int r = 0;

    sandbox_default(&s->places, &sandbox);
    for (size_t i = 0; i < config->n_model_dirs && r == 0; i++) {
        _cleanup_free_ char *real = realpath(config->model_dirs[i], NULL);
        const char *dir = real ? real : config->model_dirs[i];

        if (dir[0] != '/' || !sandbox_hides(&sandbox, dir))
            continue;
        in_home |= path_is_below(dir, "/home") || path_is_below(dir, "/root") ||
                   path_is_below(dir, "/run/user");
        if (real || s->places.user)
            r = put_bind(body, dir);
    }
    sandbox_done(&sandbox);
    /* ProtectHome=yes makes /home inaccessible, so nothing can be bound below it. With
     * ProtectHome=tmpfs, /home is an empty tmpfs, below which directories can be bound. */
    if (r == 0 && in_home && !s->places.user && body->len)
        r = str_puts(body, "ProtectHome=tmpfs\n");
    return r;
}

/* Writes the drop-in of one service, or removes it if @body is empty. */
static int drop_in(struct setup *s, const char *unit, const char *body, struct inf_err *reterr)
{
    _cleanup_free_ char *path = places_drop_in(&s->places, unit, "50-models.conf");
    _cleanup_str_ struct str text = {0};

    if (!path || str_printf(&text, "[Service]\n%s", body) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    return body[0] ? edit_generate(&s->edits, path, text.data, reterr)
                   : edit_remove(&s->edits, path, reterr);
}

int setup_models(struct setup *s, int argc, char **argv)
{
    struct manager_job restart[N_SERVICES];
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_str_ struct str body = {0};
    struct inf_err err;
    size_t n_restart = 0;
    int r;

    r = places_config(&s->places, &config, &err);
    if (r >= 0)
        r = add_dirs(s, &config, (size_t)(argc - 1), argv + 1, &err);
    if (r < 0)
        return setup_failed(s, &err);
    /* The services of the machine do not read models in the homes of users. */
    if (s->places.user && config_add_other_programs(config) < 0)
        return cli_error("setup", "out of memory");
    if (bind_dirs(s, config, &body) < 0)
        return cli_error("setup", "out of memory");
    /* Services that are not installed get the drop-in too, for the case that they are installed
     * later. */
    for (size_t i = 0; i < N_SERVICES && r >= 0; i++) {
        const struct service_row *row = &service_rows[i];
        _cleanup_free_ char *unit = NULL;

        if (!(row->options & SERVICE_OPTION_MODELS))
            continue;
        unit = places_find_unit(&s->places, row->unit);
        r = drop_in(s, row->unit, body.data ? body.data : "", &err);
        if (unit)
            restart[n_restart++] = (struct manager_job){"TryRestartUnit", row->unit};
    }
    if (r >= 0 && s->edits.n_changes)
        r = manager_reload(s->manager, &err);
    if (r >= 0 && s->edits.n_changes && !s->no_start)
        r = manager_run(s->manager, restart, n_restart, &err);
    if (r < 0)
        return setup_failed(s, &err);
    setup_tell_offline(s);
    for (size_t i = 0; i < config->n_model_dirs; i++)
        printf("Models are read from %s%s\n", config->model_dirs[i],
               path_is_dir(config->model_dirs[i]) ? "" : " (does not exist yet)");
    return CLI_OK;
}
