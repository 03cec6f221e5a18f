/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the manifests of models (see manifest.h).
 *
 * A table has one row for each key. Every error has the line and the column of the key, or of the
 * part of its value, that is wrong.
 */
#include "common/models/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "common/config/config.h"
#include "common/config/kv-type.h"
#include "common/models/safe-path.h"
#include "common/models/templates.h"
#include "core/err.h"
#include "core/file.h"

/* Struct manifest_reader is a manifest that is being read. */
struct manifest_reader {
    struct arena *arena;
    yaml_document_t *doc;
    const char *text; /* the file */
    size_t len;
    struct model_manifest *out;
    const yaml_node_t *bad; /* the part of a value that is wrong; NULL: the whole value */
};

static const char *const no_aliases[] = {NULL};

/* Returns a copy of a text without NULs. NULL: *ret_r says whether memory is short or the type is
 * wrong. */
static const char *manifest_text(struct manifest_reader *m, const yaml_node_t *node, int *ret_r)
{
    const char *text, *copy;

    *ret_r = -EINVAL;
    if (!node || node->type != YAML_SCALAR_NODE)
        return NULL;
    text = (const char *)node->data.scalar.value;
    if (!text[0] || strlen(text) != node->data.scalar.length)
        return NULL;
    copy = arena_strndup(m->arena, text, node->data.scalar.length);
    *ret_r = copy ? 0 : -ENOMEM;
    return copy;
}

static int read_path(struct manifest_reader *m, const yaml_node_t *value)
{
    int r;

    m->out->path = manifest_text(m, value, &r);
    m->out->line = value->start_mark.line + 1;
    m->out->column = value->start_mark.column + 1;
    return r;
}

/* libyaml counts code points. Returns the number of bytes of the first @n code points. */
static size_t byte_offset(const struct manifest_reader *m, size_t n)
{
    size_t i = 0;

    for (; i < m->len && n > 0; n--)
        for (i++; i < m->len && ((unsigned char)m->text[i] & 0xc0) == 0x80;)
            i++;
    return i;
}

/* Records where the value of `aliases` begins and ends. A list with one entry in each line ends
 * with its last entry. */
static void mark_aliases(struct manifest_reader *m, const yaml_node_t *value, size_t n)
{
    const yaml_node_t *last = value;

    if (value->data.sequence.style != YAML_FLOW_SEQUENCE_STYLE && n > 0)
        last = yaml_document_get_node(m->doc, value->data.sequence.items.start[n - 1]);
    m->out->aliases_start = byte_offset(m, value->start_mark.index);
    m->out->aliases_end = byte_offset(m, last->end_mark.index);
}

/* Reads a list of at most @max texts. */
static int manifest_list(struct manifest_reader *m, const yaml_node_t *value, size_t max,
                         const char *const **ret_list, size_t *ret_n)
{
    const char **list;
    size_t n;
    int r = 0;

    if (value->type != YAML_SEQUENCE_NODE)
        return -EINVAL;
    n = (size_t)(value->data.sequence.items.top - value->data.sequence.items.start);
    if (n > max)
        return -EINVAL;
    list = arena_zalloc(m->arena, (n + 1) * sizeof(*list));
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++) {
        m->bad = yaml_document_get_node(m->doc, value->data.sequence.items.start[i]);
        list[i] = manifest_text(m, m->bad, &r);
    }
    if (r < 0)
        return r;
    *ret_list = list;
    *ret_n = n;
    return 0;
}

static int read_aliases(struct manifest_reader *m, const yaml_node_t *value)
{
    size_t n;
    const int r = manifest_list(m, value, MODEL_MANIFEST_MAX_ALIASES, &m->out->aliases, &n);

    if (r == 0)
        mark_aliases(m, value, n);
    return r;
}

static int manifest_bool(const yaml_node_t *value, bool *ret)
{
    const char *text = value->type == YAML_SCALAR_NODE ? (char *)value->data.scalar.value : "";

    *ret = strcmp(text, "true") == 0;
    return *ret || strcmp(text, "false") == 0 ? 0 : -EINVAL;
}

