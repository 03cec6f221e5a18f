/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Installed models by name (see models.h)
 *
 * Directories are walked two levels deep, so that "org/name" trees work. Entries and their strings
 * live in one arena; the list is sorted once after the scan.
 */
#include "common/models.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <yaml.h>

#include "common/config.h"
#include "core/arena.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"

enum {
    MODELS_MAX = 4096,
    MODELS_DEPTH = 2,
    MANIFEST_MAX_FILE = 64 << 10,
    MANIFEST_MAX_ALIASES = 32,
};

struct models {
    struct arena arena;
    struct models_entry *entries; /* [n], sorted by name */
    size_t n, cap;
};

static const char *const no_aliases[] = {NULL};

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);

    return n >= m && strcasecmp(text + n - m, end) == 0;
}

/* Whisper's models as whisper.cpp has them, "ggml-base.bin"; not those that only find speech. */
static bool is_ggml(const char *file)
{
    return strncasecmp(file, "ggml-", 5) == 0 && strncasecmp(file, "ggml-silero", 11) != 0 &&
           ends_with(file, ".bin");
}

/* "-00002-of-00003" before ".gguf": the part's number, and where the suffix starts; 0: no part. */
static unsigned split_part(const char *stem, size_t len, size_t *ret_len)
{
    unsigned part, of;
    int used = 0;

    if (len < 15 || sscanf(stem + len - 15, "-%5u-of-%5u%n", &part, &of, &used) != 2 || used != 15)
        return 0;
    *ret_len = len - 15;
    return part;
}

static int add(struct models *m, const char *name, size_t name_len, const char *path,
               const char *kind, const char *const *aliases, uint64_t size, int64_t mtime)
{
    struct models_entry e = {.kind = kind, .aliases = aliases, .size = size, .mtime = mtime};

    for (size_t i = 0; i < m->n; i++)
        if (strlen(m->entries[i].name) == name_len &&
            strncasecmp(m->entries[i].name, name, name_len) == 0)
            return 0;
    if (m->n == MODELS_MAX)
        return 0;
    if (m->n == m->cap) {
        const size_t cap = m->cap ? m->cap * 2 : 16;
        struct models_entry *p = realloc(m->entries, cap * sizeof(*p));

        if (!p)
            return -ENOMEM;
        m->entries = p;
        m->cap = cap;
    }
    e.name = arena_strndup(&m->arena, name, name_len);
    e.path = arena_strndup(&m->arena, path, strlen(path));
    if (!e.name || !e.path)
        return -ENOMEM;
    e.task = models_task_find(e.name, e.path, kind);
    m->entries[m->n++] = e;
    return 0;
}

/* Sums the weights of a directory; 0 files: it is no model. */
static size_t weigh_dir(const char *dir, uint64_t *ret_size)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    size_t n = 0;

    *ret_size = 0;
    while (d && (e = readdir(d))) {
        struct stat st;

        if (!ends_with(e->d_name, ".safetensors") || fstatat(dirfd(d), e->d_name, &st, 0) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        *ret_size += (uint64_t)st.st_size;
        n++;
    }
    if (d)
        closedir(d);
    return n;
}

/* Sums all parts of a split file. */
static uint64_t weigh_gguf(const char *path, uint64_t first)
{
    const size_t len = strlen(path) - strlen(".gguf");
    _cleanup_free_ char *part = strdup(path);
    unsigned n_parts = 0;
    size_t stem;

    if (!part || split_part(path, len, &stem) != 1 || sscanf(path + len - 5, "%5u", &n_parts) != 1)
        return first;
    for (unsigned i = 2; i <= n_parts && i < 100000; i++) {
        struct stat st;
        char number[8];

        snprintf(number, sizeof(number), "%05u", i);
        memcpy(part + stem + 1, number, 5);
        if (stat(part, &st) == 0)
            first += (uint64_t)st.st_size;
    }
    return first;
}

/* A manifest while it is read. */
struct manifest {
    const char *name, *path;
    const char **aliases;
};

