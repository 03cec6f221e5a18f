/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the tensors of a GGUF file for a new directory, and makes config.json and the files of the
 * tokenizer from its metadata.
 *
 * The tensors are the weights that the model binds. Their names are those in the table of the
 * architecture. GGUF files of Llama have interleaved rows, in files of Gemma the weights of norms
 * are 1 larger than in directories, and recurrent layers have another order (dir-order.c). The
 * norms of recurrent models have the values that are used, as in the directories of mlx-lm. Floats
 * get the format of the embedding, if it is a format of floats, and otherwise BF16, because mlx
 * computes in the format of the floats. Weights of layers that predict further tokens are left out,
 * as by mlx-lm.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "convert/dir.h"
#include "core/err.h"
#include "core/text.h"
#include "format/hf/put-config.h"
#include "model/arch.h"
#include "quant/dtype.h"
#include "tokenizer/pipeline.h"
#include "tokenizer/put-json.h"

/* ---- config.json ---- */

/* Returns whether one of the layers has the weight of a slot. */
static bool has_slot(const struct model *m, enum slot slot)
{
    for (uint32_t i = 0; i < m->hp->n_layers; i++)
        if (layer_w(m, i, slot)->data)
            return true;
    return false;
}

/* Adds the id of BOS, and the ids of the tokens that end a text; the first of these is the
 * tokenizer's EOS. */
static void put_ids(json_t *config, const struct inf_tokenizer *tok)
{
    json_t *ends = json_array();

    if (tok->bos >= 0)
        json_object_set_new(config, "bos_token_id", json_integer(tok->bos));
    if (tok->eos >= 0)
        json_array_append_new(ends, json_integer(tok->eos));
    for (int32_t i = 0; i < (int32_t)tok->vocab.n; i++)
        if (i != tok->eos && tok->vocab.pieces[i].eog)
            json_array_append_new(ends, json_integer(i));
    if (json_array_size(ends) == 1)
        json_object_set(config, "eos_token_id", json_array_get(ends, 0));
    else if (json_array_size(ends) > 1)
        json_object_set(config, "eos_token_id", ends);
    json_decref(ends);
}

/* Returns whether a layer with keys of its own uses them as values. */
static bool keys_are_values(const struct model *m)
{
    for (uint32_t i = 0; i < m->hp->n_layers; i++)
        if (layer_w(m, i, SLOT_K)->data && !layer_w(m, i, SLOT_V)->data)
            return true;
    return false;
}

static int make_config(struct dir *d, const struct inf_tokenizer *tok, bool *ret_add_one,
                       struct inf_err *reterr)
{
    const struct model *m = d->model;
    const struct hf_parts parts = {
        .tied = m->tied,
        .bias_qkv = has_slot(m, SLOT_Q_BIAS),
        .bias_out = has_slot(m, SLOT_OUT_BIAS),
        .bias_mlp = has_slot(m, SLOT_DOWN_BIAS),
    };
    _cleanup_free_ struct hparams *hp = NEW(struct hparams, 1);
    int r;

    if (!hp)
        return err_set(reterr, ENOMEM, "out of memory");
    *hp = *m->hp;
    if (!rope_find_llama3(m, hp)) {
        *hp = *m->hp;
        if (!rope_find_pairs(m, hp) && format_find(d->format, "rope_freqs.weight"))
            return err_set(reterr, EOPNOTSUPP,
                           "config.json cannot say the frequencies in rope_freqs.weight");
    }
    hp->gemma.k_is_v |= keys_are_values(m);
    r = hf_put_config(model_archs(), &m->arch->desc, hp, &parts, &d->config, ret_add_one, reterr);
    if (r < 0)
        return r;
    put_ids(d->config, tok);
    json_object_set_new(d->config, "torch_dtype",
                        json_string(d->floats == INF_DTYPE_F32   ? "float32"
                                    : d->floats == INF_DTYPE_F16 ? "float16"
                                                                 : "bfloat16"));
    return 0;
}

static int make_texts(struct dir *d, bool *ret_add_one, struct inf_err *reterr)
{
    _cleanup_(tokenizer_freep) struct inf_tokenizer *tok = NULL;
    const char *template;
    size_t len = 0;
    int r = tokenizer_open(d->format, &tok, reterr);

    if (r < 0)
        return r;
    r = make_config(d, tok, ret_add_one, reterr);
    template = format_chat_template(d->format, &len);
    if (r == 0)
        r = tokenizer_put_json(tok, template, len, &d->tokenizer_text, &d->tokenizer_config,
                               reterr);
    return r;
}