static int read_matryoshka(struct manifest_reader *m, const yaml_node_t *value)
{
    return manifest_bool(value, &m->out->matryoshka);
}

static int read_pinned(struct manifest_reader *m, const yaml_node_t *value)
{
    return manifest_bool(value, &m->out->settings.pinned);
}

static int read_sampling(struct manifest_reader *m, const yaml_node_t *value)
{
    if (value->type != YAML_MAPPING_NODE)
        return -EINVAL;
    for (const yaml_node_pair_t *p = value->data.mapping.pairs.start;
         p < value->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(m->doc, p->key);
        const yaml_node_t *number = yaml_document_get_node(m->doc, p->value);
        const int k = key->type == YAML_SCALAR_NODE
                          ? sampling_find((const char *)key->data.scalar.value)
                          : -1;

        if (k < 0 || number->type != YAML_SCALAR_NODE ||
            !sampling_set_text(&m->out->sampling, k, (const char *)number->data.scalar.value)) {
            m->bad = key;
            return -EINVAL;
        }
    }
    return 0;
}

/* Reads a whole decimal number. */
static bool manifest_number(const char *text, uint64_t *ret)
{
    uint64_t n = 0;

    if (!*text)
        return false;
    for (; *text; text++)
        if (*text < '0' || *text > '9' || !size_mul(n, 10, &n) ||
            !size_add(n, (uint64_t)(*text - '0'), &n))
            return false;
    *ret = n;
    return true;
}

static int read_context(struct manifest_reader *m, const yaml_node_t *value)
{
    uint64_t n;
    int r;
    const char *text = manifest_text(m, value, &r);

    if (r == -ENOMEM)
        return r;
    if (!text || !manifest_number(text, &n) || n == 0 || n > MODEL_MAX_CONTEXT)
        return -EINVAL;
    m->out->settings.context = (uint32_t)n;
    return 0;
}

static int read_kv_type(struct manifest_reader *m, const yaml_node_t *value)
{
    int r;

    m->out->settings.kv_type = manifest_text(m, value, &r);
    return r == 0 && !kv_type_valid(m->out->settings.kv_type) ? -EINVAL : r;
}

static int read_template(struct manifest_reader *m, const yaml_node_t *value)
{
    int r;
    const char *text = manifest_text(m, value, &r);

    m->out->settings.template = text;
    m->out->template_line = value->start_mark.line + 1;
    m->out->template_column = value->start_mark.column + 1;
    return r == 0 && !template_find(text) && !path_is_safe(text) ? -EINVAL : r;
}

static int read_keep(struct manifest_reader *m, const yaml_node_t *value)
{
    int r;
    const char *text = manifest_text(m, value, &r);

    return r == 0 && !config_time(text, &m->out->settings.keep_usec) ? -EINVAL : r;
}

static int read_stops(struct manifest_reader *m, const yaml_node_t *value)
{
    size_t n;

    return manifest_list(m, value, MODEL_MAX_STOPS, &m->out->settings.stops, &n);
}

static int read_system(struct manifest_reader *m, const yaml_node_t *value)
{
    int r;

    m->out->settings.system = manifest_text(m, value, &r);
    return r == 0 && strlen(m->out->settings.system) > MODEL_MAX_SYSTEM ? -EINVAL : r;
}

/* Reads a message of at most @room bytes. */
static int read_message(struct manifest_reader *m, const yaml_node_t *node, size_t room,
                        struct model_message *message)
{
    const char *role = NULL;
    int r = 0;

    if (node->type != YAML_MAPPING_NODE)
        return -EINVAL;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         r == 0 && p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(m->doc, p->key);
        const char *name = manifest_text(m, key, &r);
        const char *text =
            r < 0 ? NULL : manifest_text(m, yaml_document_get_node(m->doc, p->value), &r);

        if (r == 0 && strcmp(name, "role") == 0 && !role)
            role = text;
        else if (r == 0 && strcmp(name, "content") == 0 && !message->text && strlen(text) <= room)
            message->text = text;
        else
            r = r < 0 ? r : -EINVAL;
    }
    if (r < 0 || !role || !message->text)
        return r < 0 ? r : -EINVAL;
    message->of_assistant = strcmp(role, "assistant") == 0;
    return message->of_assistant || strcmp(role, "user") == 0 ? 0 : -EINVAL;
}

