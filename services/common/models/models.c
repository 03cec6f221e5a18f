/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds installed models by name (see models.h).
 *
 * Directories are walked two levels deep, because models may have names such as "org/name". One
 * arena owns the entries and their strings. The list is sorted once after the scan.
 */
#include "common/models/models.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "common/config/config.h"
#include "common/models/files.h"
#include "common/models/foreign.h"
#include "common/models/manifest.h"
#include "core/arena.h"
#include "core/array.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"

enum {
    MODELS_MAX = 4096,
    MODELS_DEPTH = 2,
};

struct models {
    struct arena arena;
    struct models_entry *entries; /* [n], sorted by name */
    size_t n, cap;
    struct models_broken *broken; /* [n_broken], sorted by path */
    size_t n_broken, broken_cap;
    struct models_entry drafter; /* that of the only model that is offered; name NULL: none */
};

/* Struct candidate is a directory entry while it is examined. */
struct candidate {
    const char *dir, *path;
    const char *name; /* name of the model, not terminated */
    size_t name_len;
    const char *kind;
    const struct model_manifest *manifest; /* NULL: found without a manifest */
    const char *manifest_path;
    enum models_layout layout;
    struct stat st;      /* with links followed */
    struct stat link_st; /* without following links */
    uint64_t size;
};

/* Struct scan is the state of a scan. */
struct scan {
    struct models *m;
    struct model_files *files;
    enum models_layout layout; /* of the directory that is being scanned */
};

static const char *const no_aliases[] = {NULL};

/* Returns whether @file is named like a Whisper model in the format of whisper.cpp
 * ("ggml-base.bin"). Models for voice activity detection are excluded. */
static bool is_ggml(const char *file)
{
    return strncasecmp(file, "ggml-", 5) == 0 && strncasecmp(file, "ggml-silero", 11) != 0 &&
           text_ends_with_nocase(file, ".bin");
}

/* Returns the number of the part if @stem ends like "-00002-of-00003", and sets *ret_len to the
 * length before that suffix. 0: the file is not a part. */
static unsigned split_part(const char *stem, size_t len, size_t *ret_len)
{
    unsigned part, of;
    int used = 0;

    if (len < 15 || sscanf(stem + len - 15, "-%5u-of-%5u%n", &part, &of, &used) != 2 || used != 15)
        return 0;
    *ret_len = len - 15;
    return part;
}

/* Records that @path should be a model but is not one. @format gives the reason in a whole
 * sentence. */
PRINTF(5, 6)
static int add_broken(struct models *m, const char *path, const char *name, size_t name_len,
                      const char *format, ...)
{
    struct models_broken *p;
    _cleanup_free_ char *why = NULL;
    va_list ap;
    int len;

    if (m->n_broken == MODELS_MAX)
        return 0;
    va_start(ap, format);
    len = vasprintf(&why, format, ap);
    va_end(ap);
    if (len < 0 || ARRAY_GROW(m->broken, m->broken_cap, m->n_broken + 1) < 0)
        return -ENOMEM;
    p = &m->broken[m->n_broken];
    *p = (struct models_broken){
        .name = arena_strndup(&m->arena, name, name_len),
        .path = arena_strndup(&m->arena, path, strlen(path)),
        .why = arena_strndup(&m->arena, why, (size_t)len),
    };
    if (!p->name || !p->path || !p->why)
        return -ENOMEM;
    m->n_broken++;
    return 0;
}

static bool is_taken(const struct models *m, const char *name, size_t len)
{
    for (size_t i = 0; i < m->n; i++)
        if (strlen(m->entries[i].name) == len && strncasecmp(m->entries[i].name, name, len) == 0)
            return true;
    return false;
}

static int add_alias(struct models *m, struct models_entry *e, const char *name, size_t len)
{
    const char **aliases;
    size_t n = 0;

    if (strlen(e->name) == len && strncasecmp(e->name, name, len) == 0)
        return 0;
    while (e->aliases[n])
        n++;
    aliases = arena_zalloc(&m->arena, (n + 2) * sizeof(*aliases));
    if (!aliases)
        return -ENOMEM;
    memcpy(aliases, e->aliases, n * sizeof(*aliases));
    aliases[n] = arena_strndup(&m->arena, name, len);
    if (!aliases[n])
        return -ENOMEM;
    e->aliases = aliases;
    return 0;
}