/* ---- tensors ---- */

/* Returns the number of rows of a head if these rows are interleaved; 0: they are not. */
static uint32_t paired_rows(const struct model *m, const struct arch_slot *s, uint32_t i_layer)
{
    const bool paired =
        s->id == SLOT_Q || s->id == SLOT_Q_BIAS || s->id == SLOT_K || s->id == SLOT_K_BIAS;

    return paired && m->hp->rope_style == ROPE_PAIRS ? hparams_head_dim(m->hp, i_layer) : 0;
}

/* Makes the numbers of a vector in the order and with the values of directories. */
static int list_vector(struct dir *d, const struct arch_slot *s, const struct weight *w,
                       uint32_t head, bool add_one, struct dir_entry *e)
{
    const bool norm = text_ends_with(s->gguf, "norm.weight") && !(s->flags & SLOT_AS_STORED);
    float *to = arena_alloc(&d->arena, w->cols * sizeof(float));
    _cleanup_free_ float *from = NEW(float, w->cols);

    if (!to || !from)
        return -ENOMEM;
    weight_decode_row(w, 0, from);
    for (uint32_t i = 0; i < w->cols; i++)
        to[i] = from[head > 0 ? dir_paired_row(i, head) : i] - (norm && add_one ? 1 : 0);
    e->w = (struct weight){
        .data = to, .dtype = INF_DTYPE_F32, .rows = 1, .cols = w->cols, .name = w->name};
    e->vector = true;
    return 0;
}

/* Writes the name of the matrices, or of the biases, of all experts. Returns false if mlx-lm has no
 * such tensor. */
static bool experts_name(const struct dir *d, const struct arch_slot *s, char *out, size_t size)
{
    const bool bias = s->id == SLOT_GATE_EXPERTS_BIAS || s->id == SLOT_UP_EXPERTS_BIAS ||
                      s->id == SLOT_DOWN_EXPERTS_BIAS;
    const char *part = s->id == SLOT_GATE_EXPERTS || s->id == SLOT_GATE_EXPERTS_BIAS   ? "gate_proj"
                       : s->id == SLOT_UP_EXPERTS || s->id == SLOT_UP_EXPERTS_BIAS     ? "up_proj"
                       : s->id == SLOT_DOWN_EXPERTS || s->id == SLOT_DOWN_EXPERTS_BIAS ? "down_proj"
                                                                                       : NULL;
    const char *type = json_string_value(json_object_get(d->config, "model_type"));
    const bool mixtral = type && strcmp(type, "mixtral") == 0;
    const char *name = mixtral && s->hf_2 ? s->hf_2 : s->hf;

    return part && snprintf(out, size, "%s.%s.%s", dir_switch_module(d, name ? name : ""), part,
                            bias ? "bias" : "weight") < (int)size;
}

/* Writes the name of a weight in a directory; Mixtral has other names. */
static int slot_name(const struct dir *d, const struct arch_slot *s, uint32_t i_layer, char *out,
                     size_t size, bool *ret_bare)
{
    const char *type = json_string_value(json_object_get(d->config, "model_type"));
    const char *hf = type && strcmp(type, "mixtral") == 0 && s->hf_2 ? s->hf_2 : s->hf;
    char part[96], name[192];

    if (s->id == SLOT_DELTA_QKV && !hf)
        hf = "linear_attn.in_proj_qkvz.weight";
    if ((!hf && s->experts == DIM_NONE) ||
        (s->experts != DIM_NONE && !experts_name(d, s, part, sizeof(part))))
        return -EOPNOTSUPP;
    if (s->experts != DIM_NONE)
        hf = part;
    if (s->flags & SLOT_WHOLE)
        snprintf(name, sizeof(name), "%s%s", text_starts_with(hf, "lm_head") ? "" : "model.", hf);
    else
        snprintf(name, sizeof(name), "model.layers.%u.%s", i_layer, hf);
    *ret_bare = !text_ends_with(name, ".weight");
    if (!*ret_bare)
        name[strlen(name) - strlen(".weight")] = 0;
    return dir_entry_name(d, name, out, size);
}

/* Returns whether a weight has no tensor of its own: it is written as its parts, or it is a part of
 * the joined matrix of a recurrent layer. */
