/* SPDX-License-Identifier: Apache-2.0 */
/* Reading elements that all policy files share (see policy-reader.h) */
#include "common/confine/policy-reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"

enum {
    READER_MAX_NUMBER = 4095,
};

int reader_bad(const struct reader *r, const yaml_node_t *node, const char *format, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return err_set_at(r->reterr, EINVAL, node->start_mark.index, "%s:%zu:%zu: %s", r->file,
                      node->start_mark.line + 1, node->start_mark.column + 1, text);
}

int reader_no_memory(const struct reader *r)
{
    return err_set(r->reterr, ENOMEM, "out of memory");
}

/* Reads a non-empty text into the policy's arena. */
int reader_text(struct reader *r, const yaml_node_t *node, void *out)
{
    const char *text = (const char *)node->data.scalar.value;

    if (node->type != YAML_SCALAR_NODE || node->data.scalar.length == 0 ||
        strlen(text) != node->data.scalar.length)
        return reader_bad(r, node, "this must be a text");
    *(const char **)out = arena_strndup(&r->policy->arena, text, node->data.scalar.length);
    return *(const char **)out ? 0 : reader_no_memory(r);
}

int reader_number(struct reader *r, const yaml_node_t *node, void *out)
{
    const char *text;
    uint64_t value;
    int e = reader_text(r, node, &text);

    if (e < 0)
        return e;
    if (!policy_constant(text, &value) || value > READER_MAX_NUMBER)
        return reader_bad(r, node, "\"%s\" is not a number from 0 to %d", text, READER_MAX_NUMBER);
    *(unsigned *)out = (unsigned)value;
    return 0;
}

int reader_about(struct reader *r, const yaml_node_t *node, void *out)
{
    const char *text;

    return reader_text(r, node, out ? out : &text);
}

int reader_mapping(struct reader *r, const yaml_node_t *node, const struct reader_field *fields,
                   size_t n_fields, void *out)
{
    if (node->type != YAML_MAPPING_NODE)
        return reader_bad(r, node, "this must be a mapping");
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(r->doc, p->key);
        const char *name =
            key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "?";
        const struct reader_field *field = NULL;
        int e;

        for (size_t i = 0; i < n_fields && !field; i++)
            if (strcmp(fields[i].name, name) == 0)
                field = &fields[i];
        if (!field)
            return reader_bad(r, key, "unknown key \"%s\"", name);
        for (yaml_node_pair_t *q = node->data.mapping.pairs.start; q < p; q++)
            if (strcmp((const char *)yaml_document_get_node(r->doc, q->key)->data.scalar.value,
                       name) == 0)
                return reader_bad(r, key, "\"%s\" is given twice", name);
        e = field->read(r, yaml_document_get_node(r->doc, p->value), out);
        if (e < 0)
            return e;
    }
    return 0;
}

int reader_list(struct reader *r, const yaml_node_t *node,
                int (*read)(struct reader *r, const yaml_node_t *item, void *out), void *out)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return reader_bad(r, node, "this must be a list");
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
         i++) {
        const int e = read(r, yaml_document_get_node(r->doc, *i), out);

        if (e < 0)
            return e;
    }
    return 0;
}

int reader_file(struct reader *r, const char *file,
                int (*read)(struct reader *r, const yaml_node_t *root, void *out), void *out)
{
    struct reader inner = *r;
    const struct policy_text *text = NULL;
    yaml_parser_t parser;
    yaml_document_t doc;
    const yaml_node_t *root;
    int e;

    for (size_t i = 0; i < r->n_texts && !text; i++)
        if (strcmp(r->texts[i].name, file) == 0)
            text = &r->texts[i];
    if (!text)
        return err_set(r->reterr, ENOENT, "there is no policy file %s", file);
    if (!yaml_parser_initialize(&parser))
        return reader_no_memory(r);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text->text, text->len);
    if (!yaml_parser_load(&parser, &doc)) {
        e = err_set(r->reterr, EINVAL, "%s:%zu:%zu: %s", file, parser.problem_mark.line + 1,
                    parser.problem_mark.column + 1, parser.problem ? parser.problem : "bad YAML");
        yaml_parser_delete(&parser);
        return e;
    }
    inner.file = arena_strndup(&r->policy->arena, file, strlen(file));
    inner.doc = &doc;
    root = yaml_document_get_root_node(&doc);
    if (!inner.file)
        e = reader_no_memory(r);
    else
        e = root ? read(&inner, root, out)
                 : err_set(r->reterr, EINVAL, "%s:1:1: the file is empty", file);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    return e;
}