/* Returns the model whose manifest is in the same directory as @c and names @c's file or directory;
 * NULL: there is none. */
static struct models_entry *find_named(const struct models *m, const struct candidate *c)
{
    for (size_t i = 0; i < m->n; i++) {
        struct models_entry *e = &m->entries[i];

        if (e->manifest_dir && e->dev == c->link_st.st_dev && e->ino == c->link_st.st_ino &&
            strcmp(e->manifest_dir, c->dir) == 0)
            return e;
    }
    return NULL;
}

static int models_add(struct models *m, const struct candidate *c)
{
    struct models_entry e = {
        .kind = c->kind,
        .aliases = c->manifest ? c->manifest->aliases : no_aliases,
        .matryoshka = c->manifest && c->manifest->matryoshka,
        .layout = c->layout,
        .size = c->size,
        .mtime = (int64_t)c->st.st_mtime,
        .dev = c->link_st.st_dev,
        .ino = c->link_st.st_ino,
    };
    struct models_entry *named = c->manifest ? NULL : find_named(m, c);

    sampling_clear(&e.sampling);
    model_settings_clear(&e.settings);
    if (c->manifest) {
        e.sampling = c->manifest->sampling;
        e.settings = c->manifest->settings;
    }
    if (named)
        return add_alias(m, named, c->name, c->name_len);
    if (m->n == MODELS_MAX || is_taken(m, c->name, c->name_len))
        return 0;
    if (ARRAY_GROW(m->entries, m->cap, m->n + 1) < 0)
        return -ENOMEM;
    e.name = arena_strndup(&m->arena, c->name, c->name_len);
    e.path = arena_strndup(&m->arena, c->path, strlen(c->path));
    if (c->manifest) {
        e.manifest_dir = arena_strndup(&m->arena, c->dir, strlen(c->dir));
        e.manifest = arena_strndup(&m->arena, c->manifest_path, strlen(c->manifest_path));
    }
    if (!e.name || !e.path || (c->manifest && (!e.manifest_dir || !e.manifest)))
        return -ENOMEM;
    e.task = models_task_find(e.name, e.path, e.kind);
    m->entries[m->n++] = e;
    return 0;
}

/* --- recognizing models --- */

/* Returns the length of the model's name at the beginning of a file name. */
static size_t name_length(const char *file)
{
    size_t len = strlen(file), stem;

    if (is_ggml(file))
        return len - strlen(".bin");
    if (text_ends_with_nocase(file, ".yaml"))
        return len - strlen(".yaml");
    if (!text_ends_with_nocase(file, ".gguf"))
        return len;
    len -= strlen(".gguf");
    return split_part(file, len, &stem) == 1 ? stem : len;
}

/* Checks the other parts of a split file and adds up their sizes. The first part is already
 * checked. */
static int check_parts(struct scan *s, struct candidate *c, struct inf_err *reterr)
{
    const size_t len = strlen(c->path) - strlen(".gguf");
    _cleanup_free_ char *part = strdup(c->path);
    unsigned n_parts = 0;
    size_t stem;
    int r = 0;

    if (!part)
        return err_set(reterr, ENOMEM, "out of memory");
    if (split_part(part, len, &stem) != 1 || sscanf(part + len - 5, "%5u", &n_parts) != 1)
        return 0;
    for (unsigned i = 2; r == 0 && i <= n_parts && i < 100000; i++) {
        struct stat st;
        char number[8];

        snprintf(number, sizeof(number), "%05u", i);
        memcpy(part + stem + 1, number, 5);
        /* Opening the model reports missing parts. */
        if (stat(part, &st) < 0)
            continue;
        r = model_files_check(s->files, part, MODEL_FILE_GGUF, reterr);
        c->size += (uint64_t)st.st_size;
    }
    return r;
}

