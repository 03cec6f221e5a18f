/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds all weights of a model as the table of its architecture says, and finds them by slot (see
 * model/arch.h). A joined weight is one tensor that contains the weights of several slots, such as
 * the matrices of q, k and v; each of these weights is a part of it.
 *
 * A tensor of the file that no slot uses is an error, because such a file has another, similar
 * architecture.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"

static const struct weight no_weight;

static struct weight *weight_at(const struct model *m, uint32_t i_row, enum slot slot)
{
    const uint8_t i = m->slot_index[slot];

    return i == SLOT_NONE ? NULL : &m->weights[i_row * m->arch->desc.n_slots + i];
}

const struct weight *layer_w(const struct model *m, uint32_t i_layer, enum slot slot)
{
    const struct weight *w = weight_at(m, i_layer, slot);

    return w ? w : &no_weight;
}

const struct weight *model_w(const struct model *m, enum slot slot)
{
    return layer_w(m, m->hp->n_layers, slot);
}

void layer_set(struct model *m, uint32_t i_layer, enum slot slot, const struct weight *w)
{
    *weight_at(m, i_layer, slot) = *w;
}

void bind_put(struct binder *b, uint32_t i_layer, enum slot slot, const struct weight *w)
{
    layer_set(b->m, i_layer, slot, w);
    bind_count(b->m, w, 0);
}

size_t model_n_weights(const struct model *m)
{
    const uint32_t n_rows =
        m->hp->n_extra_layers > 0 ? hparams_predict_row(m->hp) + 1 : m->hp->n_layers + 1;

    return (size_t)n_rows * m->arch->desc.n_slots;
}

void model_count_planes(const struct model *m, uint64_t bytes[INF_DTYPE_N], uint64_t *n)
{
    const struct weight *end = m->weights + model_n_weights(m);
    const struct weight *tied = m->tied ? model_w(m, SLOT_HEAD) : NULL;

    for (const struct weight *w = m->weights; w < end; w++)
        if (w->planes[WEIGHT_SCALES] && w != tied) {
            bytes[w->dtype] += weight_bytes(w);
            *n += (uint64_t)w->rows * w->cols * MAX(w->n_experts, 1u);
        }
}

size_t model_n_loras(const struct model *m)
{
    return (size_t)(m->hp->n_layers + 1) * m->arch->desc.n_slots + 1;
}

static int weights_new(struct binder *b)
{
    const struct arch_desc *desc = &b->m->arch->desc;
    struct model *m = b->m;

    static_assert(SLOT_N <= SLOT_NONE, "the number of a slot fits a byte");
    memset(m->slot_index, SLOT_NONE, sizeof(m->slot_index));
    for (size_t i = desc->n_slots; i-- > 0;)
        if (desc->slots[i].id != SLOT_ABSENT)
            m->slot_index[desc->slots[i].id] = (uint8_t)i;
    m->weights = arena_zalloc(&m->arena, model_n_weights(m) * sizeof(*m->weights));
    b->bound = NEW(bool, MAX(format_n_tensors(m->f), 1u));
    return m->weights && b->bound ? 0 : err_set(b->err, ENOMEM, "out of memory");
}

/* Returns how many rows of a joined matrix, or elements of a joined vector, belong to a part. */
static uint32_t part_size(const struct hparams *hp, uint32_t i_layer, const struct arch_slot *slot)
{
    const uint32_t rows = dim_of(hp, i_layer, slot->rows);

    return rows > 1 ? rows : dim_of(hp, i_layer, slot->cols);
}

/* Binds a weight to its part of a joined weight. */
static void bind_part(const struct binder *b, const struct arch_slot *slot, uint32_t i_layer,
                      struct weight *w)
{
    const struct hparams *hp = b->m->hp;
    uint32_t first = 0;

    for (const struct arch_slot *s = b->m->arch->desc.slots; s < slot; s++)
        if (s->part_of == slot->part_of)
            first += part_size(hp, i_layer, s);
    *w = bind_rows(layer_w(b->m, i_layer, (enum slot)slot->part_of), first,
                   part_size(hp, i_layer, slot));
    /* A part of a tensor that has several matrices may be a single matrix. */
    if (slot->experts == DIM_NONE)
        w->n_experts = 0, w->expert_bytes = 0;
}

static bool is_in_layer(const struct hparams *hp, const struct arch_slot *slot, uint32_t i_layer)
{
    return layer_is_in(hp, i_layer, slot->in) && (!(slot->flags & SLOT_GATED) || hp->embed.gated);
}

void bind_name(const struct hparams *hp, const struct arch_slot *slot, uint32_t i_row, char *name,
               size_t size)
{
    if (slot->flags & SLOT_WHOLE)
        snprintf(name, size, "%s", slot->gguf);
    else
        snprintf(name, size, "blk.%u.%s", hparams_row_number(hp, i_row), slot->gguf);
}