static int read_messages(struct manifest_reader *m, const yaml_node_t *value)
{
    size_t n, room = MODEL_MAX_MESSAGES_TEXT;
    struct model_message *messages;
    int r = 0;

    if (value->type != YAML_SEQUENCE_NODE)
        return -EINVAL;
    n = (size_t)(value->data.sequence.items.top - value->data.sequence.items.start);
    if (n > MODEL_MAX_MESSAGES)
        return -EINVAL;
    messages = arena_zalloc(m->arena, (n + 1) * sizeof(*messages));
    if (!messages)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++) {
        m->bad = yaml_document_get_node(m->doc, value->data.sequence.items.start[i]);
        r = read_message(m, m->bad, room, &messages[i]);
        room -= r < 0 ? 0 : strlen(messages[i].text);
    }
    m->out->settings.messages = messages;
    m->out->settings.n_messages = r < 0 ? 0 : n;
    return r;
}

static int read_adapters(struct manifest_reader *m, const yaml_node_t *value)
{
    size_t n;

    return manifest_list(m, value, MODEL_MAX_ADAPTERS, &m->out->settings.adapters, &n);
}

static int read_file_member(struct manifest_reader *m, const char *key, const yaml_node_t *value,
                            struct model_manifest_file *file)
{
    int r;
    const char *text = manifest_text(m, value, &r);

    if (r < 0)
        return r;
    if (strcmp(key, "name") == 0 && path_is_safe(text))
        file->name = text;
    else if (strcmp(key, "sha256") == 0 && sha256_is_text(text))
        file->sha256 = text;
    else if (strcmp(key, "size") != 0 || !manifest_number(text, &file->size))
        return -EINVAL;
    return 0;
}

static int read_file(struct manifest_reader *m, const yaml_node_t *node,
                     struct model_manifest_file *file)
{
    *file = (struct model_manifest_file){.size = UINT64_MAX};
    m->bad = node;
    if (node->type != YAML_MAPPING_NODE)
        return -EINVAL;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(m->doc, p->key);
        int r;

        m->bad = yaml_document_get_node(m->doc, p->value);
        r = key->type != YAML_SCALAR_NODE
                ? -EINVAL
                : read_file_member(m, (const char *)key->data.scalar.value, m->bad, file);
        if (r < 0)
            return r;
    }
    m->bad = node;
    return file->name ? 0 : -EINVAL;
}

static int read_files(struct manifest_reader *m, const yaml_node_t *value)
{
    struct model_manifest_file *files;
    size_t n;
    int r = 0;

    if (value->type != YAML_SEQUENCE_NODE)
        return -EINVAL;
    n = (size_t)(value->data.sequence.items.top - value->data.sequence.items.start);
    if (n > MODEL_MANIFEST_MAX_FILES)
        return -EINVAL;
    files = arena_zalloc(m->arena, (n + 1) * sizeof(*files));
    if (!files)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = read_file(m, yaml_document_get_node(m->doc, value->data.sequence.items.start[i]),
                      &files[i]);
    m->out->files = files;
    m->out->n_files = n;
    return r;
}