static int check_gguf(struct scan *s, struct candidate *c, struct inf_err *reterr)
{
    int r = model_files_check(s->files, c->path, MODEL_FILE_GGUF, reterr);

    if (r == 0)
        r = check_parts(s, c, reterr);
    if (r == 0 && models_task_find("", c->path, c->kind) == MODELS_SPEECH)
        r = model_files_check_beside(s->files, c->path, reterr);
    return r;
}

/* Checks whether @c, whose file name is @base, is a model. Returns 0, MODEL_FILES_NONE, or -errno
 * with the reason. */
static int check_candidate(struct scan *s, struct candidate *c, const char *base,
                           struct inf_err *reterr)
{
    size_t stem;

    c->size = (uint64_t)c->st.st_size;
    if (S_ISDIR(c->st.st_mode)) {
        c->kind = "safetensors";
        return model_files_check_dir(s->files, c->path, &c->size, reterr);
    }
    c->kind = text_ends_with_nocase(base, ".gguf") ? "gguf" : is_ggml(base) ? "ggml" : NULL;
    if (!c->kind || split_part(base, strlen(base) - strlen(".gguf"), &stem) > 1)
        return MODEL_FILES_NONE;
    if (!S_ISREG(c->st.st_mode))
        return err_set(reterr, EINVAL, "is not a regular file");
    return strcmp(c->kind, "gguf") == 0
               ? check_gguf(s, c, reterr)
               : model_files_check(s->files, c->path, MODEL_FILE_GGML, reterr);
}

/* --- manifests --- */

/* Records why the manifest @c names no model, with the line and column from @manifest. */
static int break_manifest(struct scan *s, const struct candidate *c,
                          const struct model_manifest *manifest, const char *why)
{
    if (manifest->line == 0)
        return add_broken(s->m, c->path, c->name, c->name_len, "%s: %s", c->path, why);
    return add_broken(s->m, c->path, c->name, c->name_len, "%s:%zu:%zu: %s", c->path,
                      manifest->line, manifest->column, why);
}

/* Returns a file name whose suffix tells the kind of the model @c: the name of its file, or
 * "blob.gguf" if the file begins like a GGUF file but has another suffix. Blobs of other programs,
 * for example, are named by their digests. */
static const char *telling_name(const struct candidate *c)
{
    const char *base = path_base(c->path);

    if (S_ISREG(c->st.st_mode) && !text_ends_with_nocase(base, ".gguf") && !is_ggml(base) &&
        file_begins_with(c->path, "GGUF"))
        return "blob.gguf";
    return base;
}

/* Checks that the files that a manifest lists exist and have the listed sizes. */
static int check_listed(const struct candidate *c, const struct model_manifest *manifest,
                        struct inf_err *reterr)
{
    for (size_t i = 0; i < manifest->n_files; i++) {
        const struct model_manifest_file *file = &manifest->files[i];
        _cleanup_free_ char *path = path_join(c->dir, file->name);
        struct stat st;

        if (!path)
            return err_set(reterr, ENOMEM, "out of memory");
        if (stat(path, &st) < 0)
            return err_set(reterr, errno, "lacks its file %.200s: %s", file->name, strerror(errno));
        if (file->size != UINT64_MAX && file->size != (uint64_t)st.st_size)
            return err_set(reterr, EBADMSG, "has a file %.200s of %lld bytes instead of %llu",
                           file->name, (long long)st.st_size, (unsigned long long)file->size);
    }
    return 0;
}

/* Adds the model that a manifest names. @c is the manifest itself. */
static int add_target(struct scan *s, const struct candidate *c,
                      const struct model_manifest *manifest)
{
    const bool is_own = strcmp(manifest->path, ".") == 0;
    _cleanup_free_ char *path = is_own                     ? strdup(c->dir)
                                : manifest->path[0] == '/' ? strdup(manifest->path)
                                                           : path_join(c->dir, manifest->path);
    struct candidate target = *c;
    struct inf_err err;
    char why[sizeof(err.text) + 64];
    int r;

    if (!path)
        return -ENOMEM;
    target.path = path;
    target.manifest = manifest;
    target.manifest_path = c->path;
    if (lstat(path, &target.link_st) == 0 && stat(path, &target.st) == 0)
        r = check_candidate(s, &target, telling_name(&target), &err);
    else
        r = model_files_follow(path, &err);
    if (r == 0)
        r = check_listed(c, manifest, &err);
    if (r == 0) {
        target.name = c->name;
        target.name_len = c->name_len;
        return models_add(s->m, &target);
    }
    if (r == -ENOMEM)
        return r;
    snprintf(why, sizeof(why), "%.60s %s", is_own ? "its directory" : manifest->path,
             r < 0 ? err.text : "is not a model: it is not named like one, or it lacks files");
    return break_manifest(s, c, manifest, why);
}

