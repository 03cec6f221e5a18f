/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the file locations of one service manager (see places.h).
 */
#include "cli/machine/places.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/config/config.h"
#include "core/err.h"
#include "core/file.h"

/* Returns $@variable/@name, or ~/@fallback/@name if the variable is not set. NULL: no home
 * directory, or out of memory. */
static char *below_home(const char *variable, const char *fallback, const char *name)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    char *p;

    if (base && base[0] == '/')
        return path_join(base, name);
    if (!home || home[0] != '/' || asprintf(&p, "%s/%s/%s", home, fallback, name) < 0)
        return NULL;
    return p;
}

static char *below_root(const char *root, const char *path)
{
    char *p;

    return asprintf(&p, "%s%s", root, path) < 0 ? NULL : p;
}

static void init_user(struct places *p)
{
    const char *run = getenv("XDG_RUNTIME_DIR");

    p->unit_dir = below_home("XDG_CONFIG_HOME", ".config", "systemd/user");
    p->config_dir = below_home("XDG_CONFIG_HOME", ".config", "sconce");
    if (run && run[0] == '/')
        p->socket_dir = path_join(run, "sconce");
}

int places_init(bool user, const char *root, struct places *ret_places, struct inf_err *reterr)
{
    struct places p = {.user = user};

    p.root = strdup(root ? root : "");
    for (size_t n = p.root ? strlen(p.root) : 0; n > 0 && p.root[n - 1] == '/'; n--)
        p.root[n - 1] = 0;
    if (p.root && user) {
        init_user(&p);
    } else if (p.root) {
        p.unit_dir = below_root(p.root, "/etc/systemd/system");
        p.config_dir = below_root(p.root, SCONCE_SYSCONFDIR "/sconce");
        p.socket_dir = strdup("/run/sconce");
    }
    if (p.config_dir)
        p.key_file = path_join(p.config_dir, "api-keys");
    if (!p.unit_dir || !p.key_file) {
        places_done(&p);
        return err_set(reterr, ENOENT, "%s",
                       user ? "there is no home directory ($HOME)" : "out of memory");
    }
    *ret_places = p;
    return 0;
}

void places_done(struct places *p)
{
    free(p->root);
    free(p->unit_dir);
    free(p->config_dir);
    free(p->key_file);
    free(p->socket_dir);
    *p = (struct places){0};
}

/* Removes the user's model directory, one of the defaults, from the list: the system's services
 * have no home directory. */
static void drop_own_models(struct config *config)
{
    _cleanup_free_ char *own = below_home("XDG_DATA_HOME", ".local/share", "sconce/models");

    if (!own || config->n_model_dirs == 0 || strcmp(config->model_dirs[0], own) != 0)
        return;
    free(config->model_dirs[0]);
    config->n_model_dirs--;
    memmove(config->model_dirs, config->model_dirs + 1,
            config->n_model_dirs * sizeof(*config->model_dirs));
}

int places_config(const struct places *p, struct config **ret_config, struct inf_err *reterr)
{
    _cleanup_(config_freep) struct config *config = NULL;
    _cleanup_free_ char *system = below_root(p->root, SCONCE_SYSCONFDIR "/sconce");
    int r;

    if (!system || config_new(&config) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (!p->user)
        drop_own_models(config);
    r = config_apply_dir(config, system, reterr);
    if (r == 0 && p->user)
        r = config_apply_dir(config, p->config_dir, reterr);
    if (r < 0)
        return r;
    *ret_config = STEAL(config);
    return 0;
}

/* Returns the directories that systemd searches for units, highest priority first. */
static const char *const *unit_path(bool user)
{
    static const char *const system_path[] = {
        "/etc/systemd/system",     "/run/systemd/system", "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system", "/lib/systemd/system", NULL};
    static const char *const user_path[] = {"/etc/systemd/user", "/run/systemd/user",
                                            "/usr/local/lib/systemd/user", "/usr/lib/systemd/user",
                                            NULL};

    return user ? user_path : system_path;
}

/* Returns whether @path is a unit file. A link to /dev/null is not a unit file: such a link only
 * masks the unit in directories of lower priority. */
static bool is_unit_file(const char *path)
{
    static const char mask[] = "/dev/null";
    char target[sizeof(mask)];
    const ssize_t n = readlink(path, target, sizeof(target));

    return path_exists(path) &&
           !(n == sizeof(mask) - 1 && memcmp(target, mask, sizeof(mask) - 1) == 0);
}

/* Searches for units that a user installed in the home directory. */
static char *find_own_unit(const struct places *p, const char *unit)
{
    _cleanup_free_ char *data = below_home("XDG_DATA_HOME", ".local/share", "systemd/user");
    _cleanup_free_ char *first = path_join(p->unit_dir, unit);
    _cleanup_free_ char *second = data ? path_join(data, unit) : NULL;

    if (first && is_unit_file(first))
        return STEAL(first);
    return second && is_unit_file(second) ? STEAL(second) : NULL;
}

char *places_find_unit(const struct places *p, const char *unit)
{
    char *own = p->user ? find_own_unit(p, unit) : NULL;

    if (own)
        return own;
    for (const char *const *dir = unit_path(p->user); *dir; dir++) {
        _cleanup_free_ char *path = path_join(*dir, unit);
        _cleanup_free_ char *full = path ? below_root(p->root, path) : NULL;

        if (full && is_unit_file(full))
            return STEAL(path);
    }
    return NULL;
}

char *places_drop_in(const struct places *p, const char *unit, const char *name)
{
    char *path;

    return asprintf(&path, "%s/%s.d/%s", p->unit_dir, unit, name) < 0 ? NULL : path;
}

const char *places_option(const struct places *p)
{
    return p->user ? "--user" : "--system";
}
