/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Declares the table of configuration keys, which is used to read and to print configurations.
 *
 * A new key needs a row in config_keys[] and a field in struct config.
 */

#include "common/config/config.h"
#include "common/config/yaml-source.h"

enum config_key_type {
    KEY_STRING,
    KEY_STRINGS,
    KEY_API_KEYS, /* a struct key_list */
    KEY_CHOICE,   /* one of several words; the field holds its index */
    KEY_U32,
    KEY_BYTES,
    KEY_USEC,
    KEY_SAMPLING, /* a sampling parameter; n_offset is its enum sampling_key */
};

struct config_key {
    const char *section, *name;
    enum config_key_type type;
    size_t offset, n_offset; /* n_offset: offset of the count, for KEY_STRINGS */
    uint64_t min, max;
    const char *const *choices; /* KEY_CHOICE: NULL-terminated */
    /* For KEY_STRING, and for each entry of KEY_STRINGS; may be NULL. Returns NULL if @text is
     * valid, else a phrase that says what the text must be. */
    const char *(*check)(const char *text);
};

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

/* Checks a value of models.other_programs (see `check` in struct config_key). */
const char *config_check_program(const char *text);
/* Sets the field of @key to the value in @node. */
int config_set(const struct yaml_source *s, const struct config_key *key, yaml_node_t *node,
               struct config *config);
/* Sets @list to the API keys in @node. */
int config_set_api_keys(const struct yaml_source *s, const struct config_key *key,
                        const yaml_node_t *node, struct key_list *list);
/* Counts the entries of a list; 0 if the value is empty. Fails if @node is not a list, or if the
 * list is too long. */
int config_list_size(const struct yaml_source *s, const struct config_key *key,
                     const yaml_node_t *node, size_t *ret_n);
void config_strings_free(char **list, size_t n);