static int add_manifest(struct scan *s, struct candidate *c)
{
    struct model_manifest manifest;
    struct inf_err err;
    int r;

    r = model_manifest_read(&s->m->arena, c->path, &manifest, &err);
    if (r == -ENOMEM)
        return r;
    if (manifest.name) {
        c->name = manifest.name;
        c->name_len = strlen(c->name);
    }
    if (!manifest.path)
        manifest.path = ".";
    return r < 0 ? break_manifest(s, c, &manifest, err.text) : add_target(s, c, &manifest);
}

/* Adds the model of the directory @c if the directory has a manifest of its own. MODEL_FILES_NONE:
 * it has none. */
static int add_own_manifest(struct scan *s, const struct candidate *c)
{
    _cleanup_free_ char *path = path_join(c->path, MODEL_MANIFEST);
    struct candidate own = *c;

    if (!path)
        return -ENOMEM;
    if (lstat(path, &own.link_st) < 0)
        return MODEL_FILES_NONE;
    own.dir = c->path;
    own.path = path;
    return add_manifest(s, &own);
}

/* --- directories --- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int entry_is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int scan_dir(struct scan *s, const char *dir, const char *prefix, int depth);

/* Scans a directory that is not a model but may contain models. */
static int scan_below(struct scan *s, const struct candidate *c, int depth)
{
    _cleanup_free_ char *prefix = NULL;

    if (depth + 1 >= MODELS_DEPTH)
        return 0;
    if (S_ISLNK(c->link_st.st_mode) && model_files_is_above(s->files, c->path))
        return add_broken(s->m, c->path, c->name, c->name_len, "%s leads back to a model directory",
                          c->path);
    if (asprintf(&prefix, "%.*s/", (int)c->name_len, c->name) < 0)
        return -ENOMEM;
    return scan_dir(s, c->path, prefix, depth + 1);
}

static int scan_candidate(struct scan *s, struct candidate *c, const char *file, int depth)
{
    struct inf_err err;
    int r;

    if (stat(c->path, &c->st) < 0)
        r = model_files_follow(c->path, &err);
    else if (text_ends_with_nocase(file, ".yaml") && !S_ISDIR(c->st.st_mode))
        return add_manifest(s, c);
    else if (!S_ISDIR(c->st.st_mode) || (r = add_own_manifest(s, c)) == MODEL_FILES_NONE)
        r = check_candidate(s, c, file, &err);
    else
        return r;
    if (r == 0)
        return models_add(s->m, c);
    if (r == MODEL_FILES_NONE)
        return S_ISDIR(c->st.st_mode) ? scan_below(s, c, depth) : 0;
    if (r == -ENOMEM)
        return r;
    return add_broken(s->m, c->path, c->name, c->name_len, "%s %s", c->path, err.text);
}

static int scan_entry(struct scan *s, const char *dir, const char *prefix, const char *file,
                      int depth)
{
    _cleanup_free_ char *path = path_join(dir, file);
    _cleanup_free_ char *name = NULL;
    struct candidate c = {.dir = dir, .path = path, .layout = s->layout};

    if (!path || asprintf(&name, "%s%s", prefix, file) < 0)
        return -ENOMEM;
    if (lstat(path, &c.link_st) < 0)
        return 0;
    c.st = c.link_st;
    c.name = name;
    c.name_len = strlen(prefix) + (S_ISDIR(c.st.st_mode) ? strlen(file) : name_length(file));
    return scan_candidate(s, &c, file, depth);
}

