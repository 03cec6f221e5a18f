/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the elements that all policy files share (see policy-reader.h). */
#include "common/confine/policy-reader.h"

#include <errno.h>
#include <string.h>

#include "core/err.h"

enum {
    READER_MAX_NUMBER = 4095,
};

int reader_no_memory(const struct reader *r)
{
    return err_set(r->source.reterr, ENOMEM, "out of memory");
}

int reader_text(struct reader *r, const yaml_node_t *node, void *out)
{
    const char *text = yaml_source_scalar(node);

    if (!text || !text[0])
        return yaml_source_bad(&r->source, node, "this must be a text");
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
        return yaml_source_bad(&r->source, node, "\"%s\" is not a number from 0 to %d", text,
                               READER_MAX_NUMBER);
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
        return yaml_source_bad(&r->source, node, "this must be a mapping");
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(r->source.doc, p->key);
        const char *name =
            key->type == YAML_SCALAR_NODE ? (const char *)key->data.scalar.value : "?";
        const struct reader_field *field = NULL;
        int e;

        for (size_t i = 0; i < n_fields && !field; i++)
            if (strcmp(fields[i].name, name) == 0)
                field = &fields[i];
        if (!field)
            return yaml_source_bad(&r->source, key, "unknown key \"%s\"", name);
        if (yaml_source_is_double(&r->source, node, p))
            return yaml_source_bad(&r->source, key, "\"%s\" is given twice", name);
        e = field->read(r, yaml_document_get_node(r->source.doc, p->value), out);
        if (e < 0)
            return e;
    }
    return 0;
}

int reader_list(struct reader *r, const yaml_node_t *node,
                int (*read)(struct reader *r, const yaml_node_t *item, void *out), void *out)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return yaml_source_bad(&r->source, node, "this must be a list");
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top;
         i++) {
        const int e = read(r, yaml_document_get_node(r->source.doc, *i), out);

        if (e < 0)
            return e;
    }
    return 0;
}

/* Struct reader_call carries the arguments of reader_file() to reader_root(). */
struct reader_call {
    struct reader reader;
    int (*read)(struct reader *r, const yaml_node_t *root, void *out);
    void *out;
};

static int reader_root(const struct yaml_source *source, const yaml_node_t *root, void *data)
{
    struct reader_call *call = data;

    if (!root)
        return err_set(source->reterr, EINVAL, "%s:1:1: the file is empty", source->name);
    call->reader.source = *source;
    return call->read(&call->reader, root, call->out);
}

int reader_file(struct reader *r, const char *file,
                int (*read)(struct reader *r, const yaml_node_t *root, void *out), void *out)
{
    struct reader_call call = {.reader = *r, .read = read, .out = out};
    const struct policy_text *text = NULL;
    const char *name;

    for (size_t i = 0; i < r->n_texts && !text; i++)
        if (strcmp(r->texts[i].name, file) == 0)
            text = &r->texts[i];
    if (!text)
        return err_set(r->source.reterr, ENOENT, "there is no policy file %s", file);
    name = arena_strndup(&r->policy->arena, file, strlen(file));
    if (!name)
        return reader_no_memory(r);
    return yaml_source_read(name, text->text, text->len, reader_root, &call, r->source.reterr);
}
