/* SPDX-License-Identifier: Apache-2.0 */
/* Finds configuration files and directories, and sets the defaults (see config.h). */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/config/table.h"
#include "core/err.h"
#include "core/file.h"

#define SECONDS(n)   ((uint64_t)(n)*1000000u)
#define MEBIBYTES(n) ((uint64_t)(n) << 20)

enum {
    CONFIG_MAX_FILE = 1 << 20,
};

static int apply_file(struct config *config, const char *path, bool must_exist,
                      struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r;

    if (!must_exist && !path_exists(path))
        return 0;
    r = file_read(path, CONFIG_MAX_FILE, &text, &len, reterr);
    if (r < 0)
        return r;
    return config_apply(config, path, text, len, reterr);
}

static int is_yaml(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);

    return e->d_name[0] != '.' && n > 5 && strcmp(e->d_name + n - 5, ".yaml") == 0;
}

/* Applies DIR/sconce.yaml, then the files of DIR/sconce.d in the order of their names. */
int config_apply_dir(struct config *config, const char *dir, struct inf_err *reterr)
{
    _cleanup_free_ char *main_file = path_join(dir, "sconce.yaml");
    _cleanup_free_ char *parts = path_join(dir, "sconce.d");
    struct dirent **names = NULL;
    int n, r, error;

    if (!main_file || !parts)
        return err_set(reterr, ENOMEM, "out of memory");
    r = apply_file(config, main_file, false, reterr);
    if (r < 0)
        return r;
    n = scandir(parts, &names, is_yaml, alphasort);
    error = errno;
    /* A directory that cannot be read is an error, because its files may restrict access. */
    if (n < 0 && path_is_dir(parts))
        return err_set(reterr, error, "%s: %s", parts, strerror(error));
    for (int i = 0; i < n; i++) {
        _cleanup_free_ char *path = path_join(parts, names[i]->d_name);

        if (r == 0)
            r = path ? apply_file(config, path, false, reterr)
                     : err_set(reterr, ENOMEM, "out of memory");
        free(names[i]);
    }
    free(names);
    return r;
}

/* Returns directory @name below $@variable or ~/@fallback; NULL if there is no home directory. */
static char *user_dir(const char *variable, const char *fallback, const char *name)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    char *p = NULL;

    if (base && base[0] == '/')
        return path_join(base, name);
    if (!home || home[0] != '/')
        return NULL;
    if (asprintf(&p, "%s/%s/%s", home, fallback, name) < 0)
        return NULL;
    return p;
}

char *config_user_dir(void)
{
    return user_dir("XDG_CONFIG_HOME", ".config", "sconce");
}

/* Returns the cache directory that the service manager made, or the user's own directory @name. */
static char *cache_dir(const char *name)
{
    const char *given = getenv("CACHE_DIRECTORY");

    /* systemd sets a list with colons between the directories; the units of sconce name one
     * directory. */
    if (given && given[0] == '/')
        return strndup(given, strcspn(given, ":"));
    return user_dir("XDG_CACHE_HOME", ".cache", name);
}

char *config_cache_dir(void)
{
    return cache_dir("sconce");
}

char *config_block_dir(const struct config *config)
{
    return config->cache.directory ? strdup(config->cache.directory) : cache_dir("sconce-cache");
}

/* Returns the state directory that the service manager made, or the user's own directory @name. */
static char *state_dir(const char *name)
{
    const char *given = getenv("STATE_DIRECTORY");

    if (given && given[0] == '/')
        return strndup(given, strcspn(given, ":"));
    return user_dir("XDG_STATE_HOME", ".local/state", name);
}

char *config_keep_dir(void)
{
    return state_dir("sconce-keep");
}

char *config_history_dir(void)
{
    return state_dir("sconce-history");
}

char *config_data_dir(void)
{
    return user_dir("XDG_DATA_HOME", ".local/share", "sconce");
}

int config_set_device(struct config *config, const char *name)
{
    char *copy = strdup(name);

    if (!copy)
        return -ENOMEM;
    free(config->chat.device);
    config->chat.device = copy;
    return 0;
}

