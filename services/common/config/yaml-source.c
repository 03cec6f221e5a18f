/* SPDX-License-Identifier: Apache-2.0 */
/* Reads YAML documents with libyaml (see yaml-source.h). */
#include "common/config/yaml-source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int source_bad_at(const struct yaml_source *s, const yaml_mark_t *mark, const char *text)
{
    return err_set_at(s->reterr, EINVAL, mark->index, "%s:%zu:%zu: %s", s->name, mark->line + 1,
                      mark->column + 1, text);
}

int yaml_source_bad(const struct yaml_source *s, const yaml_node_t *node, const char *format, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return source_bad_at(s, &node->start_mark, text);
}

const char *yaml_source_scalar(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE ||
        strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
        return NULL;
    return (const char *)node->data.scalar.value;
}

bool yaml_source_is_null(const yaml_node_t *node)
{
    const char *text = yaml_source_scalar(node);

    return text && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (strcmp(text, "") == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

bool yaml_source_is_double(const struct yaml_source *s, const yaml_node_t *map,
                           const yaml_node_pair_t *pair)
{
    const char *name = yaml_source_scalar(yaml_document_get_node(s->doc, pair->key));

    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        const char *other = yaml_source_scalar(yaml_document_get_node(s->doc, p->key));

        if (name && other && strcmp(name, other) == 0)
            return true;
    }
    return false;
}

/* Parses the next document; the caller deletes *ret_doc on success. */
static int source_parse(const struct yaml_source *s, yaml_parser_t *parser,
                        yaml_document_t *ret_doc)
{
    if (yaml_parser_load(parser, ret_doc))
        return 0;
    return source_bad_at(s, &parser->problem_mark, parser->problem ? parser->problem : "bad YAML");
}

/* Refuses a second document. */
static int source_check_end(const struct yaml_source *s, yaml_parser_t *parser)
{
    yaml_document_t extra;
    const yaml_node_t *root;
    int r = source_parse(s, parser, &extra);

    if (r < 0)
        return r;
    root = yaml_document_get_root_node(&extra);
    if (root)
        r = yaml_source_bad(s, root, "a second document is not allowed");
    yaml_document_delete(&extra);
    return r;
}

int yaml_source_read(const char *name, const char *text, size_t len,
                     int (*read)(const struct yaml_source *s, const yaml_node_t *root, void *data),
                     void *data, struct inf_err *reterr)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    const struct yaml_source s = {.name = name, .doc = &doc, .reterr = reterr};
    int r;

    if (!yaml_parser_initialize(&parser))
        return err_set(reterr, ENOMEM, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    r = source_parse(&s, &parser, &doc);
    if (r == 0) {
        const yaml_node_t *root = yaml_document_get_root_node(&doc);

        r = read(&s, root, data);
        if (r == 0 && root)
            r = source_check_end(&s, &parser);
        yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
    return r;
}