static int manifest_key(struct models *m, yaml_document_t *doc, const char *key,
                        const yaml_node_t *value, struct manifest *out)
{
    const bool scalar = value->type == YAML_SCALAR_NODE;

    if (strcmp(key, "name") == 0 && scalar) {
        out->name =
            arena_strndup(&m->arena, (char *)value->data.scalar.value, value->data.scalar.length);
        return out->name ? 0 : -ENOMEM;
    }
    if (strcmp(key, "path") == 0 && scalar) {
        out->path =
            arena_strndup(&m->arena, (char *)value->data.scalar.value, value->data.scalar.length);
        return out->path ? 0 : -ENOMEM;
    }
    if (strcmp(key, "aliases") == 0 && value->type == YAML_SEQUENCE_NODE) {
        const yaml_node_item_t *items = value->data.sequence.items.start;
        const size_t n = (size_t)(value->data.sequence.items.top - items);

        if (n > MANIFEST_MAX_ALIASES)
            return -E2BIG;
        out->aliases = arena_zalloc(&m->arena, (n + 1) * sizeof(char *));
        if (!out->aliases)
            return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
            const yaml_node_t *item = yaml_document_get_node(doc, items[i]);

            if (item->type != YAML_SCALAR_NODE)
                return -EINVAL;
            out->aliases[i] =
                arena_strndup(&m->arena, (char *)item->data.scalar.value, item->data.scalar.length);
            if (!out->aliases[i])
                return -ENOMEM;
        }
        return 0;
    }
    return -EINVAL;
}

static int manifest_read(struct models *m, const char *file, yaml_document_t *doc,
                         struct manifest *out, struct inf_err *reterr)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);

    if (!root || root->type != YAML_MAPPING_NODE)
        return err_set(reterr, EBADMSG, "%s: a manifest must be a mapping", file);
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start;
         p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(doc, p->key);
        const char *name =
            key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "?";
        const int r = manifest_key(m, doc, name, yaml_document_get_node(doc, p->value), out);

        if (r == -ENOMEM)
            return err_set(reterr, ENOMEM, "out of memory");
        if (r < 0)
            return err_set(reterr, EBADMSG,
                           "%s:%zu:%zu: \"%s\" is not a key of a manifest or has a wrong type; "
                           "there are name, path, aliases",
                           file, key->start_mark.line + 1, key->start_mark.column + 1, name);
    }
    if (!out->path || !out->path[0])
        return err_set(reterr, EBADMSG, "%s: a manifest needs a path", file);
    return 0;
}

static int add_path(struct models *m, const char *dir, const char *prefix, const char *file,
                    const struct manifest *manifest);

static int add_manifest(struct models *m, const char *dir, const char *path, const char *file,
                        struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    struct manifest manifest = {0};
    yaml_parser_t parser;
    yaml_document_t doc;
    size_t len;
    int r;

    r = file_read(path, MANIFEST_MAX_FILE, &text, &len, reterr);
    if (r < 0)
        return r;
    if (!yaml_parser_initialize(&parser))
        return err_set(reterr, ENOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (unsigned char *)text, len);
    if (!yaml_parser_load(&parser, &doc)) {
        r = err_set(reterr, EBADMSG, "%s:%zu:%zu: %s", path, parser.problem_mark.line + 1,
                    parser.problem_mark.column + 1, parser.problem ? parser.problem : "bad YAML");
        yaml_parser_delete(&parser);
        return r;
    }
    r = manifest_read(m, path, &doc, &manifest, reterr);
    if (r == 0) {
        if (!manifest.name) {
            const size_t n = strlen(file) - strlen(".yaml");

            manifest.name = arena_strndup(&m->arena, file, n);
        }
        r = manifest.name ? add_path(m, dir, "", manifest.path, &manifest) : -ENOMEM;
    }
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    return r;
}