static bool is_elsewhere(const struct dir *d, const struct arch_slot *s, uint32_t i_layer)
{
    const struct arch_desc *desc = &d->model->arch->desc;

    if (s->id == SLOT_DELTA_GATE && !s->hf)
        return true;
    for (size_t i = 0; i < desc->n_slots; i++)
        if (desc->slots[i].part_of == s->id &&
            layer_w(d->model, i_layer, (enum slot)desc->slots[i].id)->data)
            return true;
    return false;
}

/* Returns whether all numbers of a vector are exact in @dtype. */
static bool is_exact(const struct dir_entry *e, enum inf_dtype dtype)
{
    const float *x = e->w.data;

    for (uint32_t i = 0; i < e->w.cols; i++) {
        uint8_t bytes[4];
        float y;

        dtype_info(dtype)->encode(x + i, bytes, 1);
        dtype_info(dtype)->decode(bytes, &y, 1);
        if (y != x[i])
            return false;
    }
    return true;
}

static int list_slot(struct dir *d, const struct arch_slot *s, uint32_t i_layer, bool add_one,
                     struct inf_err *reterr)
{
    const struct weight *w = layer_w(d->model, i_layer, (enum slot)s->id);
    const uint32_t head = paired_rows(d->model, s, i_layer);
    struct dir_entry *e;
    char name[256];
    bool bare;
    int r;

    if (!w->data || (s->id == SLOT_HEAD && d->model->tied) || is_elsewhere(d, s, i_layer))
        return 0;
    r = slot_name(d, s, i_layer, name, sizeof(name), &bare);
    if (r < 0)
        return err_set(reterr, EOPNOTSUPP, "%.64s has no name in a directory of mlx-lm", w->name);
    if (d->type.form.dtype == INF_DTYPE_INVALID && dtype_info(w->dtype)->block_elems > 1)
        return err_set(
            reterr, EOPNOTSUPP,
            "%.64s is stored as %s, which directories for MLX cannot hold; choose a type "
            "with a format, for example MLX8",
            w->name, dtype_info(w->dtype)->label);
    e = dir_entry_add(d, name);
    if (!e)
        return err_set(reterr, ENOMEM, "out of memory");
    e->w = *w;
    e->floats = d->floats;
    e->bare = bare;
    e->small = s->experts != DIM_NONE && bare;
    if (s->rows == DIM_1 && s->id != SLOT_SHARED_ROUTER && s->experts == DIM_NONE)
        r = list_vector(d, s, w, head, add_one, e);
    else
        e->paired = head;
    if (r == 0 && d->model->arch->desc.recurrent)
        r = dir_order_entry(d, s, i_layer, e);
    /* Layers forget at rates that depend on the exponential of these numbers. */
    if (r == 0 && s->id == SLOT_DELTA_LOG_A && !is_exact(e, e->floats))
        e->floats = INF_DTYPE_F32;
    d->n++;
    return r < 0 ? err_set(reterr, -r, "out of memory") : 0;
}

/* Returns whether row @i of the table of weights is the first row of its slot. */
static bool is_first(const struct arch_desc *desc, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (desc->slots[j].id == desc->slots[i].id)
            return false;
    return desc->slots[i].id != SLOT_ABSENT;
}

int dir_list_gguf(struct dir *d, struct inf_err *reterr)
{
    const struct arch_desc *desc = &d->model->arch->desc;
    const struct weight *embd = model_w(d->model, SLOT_EMBD);
    const uint32_t n_layers = d->model->hp->n_layers;
    bool add_one = false;
    int r;

    if (!desc->plain_gguf || d->type.layout != DIR_MLX)
        return err_set(reterr, EOPNOTSUPP,
                       "a GGUF file of the architecture %s cannot be converted to a directory of "
                       "this type",
                       desc->name);
    d->floats =
        embd->dtype == INF_DTYPE_F32 || embd->dtype == INF_DTYPE_F16 ? embd->dtype : INF_DTYPE_BF16;
    r = make_texts(d, &add_one, reterr);
    add_one = add_one && !desc->recurrent;
    for (size_t i = 0; r == 0 && i < desc->n_slots; i++) {
        const bool whole = desc->slots[i].flags & SLOT_WHOLE;

        for (uint32_t l = whole ? n_layers : 0; r == 0 && is_first(desc, i) && l < n_layers + whole;
             l++)
            r = list_slot(d, &desc->slots[i], l, add_one, reterr);
    }
    return r;
}
