/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration files (see config.h)
 *
 * A table tells each key's section, type, place in struct config and range; everything else here
 * is generic. Values are replaced whole: a list in a later file is not appended to an earlier one.
 * YAML is read by libyaml into a document; every message carries file:line:column.
 */
#include "common/config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

#include "core/err.h"
#include "core/file.h"
#include "core/str.h"
#include "core/utf8.h"

enum {
    CONFIG_MAX_FILE = 1 << 20,
    CONFIG_MAX_LIST = 256,
};

enum key_type { KEY_STRING, KEY_STRINGS, KEY_U32, KEY_BYTES, KEY_USEC };

struct key {
    const char *section, *name;
    enum key_type type;
    size_t offset, n_offset; /* n_offset: of the count, for KEY_STRINGS */
    uint64_t min, max;
};

#define AT(field)    offsetof(struct config, field)
#define SECONDS(n)   ((uint64_t)(n)*1000000u)
#define MEBIBYTES(n) ((uint64_t)(n) << 20)
#define ANY_USEC     0, SECONDS(365 * 86400)

static const struct key keys[] = {
    {"models", "directories", KEY_STRINGS, AT(model_dirs), AT(n_model_dirs), 0, 0},
    {"models", "default", KEY_STRING, AT(default_model), 0, 0, 0},
    {"gateway", "api_keys", KEY_STRINGS, AT(gateway.api_keys), AT(gateway.n_api_keys), 0, 0},
    {"gateway", "cors_origins", KEY_STRINGS, AT(gateway.cors_origins), AT(gateway.n_cors_origins),
     0, 0},
    {"gateway", "max_body", KEY_BYTES, AT(gateway.max_body), 0, 1024, MEBIBYTES(4096)},
    {"gateway", "max_header", KEY_BYTES, AT(gateway.max_header), 0, 1024, 400 * 1024},
    {"gateway", "max_connections", KEY_U32, AT(gateway.max_connections), 0, 1, 65536},
    {"gateway", "idle_timeout", KEY_USEC, AT(gateway.idle_timeout_usec), 0, ANY_USEC},
    {"gateway", "header_timeout", KEY_USEC, AT(gateway.header_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"gateway", "backend_timeout", KEY_USEC, AT(gateway.backend_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"gateway", "stall_timeout", KEY_USEC, AT(gateway.stall_timeout_usec), 0, SECONDS(1),
     SECONDS(86400)},
    {"chat", "device", KEY_STRING, AT(chat.device), 0, 0, 0},
    {"chat", "isa", KEY_STRING, AT(chat.isa), 0, 0, 0},
    {"chat", "threads", KEY_U32, AT(chat.threads), 0, 0, 1024},
    {"chat", "context", KEY_U32, AT(chat.context), 0, 0, 1u << 24},
    {"chat", "max_sequences", KEY_U32, AT(chat.max_sequences), 0, 1, 1024},
    {"chat", "max_queue", KEY_U32, AT(chat.max_queue), 0, 1, 1u << 20},
    {"chat", "max_batch_tokens", KEY_U32, AT(chat.max_batch_tokens), 0, 32, 16384},
    {"chat", "kv_memory", KEY_BYTES, AT(chat.kv_memory), 0, 0, UINT64_MAX / 2},
    {"chat", "max_models", KEY_U32, AT(chat.max_models), 0, 1, 64},
    {"chat", "max_tokens", KEY_U32, AT(chat.max_tokens), 0, 0, 1u << 24},
    {"chat", "idle_timeout", KEY_USEC, AT(chat.idle_timeout_usec), 0, ANY_USEC},
    {"chat", "request_timeout", KEY_USEC, AT(chat.request_timeout_usec), 0, ANY_USEC},
};

/* One file while it is read. */
struct source {
    const char *name;
    yaml_document_t *doc;
    struct inf_err *reterr;
};

static int bad(const struct source *s, const yaml_mark_t *mark, const char *format, ...)
    PRINTF(3, 4);

static int bad(const struct source *s, const yaml_mark_t *mark, const char *format, ...)
{
    char text[200];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return err_set_at(s->reterr, EINVAL, mark->index, "%s:%zu:%zu: %s", s->name, mark->line + 1,
                      mark->column + 1, text);
}

static void strings_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

/* Expands "~/" and "$HOME"-less paths only: anything else stays as it is written. */
static char *expand_home(const char *text)
{
    const char *home = getenv("HOME");

    if (strncmp(text, "~/", 2) == 0 && home && home[0] == '/')
        return path_join(home, text + 2);
    return strdup(text);
}

/* "16MiB" or "60s": digits, then one of the units. */
struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1u << 10},
    {"KiB", 1u << 10},
    {"M", 1u << 20},
    {"MiB", 1u << 20},
    {"G", 1u << 30},
    {"GiB", 1u << 30},
    {"kB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"T", (uint64_t)1 << 40},
    {"TiB", (uint64_t)1 << 40},
    {NULL, 0},
};

static const struct unit time_units[] = {
    {"", 1000000},         {"s", 1000000},      {"sec", 1000000},   {"ms", 1000},        {"us", 1},
    {"min", 60 * 1000000}, {"m", 60 * 1000000}, {"h", 3600000000u}, {"d", 86400000000u}, {NULL, 0},
};

static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static bool parse_number(const char *text, const struct unit *units, uint64_t *ret)
{
    char *end;
    unsigned long long n;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno)
        return false;
    while (*end == ' ')
        end++;
    for (; units->name; units++)
        if (strcmp(end, units->name) == 0)
            return size_mul(n, units->factor, ret);
    return false;
}