static const struct manifest_row {
    const char *key;
    int (*read)(struct manifest_reader *m, const yaml_node_t *value); /* NULL: a text */
    const char *rule;                                                 /* what the value must be */
    size_t text; /* offset of a text in struct model_manifest */
} rows[] = {
    {"name", NULL, "a text", offsetof(struct model_manifest, name)},
    {"path", read_path, "a text"},
    {"aliases", read_aliases, "a list of at most 32 texts"},
    {"matryoshka", read_matryoshka, "true or false"},
    {"sampling", read_sampling,
     "a mapping of sampling parameters, such as temperature, to numbers in their ranges"},
    {"stop", read_stops, "a list of at most 16 texts"},
    {"context", read_context, "a number of tokens from 1 to 16777216"},
    {"kv_type", read_kv_type, KV_TYPE_RULE},
    {"template", read_template,
     "the name of a built-in chat template, or of a file in the directory of the manifest"},
    {"system", read_system, "a text of at most 65536 bytes"},
    {"messages", read_messages,
     "a list of at most 64 mappings with the role user or assistant and the content, a text; all "
     "texts together may have 65536 bytes"},
    {"keep_alive", read_keep, "a time such as 10min"},
    {"pinned", read_pinned, "true or false"},
    {"drafter", NULL, "the name of a model", offsetof(struct model_manifest, settings.drafter)},
    {"adapters", read_adapters, "a list of at most 32 names"},
    {"source", NULL, "a text", offsetof(struct model_manifest, source)},
    {"revision", NULL, "a text", offsetof(struct model_manifest, revision)},
    {"licence", NULL, "a text", offsetof(struct model_manifest, licence)},
    {"files", read_files,
     "a list of at most 4096 mappings with a name that stays in the directory, a size in bytes "
     "and a sha256 of 64 hexadecimal digits"},
};

/* Reads the value of the key of @row. */
static int read_row(struct manifest_reader *m, const struct manifest_row *row,
                    const yaml_node_t *value)
{
    const char **text = (const char **)((char *)m->out + row->text);
    int r;

    if (row->read)
        return row->read(m, value);
    *text = manifest_text(m, value, &r);
    return r;
}

static int manifest_bad(struct manifest_reader *m, const yaml_node_t *node)
{
    m->out->line = node->start_mark.line + 1;
    m->out->column = node->start_mark.column + 1;
    return -EBADMSG;
}

static int unknown_key(struct manifest_reader *m, const yaml_node_t *key, const char *name,
                       struct inf_err *reterr)
{
    char list[256] = "";

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
                 rows[i].key);
    err_set(reterr, EBADMSG, "\"%.60s\" is not a key of a manifest; the keys are %s", name, list);
    return manifest_bad(m, key);
}

/* Returns whether an earlier pair of the root has the same key as @pair. */
static bool is_double(const struct manifest_reader *m, const yaml_node_t *root,
                      const yaml_node_pair_t *pair, const char *name)
{
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start; p < pair; p++) {
        const yaml_node_t *key = yaml_document_get_node(m->doc, p->key);

        if (key->type == YAML_SCALAR_NODE && strcmp((char *)key->data.scalar.value, name) == 0)
            return true;
    }
    return false;
}

static int manifest_pair(struct manifest_reader *m, const yaml_node_t *root,
                         const yaml_node_pair_t *pair, struct inf_err *reterr)
{
    const yaml_node_t *key = yaml_document_get_node(m->doc, pair->key);
    const char *name = key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "?";
    const struct manifest_row *row = rows;
    int r;

    while (row < rows + ARRAY_SIZE(rows) && strcmp(row->key, name) != 0)
        row++;
    if (row == rows + ARRAY_SIZE(rows))
        return unknown_key(m, key, name, reterr);
    if (is_double(m, root, pair, name)) {
        err_set(reterr, EBADMSG, "\"%s\" is there twice", name);
        return manifest_bad(m, key);
    }
    m->bad = NULL;
    r = read_row(m, row, yaml_document_get_node(m->doc, pair->value));
    if (r == -ENOMEM)
        return err_set(reterr, ENOMEM, "out of memory");
    if (r == 0)
        return 0;
    err_set(reterr, EBADMSG, "\"%s\" must be %s", name, row->rule);
    return manifest_bad(m, m->bad ? m->bad : key);
}

static int manifest_document(struct manifest_reader *m, struct inf_err *reterr)
{
    const yaml_node_t *root = yaml_document_get_root_node(m->doc);

    if (!root || root->type != YAML_MAPPING_NODE)
        return err_set(reterr, EBADMSG, "this is not a manifest: it must be a mapping with a path");
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start;
         p < root->data.mapping.pairs.top; p++) {
        const int r = manifest_pair(m, root, p, reterr);

        if (r < 0)
            return r;
    }
    return 0;
}

