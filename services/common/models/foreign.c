/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds models in the directories of other programs (see foreign.h).
 *
 * A manifest of Ollama is JSON. libyaml reads it, because JSON of this form is also YAML, and so
 * this library needs no second parser.
 */
#include "common/models/foreign.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/config/yaml-source.h"
#include "common/models/safe-path.h"
#include "core/file.h"
#include "core/text.h"

enum {
    FOREIGN_MAX_MANIFEST = 1 << 20,
    FOREIGN_MAX_REF = 256,
    OLLAMA_LEVELS = 4, /* HOST/NAMESPACE/NAME/TAG */
};

const char *models_layout_program(enum models_layout layout)
{
    static const char *const names[] = {
        [MODELS_HUGGING_FACE] = "Hugging Face's cache",
        [MODELS_OLLAMA] = "Ollama",
        [MODELS_LM_STUDIO] = "LM Studio",
        [MODELS_LLAMA_CPP] = "llama.cpp",
    };

    return names[layout];
}

static int foreign_by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int foreign_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void foreign_free(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* --- Hugging Face --- */

/* Returns the revision that refs/main names; NULL: none. */
static char *main_revision(const char *repo)
{
    _cleanup_free_ char *path = path_join(repo, "refs/main");
    char *text = NULL;
    size_t len;

    if (!path || file_read(path, FOREIGN_MAX_REF, &text, &len, NULL) < 0)
        return NULL;
    text[strcspn(text, "\r\n \t")] = 0;
    if (path_is_safe(text) && !strchr(text, '/'))
        return text;
    free(text);
    return NULL;
}

/* Returns the name of the newest directory in @dir; NULL: there is none. */
static char *newest_in(const char *dir)
{
    const struct dirent *e;
    DIR *d = opendir(dir);
    char *newest = NULL;
    struct stat st;
    time_t best = 0;

    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || fstatat(dirfd(d), e->d_name, &st, 0) < 0 ||
            !S_ISDIR(st.st_mode) || (newest && st.st_mtime <= best))
            continue;
        free(newest);
        newest = strdup(e->d_name);
        best = st.st_mtime;
    }
    if (d)
        closedir(d);
    return newest;
}

/* Returns the directory of the snapshot of the repository @repo; NULL: there is none. */
static char *snapshot_of(const char *repo)
{
    _cleanup_free_ char *snapshots = path_join(repo, "snapshots");
    _cleanup_free_ char *revision = main_revision(repo);
    char *path = snapshots && revision ? path_join(snapshots, revision) : NULL;

    if (path && path_is_dir(path))
        return path;
    free(path);
    free(revision);
    revision = snapshots ? newest_in(snapshots) : NULL;
    return revision ? path_join(snapshots, revision) : NULL;
}

static int snapshot_file(const char *dir, const char *sub, const char *name, const char *file,
                         foreign_fn found, void *data)
{
    _cleanup_free_ char *path = NULL, *full = NULL;

    if (!text_ends_with_nocase(file, ".gguf"))
        return 0;
    if (asprintf(&path, "%s/%s%s%s", dir, sub, *sub ? "/" : "", file) < 0 ||
        asprintf(&full, "%s/%.*s", name, (int)(strlen(file) - strlen(".gguf")), file) < 0)
        return -ENOMEM;
    return found(data, full, path, NULL);
}

/* Finds the GGUF files of a snapshot, also those in its directories: parts of a model often have a
 * directory of their own. */
static int snapshot_files(const char *dir, const char *sub, const char *name, foreign_fn found,
                          void *data)
{
    _cleanup_free_ char *path = *sub ? path_join(dir, sub) : strdup(dir);
    struct dirent **names = NULL;
    const int n = path ? scandir(path, &names, foreign_visible, foreign_by_name) : -1;
    int r = path ? 0 : -ENOMEM;

    for (int i = 0; i < n && r == 0; i++) {
        _cleanup_free_ char *below = path_join(path, names[i]->d_name);

        if (!below)
            r = -ENOMEM;
        else if (!path_is_dir(below))
            r = snapshot_file(dir, sub, name, names[i]->d_name, found, data);
        else if (!*sub)
            r = snapshot_files(dir, names[i]->d_name, name, found, data);
    }
    foreign_free(names, n);
    return r;
}

/* Handles the repository @entry, "models--ORG--NAME", in @dir. */
static int foreign_repository(const char *dir, const char *entry, foreign_fn found, void *data)
{
    _cleanup_free_ char *repo = path_join(dir, entry);
    _cleanup_free_ char *name = strdup(text_after(entry, "models--"));
    _cleanup_free_ char *snapshot = NULL, *config = NULL;
    char *dashes;

    if (!repo || !name)
        return -ENOMEM;
    dashes = strstr(name, "--");
    if (dashes) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    snapshot = snapshot_of(repo);
    config = snapshot ? path_join(snapshot, "config.json") : NULL;
    if (!config)
        return 0;
    if (path_exists(config))
        return found(data, name, snapshot, NULL);
    return snapshot_files(snapshot, "", name, found, data);
}

int foreign_hugging_face(const char *dir, foreign_fn found, void *data)
{
    struct dirent **names = NULL;
    const int n = scandir(dir, &names, foreign_visible, foreign_by_name);
    int r = 0;

    for (int i = 0; i < n && r == 0; i++)
        if (text_starts_with(names[i]->d_name, "models--"))
            r = foreign_repository(dir, names[i]->d_name, found, data);
    foreign_free(names, n);
    return r;
}

/* --- Ollama --- */

