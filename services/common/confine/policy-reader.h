/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads policy files. Only the files policy*.c use this header.
 *
 * Each file is one YAML document, read by libyaml. Every message begins with file:line:column.
 */

#include "common/config/yaml-source.h"
#include "common/confine/policy.h"
#include "core/arena.h"

struct policy_rules {
    struct policy_rule *rules;
    size_t n, cap;
};

struct policy {
    struct arena arena; /* owns the texts */
    const char *about, *about_files;
    const char *executable; /* NULL: no memory may become executable */
    const char *network;    /* NULL: no connection to other machines */
    unsigned known, limit;
    struct policy_rules phases[POLICY_N_PHASES];
    struct policy_path *paths;
    size_t n_paths;
};

struct reader {
    struct policy *policy;
    const struct policy_text *texts;
    size_t n_texts;
    struct yaml_source source;
    struct policy_rules *rules; /* rules of the phase that is being read */
};

/* A key of a mapping and the function that reads its value. */
struct reader_field {
    const char *name;
    int (*read)(struct reader *r, const yaml_node_t *value, void *out);
};

int reader_no_memory(const struct reader *r);
/* Reads a non-empty text into the policy's arena and sets *(const char **)@out. */
int reader_text(struct reader *r, const yaml_node_t *node, void *out);
/* Works like reader_text(), but @out may be NULL if the text is not needed. */
int reader_about(struct reader *r, const yaml_node_t *node, void *out);
/* Reads a number from 0 to 4095 to *(unsigned *)@out. */
int reader_number(struct reader *r, const yaml_node_t *node, void *out);
/* Reads a mapping. Each key must be one of @fields and must not be repeated. */
int reader_mapping(struct reader *r, const yaml_node_t *node, const struct reader_field *fields,
                   size_t n_fields, void *out);
int reader_list(struct reader *r, const yaml_node_t *node,
                int (*read)(struct reader *r, const yaml_node_t *item, void *out), void *out);
/* Reads the file @file below policy/. -ENOENT. */
int reader_file(struct reader *r, const char *file,
                int (*read)(struct reader *r, const yaml_node_t *root, void *out), void *out);

/* Reads the root node of seccomp/SERVICE.yaml (policy-rules.c). */
int policy_read_seccomp(struct reader *r, const yaml_node_t *root, void *out);
