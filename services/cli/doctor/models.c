/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that models exist, that they can be opened, and that the chat service can read them in its
 * sandbox.
 *
 * Three mechanisms restrict which files the service can read. The first is file modes, because the
 * system's services run as users of their own. The second is the unit, whose mount namespace has
 * only a part of the file system. The third is Landlock: within that part it allows the configured
 * directories and the targets of their links.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/doctor/doctor.h"
#include "cli/machine/sandbox.h"
#include "cli/machine/units.h"
#include "common/config/config.h"
#include "common/models/models.h"
#include "core/file.h"

enum {
    MODELS_MAX_OPENED = 32, /* models whose headers are read */
};

struct models_check {
    struct doctor *d;
    const struct doctor_side *side;
    bool confined; /* the service that loads the model runs in a unit */
    struct sandbox sandbox;
    uint64_t memory; /* memory of the machine in bytes; 0: unknown */
};

static uint64_t machine_memory(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;

    if (f && fscanf(f, "MemTotal: %llu kB", &kib) != 1)
        kib = 0;
    if (f)
        fclose(f);
    return kib * 1024;
}

/* Returns whether @real is below the real path of a configured directory. */
static bool is_configured(const struct config *config, const char *real)
{
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        _cleanup_free_ char *dir = realpath(config->model_dirs[i], NULL);

        if (dir && path_is_below(real, dir))
            return true;
    }
    return false;
}

static const char *model_folder(const char *path)
{
    const char *slash = strrchr(path, '/');

    return doctor_text("%.*s", slash && slash > path ? (int)(slash - path) : 1, path);
}

/* Walks from the file @path up through its parents, and returns the first path that other users may
 * not read or traverse; NULL: there is none. Parents of a path that the unit binds are skipped,
 * since the service does not access them. */
static const char *closed_part(const struct models_check *c, const char *path, mode_t *ret_mode)
{
    char part[PATH_MAX];
    struct stat st;

    snprintf(part, sizeof(part), "%s", path);
    for (bool first = true; part[0]; first = false) {
        char *slash = strrchr(part, '/');
        bool bound = false;

        if (stat(part, &st) < 0)
            return NULL;
        if ((st.st_mode & (first && !S_ISDIR(st.st_mode) ? 04u : 01u)) == 0) {
            *ret_mode = st.st_mode;
            return doctor_text("%s", part);
        }
        for (size_t i = 0; i < c->sandbox.n_rules; i++)
            bound |= !c->sandbox.rules[i].hides && strcmp(c->sandbox.rules[i].prefix, part) == 0;
        if (!slash || bound)
            return NULL;
        *slash = 0;
    }
    return NULL;
}

static void check_modes(const struct models_check *c, const char *name, const char *real)
{
    const struct doctor_side *side = c->side;
    const char *part, *rights;
    struct stat st;
    mode_t mode;

    if (side->places.user) {
        if (access(real, R_OK) < 0)
            doctor_tell(c->d, FINDING_BROKEN, "models",
                        stat(real, &st) == 0 && st.st_uid == geteuid()
                            ? doctor_text("chmod u+r %s", doctor_quote(real))
                            : doctor_text("sudo chmod o+r %s", doctor_quote(real)),
                        "model %s: you have no permission to read %s", name, real);
        return;
    }
    if (!c->confined || !(part = closed_part(c, real, &mode)))
        return;
    /* The service lists model directories, but only traverses their parents. */
    rights = !S_ISDIR(mode) ? "r" : is_configured(side->config, part) ? "rx" : "x";
    doctor_tell(
        c->d, FINDING_BROKEN, "models",
        doctor_text("%schmod o+%s %s", doctor_sudo(side), rights, doctor_quote(part)),
        "model %s: the chat service, which runs as its own user, has no permission to %s %s (mode "
        "%04o)",
        name, S_ISDIR(mode) ? "traverse" : "read", part, (unsigned)mode & 07777);
}

/* Opens the model without reading its weights: only shapes, vocabulary and sizes are read. */
static void check_loads(const struct models_check *c, const struct models_entry *e)
{
    const struct inf_model_params params = {.path = e->path, .vocab_only = true};
    _cleanup_(inf_model_unrefp) struct inf_model *model = NULL;
    struct inf_err err;
    int r;

    if (access(e->path, R_OK) < 0)
        return;
    r = inf_model_open(&params, &model, &err);
    if (r == -EOPNOTSUPP)
        doctor_tell(c->d, FINDING_ADVICE, "models", NULL, "model %s cannot be used: %s", e->name,
                    err.text);
    else if (r < 0 && r != -EACCES)
        doctor_tell(c->d, FINDING_BROKEN, "models", NULL,
                    "model %s is damaged, download it again: %s", e->name, err.text);
}

