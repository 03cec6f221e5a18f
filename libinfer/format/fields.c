/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the fields that all decoders and all models have, and stores the values of fields in
 * hyperparameters (fields.h). */
#include "format/fields.h"

#include <string.h>

#include "core/macros.h"

static const struct arch_field of_all[] = {
    {FIELD(n_vocab), FIELD_COUNT, "vocab_size", "vocab_size", .flags = FIELD_IN_HF},
    {FIELD(n_layers), FIELD_COUNT, "block_count", "num_hidden_layers", "n_layer",
     .flags = FIELD_IN_GGUF | FIELD_IN_HF},
    {FIELD(n_ctx_train), FIELD_COUNT, "context_length", "max_position_embeddings", "n_positions",
     .flags = FIELD_IN_GGUF | FIELD_IN_HF},
    {FIELD(n_embd), FIELD_COUNT, "embedding_length", "hidden_size", "n_embd",
     .flags = FIELD_IN_GGUF | FIELD_IN_HF},
    {FIELD(n_ff), FIELD_COUNT, "feed_forward_length", "intermediate_size", "n_inner",
     .flags = FIELD_IN_GGUF | FIELD_IN_HF, .layer = FIELD_LAYER(n_ff)},
    {FIELD(n_heads), FIELD_COUNT, "attention.head_count", "num_attention_heads", "n_head",
     .flags = FIELD_IN_GGUF | FIELD_IN_HF},
};

static const struct arch_field of_decoders[] = {
    {FIELD(norm_eps), FIELD_NUMBER, "attention.layer_norm_rms_epsilon", "rms_norm_eps",
     .absent = 1e-6, .flags = FIELD_IN_GGUF},
    {FIELD(act), FIELD_ACT, NULL, "hidden_act", .absent = GRAPH_ACT_SILU},
};

struct field_lists field_lists_of(const struct arch_desc *desc, const struct arch_class *class)
{
    return (struct field_lists){{class ? class->fields : NULL, desc->fields, of_decoders, of_all},
                                {class ? class->n_fields : 0, desc->n_fields,
                                 desc->encoder ? 0 : ARRAY_SIZE(of_decoders), ARRAY_SIZE(of_all)}};
}

/* Returns field @i of all lists together; NULL: there are no more. */
static const struct arch_field *nth_field(const struct field_lists *lists, size_t i)
{
    for (size_t j = 0; j < ARRAY_SIZE(lists->n); j++) {
        if (i < lists->n[j])
            return &lists->fields[j][i];
        i -= lists->n[j];
    }
    return NULL;
}

static bool is_replaced(const struct field_lists *lists, size_t i)
{
    const size_t offset = nth_field(lists, i)->offset;

    for (size_t j = 0; j < i; j++)
        if (nth_field(lists, j)->offset == offset)
            return true;
    return false;
}

const struct arch_field *field_at(const struct field_lists *lists, size_t *i)
{
    while (nth_field(lists, *i) && is_replaced(lists, *i))
        ++*i;
    return nth_field(lists, *i);
}

bool field_reads_gguf(const struct field_lists *lists, const char *key)
{
    const struct arch_field *f;

    for (size_t i = 0; (f = field_at(lists, &i)); i++)
        if (f->gguf && strcmp(f->gguf, key) == 0)
            return true;
    return false;
}

bool field_reads_hf(const struct field_lists *lists, const char *key)
{
    const struct arch_field *f;

    for (size_t i = 0; (f = field_at(lists, &i)); i++)
        if ((f->hf && strcmp(f->hf, key) == 0) || (f->hf_2 && strcmp(f->hf_2, key) == 0))
            return true;
    return false;
}

void field_store(const struct arch_field *field, struct hparams *hp, double value)
{
    void *to = (char *)hp + field->offset;

    switch (field->kind) {
    case FIELD_COUNT:
        *(uint32_t *)to = (uint32_t)value;
        break;
    case FIELD_NUMBER:
        *(float *)to = (float)value;
        break;
    case FIELD_FLAG:
        *(bool *)to = value != 0;
        break;
    case FIELD_ACT:
        *(enum graph_act *)to = (enum graph_act)value;
        break;
    }
}

static bool has_value(const struct arch_field *field, const struct hparams *hp)
{
    const void *at = (const char *)hp + field->offset;

    switch (field->kind) {
    case FIELD_COUNT:
        return *(const uint32_t *)at > 0;
    case FIELD_NUMBER:
        return *(const float *)at != 0;
    case FIELD_FLAG:
        return *(const bool *)at;
    case FIELD_ACT:
        return *(const enum graph_act *)at != 0;
    }
    return false;
}

bool field_store_absent(const struct arch_field *field, struct hparams *hp,
                        enum arch_field_flags needs)
{
    if (has_value(field, hp))
        return true;
    if (field->flags & needs)
        return false;
    field_store(field, hp, field->absent);
    return true;
}

void field_store_layer(const struct arch_field *field, struct hparams *hp, uint32_t i_layer,
                       double value)
{
    void *all = (char *)hp + field->offset;
    void *to = (char *)&hp->layers[i_layer] + field->layer - 1;

    assert(field->layer > 0 && i_layer < HPARAMS_MAX_LAYERS);
    if (field->kind == FIELD_NUMBER) {
        *(float *)to = (float)value;
        *(float *)all = i_layer == 0 ? (float)value : MAX(*(float *)all, (float)value);
        return;
    }
    assert(field->kind == FIELD_COUNT);
    *(uint32_t *)to = (uint32_t)value;
    *(uint32_t *)all = i_layer == 0 ? (uint32_t)value : MAX(*(uint32_t *)all, (uint32_t)value);
}

/* The first name of each activation is the name that new files get. */
static const struct {
    const char *name;
    enum graph_act act;
} acts[] = {
    {"silu", GRAPH_ACT_SILU},          {"swish", GRAPH_ACT_SILU},
    {"gelu", GRAPH_ACT_GELU_ERF},      {"gelu_pytorch_tanh", GRAPH_ACT_GELU_TANH},
    {"gelu_new", GRAPH_ACT_GELU_TANH}, {"gelu_fast", GRAPH_ACT_GELU_TANH},
    {"relu2", GRAPH_ACT_RELU2},
};

bool field_act_find(const char *name, enum graph_act *ret_act)
{
    for (size_t i = 0; name && i < ARRAY_SIZE(acts); i++)
        if (strcmp(acts[i].name, name) == 0) {
            *ret_act = acts[i].act;
            return true;
        }
    return false;
}

const char *field_act_name(enum graph_act act)
{
    for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
        if (acts[i].act == act)
            return acts[i].name;
    return NULL;
}

void field_set_sparse(struct hparams *hp)
{
    const uint32_t step = MAX(hp->experts.step, 1u);

    for (uint32_t i = 0; i < MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS); i++)
        hp->layers[i].sparse = hp->experts.n > 0 && (i + 1) % step == 0;
}

int field_finish(const struct arch_desc *desc, struct hparams *hp, enum arch_source source,
                 struct inf_err *reterr)
{
    const bool has_layers = hp->n_layers > 0 && hp->n_layers <= HPARAMS_MAX_LAYERS;
    int r = 0;

    if (has_layers && desc->finish)
        r = desc->finish(hp, source, reterr);
    return r == 0 ? hparams_check(hp, reterr) : r;
}
