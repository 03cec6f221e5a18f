/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fetches a model that `sconce run` or `sconce serve` does not find (see run-pull.h).
 *
 * `sconce pull` gives up rights that the verb needs afterwards, so it runs in a process of its own.
 */
#include "cli/verbs/run-pull.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/catalog.h"
#include "common/pull/pull.h"
#include "common/models/manifest.h"
#include "core/file.h"
#include "core/text.h"

extern char **environ;

enum {
    PULL_MAX_ARGS = 8 + 2 * 64,
};

/* Returns whether @word names a model of the hub or of Ollama's registry. */
static bool is_source(const char *word)
{
    struct pull_source source;
    struct inf_err err;

    return pull_source_read(word, &source, &err) == 0 &&
           (source.kind == PULL_OLLAMA || (source.kind == PULL_HUB && strchr(word, '/')));
}

/* Returns the source without "hf:", which may be left out. */
static const char *plain_source(const char *source)
{
    const char *rest = text_after(source, "hf:");

    return rest ? rest : source;
}

/* Finds the model that was pulled from @source; NULL: there is none. */
static const struct models_entry *find_pulled(const struct models *models, const char *source)
{
    for (size_t i = 0; i < models_count(models); i++) {
        const struct models_entry *e = models_at(models, i);
        _cleanup_(arena_done) struct arena arena = {0};
        struct model_manifest m;
        struct inf_err err;

        if (e->manifest && model_manifest_read(&arena, e->manifest, &m, &err) == 0 && m.source &&
            strcasecmp(plain_source(m.source), plain_source(source)) == 0)
            return e;
    }
    return NULL;
}

/* Asks at the terminal whether to fetch the model. The answers "y" and "yes" mean yes. */
static bool is_agreed(const char *source)
{
    char line[16] = "";

    fprintf(stderr, "%s is not installed. Fetch it with `sconce pull`? [y/N] ", source);
    if (!fgets(line, sizeof(line), stdin))
        return false;
    line[strcspn(line, "\n")] = '\0';
    return strcasecmp(line, "y") == 0 || strcasecmp(line, "yes") == 0;
}

static int spawn_pull(const char *verb, const struct cli_models *m, const char *source)
{
    const char *argv[PULL_MAX_ARGS] = {"sconce", "pull"};
    size_t n = 2;
    int status = 0;
    pid_t pid;
    int r;

    for (size_t i = 0; i < m->n_dirs && n + 4 < PULL_MAX_ARGS; i++) {
        argv[n++] = "--models";
        argv[n++] = m->dirs[i];
    }
    if (m->config) {
        argv[n++] = "--config";
        argv[n++] = m->config;
    }
    argv[n++] = "--";
    argv[n++] = source;
    r = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, (char *const *)(void *)argv, environ);
    if (r != 0)
        return cli_error(verb, "cannot start `sconce pull`: %s", strerror(r));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? CLI_OK : CLI_FAILED;
}

/* Looks @model up as a name and as a source. *ret_name: the name; NULL: it is not installed. */
static int look_up(const char *verb, const struct cli_models *m, const char *model, char **ret_name)
{
    _cleanup_(cli_catalog_done) struct cli_catalog catalog = {0};
    const struct models_entry *entry;
    const int r = cli_catalog_open(verb, m, &catalog);

    if (r != CLI_OK)
        return r;
    entry = models_find(catalog.models, model);
    entry = entry ? entry : find_pulled(catalog.models, model);
    *ret_name = entry ? strdup(entry->name) : NULL;
    return entry && !*ret_name ? cli_error(verb, "out of memory") : CLI_OK;
}

int cli_find_or_pull(const char *verb, const struct cli_models *m, const char *model, bool yes,
                     char **ret_name)
{
    _cleanup_free_ char *name = NULL;
    int r = CLI_OK;

    if (!path_exists(model) && is_source(model)) {
        r = look_up(verb, m, model, &name);
        if (r == CLI_OK && !name && !yes && !(isatty(STDIN_FILENO) && isatty(STDERR_FILENO)))
            return cli_error(verb, "%s is not installed; `sconce pull %s` fetches it, or add --yes",
                             model, model);
        if (r == CLI_OK && !name) {
            if (!yes && !is_agreed(model))
                return CLI_FAILED;
            r = spawn_pull(verb, m, model);
            r = r == CLI_OK ? look_up(verb, m, model, &name) : r;
        }
    }
    if (r != CLI_OK)
        return r;
    *ret_name = name ? STEAL(name) : strdup(model);
    return *ret_name ? CLI_OK : cli_error(verb, "out of memory");
}