/* Adds @file (relative to @dir unless absolute) when it is a model; else does nothing. */
static int add_path(struct models *m, const char *dir, const char *prefix, const char *file,
                    const struct manifest *manifest)
{
    _cleanup_free_ char *path = file[0] == '/' ? strdup(file) : path_join(dir, file);
    const char *const *aliases = manifest && manifest->aliases ? manifest->aliases : no_aliases;
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    struct stat st;
    const char *kind = "safetensors";
    struct str name = {0};
    uint64_t size;
    size_t len = strlen(base);
    int r = 0;

    if (!path)
        return -ENOMEM;
    if (stat(path, &st) < 0)
        return 0;
    if (S_ISDIR(st.st_mode)) {
        _cleanup_free_ char *config = path_join(path, "config.json");

        if (!config)
            return -ENOMEM;
        if (!path_exists(config) || weigh_dir(path, &size) == 0)
            return 0;
    } else if (S_ISREG(st.st_mode) && ends_with(base, ".gguf")) {
        len -= strlen(".gguf");
        if (split_part(base, len, &len) > 1)
            return 0;
        size = weigh_gguf(path, (uint64_t)st.st_size);
        kind = "gguf";
    } else if (S_ISREG(st.st_mode) && is_ggml(base)) {
        len -= strlen(".bin");
        size = (uint64_t)st.st_size;
        kind = "ggml";
    } else {
        return 0;
    }
    if (manifest)
        r = str_puts(&name, manifest->name);
    else if ((r = str_puts(&name, prefix)) == 0)
        r = str_append(&name, base, len);
    if (r == 0 && name.len > 0)
        r = add(m, name.data, name.len, path, kind, aliases, size, (int64_t)st.st_mtime);
    str_done(&name);
    return r;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static int scan(struct models *m, const char *dir, const char *prefix, int depth,
                struct inf_err *reterr);

static int scan_entry(struct models *m, const char *dir, const char *prefix, const char *file,
                      int depth, struct inf_err *reterr)
{
    _cleanup_free_ char *path = path_join(dir, file);
    _cleanup_free_ char *below = NULL;
    const size_t before = m->n;
    int r;

    if (!path)
        return -ENOMEM;
    if (ends_with(file, ".yaml") && !path_is_dir(path))
        return add_manifest(m, dir, path, file, reterr);
    r = add_path(m, dir, prefix, file, NULL);
    if (r < 0 || m->n > before || depth + 1 >= MODELS_DEPTH || !path_is_dir(path))
        return r;
    if (asprintf(&below, "%s%s/", prefix, file) < 0)
        return -ENOMEM;
    return scan(m, path, below, depth + 1, reterr);
}

static int scan(struct models *m, const char *dir, const char *prefix, int depth,
                struct inf_err *reterr)
{
    struct dirent **names = NULL;
    const int n = scandir(dir, &names, visible, by_name);
    int r = 0;

    /* Manifests first: the names that people gave go before those of files. */
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++)
            if (r == 0 && ends_with(names[i]->d_name, ".yaml") == (pass == 0))
                r = scan_entry(m, dir, prefix, names[i]->d_name, depth, reterr);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return r;
}

static int entry_compare(const void *a, const void *b)
{
    return strcasecmp(((const struct models_entry *)a)->name,
                      ((const struct models_entry *)b)->name);
}

int models_scan(const struct config *config, struct models **ret_models, struct inf_err *reterr)
{
    _cleanup_(models_freep) struct models *m = NEW(struct models, 1);
    int r;

    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < config->n_model_dirs; i++) {
        r = scan(m, config->model_dirs[i], "", 0, reterr);
        if (r == -ENOMEM)
            err_set(reterr, ENOMEM, "out of memory");
        if (r < 0)
            return r;
    }
    if (m->n > 0)
        qsort(m->entries, m->n, sizeof(*m->entries), entry_compare);
    *ret_models = STEAL(m);
    return 0;
}

struct models *models_free(struct models *m)
{
    if (!m)
        return NULL;
    arena_done(&m->arena);
    free(m->entries);
    free(m);
    return NULL;
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

const struct models_entry *models_find(const struct models *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcasecmp(m->entries[i].name, name) == 0)
            return &m->entries[i];
    for (size_t i = 0; i < m->n; i++)
        for (const char *const *a = m->entries[i].aliases; *a; a++)
            if (strcasecmp(*a, name) == 0)
                return &m->entries[i];
    return NULL;
}

const struct models_entry *models_default(const struct models *m, const struct config *config)
{
    if (config->default_model)
        return models_find(m, config->default_model);
    return models_only(m, MODELS_CHAT);
}

const struct models_entry *models_only(const struct models *m, enum models_task task)
{
    const struct models_entry *found = NULL;

    for (size_t i = 0; i < m->n; i++) {
        if (m->entries[i].task != task)
            continue;
        if (found)
            return NULL;
        found = &m->entries[i];
    }
    return found;
}

/* A set of tasks, as bits. */
static char *names_of(const struct models *m, unsigned tasks)
{
    struct str s = {0};
    int r = 0;

    for (size_t i = 0; i < m->n && r == 0; i++) {
        if (!(tasks & 1u << m->entries[i].task))
            continue;
        if (s.len > 400) {
            r = str_puts(&s, ", …");
            break;
        }
        r = str_printf(&s, "%s%s", s.len ? ", " : "", m->entries[i].name);
    }
    if (r < 0) {
        str_done(&s);
        return NULL;
    }
    return str_take(&s, NULL);
}

char *models_names(const struct models *m)
{
    return names_of(m, ~0u);
}

char *models_names_of(const struct models *m, enum models_task task)
{
    return names_of(m, 1u << task);
}