/* Checks that a layer has all weights that it must have. */
static int check_needed(const struct binder *b, uint32_t i_row, bool whole)
{
    const struct arch_desc *desc = &b->m->arch->desc;
    const uint32_t i_layer = whole ? 0 : i_row;
    char name[96];

    for (size_t i = 0; i < desc->n_slots; i++) {
        const struct arch_slot *s = &desc->slots[i];

        if (s->id == SLOT_ABSENT || !(s->flags & SLOT_WHOLE) == whole || s->flags & SLOT_OPTIONAL ||
            (s->flags & SLOT_NOT_IN_FIRST && i_row == 0) || !is_in_layer(b->m->hp, s, i_layer) ||
            dim_of(b->m->hp, i_layer, s->rows) == 0 || dim_of(b->m->hp, i_layer, s->cols) == 0 ||
            weight_at(b->m, i_row, (enum slot)s->id)->data)
            continue;
        if (s->gguf)
            bind_name(b->m->hp, s, i_row, name, sizeof(name));
        else
            snprintf(name, sizeof(name), "of slot %u in layer %u", s->id, i_row);
        return err_set(b->err, EBADMSG, "the tensor %s is missing", name);
    }
    return 0;
}

/* Binds row @i_row of m->weights: the weights of a layer, or in the last row those outside the
 * layers. */
static int bind_row(struct binder *b, uint32_t i_row, bool whole)
{
    const struct arch_desc *desc = &b->m->arch->desc;
    const uint32_t i_layer = whole ? 0 : i_row;
    char name[96];
    int r = 0;

    for (size_t i = 0; r == 0 && i < desc->n_slots; i++) {
        const struct arch_slot *s = &desc->slots[i];
        struct weight *w = weight_at(b->m, i_row, (enum slot)s->id);

        /* A table may have two rows for a slot, with different names. */
        if (!w || !(s->flags & SLOT_WHOLE) == whole || w->data ||
            !is_in_layer(b->m->hp, s, i_layer))
            continue;
        if (s->gguf) {
            bind_name(b->m->hp, s, i_row, name, sizeof(name));
            r = bind_slot(b, s, i_layer, name, w);
        }
        if (r == 0 && !w->data && s->part_of != SLOT_ABSENT)
            bind_part(b, s, i_row, w);
    }
    return r == 0 ? check_needed(b, i_row, whole) : r;
}

/* Uses the embedding as the head if the file has no head. */
static void tie_head(struct model *m)
{
    const struct hparams *hp = m->hp;
    struct weight *head = weight_at(m, hp->n_layers, SLOT_HEAD);

    m->madds_head = (uint64_t)hp->n_vocab * hp->n_embd;
    if (!head || head->data || hp->no_head)
        return;
    m->tied = true;
    *head = *model_w(m, SLOT_EMBD);
    m->bytes_token += weight_bytes(head);
}

/* Returns whether a tensor belongs to a layer that only predicts further tokens and is not used. */
static bool is_in_extra_layer(const struct model *m, const char *name)
{
    const struct hparams *hp = m->hp;
    const uint32_t first = hp->n_layers + (m->predicts ? 1 : 0);
    unsigned i_layer;

    return hp->n_extra_layers > 0 && sscanf(name, "blk.%4u.", &i_layer) == 1 && i_layer >= first &&
           i_layer - hp->n_layers < hp->n_extra_layers;
}

static int check_all_bound(const struct binder *b)
{
    const struct format *f = b->m->f;

    for (size_t i = 0; i < format_n_tensors(f); i++) {
        const struct format_tensor *t = format_tensor_at(f, i);

        if (!b->bound[i] && strcmp(t->name, "rope_freqs.weight") != 0 &&
            !is_in_extra_layer(b->m, t->name))
            return err_set(b->err, EOPNOTSUPP, "tensor %.96s is not part of the architecture %s",
                           t->file_name, b->m->hp->arch);
    }
    return 0;
}

/* Binds the layer that predicts a further token, if the file has one that the architecture knows. A
 * decoded token does not read its weights. */
static int bind_predictor(struct binder *b)
{
    struct model *m = b->m;
    const uint32_t i_row = hparams_predict_row(m->hp);
    const uint64_t bytes = m->bytes_token, madds = m->madds_layers;
    char name[96];
    int r;

    if (m->hp->n_extra_layers == 0 || !m->arch->build_predictor || i_row >= HPARAMS_MAX_LAYERS ||
        m->hp->layers[i_row].kind != LAYER_PREDICTS)
        return 0;
    snprintf(name, sizeof(name), "blk.%u.nextn.enorm.weight", m->hp->n_layers);
    if (!format_find(m->f, name))
        return 0;
    r = bind_row(b, i_row, false);
    if (r == 0)
        r = bind_split(b, layer_w(m, i_row, SLOT_PREDICT_JOIN), 2, m->predict_join);
    m->bytes_token = bytes;
    m->madds_layers = madds;
    m->predicts = r == 0;
    return r;
}

static int bind_all(struct binder *b)
{
    struct model *m = b->m;
    int r;

    r = bind_row(b, m->hp->n_layers, true);
    for (uint32_t i = 0; r == 0 && i < m->hp->n_layers; i++)
        r = bind_row(b, i, false);
    if (r < 0)
        return r;
    tie_head(m);
    r = bind_predictor(b);
    if (r < 0)
        return r;
    if (m->arch->bind)
        r = m->arch->bind(b);
    if (r == 0 && m->arch->desc.encoder)
        r = bind_labels(b);
    if (r == 0)
        r = bind_dense(b);
    return r == 0 ? check_all_bound(b) : r;
}

int weights_bind(struct model *m, struct inf_err *reterr)
{
    struct binder b = {.m = m, .err = reterr};
    int r;

    r = weights_new(&b);
    if (r == 0)
        r = bind_all(&b);
    free(b.bound);
    return r;
}
