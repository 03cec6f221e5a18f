/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the values of configuration keys: numbers with units, words, texts and lists.
 *
 * A value replaces an earlier value of its key completely: a list in a later file is not appended
 * to the list of an earlier file.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/config/table.h"
#include "core/err.h"
#include "core/file.h"
#include "core/str.h"
#include "core/text.h"

enum {
    CONFIG_MAX_LIST = 256,
};

void config_strings_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
}

/* Expands a leading "~/"; other paths stay unchanged. */
static char *expand_home(const char *text)
{
    const char *home = getenv("HOME");

    if (text_starts_with(text, "~/") && home && home[0] == '/')
        return path_join(home, text + 2);
    return strdup(text);
}

/* A value such as "16MiB" or "60s" has digits and then the name of a unit. */
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
    {"TB", 1000000000000},
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

bool config_time(const char *text, uint64_t *ret_usec)
{
    return parse_number(text, time_units, ret_usec);
}

static int set_number(const struct yaml_source *s, const struct config_key *key,
                      const yaml_node_t *node, void *field)
{
    static const struct {
        const struct unit *units;
        const char *what;
    } kinds[] = {
        [KEY_U32] = {no_units, "a whole number"},
        [KEY_BYTES] = {byte_units, "a size such as 16MiB"},
        [KEY_USEC] = {time_units, "a time such as 60s"},
    };
    const char *text = yaml_source_scalar(node);
    uint64_t value;

    if (!text || !parse_number(text, kinds[key->type].units, &value))
        return yaml_source_bad(s, node, "%s.%s must be %s", key->section, key->name,
                               kinds[key->type].what);
    if (value < key->min || value > key->max)
        return yaml_source_bad(s, node, "%s.%s is %s, outside %" PRIu64 " to %" PRIu64 "%s",
                               key->section, key->name, text, key->min, key->max,
                               key->type == KEY_USEC ? " microseconds" : "");
    if (key->type == KEY_U32)
        *(uint32_t *)field = (uint32_t)value;
    else
        *(uint64_t *)field = value;
    return 0;
}

int config_list_size(const struct yaml_source *s, const struct config_key *key,
                     const yaml_node_t *node, size_t *ret_n)
{
    const size_t n = node->type == YAML_SEQUENCE_NODE
                         ? (size_t)(node->data.sequence.items.top - node->data.sequence.items.start)
                         : 0;

    if (node->type != YAML_SEQUENCE_NODE && !yaml_source_is_null(node))
        return yaml_source_bad(s, node, "%s.%s must be a list", key->section, key->name);
    if (n > CONFIG_MAX_LIST)
        return yaml_source_bad(s, node, "%s.%s has more than %d entries", key->section, key->name,
                               CONFIG_MAX_LIST);
    *ret_n = n;
    return 0;
}

static int set_strings(const struct yaml_source *s, const struct config_key *key, yaml_node_t *node,
                       struct config *config)
{
    char ***list = (char ***)((char *)config + key->offset);
    size_t *n_list = (size_t *)((char *)config + key->n_offset);
    const char *form;
    char **fresh;
    size_t n;
    const int r = config_list_size(s, key, node, &n);

    if (r < 0)
        return r;
    fresh = NEW(char *, n + 1);
    if (!fresh)
        return err_set(s->reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const yaml_node_t *item =
            yaml_document_get_node(s->doc, node->data.sequence.items.start[i]);
        const char *text = yaml_source_scalar(item);

        if (!text || !text[0]) {
            config_strings_free(fresh, i);
            return yaml_source_bad(s, item, "entries of %s.%s must be texts", key->section,
                                   key->name);
        }
        form = key->check ? key->check(text) : NULL;
        if (form) {
            config_strings_free(fresh, i);
            return yaml_source_bad(s, item, "each entry of %s.%s must be %s", key->section,
                                   key->name, form);
        }
        fresh[i] = strcmp(key->name, "directories") == 0 ? expand_home(text) : strdup(text);
        if (!fresh[i]) {
            config_strings_free(fresh, i);
            return err_set(s->reterr, ENOMEM, "out of memory");
        }
    }
    config_strings_free(*list, *n_list);
    *list = fresh;
    *n_list = n;
    return 0;
}

static int set_choice(const struct yaml_source *s, const struct config_key *key,
                      const yaml_node_t *node, unsigned *field)
{
    const char *text = yaml_source_scalar(node);
    char list[100] = "";

    for (unsigned i = 0; key->choices[i]; i++) {
        if (text && strcmp(text, key->choices[i]) == 0) {
            *field = i;
            return 0;
        }
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s\"%s\"", i ? " or " : "",
                 key->choices[i]);
    }
    return yaml_source_bad(s, node, "%s.%s must be %s", key->section, key->name, list);
}

static int set_string(const struct yaml_source *s, const struct config_key *key,
                      const yaml_node_t *node, char **field)
{
    const char *text = yaml_source_scalar(node), *form = NULL;
    char *copy = NULL;

    if (!text)
        return yaml_source_bad(s, node, "%s.%s must be a text", key->section, key->name);
    if (!yaml_source_is_null(node)) {
        form = key->check ? key->check(text) : NULL;
        if (form)
            return yaml_source_bad(s, node, "%s.%s must be %s", key->section, key->name, form);
        copy = expand_home(text);
        if (!copy)
            return err_set(s->reterr, ENOMEM, "out of memory");
    }
    free(*field);
    *field = copy;
    return 0;
}

static int set_sampling(const struct yaml_source *s, const struct config_key *key,
                        const yaml_node_t *node, struct inf_sampling *field)
{
    const struct sampling_row *row = &sampling_rows[key->n_offset];
    const char *text = yaml_source_scalar(node);

    if (text && yaml_source_is_null(node))
        return 0;
    if (!text || !sampling_set_text(field, key->n_offset, text))
        return yaml_source_bad(s, node, "%s.%s must be a %s between %g and %g", key->section,
                               key->name, row->is_whole ? "whole number" : "number", row->min,
                               row->max);
    return 0;
}

int config_set(const struct yaml_source *s, const struct config_key *key, yaml_node_t *node,
               struct config *config)
{
    void *field = (char *)config + key->offset;

    switch (key->type) {
    case KEY_STRINGS:
        return set_strings(s, key, node, config);
    case KEY_API_KEYS:
        return config_set_api_keys(s, key, node, field);
    case KEY_STRING:
        return set_string(s, key, node, field);
    case KEY_CHOICE:
        return set_choice(s, key, node, field);
    case KEY_SAMPLING:
        return set_sampling(s, key, node, field);
    default:
        return set_number(s, key, node, field);
    }
}