int config_set_draft(struct config *config, const char *model, const char *kind)
{
    char *model_copy = model ? strdup(model) : NULL;
    char *kind_copy = kind || model ? strdup(kind ? kind : "model") : NULL;

    if ((model && !model_copy) || ((kind || model) && !kind_copy)) {
        free(model_copy);
        free(kind_copy);
        return -ENOMEM;
    }
    if (model_copy) {
        free(config->speculative.model);
        config->speculative.model = model_copy;
    }
    if (kind_copy) {
        free(config->speculative.kind);
        config->speculative.kind = kind_copy;
    }
    return 0;
}

int config_set_only_model(struct config *config, const char *name)
{
    char *only = strdup(name), *copy = strdup(name);

    if (!only || !copy) {
        free(only);
        free(copy);
        return -ENOMEM;
    }
    free(config->only_model);
    free(config->default_model);
    config->only_model = only;
    config->default_model = copy;
    return 0;
}

int config_add_model_dir(struct config *config, const char *dir)
{
    char **fresh = realloc(config->model_dirs, (config->n_model_dirs + 1) * sizeof(*fresh));

    if (!fresh)
        return -ENOMEM;
    config->model_dirs = fresh;
    memmove(fresh + 1, fresh, config->n_model_dirs * sizeof(*fresh));
    /* A service whose system calls are restricted cannot ask for its working directory. */
    fresh[0] = path_absolute(dir);
    if (!fresh[0]) {
        memmove(fresh, fresh + 1, config->n_model_dirs * sizeof(*fresh));
        return -ENOMEM;
    }
    config->n_model_dirs++;
    return 0;
}

static int add_default_dirs(struct config *config)
{
    _cleanup_free_ char *base = user_dir("XDG_DATA_HOME", ".local/share", "sconce");
    _cleanup_free_ char *user = base ? path_join(base, "models") : NULL;
    int r;

    r = config_add_model_dir(config, SCONCE_DATADIR "/models");
    if (r == 0)
        r = config_add_model_dir(config, "/var/lib/sconce/models");
    if (r == 0 && user)
        r = config_add_model_dir(config, user);
    return r;
}

int config_new(struct config **ret_config)
{
    _cleanup_(config_freep) struct config *c = NEW(struct config, 1);

    if (!c)
        return -ENOMEM;
    c->gateway.page = CONFIG_TRUE;
    c->gateway.max_body = MEBIBYTES(16);
    c->gateway.max_bodies = MEBIBYTES(1024);
    c->gateway.max_header = 32 * 1024;
    c->gateway.max_connections = 512;
    c->max_keep_alive_usec = SECONDS(86400);
    c->gateway.idle_timeout_usec = SECONDS(60);
    c->gateway.header_timeout_usec = SECONDS(10);
    c->gateway.body_timeout_usec = SECONDS(120);
    c->gateway.keepalive_timeout_usec = SECONDS(120);
    c->gateway.backend_timeout_usec = SECONDS(600);
    c->gateway.stall_timeout_usec = SECONDS(30);
    c->gateway.probe_interval_usec = SECONDS(5);
    c->seed = UINT32_MAX;
    sampling_clear(&c->sampling);
    c->chat.max_sequences = 16;
    c->chat.max_queue = 256;
    c->chat.prefix_cache = CONFIG_TRUE;
    c->chat.canonical_prompts = CONFIG_CANONICAL_CLAUDE_CODE;
    c->chat.max_batch_tokens = 512;
    c->chat.grammars = 32;
    c->chat.grammar_texts = MEBIBYTES(8);
    c->chat.grammar_memory = MEBIBYTES(64);
    c->chat.max_models = 4;
    c->chat.template_timeout_usec = SECONDS(5);
    c->chat.idle_timeout_usec = SECONDS(300);
    c->chat.request_timeout_usec = SECONDS(600);
    c->embed.max_texts = 2048;
    c->embed.max_token_vectors = MEBIBYTES(32);
    c->embed.max_queue = 1024;
    c->embed.max_queue_tokens = 4u << 20;
    c->embed.max_models = 2;
    c->embed.idle_timeout_usec = SECONDS(300);
    c->embed.request_timeout_usec = SECONDS(600);
    c->audio.max_body = MEBIBYTES(25);
    c->audio.max_seconds = 4 * 3600;
    c->audio.max_running = 4;
    c->audio.max_queue = 32;
    c->audio.max_models = 1;
    c->audio.idle_timeout_usec = SECONDS(300);
    c->audio.request_timeout_usec = SECONDS(3600);
    c->cache.enabled = CONFIG_TRUE;
    c->cache.max_bytes = MEBIBYTES(16384);
    c->cache.min_free = MEBIBYTES(4096);
    c->cache.idle_timeout_usec = SECONDS(60);
    c->keep.expiry_usec = SECONDS(3600);
    c->keep.max_bytes = MEBIBYTES(64);
    c->keep.max_total_bytes = MEBIBYTES(512);
    c->keep.idle_timeout_usec = SECONDS(60);
    c->history.enabled = CONFIG_TRUE;
    c->history.retention_usec = SECONDS((uint64_t)90 * 86400);
    c->history.max_bytes = MEBIBYTES(64);
    c->history.idle_timeout_usec = SECONDS(30);
    c->store.max_pulls = 8;
    c->store.max_uploads = (uint64_t)64 << 30;
    c->store.idle_timeout_usec = SECONDS(60);
    c->chat.device = strdup("auto");
    c->chat.kv_type = strdup("auto");
    c->speculative.kind = strdup("none");
    c->speculative.max_tokens = INF_DRAFT_MAX;
    c->pull.mirror = strdup(CONFIG_PULL_MIRROR);
    c->pull.ollama_mirror = strdup(CONFIG_PULL_OLLAMA);
    c->pull.token_host = strdup("huggingface.co");
    c->pull.connections = 4;
    if (!c->pull.mirror || !c->pull.ollama_mirror || !c->pull.token_host || !c->chat.device ||
        !c->chat.kv_type || !c->speculative.kind || add_default_dirs(c) < 0)
        return -ENOMEM;
    *ret_config = STEAL(c);
    return 0;
}