/* Holds what the layers of a manifest say. */
struct ollama_layers {
    char *blob; /* [FOREIGN_BLOB_LENGTH + 1]; "": no weights yet */
    bool has_adapter;
};

/* Returns the text of the member @key of a mapping; NULL: there is none. */
static const char *member_of(const struct yaml_source *s, const yaml_node_t *map, const char *key)
{
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const char *name = yaml_source_scalar(yaml_document_get_node(s->doc, p->key));

        if (name && strcmp(name, key) == 0)
            return yaml_source_scalar(yaml_document_get_node(s->doc, p->value));
    }
    return NULL;
}

static int read_layer(const struct yaml_source *s, const yaml_node_t *layer,
                      struct ollama_layers *out)
{
    static const char kind[] = "application/vnd.ollama.image.";
    const char *type, *digest, *hex;

    if (layer->type != YAML_MAPPING_NODE)
        return -EINVAL;
    type = member_of(s, layer, "mediaType");
    digest = member_of(s, layer, "digest");
    type = type ? text_after(type, kind) : NULL;
    if (!type)
        return 0;
    out->has_adapter |= strcmp(type, "adapter") == 0;
    hex = digest ? text_after(digest, "sha256:") : NULL;
    if (strcmp(type, "model") != 0 || out->blob[0])
        return 0;
    if (!hex || !sha256_is_text(hex))
        return -EINVAL;
    snprintf(out->blob, FOREIGN_BLOB_LENGTH + 1, "sha256-%s", hex);
    return 0;
}

static int read_layers(const struct yaml_source *s, const yaml_node_t *root, void *data)
{
    const yaml_node_t *layers = NULL;
    int r = 0;

    if (!root || root->type != YAML_MAPPING_NODE)
        return -EINVAL;
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start;
         p < root->data.mapping.pairs.top; p++) {
        const char *name = yaml_source_scalar(yaml_document_get_node(s->doc, p->key));

        if (name && strcmp(name, "layers") == 0)
            layers = yaml_document_get_node(s->doc, p->value);
    }
    if (!layers || layers->type != YAML_SEQUENCE_NODE)
        return -EINVAL;
    for (const yaml_node_item_t *i = layers->data.sequence.items.start;
         r == 0 && i < layers->data.sequence.items.top; i++)
        r = read_layer(s, yaml_document_get_node(s->doc, *i), data);
    return r;
}

const char *foreign_ollama_blob(const char *text, size_t len,
                                char ret_name[FOREIGN_BLOB_LENGTH + 1])
{
    struct ollama_layers layers = {.blob = ret_name};

    ret_name[0] = 0;
    if (yaml_source_read("manifest", text, len, read_layers, &layers, NULL) < 0)
        return "is not a manifest of Ollama";
    if (layers.has_adapter)
        return "has an adapter, which sconce does not support";
    return ret_name[0] ? NULL : "names no weights";
}

/* Returns the name of the model whose manifest is @path, "HOST/NAMESPACE/NAME/TAG". The parts that
 * Ollama leaves out are left out here too. */
static char *ollama_name(const char *path)
{
    const char *rest = text_after(path, "registry.ollama.ai/");
    const char *tag = strrchr(path, '/');
    char *name = NULL;
    size_t len;

    if (!rest)
        rest = path;
    else if (text_starts_with(rest, "library/"))
        rest += strlen("library/");
    len = (size_t)(tag - rest);
    if (strcmp(tag, "/latest") == 0)
        return strndup(rest, len);
    return asprintf(&name, "%.*s:%s", (int)len, rest, tag + 1) < 0 ? NULL : name;
}

static int ollama_manifest(const char *dir, const char *sub, foreign_fn found, void *data)
{
    _cleanup_free_ char *name = ollama_name(sub), *text = NULL, *path = NULL, *blob_path = NULL;
    char blob[FOREIGN_BLOB_LENGTH + 1];
    const char *why;
    size_t len;
    int r;

    if (!name || asprintf(&path, "%s/manifests/%s", dir, sub) < 0)
        return -ENOMEM;
    r = file_read(path, FOREIGN_MAX_MANIFEST, &text, &len, NULL);
    if (r < 0)
        return r == -ENOMEM ? r : found(data, name, path, strerror(-r));
    why = foreign_ollama_blob(text, len, blob);
    if (why)
        return found(data, name, path, why);
    if (asprintf(&blob_path, "%s/blobs/%s", dir, blob) < 0)
        return -ENOMEM;
    return found(data, name, blob_path, NULL);
}

/* Walks the directories of manifests. @sub is the path below "manifests"; "": the top. */
static int ollama_walk(const char *dir, const char *sub, unsigned level, foreign_fn found,
                       void *data)
{
    _cleanup_free_ char *path = NULL;
    struct dirent **names = NULL;
    int n, r = 0;

    if (asprintf(&path, "%s/manifests/%s", dir, sub) < 0)
        return -ENOMEM;
    n = scandir(path, &names, foreign_visible, foreign_by_name);
    for (int i = 0; i < n && r == 0; i++) {
        _cleanup_free_ char *below =
            *sub ? path_join(sub, names[i]->d_name) : strdup(names[i]->d_name);

        if (!below)
            r = -ENOMEM;
        else if (level + 1 == OLLAMA_LEVELS)
            r = ollama_manifest(dir, below, found, data);
        else
            r = ollama_walk(dir, below, level + 1, found, data);
    }
    foreign_free(names, n);
    return r;
}

int foreign_ollama(const char *dir, foreign_fn found, void *data)
{
    return ollama_walk(dir, "", 0, found, data);
}
