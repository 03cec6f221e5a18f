/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves and loads conversations (see saved.h).
 */
#include "cli/conversation/saved.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/wire/session-id.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"

#define SUFFIX    ".json"
#define MAX_BYTES (64u << 20)
#define VERSION   1

char *saved_state_dir(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    _cleanup_free_ char *base = NULL;
    char *dir;

    if (state && state[0] == '/')
        base = strdup(state);
    else if (home && home[0] == '/')
        base = path_join(home, ".local/state");
    dir = base ? path_join(base, "sconce") : NULL;
    if (dir)
        path_make_dirs(dir, 0700);
    return dir;
}

static char *sessions_dir(void)
{
    _cleanup_free_ char *state = saved_state_dir();
    char *dir = state ? path_join(state, "sessions") : NULL;

    if (dir)
        mkdir(dir, 0700);
    return dir;
}

bool saved_name_is_good(const char *name)
{
    return name[0] != '.' && session_id_is_plain(name, strlen(name));
}

static char *path_of(const char *name)
{
    _cleanup_free_ char *dir = sessions_dir();
    char file[SESSION_ID_SIZE + sizeof(SUFFIX)];

    snprintf(file, sizeof(file), "%s" SUFFIX, name);
    return dir ? path_join(dir, file) : NULL;
}

bool saved_exists(const char *name)
{
    _cleanup_free_ char *path = path_of(name);

    return path && path_exists(path);
}

static int no_home(struct inf_err *reterr)
{
    return err_set(reterr, ENOENT, "there is no directory for conversations: set HOME");
}

static json_t *saved_pack(const struct saved *s)
{
    const struct inf_sampling *p = &s->sampling;
    json_t *options =
        json_pack("{s:f, s:f, s:I, s:f, s:f, s:I, s:I}", "temperature", (double)p->temperature,
                  "top_p", (double)p->top_p, "top_k", (json_int_t)p->top_k, "min_p",
                  (double)p->min_p, "repetition_penalty", (double)p->repetition_penalty,
                  "max_tokens", (json_int_t)s->max_tokens, "context", (json_int_t)s->n_ctx);

    if (options && p->has_seed)
        json_object_set_new(options, "seed", json_integer((json_int_t)p->seed));
    if (options && s->kv_type)
        json_object_set_new(options, "kv_type", json_string(s->kv_type));
    return json_pack("{s:i, s:s, s:{s:s, s:I, s:I}, s:o, s:O}", "version", VERSION, "model",
                     s->model, "weights", "architecture", s->arch, "parameters",
                     (json_int_t)s->n_params, "bytes", (json_int_t)s->n_bytes, "options", options,
                     "messages", s->messages);
}