static const char *scalar_text(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE ||
        strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

static bool is_null(const yaml_node_t *node)
{
    const char *text = scalar_text(node);

    return text && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (strcmp(text, "") == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static int set_number(const struct source *s, const struct key *key, const yaml_node_t *node,
                      void *field)
{
    static const struct {
        const struct unit *units;
        const char *what;
    } kinds[] = {
        [KEY_U32] = {no_units, "a whole number"},
        [KEY_BYTES] = {byte_units, "a size such as 16MiB"},
        [KEY_USEC] = {time_units, "a time such as 60s"},
    };
    const char *text = scalar_text(node);
    uint64_t value;

    if (!text || !parse_number(text, kinds[key->type].units, &value))
        return bad(s, &node->start_mark, "%s.%s must be %s", key->section, key->name,
                   kinds[key->type].what);
    if (value < key->min || value > key->max)
        return bad(s, &node->start_mark, "%s.%s is %s, outside %" PRIu64 " to %" PRIu64 "%s",
                   key->section, key->name, text, key->min, key->max,
                   key->type == KEY_USEC ? " microseconds" : "");
    if (key->type == KEY_U32)
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = value;
    return 0;
}

static int set_strings(const struct source *s, const struct key *key, yaml_node_t *node,
                       struct config *config)
{
    char ***list = (char ***)((char *)config + key->offset);
    size_t *n_list = (size_t *)((char *)config + key->n_offset);
    const size_t n = node->type == YAML_SEQUENCE_NODE
                         ? (size_t)(node->data.sequence.items.top - node->data.sequence.items.start)
                         : 0;
    char **fresh;

    if (node->type != YAML_SEQUENCE_NODE && !is_null(node))
        return bad(s, &node->start_mark, "%s.%s must be a list", key->section, key->name);
    if (n > CONFIG_MAX_LIST)
        return bad(s, &node->start_mark, "%s.%s has more than %d entries", key->section, key->name,
                   CONFIG_MAX_LIST);
    fresh = NEW(char *, n + 1);
    if (!fresh)
        return err_set(s->reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const yaml_node_t *item =
            yaml_document_get_node(s->doc, node->data.sequence.items.start[i]);
        const char *text = scalar_text(item);

        if (!text || !text[0]) {
            strings_free(fresh, i);
            return bad(s, &item->start_mark, "entries of %s.%s must be texts", key->section,
                       key->name);
        }
        fresh[i] = strcmp(key->name, "directories") == 0 ? expand_home(text) : strdup(text);
        if (!fresh[i]) {
            strings_free(fresh, i);
            return err_set(s->reterr, ENOMEM, "out of memory");
        }
    }
    strings_free(*list, *n_list);
    *list = fresh;
    *n_list = n;
    return 0;
}

static int set_key(const struct source *s, const struct key *key, yaml_node_t *node,
                   struct config *config)
{
    void *field = (char *)config + key->offset;
    const char *text;
    char *copy = NULL;

    switch (key->type) {
    case KEY_STRINGS:
        return set_strings(s, key, node, config);
    case KEY_STRING:
        text = scalar_text(node);
        if (!text)
            return bad(s, &node->start_mark, "%s.%s must be a text", key->section, key->name);
        if (!is_null(node)) {
            copy = strdup(text);
            if (!copy)
                return err_set(s->reterr, ENOMEM, "out of memory");
        }
        free(*(char **)field);
        *(char **)field = copy;
        return 0;
    default:
        return set_number(s, key, node, field);
    }
}

static const struct key *key_find(const char *section, const char *name, bool *ret_section)
{
    *ret_section = false;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        if (strcmp(keys[i].section, section) != 0)
            continue;
        *ret_section = true;
        if (name && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    }
    return NULL;
}

/* True when the key of @pair stands earlier in the same mapping. */
static bool is_double(const struct source *s, const yaml_node_t *map, const yaml_node_pair_t *pair)
{
    const char *name = scalar_text(yaml_document_get_node(s->doc, pair->key));

    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        const char *other = scalar_text(yaml_document_get_node(s->doc, p->key));

        if (name && other && strcmp(name, other) == 0)
            return true;
    }
    return false;
}

static int apply_section(const struct source *s, const char *section, const yaml_node_t *map,
                         struct config *config)
{
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key_node = yaml_document_get_node(s->doc, p->key);
        const char *name = scalar_text(key_node);
        bool known;
        const struct key *key = name ? key_find(section, name, &known) : NULL;
        int r;

        if (!key)
            return bad(s, &key_node->start_mark, "unknown key \"%s.%s\"", section,
                       name ? name : "?");
        if (is_double(s, map, p))
            return bad(s, &key_node->start_mark, "\"%s.%s\" stands here twice", section, name);
        r = set_key(s, key, yaml_document_get_node(s->doc, p->value), config);
        if (r < 0)
            return r;
    }
    return 0;
}

static int apply_document(const struct source *s, struct config *config)
{
    const yaml_node_t *root = yaml_document_get_root_node(s->doc);

    if (!root || is_null(root))
        return 0;
    if (root->type != YAML_MAPPING_NODE)
        return bad(s, &root->start_mark, "the file must be a mapping of sections");
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key_node = yaml_document_get_node(s->doc, p->key);
        const yaml_node_t *value = yaml_document_get_node(s->doc, p->value);
        const char *section = scalar_text(key_node);
        bool known = false;
        int r;

        if (section)
            key_find(section, NULL, &known);
        if (!known)
            return bad(s, &key_node->start_mark,
                       "unknown section \"%s\"; there are models, gateway, chat",
                       section ? section : "?");
        if (is_double(s, root, p))
            return bad(s, &key_node->start_mark, "section \"%s\" stands here twice", section);
        if (is_null(value))
            continue;
        if (value->type != YAML_MAPPING_NODE)
            return bad(s, &value->start_mark, "section \"%s\" must be a mapping", section);
        r = apply_section(s, section, value, config);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_apply(struct config *config, const char *name, const char *text, size_t len,
                 struct inf_err *reterr)
{
    yaml_parser_t parser;
    yaml_document_t doc, extra;
    struct source s = {.name = name, .doc = &doc, .reterr = reterr};
    int r;

    if (!yaml_parser_initialize(&parser))
        return err_set(reterr, ENOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    if (!yaml_parser_load(&parser, &doc)) {
        r = bad(&s, &parser.problem_mark, "%s", parser.problem ? parser.problem : "bad YAML");
        yaml_parser_delete(&parser);
        return r;
    }
    r = apply_document(&s, config);
    if (r == 0 && yaml_document_get_root_node(&doc)) {
        if (!yaml_parser_load(&parser, &extra)) {
            r = bad(&s, &parser.problem_mark, "%s", parser.problem ? parser.problem : "bad YAML");
        } else {
            const yaml_node_t *root = yaml_document_get_root_node(&extra);

            if (root)
                r = bad(&s, &root->start_mark, "a second document; one is allowed");
            yaml_document_delete(&extra);
        }
    }
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    return r;
}

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

/* DIR/sconce.yaml and DIR/sconce.d in order of name. */
static int apply_dir(struct config *config, const char *dir, struct inf_err *reterr)
{
    _cleanup_free_ char *main_file = path_join(dir, "sconce.yaml");
    _cleanup_free_ char *parts = path_join(dir, "sconce.d");
    struct dirent **names = NULL;
    int n, r;

    if (!main_file || !parts)
        return err_set(reterr, ENOMEM, "out of memory");
    r = apply_file(config, main_file, false, reterr);
    if (r < 0)
        return r;
    n = scandir(parts, &names, is_yaml, alphasort);
    for (int i = 0; i < n; i++) {
        _cleanup_free_ char *path = r < 0 ? NULL : path_join(parts, names[i]->d_name);

        if (path)
            r = apply_file(config, path, false, reterr);
        free(names[i]);
    }
    free(names);
    return r;
}

/* The user's own directory below $@variable or ~/@fallback; NULL when there is no home. */
static char *user_dir(const char *variable, const char *fallback)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    char *p = NULL;

    if (base && base[0] == '/')
        return path_join(base, "sconce");
    if (!home || home[0] != '/')
        return NULL;
    if (asprintf(&p, "%s/%s/sconce", home, fallback) < 0)
        return NULL;
    return p;
}

int config_add_model_dir(struct config *config, const char *dir)
{
    char **fresh = realloc(config->model_dirs, (config->n_model_dirs + 1) * sizeof(*fresh));

    if (!fresh)
        return -ENOMEM;
    config->model_dirs = fresh;
    memmove(fresh + 1, fresh, config->n_model_dirs * sizeof(*fresh));
    fresh[0] = strdup(dir);
    if (!fresh[0]) {
        memmove(fresh, fresh + 1, config->n_model_dirs * sizeof(*fresh));
        return -ENOMEM;
    }
    config->n_model_dirs++;
    return 0;
}

static int add_default_dirs(struct config *config)
{
    _cleanup_free_ char *base = user_dir("XDG_DATA_HOME", ".local/share");
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
    c->gateway.max_body = MEBIBYTES(16);
    c->gateway.max_header = 32 * 1024;
    c->gateway.max_connections = 512;
    c->gateway.idle_timeout_usec = SECONDS(60);
    c->gateway.header_timeout_usec = SECONDS(120);
    c->gateway.backend_timeout_usec = SECONDS(600);
    c->gateway.stall_timeout_usec = SECONDS(30);
    c->chat.max_sequences = 16;
    c->chat.max_queue = 256;
    c->chat.max_batch_tokens = 512;
    c->chat.max_models = 1;
    c->chat.idle_timeout_usec = SECONDS(300);
    c->chat.request_timeout_usec = SECONDS(600);
    c->chat.device = strdup("auto");
    if (!c->chat.device || add_default_dirs(c) < 0)
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
        r = apply_dir(c, SCONCE_SYSCONFDIR "/sconce", reterr);
        user = user_dir("XDG_CONFIG_HOME", ".config");
        if (r == 0 && user)
            r = apply_dir(c, user, reterr);
    }
    if (r < 0)
        return r;
    *ret_config = STEAL(c);
    return 0;
}

struct config *config_free(struct config *c)
{
    if (!c)
        return NULL;
    strings_free(c->model_dirs, c->n_model_dirs);
    strings_free(c->gateway.api_keys, c->gateway.n_api_keys);
    strings_free(c->gateway.cors_origins, c->gateway.n_cors_origins);
    free(c->default_model);
    free(c->chat.device);
    free(c->chat.isa);
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
