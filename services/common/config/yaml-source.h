/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads YAML documents with libyaml: configuration files and policies.
 *
 * A text is one document. Every message about a text begins with file:line:column.
 */

#include <yaml.h>

#include "core/err.h"
#include "core/macros.h"

/* Struct yaml_source is a document that is being read. It owns none of its members. */
struct yaml_source {
    const char *name; /* name of the file, for messages */
    yaml_document_t *doc;
    struct inf_err *reterr;
};

/*
 * Parses @text and calls @read with the root of its document, or NULL if the text is empty. Returns
 * what @read returns; -EINVAL: the text is not YAML or has a second document; -ENOMEM.
 */
int yaml_source_read(const char *name, const char *text, size_t len,
                     int (*read)(const struct yaml_source *s, const yaml_node_t *root, void *data),
                     void *data, struct inf_err *reterr);
/* Returns -EINVAL with a message that begins with the place of @node. */
int yaml_source_bad(const struct yaml_source *s, const yaml_node_t *node, const char *format, ...)
    PRINTF(3, 4);
/* Returns the text of a scalar; NULL: @node is not a scalar, or the text contains a NUL. */
const char *yaml_source_scalar(const yaml_node_t *node);
/* Returns whether @node is a plain scalar that is empty, "~" or "null". */
bool yaml_source_is_null(const yaml_node_t *node);
/* Returns whether an earlier pair of @map has the same key as @pair. */
bool yaml_source_is_double(const struct yaml_source *s, const yaml_node_t *map,
                           const yaml_node_pair_t *pair);