int model_manifest_parse(struct arena *arena, const char *text, size_t len,
                         struct model_manifest *ret, struct inf_err *reterr)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    struct manifest_reader m = {.arena = arena, .doc = &doc, .text = text, .len = len, .out = ret};
    int r;

    *ret = (struct model_manifest){.aliases = no_aliases};
    sampling_clear(&ret->sampling);
    model_settings_clear(&ret->settings);
    if (!yaml_parser_initialize(&parser))
        return err_set(reterr, ENOMEM, "out of memory");
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (yaml_parser_load(&parser, &doc)) {
        r = manifest_document(&m, reterr);
        yaml_document_delete(&doc);
    } else {
        ret->line = parser.problem_mark.line + 1;
        ret->column = parser.problem_mark.column + 1;
        r = err_set(reterr, EBADMSG, "%s", parser.problem ? parser.problem : "this is not YAML");
    }
    yaml_parser_delete(&parser);
    return r;
}

/* Returns whether @stops has the text @stop and no other one. */
static bool is_only_stop(const char *const *stops, const char *stop)
{
    return stops && stops[0] && !stops[1] && strcmp(stops[0], stop) == 0;
}

/* Gives a model with a built-in template the stop string of that template, unless its manifest has
 * some. */
static int template_add_stop(struct arena *arena, const struct template_row *row,
                             struct model_settings *settings)
{
    const char **stops;

    if (!row->stop)
        return 0;
    settings->stops_of_template = !settings->stops || is_only_stop(settings->stops, row->stop);
    if (settings->stops)
        return 0;
    stops = arena_zalloc(arena, 2 * sizeof(*stops));
    if (!stops)
        return -ENOMEM;
    stops[0] = row->stop;
    settings->stops = stops;
    return 0;
}

/* Turns the name of the template's file, which the manifest @file gives, into a path. */
static int manifest_find_template(struct arena *arena, const char *file,
                                  struct model_manifest *manifest, struct inf_err *reterr)
{
    struct model_settings *settings = &manifest->settings;
    const int n_dir = (int)(path_base(file) - file);
    const struct template_row *row = settings->template ? template_find(settings->template) : NULL;
    _cleanup_free_ char *path = NULL;
    struct stat st;

    if (row)
        return template_add_stop(arena, row, settings) < 0
                   ? err_set(reterr, ENOMEM, "out of memory")
                   : 0;
    if (!settings->template)
        return 0;
    if (asprintf(&path, "%.*s%s", n_dir, file, settings->template) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode)) {
        manifest->line = manifest->template_line;
        manifest->column = manifest->template_column;
        return err_set(reterr, EBADMSG,
                       "\"%.60s\" is neither a file nor a built-in chat template; the built-in "
                       "ones are %s",
                       settings->template, template_names());
    }
    settings->template = arena_strndup(arena, path, strlen(path));
    settings->template_mtime = (int64_t)st.st_mtime;
    return settings->template ? 0 : err_set(reterr, ENOMEM, "out of memory");
}

int model_manifest_read(struct arena *arena, const char *file, struct model_manifest *ret,
                        struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    size_t len;
    int r;

    *ret = (struct model_manifest){.aliases = no_aliases};
    sampling_clear(&ret->sampling);
    model_settings_clear(&ret->settings);
    if (arena->used > MODEL_MANIFEST_MAX_ARENA)
        return err_set(reterr, EFBIG, "the manifests of all models together have more than %d MiB",
                       MODEL_MANIFEST_MAX_ARENA >> 20);
    r = file_read(file, MODEL_MANIFEST_MAX_FILE, &text, &len, reterr);
    if (r < 0)
        return err_set(reterr, -r, "it cannot be read: %s", strerror(-r));
    r = model_manifest_parse(arena, text, len, ret, reterr);
    if (r == 0 && !ret->path && strcmp(path_base(file), MODEL_MANIFEST) != 0)
        return err_set(reterr, EBADMSG, "a manifest needs a path");
    return r < 0 ? r : manifest_find_template(arena, file, ret, reterr);
}