/* Writes a temporary file beside @path, flushes it to disk, and renames it to @path. */
static int saved_replace(const char *path, const char *text, struct inf_err *reterr)
{
    _cleanup_str_ struct str temporary = {0};
    _cleanup_close_ int fd = -1;
    const size_t len = strlen(text);

    if (str_printf(&temporary, "%s.XXXXXX", path) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    fd = mkostemp(temporary.data, O_CLOEXEC); /* readable only by its owner */
    if (fd < 0)
        return err_set(reterr, errno, "%s: %s", path, strerror(errno));
    for (size_t at = 0; at < len;) {
        const ssize_t n = write(fd, text + at, len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            goto failed;
        at += (size_t)n;
    }
    if (fsync(fd) < 0 || rename(temporary.data, path) < 0)
        goto failed;
    return 0;

failed:
    err_set(reterr, errno, "%s: %s", path, strerror(errno));
    unlink(temporary.data);
    return -EIO;
}

int saved_write(const struct saved *s, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_of(s->name), *text = NULL;
    json_t *doc;

    if (!path)
        return no_home(reterr);
    doc = saved_pack(s);
    text = doc ? json_dumps(doc, JSON_INDENT(1)) : NULL;
    json_decref(doc);
    if (!text)
        return err_set(reterr, ENOMEM, "out of memory");
    return saved_replace(path, text, reterr);
}

/* Checks that each message has a role and a text. */
static bool messages_are_good(const json_t *messages)
{
    const json_t *m;
    size_t i;

    if (!json_is_array(messages))
        return false;
    json_array_foreach(messages, i, m)
    {
        if (!json_is_string(json_object_get(m, "role")) ||
            !json_is_string(json_object_get(m, "content")))
            return false;
    }
    return true;
}

static bool saved_unpack(json_t *doc, struct saved *s)
{
    const char *model, *arch, *kv_type = NULL;
    double temperature, top_p, min_p, penalty;
    json_int_t top_k, max_tokens, n_ctx, n_params, n_bytes, seed = -1;
    int version;

    if (json_unpack(doc, "{s:i, s:s, s:{s:s, s:I, s:I}, s:o}", "version", &version, "model", &model,
                    "weights", "architecture", &arch, "parameters", &n_params, "bytes", &n_bytes,
                    "messages", &s->messages) < 0 ||
        version != VERSION || !messages_are_good(s->messages) ||
        json_unpack(json_object_get(doc, "options"),
                    "{s:F, s:F, s:I, s:F, s:F, s:I, s:I, s?I, s?s}", "temperature", &temperature,
                    "top_p", &top_p, "top_k", &top_k, "min_p", &min_p, "repetition_penalty",
                    &penalty, "max_tokens", &max_tokens, "context", &n_ctx, "seed", &seed,
                    "kv_type", &kv_type) < 0) {
        s->messages = NULL;
        return false;
    }
    json_incref(s->messages);
    s->sampling = (struct inf_sampling){
        .temperature = (float)temperature,
        .top_p = (float)top_p,
        .top_k = (uint32_t)top_k,
        .min_p = (float)min_p,
        .repetition_penalty = (float)penalty,
        .has_seed = json_object_get(json_object_get(doc, "options"), "seed"),
        .seed = (uint64_t)seed,
    };
    s->max_tokens = (uint32_t)max_tokens;
    s->n_ctx = (uint32_t)n_ctx;
    s->n_params = (uint64_t)n_params;
    s->n_bytes = (uint64_t)n_bytes;
    s->model = strdup(model);
    s->arch = strdup(arch);
    s->kv_type = kv_type ? strdup(kv_type) : NULL;
    return s->model && s->arch && (s->kv_type || !kv_type);
}

static int read_file(const char *path, const char *name, struct saved *ret, struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    struct saved s = {0};
    json_t *doc;
    size_t len;
    int r;

    r = file_read(path, MAX_BYTES, &text, &len, reterr);
    if (r == -ENOENT)
        return err_set(reterr, ENOENT,
                       "there is no conversation \"%s\"; `sconce run --sessions` lists them", name);
    if (r < 0)
        return r;
    doc = json_loadb(text, len, 0, NULL);
    s.name = strdup(name);
    if (!doc || !s.name || !saved_unpack(doc, &s)) {
        json_decref(doc);
        saved_done(&s);
        return err_set(reterr, EBADMSG, "%s: not a conversation of this version of sconce", path);
    }
    json_decref(doc);
    *ret = s;
    return 0;
}

struct listed {
    char name[SESSION_ID_SIZE];
    int64_t saved; /* seconds */
};

static int by_age(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;

    return x->saved != y->saved ? (x->saved < y->saved) - (x->saved > y->saved)
                                : strcmp(x->name, y->name);
}

static bool take_entry(int dir, const char *file, struct listed *ret)
{
    const size_t len = strlen(file), n_suffix = sizeof(SUFFIX) - 1;
    struct stat st;

    if (len <= n_suffix || len - n_suffix >= sizeof(ret->name) ||
        strcmp(file + len - n_suffix, SUFFIX) != 0 || fstatat(dir, file, &st, 0) < 0)
        return false;
    snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(len - n_suffix), file);
    ret->saved = st.st_mtim.tv_sec;
    return saved_name_is_good(ret->name);
}

/* Lists the conversations, newest first; the caller frees *ret. */
static int saved_list(struct listed **ret, size_t *ret_n, struct inf_err *reterr)
{
    _cleanup_free_ char *path = sessions_dir();
    DIR *dir = path ? opendir(path) : NULL;
    struct listed *all = NULL, *more, one;
    const struct dirent *e;
    size_t n = 0;

    if (!dir)
        return no_home(reterr);
    while ((e = readdir(dir))) {
        if (!take_entry(dirfd(dir), e->d_name, &one))
            continue;
        more = realloc(all, (n + 1) * sizeof(*all));
        if (!more) {
            free(all);
            closedir(dir);
            return err_set(reterr, ENOMEM, "out of memory");
        }
        all = more;
        all[n++] = one;
    }
    closedir(dir);
    if (n > 0)
        qsort(all, n, sizeof(*all), by_age);
    *ret = all;
    *ret_n = n;
    return 0;
}

int saved_read(const char *name, struct saved *ret_saved, struct inf_err *reterr)
{
    _cleanup_free_ struct listed *all = NULL;
    _cleanup_free_ char *path = NULL;
    size_t n;
    int r;

    if (!name) {
        r = saved_list(&all, &n, reterr);
        if (r < 0)
            return r;
        if (n == 0)
            return err_set(reterr, ENOENT,
                           "no conversation was saved; `sconce run --session NAME` saves one");
        name = all[0].name;
    }
    path = path_of(name);
    return path ? read_file(path, name, ret_saved, reterr) : no_home(reterr);
}

void saved_done(struct saved *s)
{
    free(s->name);
    free(s->model);
    free(s->arch);
    free(s->kv_type);
    json_decref(s->messages);
    *s = (struct saved){0};
}

static void print_one(const struct listed *l, const struct saved *s, json_t *rows)
{
    const size_t n = json_array_size(s->messages);
    const time_t when = (time_t)l->saved;
    struct tm tm;
    char text[32];

    localtime_r(&when, &tm);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
    if (rows)
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:I, s:I}", "name", s->name, "model", s->model,
                                        "messages", (json_int_t)n, "saved", (json_int_t)l->saved));
    else
        printf("%-24s %-24s %5zu message%s  %s\n", s->name, s->model, n, n == 1 ? " " : "s", text);
}

int saved_print(bool json, struct inf_err *reterr)
{
    _cleanup_free_ struct listed *all = NULL;
    json_t *rows = json ? json_array() : NULL;
    struct inf_err ignored;
    size_t n;
    int r;

    r = saved_list(&all, &n, reterr);
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct saved s;

        if (saved_read(all[i].name, &s, &ignored) < 0)
            continue;
        print_one(&all[i], &s, rows);
        saved_done(&s);
    }
    if (r == 0 && rows) {
        json_dumpf(rows, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(rows);
    return r;
}
