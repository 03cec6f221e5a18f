/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table of configuration keys, for what reads files into it and what prints it
 *
 * A new key is a row of config_keys[] and a field of struct config.
 */

#include <yaml.h>

#include "common/config/config.h"

enum config_key_type {
    KEY_STRING,
    KEY_STRINGS,
    KEY_API_KEYS, /* a struct key_list */
    KEY_CHOICE,   /* one of a few words; the field holds its index */
    KEY_U32,
    KEY_BYTES,
    KEY_USEC,
};

struct config_key {
    const char *section, *name;
    enum config_key_type type;
    size_t offset, n_offset; /* n_offset: of the count, for KEY_STRINGS */
    uint64_t min, max;
    const char *const *choices; /* KEY_CHOICE: NULL-terminated */
    /* KEY_STRING: what it must be when @text is not that; NULL: all is well. May be NULL. */
    const char *(*check)(const char *text);
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

/* One file while it is read. */
struct config_source {
    const char *name;
    yaml_document_t *doc;
    struct inf_err *reterr;
};

/* Fails with file:line:column before the message. */
int config_bad(const struct config_source *s, const yaml_mark_t *mark, const char *format, ...)
    PRINTF(3, 4);
/* The text of a scalar without NULs in it, else NULL. */
const char *config_scalar(const yaml_node_t *node);
bool config_is_null(const yaml_node_t *node);
/* True when the key of @pair stands earlier in the same mapping. */
bool config_is_double(const struct config_source *s, const yaml_node_t *map,
                      const yaml_node_pair_t *pair);
/* Sets the field of @key from a value of the file. */
int config_set(const struct config_source *s, const struct config_key *key, yaml_node_t *node,
               struct config *config);
/* The same for a list of API keys. */
int config_set_api_keys(const struct config_source *s, const struct config_key *key,
                        const yaml_node_t *node, struct key_list *list);
/* The entries of a list; 0 for what is empty. Fails when @node is no list, or too long a one. */
int config_list_size(const struct config_source *s, const struct config_key *key,
                     const yaml_node_t *node, size_t *ret_n);
void config_strings_free(char **list, size_t n);
