/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the manifests of models (see manifest.h). */
#include "common/models/manifest.h"

#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "core/err.h"
#include "core/file.h"

enum {
    MANIFEST_MAX_FILE = 64 << 10,
    MANIFEST_MAX_ALIASES = 32,
};

static const char *const no_aliases[] = {NULL};

/* Returns a copy of a text without NULs. NULL: *ret_r says whether memory is short or the type is
 * wrong. */
static const char *manifest_text(struct arena *arena, const yaml_node_t *node, int *ret_r)
{
    const char *text, *copy;

    *ret_r = -EINVAL;
    if (!node || node->type != YAML_SCALAR_NODE)
        return NULL;
    text = (const char *)node->data.scalar.value;
    if (strlen(text) != node->data.scalar.length)
        return NULL;
    copy = arena_strndup(arena, text, node->data.scalar.length);
    *ret_r = copy ? 0 : -ENOMEM;
    return copy;
}

static int manifest_aliases(struct arena *arena, yaml_document_t *doc, const yaml_node_t *node,
                            struct model_manifest *out)
{
    const yaml_node_item_t *items;
    const char **aliases;
    size_t n;
    int r = 0;

    if (node->type != YAML_SEQUENCE_NODE)
        return -EINVAL;
    items = node->data.sequence.items.start;
    n = (size_t)(node->data.sequence.items.top - items);
    if (n > MANIFEST_MAX_ALIASES)
        return -E2BIG;
    aliases = arena_zalloc(arena, (n + 1) * sizeof(*aliases));
    if (!aliases)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < n; i++)
        aliases[i] = manifest_text(arena, yaml_document_get_node(doc, items[i]), &r);
    if (r == 0)
        out->aliases = aliases;
    return r;
}

static int manifest_flag(const yaml_node_t *node, bool *ret)
{
    const char *text = node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";

    *ret = strcmp(text, "true") == 0;
    return *ret || strcmp(text, "false") == 0 ? 0 : -EINVAL;
}

static int manifest_sampling(yaml_document_t *doc, const yaml_node_t *node,
                             struct inf_sampling *out)
{
    if (node->type != YAML_MAPPING_NODE)
        return -EINVAL;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
         p < node->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(doc, p->key);
        const yaml_node_t *value = yaml_document_get_node(doc, p->value);
        const int k = key->type == YAML_SCALAR_NODE
                          ? sampling_find((const char *)key->data.scalar.value)
                          : -1;

        if (k < 0 || value->type != YAML_SCALAR_NODE ||
            !sampling_set_text(out, k, (const char *)value->data.scalar.value))
            return -EINVAL;
    }
    return 0;
}

static int manifest_key(struct arena *arena, yaml_document_t *doc, const char *key,
                        const yaml_node_t *value, struct model_manifest *out)
{
    int r = -EINVAL;

    if (strcmp(key, "name") == 0) {
        out->name = manifest_text(arena, value, &r);
    } else if (strcmp(key, "path") == 0) {
        out->path = manifest_text(arena, value, &r);
        out->line = value->start_mark.line + 1;
        out->column = value->start_mark.column + 1;
    } else if (strcmp(key, "aliases") == 0) {
        r = manifest_aliases(arena, doc, value, out);
    } else if (strcmp(key, "matryoshka") == 0) {
        r = manifest_flag(value, &out->matryoshka);
    } else if (strcmp(key, "sampling") == 0) {
        r = manifest_sampling(doc, value, &out->sampling);
    }
    return r;
}

static int manifest_document(struct arena *arena, yaml_document_t *doc, struct model_manifest *out,
                             struct inf_err *reterr)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);

    if (!root || root->type != YAML_MAPPING_NODE)
        return err_set(reterr, EBADMSG, "this is not a manifest: it must be a mapping with a path");
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start;
         p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(doc, p->key);
        const char *name =
            key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "?";
        const int r = manifest_key(arena, doc, name, yaml_document_get_node(doc, p->value), out);

        if (r == -ENOMEM)
            return err_set(reterr, ENOMEM, "out of memory");
        if (r == 0)
            continue;
        out->line = key->start_mark.line + 1;
        out->column = key->start_mark.column + 1;
        return err_set(
            reterr, EBADMSG,
            "\"%.60s\" is not a key of a manifest or has a wrong type; the keys are name, "
            "path, aliases, matryoshka, and sampling with parameters such as temperature",
            name);
    }
    if (!out->path || !out->path[0]) {
        out->line = 0;
        return err_set(reterr, EBADMSG, "a manifest needs a path");
    }
    return 0;
}

int model_manifest_read(struct arena *arena, const char *file, struct model_manifest *ret,
                        struct inf_err *reterr)
{
    _cleanup_free_ char *text = NULL;
    yaml_parser_t parser;
    yaml_document_t doc;
    size_t len;
    int r;

    *ret = (struct model_manifest){.aliases = no_aliases};
    sampling_clear(&ret->sampling);
    r = file_read(file, MANIFEST_MAX_FILE, &text, &len, reterr);
    if (r < 0)
        return err_set(reterr, -r, "it cannot be read: %s", strerror(-r));
    if (!yaml_parser_initialize(&parser))
        return err_set(reterr, ENOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (unsigned char *)text, len);
    if (yaml_parser_load(&parser, &doc)) {
        r = manifest_document(arena, &doc, ret, reterr);
        yaml_document_delete(&doc);
    } else {
        ret->line = parser.problem_mark.line + 1;
        ret->column = parser.problem_mark.column + 1;
        r = err_set(reterr, EBADMSG, "%s", parser.problem ? parser.problem : "this is not YAML");
    }
    yaml_parser_delete(&parser);
    return r;
}