static void check_model(const struct models_check *c, const struct models_entry *e)
{
    _cleanup_free_ char *real = realpath(e->path, NULL);
    const char *setup = doctor_text("%ssconce setup models %s", doctor_sudo(c->side),
                                    places_option(&c->side->places));

    if (!real && errno == EACCES) {
        doctor_tell(c->d, FINDING_UNSEEN, "models", "sudo sconce doctor --system",
                    "model %s: you have no permission to access %s", e->name, e->path);
        return;
    }
    if (!real)
        return; /* The file was removed after the directory was listed. */
    if (c->confined && sandbox_hides(&c->sandbox, real) && !is_configured(c->side->config, real))
        doctor_tell(
            c->d, FINDING_BROKEN, "models",
            doctor_text("%s %s", setup,
                        doctor_quote(path_is_dir(real) ? real : model_folder(real))),
            "model %s: %s is outside of all model directories, and the unit of the chat service "
            "hides it",
            e->name, real);
    else if (c->confined && sandbox_hides(&c->sandbox, real))
        doctor_tell(c->d, FINDING_BROKEN, "models", setup,
                    "model %s: %s is hidden from the chat service", e->name, real);
    check_modes(c, e->name, real);
    if (c->memory && e->size > c->memory)
        doctor_tell(c->d, FINDING_ADVICE, "models", NULL,
                    "model %s is larger (%s) than this machine's memory (%s): it will be very slow",
                    e->name, cli_size(e->size), cli_size(c->memory));
}

/* Reports a manifest with an error, or a link whose target does not exist or is not a model. */
static void check_broken(const struct models_check *c, const struct models_broken *b)
{
    const char *command = doctor_edit(c->side, b->why);

    if (!command && access(b->path, F_OK) < 0 && (errno == ENOENT || errno == ELOOP))
        command = doctor_text("%srm %s", doctor_sudo(c->side), doctor_quote(b->path));
    doctor_tell(c->d, FINDING_BROKEN, "models", command, "%s", b->why);
}

static void check_directories(const struct models_check *c)
{
    const struct config *config = c->side->config;

    for (size_t i = 0; i < config->n_model_dirs; i++) {
        const char *dir = config->model_dirs[i];
        struct stat st;

        if (stat(dir, &st) < 0 && errno == ENOENT && lstat(dir, &st) == 0)
            doctor_tell(c->d, FINDING_BROKEN, "models",
                        doctor_text("%srm %s", doctor_sudo(c->side), doctor_quote(dir)),
                        "the model directory %s is a link whose target does not exist", dir);
        else if (path_is_dir(dir) && access(dir, R_OK | X_OK) < 0 && c->side->places.user)
            doctor_tell(c->d, FINDING_BROKEN, "models",
                        doctor_text("chmod u+rx %s", doctor_quote(dir)),
                        "you have no permission to list the model directory %s", dir);
        else if (path_is_dir(dir) && stat(dir, &st) == 0 && !(st.st_mode & 05) && c->confined &&
                 !c->side->places.user)
            doctor_tell(c->d, FINDING_BROKEN, "models",
                        doctor_text("%schmod o+rx %s", doctor_sudo(c->side), doctor_quote(dir)),
                        "the chat service has no permission to list the model directory %s", dir);
    }
}

static void check_side(const struct models_check *c)
{
    const struct config *config = c->side->config;
    _cleanup_(models_freep) struct models *models = NULL;
    const char *into = config->n_model_dirs ? config->model_dirs[0] : "";

    check_directories(c);
    if (models_scan(config, &models) < 0)
        return;
    for (size_t i = 0; i < models_n_broken(models); i++)
        check_broken(c, models_broken_at(models, i));
    if (models_count(models) == 0)
        doctor_tell(
            c->d, FINDING_BROKEN, "models",
            doctor_text("%ssconce setup models %s DIR", doctor_sudo(c->side),
                        places_option(&c->side->places)),
            "no model is installed: put a .gguf file into %s, or configure the directory of your "
            "models",
            into);
    else if (config->default_model && !models_find(models, config->default_model))
        doctor_tell(c->d, FINDING_BROKEN, "models", NULL,
                    "models.default names %s, which is not installed (see `sconce list`)",
                    config->default_model);
    for (size_t i = 0; i < models_count(models); i++) {
        check_model(c, models_at(models, i));
        if (i < MODELS_MAX_OPENED)
            check_loads(c, models_at(models, i));
    }
}

void doctor_models(struct doctor *d)
{
    bool any = false;

    for (size_t i = 0; i < d->n_sides; i++)
        any |= d->sides[i].used;
    for (size_t i = 0; i < d->n_sides; i++) {
        const struct doctor_side *side = &d->sides[i];
        struct models_check c = {
            .d = d, .side = side, .confined = side->used, .memory = machine_memory()};

        /* If no units are used, only the first side is checked. The first side has the models that
         * `sconce run` and `sconce serve` find for this user. */
        if (!side->config || (any ? !side->used : i > 0))
            continue;
        if (!side->units || !sandbox_of_unit(side->units, "sconce-chat.service", &c.sandbox))
            sandbox_default(&side->places, &c.sandbox);
        check_side(&c);
        sandbox_done(&c.sandbox);
    }
}
