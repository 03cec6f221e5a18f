/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads gateway.api_keys, a list. Each entry is a key, or a mapping with the fields key, name and
 * rights.
 *
 * Error messages give the place of a mistake and never the key.
 */
#include <errno.h>
#include <string.h>

#include "common/config/table.h"
#include "core/err.h"

/* Struct api_key_entry is the entry being read. The YAML document owns its texts. */
struct api_key_entry {
    const char *key, *name;
    unsigned rights;
};

static int api_key_rights(const struct yaml_source *s, const yaml_node_t *node,
                          unsigned *ret_rights)
{
    unsigned rights = 0;

    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_source_bad(s, node, "rights must be a list of " RIGHTS_LIST);
    for (const yaml_node_item_t *i = node->data.sequence.items.start;
         i < node->data.sequence.items.top; i++) {
        const yaml_node_t *item = yaml_document_get_node(s->doc, *i);
        const char *word = yaml_source_scalar(item);
        const unsigned right = word ? right_find(word, strlen(word)) : 0;

        if (!right)
            return yaml_source_bad(s, item, "the rights are " RIGHTS_LIST);
        rights |= right;
    }
    if (!rights)
        return yaml_source_bad(s, node,
                               "a key needs at least one right; the rights are " RIGHTS_LIST);
    *ret_rights = rights;
    return 0;
}

static int api_key_field(const struct yaml_source *s, const yaml_node_t *name_node,
                         const yaml_node_t *value, struct api_key_entry *entry)
{
    const char *name = yaml_source_scalar(name_node), *text = yaml_source_scalar(value);
    const char **field = NULL;

    if (name && strcmp(name, "rights") == 0)
        return api_key_rights(s, value, &entry->rights);
    if (name && strcmp(name, "key") == 0)
        field = &entry->key;
    else if (name && strcmp(name, "name") == 0)
        field = &entry->name;
    if (!field)
        return yaml_source_bad(s, name_node, "an API key has only the fields key, name and rights");
    if (!text || !text[0])
        return yaml_source_bad(s, value, "%s of an API key must be a text", name);
    *field = text;
    return 0;
}

static int api_key_fields(const struct yaml_source *s, const yaml_node_t *map,
                          struct api_key_entry *entry)
{
    int r = 0;

    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start;
         r == 0 && p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *name = yaml_document_get_node(s->doc, p->key);

        r = yaml_source_is_double(s, map, p)
                ? yaml_source_bad(s, name, "a field of an API key is given twice")
                : api_key_field(s, name, yaml_document_get_node(s->doc, p->value), entry);
    }
    return r;
}

static int api_key_read(const struct yaml_source *s, const yaml_node_t *node,
                        struct api_key_entry *entry)
{
    int r = 0;

    *entry = (struct api_key_entry){yaml_source_scalar(node), "", RIGHTS_UNSTATED};
    if (node->type == YAML_MAPPING_NODE)
        r = api_key_fields(s, node, entry);
    if (r < 0)
        return r;
    if (!entry->key || !entry->key[0])
        return yaml_source_bad(s, node,
                               "entries of gateway.api_keys must be texts, or mappings with a key");
    return 0;
}

int config_set_api_keys(const struct yaml_source *s, const struct config_key *key,
                        const yaml_node_t *node, struct key_list *list)
{
    struct key_list fresh = {};
    size_t n;
    int r = config_list_size(s, key, node, &n);

    for (size_t i = 0; r == 0 && i < n; i++) {
        struct api_key_entry e;

        r = api_key_read(s, yaml_document_get_node(s->doc, node->data.sequence.items.start[i]), &e);
        if (r == 0 &&
            key_list_add(&fresh, e.key, strlen(e.key), e.name, strlen(e.name), e.rights) < 0)
            r = err_set(s->reterr, ENOMEM, "out of memory");
    }
    if (r < 0) {
        key_list_done(&fresh);
        return r;
    }
    key_list_done(list);
    *list = fresh;
    return 0;
}