static int scan_dir(struct scan *s, const char *dir, const char *prefix, int depth)
{
    struct dirent **names = NULL;
    const int n = scandir(dir, &names, entry_is_visible, by_name);
    int r = 0;

    /* Manifests come first, because their names take precedence over those of files. */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++)
            if (r == 0 && text_ends_with_nocase(names[i]->d_name, ".yaml") == (pass == 0))
                r = scan_entry(s, dir, prefix, names[i]->d_name, depth);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return r;
}

/* --- directories of other programs --- */

/* Adds a model that was found in the directory of another program (foreign_fn). */
static int scan_found(void *data, const char *name, const char *path, const char *why)
{
    struct scan *s = data;
    struct candidate c = {.dir = "", .path = path, .name = name, .name_len = strlen(name)};
    struct inf_err err;
    int r;

    c.layout = s->layout;
    if (why)
        return add_broken(s->m, path, name, c.name_len, "%s %s", path, why);
    if (lstat(path, &c.link_st) == 0 && stat(path, &c.st) == 0)
        r = check_candidate(s, &c, telling_name(&c), &err);
    else
        r = model_files_follow(path, &err);
    if (r == 0)
        return models_add(s->m, &c);
    if (r == MODEL_FILES_NONE || r == -ENOMEM)
        return r < 0 ? r : 0;
    return add_broken(s->m, path, name, c.name_len, "%s %s", path, err.text);
}

static int scan_layout(struct scan *s, const char *dir)
{
    switch (s->layout) {
    case MODELS_HUGGING_FACE:
        return foreign_hugging_face(dir, scan_found, s);
    case MODELS_OLLAMA:
        return foreign_ollama(dir, scan_found, s);
    case MODELS_LM_STUDIO: /* one level more: ORG/REPO/FILE.gguf */
        return scan_dir(s, dir, "", -1);
    default:
        return scan_dir(s, dir, "", 0);
    }
}

static int entry_compare(const void *a, const void *b)
{
    return strcasecmp(((const struct models_entry *)a)->name,
                      ((const struct models_entry *)b)->name);
}

static int broken_compare(const void *a, const void *b)
{
    return strcmp(((const struct models_broken *)a)->path, ((const struct models_broken *)b)->path);
}

/* If only one model is offered, removes all others, but remembers its draft model. */
static void models_keep_only(struct models *m, const struct config *config)
{
    const char *name = config->only_model;
    const struct models_entry *only = name ? models_find(m, name) : NULL;
    const struct models_entry *d = only ? models_find_drafter(m, config, &only->settings) : NULL;

    if (d)
        m->drafter = *d;
    if (only)
        m->entries[0] = *only;
    m->n = only ? 1 : name ? 0 : m->n;
}

int models_scan_with(const struct config *config, struct model_files *files,
                     struct models **ret_models)
{
    _cleanup_(models_freep) struct models *m = NEW(struct models, 1);
    struct scan s = {.m = m, .files = files};

    if (!m)
        return -ENOMEM;
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        int r;

        s.layout = config_model_layout(config, i);
        r = scan_layout(&s, config->model_dirs[i]);
        if (r < 0)
            return r;
    }
    if (m->n > 0)
        qsort(m->entries, m->n, sizeof(*m->entries), entry_compare);
    models_keep_only(m, config);
    if (m->n_broken > 0)
        qsort(m->broken, m->n_broken, sizeof(*m->broken), broken_compare);
    *ret_models = STEAL(m);
    return 0;
}

struct models *models_free(struct models *m)
{
    if (!m)
        return NULL;
    arena_done(&m->arena);
    free(m->entries);
    free(m->broken);
    free(m);
    return NULL;
}

const struct models_entry *models_hidden_drafter(const struct models *m)
{
    return m->drafter.name ? &m->drafter : NULL;
}

size_t models_count(const struct models *m)
{
    return m->n;
}

const struct models_entry *models_at(const struct models *m, size_t i)
{
    assert(i < m->n);
    return &m->entries[i];
}

size_t models_n_broken(const struct models *m)
{
    return m->n_broken;
}

const struct models_broken *models_broken_at(const struct models *m, size_t i)
{
    assert(i < m->n_broken);
    return &m->broken[i];
}