int config_load(const char *file, struct config **ret_config, struct inf_err *reterr)
{
    _cleanup_(config_freep) struct config *c = NULL;
    _cleanup_free_ char *user = NULL;
    int r;

    r = config_new(&c);
    if (r < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (file) {
        r = apply_file(c, file, true, reterr);
    } else {
        r = config_apply_dir(c, SCONCE_SYSCONFDIR "/sconce", reterr);
        user = config_user_dir();
        if (r == 0 && user)
            r = config_apply_dir(c, user, reterr);
    }
    if (r < 0)
        return r;
    if (config_add_other_programs(c) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    *ret_config = STEAL(c);
    return 0;
}

struct config *config_free(struct config *c)
{
    if (!c)
        return NULL;
    config_strings_free(c->model_dirs, c->n_model_dirs);
    config_strings_free(c->other_programs, c->n_other_programs);
    free(c->foreign);
    key_list_done(&c->gateway.api_keys);
    config_strings_free(c->gateway.cors_origins, c->gateway.n_cors_origins);
    free(c->default_model);
    free(c->only_model);
    free(c->chat.device);
    free(c->chat.isa);
    free(c->chat.kv_type);
    free(c->speculative.kind);
    free(c->speculative.model);
    free(c->embed.default_model);
    free(c->embed.default_reranker);
    free(c->embed.isa);
    free(c->audio.default_model);
    free(c->audio.vad_model);
    free(c->audio.isa);
    free(c->cache.directory);
    free(c->pull.mirror);
    free(c->pull.ollama_mirror);
    free(c->pull.proxy);
    free(c->pull.certificates);
    free(c->pull.token_file);
    free(c->pull.token_host);
    free(c);
    return NULL;
}

int config_socket_dir(char **ret_dir)
{
    const char *run = getenv("XDG_RUNTIME_DIR");
    char *dir;

    if (run && run[0] == '/')
        dir = path_join(run, "sconce");
    else if (geteuid() == 0)
        dir = strdup("/run/sconce");
    else
        return -ENOENT;
    if (!dir)
        return -ENOMEM;
    *ret_dir = dir;
    return 0;
}

int config_socket_path(const char *service, char **ret_path)
{
    _cleanup_free_ char *dir = NULL;
    const int r = config_socket_dir(&dir);

    if (r < 0)
        return r;
    return asprintf(ret_path, "%s/%s.sock", dir, service) < 0 ? -ENOMEM : 0;
}
