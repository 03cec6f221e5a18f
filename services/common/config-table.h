/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table of configuration keys, for what reads files into it and what prints it
 *
 * A new key is a row of config_keys[] and a field of struct config.
 */

#include <yaml.h>

#include "common/config.h"

enum config_key_type {
    KEY_STRING,
    KEY_STRINGS,
    KEY_CHOICE, /* one of a few words; the field holds its index */
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
/* Sets the field of @key from a value of the file. */
int config_set(const struct config_source *s, const struct config_key *key, yaml_node_t *node,
               struct config *config);
void config_strings_free(char **list, size_t n);
