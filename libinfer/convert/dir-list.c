/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the tensors of a directory for a new directory. Tensors keep their names, except in the
 * layout of MLX. In this layout, the matrices of all experts are one tensor. In models with several
 * parts, the tensors of the language model get the names that mlx-lm gives them (sanitize() in the
 * files of mlx_lm/models 0.32). A quantized matrix that is several tensors becomes one entry.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "convert/dir.h"
#include "core/array.h"
#include "core/err.h"
#include "core/file.h"
#include "core/text.h"
#include "format/json.h"
#include "model/arch.h"
#include "quant/dtype.h"

#define DIR_CONFIG_MAX ((size_t)4 << 20)

struct dir_entry *dir_entry_add(struct dir *d, const char *name)
{
    struct dir_entry *e;

    if (ARRAY_GROW(d->entries, d->cap, d->n + 1) < 0)
        return NULL;
    e = &d->entries[d->n];
    *e = (struct dir_entry){.name = arena_strndup(&d->arena, name, strlen(name))};
    return e->name ? e : NULL;
}

/* ---- names ---- */

/* Returns the prefixes that mlx-lm gives to the names of a model's body and of its head. */
static void mlx_prefixes(const struct dir *d, const char **ret_body, const char **ret_head)
{
    static const struct {
        const char *model_type, *body, *head;
    } rows[] = {
        {"qwen3_5", "language_model.model.", "language_model."},
        {"qwen3_5_moe", "language_model.model.", "language_model."},
        {"gemma3", "language_model.model.", "language_model."},
        {"gemma4", "language_model.model.", "language_model."},
        {"gemma4_unified", "language_model.model.", "language_model."},
        {"mistral3", "language_model.model.", "language_model."},
        {"gemma3n", "model.language_model.", ""},
    };
    const char *type = json_string_value(json_object_get(d->config, "model_type"));

    *ret_body = "model.";
    *ret_head = "";
    for (size_t i = 0; type && i < ARRAY_SIZE(rows); i++)
        if (strcmp(rows[i].model_type, type) == 0) {
            *ret_body = rows[i].body;
            *ret_head = rows[i].head;
        }
}

int dir_entry_name(const struct dir *d, const char *name, char *out, size_t size)
{
    static const char *const prefixes[] = {"model.", "language_model."};
    const char *rest = name, *body, *head;

    for (size_t i = 0; i < ARRAY_SIZE(prefixes);) {
        const char *after = text_after(rest, prefixes[i]);

        rest = after ? after : rest;
        i = after ? 0 : i + 1;
    }
    mlx_prefixes(d, &body, &head);
    if (d->type.layout != DIR_MLX)
        return snprintf(out, size, "%s", name) < (int)size ? 0 : -EOVERFLOW;
    /* mlx-lm ignores the head of a model whose embedding is its head. */
    if (strcmp(rest, "lm_head") == 0 && model_tied_head(d->model))
        rest = "embed_tokens";
    return snprintf(out, size, "%s%s", text_starts_with(rest, "lm_head") ? head : body, rest) <
                   (int)size
               ? 0
               : -EOVERFLOW;
}

/* Returns whether a tensor belongs to the matrices of experts. */
static bool is_of_experts(const struct format_tensor *t)
{
    return strstr(t->file_name, ".experts.") || strstr(t->file_name, ".switch_");
}

/* ---- matrices ---- */

static const struct weight *weight_named(const struct model *m, const char *name, size_t n)
{
    const size_t n_weights = model_n_weights(m);

    for (size_t i = 0; i < n_weights; i++) {
        const struct weight *w = &m->weights[i];

        if (w->data && w->name && strncmp(w->name, name, n) == 0 &&
            strcmp(w->name + n, ".weight") == 0)
            return w;
    }
    return NULL;
}

static bool is_quantized(const struct weight *w)
{
    return w->coded || dtype_info(w->dtype)->planes;
}

/* Finds the quantized matrix of which a tensor holds a part. *ret_n: the length of the name of the
 * matrix, with which the tensor's name in the file begins. */
static const struct weight *matrix_of(const struct model *m, const struct format_tensor *t,
                                      size_t *ret_n)
{
    const struct weight *w;
    size_t n_end;

    if (!format_part_end(t->name, &n_end) || strlen(t->file_name) < n_end)
        return NULL;
    *ret_n = strlen(t->file_name) - n_end;
    w = weight_named(m, t->name, strlen(t->name) - n_end);
    return w && is_quantized(w) ? w : NULL;
}

/* Adds the quantized matrix @w once; @t is a tensor that holds a part of it. */
static int list_quantized(struct dir *d, const struct format_tensor *t, size_t n_name,
                          const struct weight *w)
{
    char old[256], name[256];
    struct dir_entry *e;

    if (snprintf(old, sizeof(old), "%.*s", (int)n_name, t->file_name) >= (int)sizeof(old) ||
        dir_entry_name(d, old, name, sizeof(name)) < 0)
        return -EOVERFLOW;
    for (size_t i = 0; i < d->n; i++)
        if (d->entries[i].quantized && strcmp(d->entries[i].name, name) == 0)
            return 0;
    e = dir_entry_add(d, name);
    if (!e)
        return -ENOMEM;
    e->w = *w;
    e->quantized = true;
    d->n++;
    return 0;
}

static bool is_float(enum inf_dtype dtype)
{
    return dtype == INF_DTYPE_F32 || dtype == INF_DTYPE_F16 || dtype == INF_DTYPE_BF16;
}

/* Adds a tensor of floats, or one that is copied as it is. */
static int list_floats(struct dir *d, const struct format_tensor *t)
{
    const bool matrix = is_float(t->dtype) && t->n_dims == 2 && t->dims[0] > 1 &&
                        text_ends_with(t->file_name, ".weight");
    const size_t n = strlen(t->file_name) - (matrix ? strlen(".weight") : 0);
    char old[256], name[256];
    struct dir_entry *e;

    if (snprintf(old, sizeof(old), "%.*s", (int)n, t->file_name) >= (int)sizeof(old) ||
        dir_entry_name(d, old, name, sizeof(name)) < 0)
        return -EOVERFLOW;
    e = dir_entry_add(d, name);
    if (!e)
        return -ENOMEM;
    e->raw = t;
    e->floats = t->dtype;
    if (matrix) {
        e->w = (struct weight){.data = t->data,
                               .dtype = t->dtype,
                               .rows = (uint32_t)t->dims[1],
                               .cols = (uint32_t)t->dims[0],
                               .name = t->name};
    }
    if (d->type.layout == DIR_MLX && d->model->arch->desc.recurrent &&
        d->model->hp->norms_add_one) {
        const char *norm = strstr(t->name, "norm.weight");

        e->add_one = t->n_dims == 1 && norm && !strstr(t->name, "ssm_norm");
        e->taps_last = t->n_dims == 3 && strstr(t->name, "ssm_conv1d") && t->dims[1] == 1;
    }
    d->n++;
    return 0;
}

/* ---- experts ---- */

const char *dir_switch_module(const struct dir *d, const char *name)
{
    if (strstr(name, "block_sparse_moe."))
        return "block_sparse_moe.switch_mlp";
    if (strcmp(d->model->arch->desc.name, "gemma4") == 0)
        return "experts.switch_glu";
    return strcmp(d->model->arch->desc.name, "gpt-oss") == 0 ? "mlp.experts" : "mlp.switch_mlp";
}

/* Returns the format in which a file holds the biases of experts: that of the router's bias. If the
 * router has no bias of floats, returns @other, the format in which the model binds the biases of
 * experts. */
static enum inf_dtype bias_type(const struct dir *d, uint32_t i_layer, enum inf_dtype other)
{
    const struct format_tensor *t;
    char name[64];

    snprintf(name, sizeof(name), "blk.%u.ffn_gate_inp.bias", i_layer);
    t = format_find(d->format, name);
    return t && is_float(t->dtype) ? t->dtype : other;
}

/* Adds one matrix, or the biases, of all experts of the layer to which @t belongs. */
static int list_expert_slot(struct dir *d, const struct format_tensor *t, enum slot slot,
                            const char *matrix, bool bias)
{
    const char *layers = strstr(t->file_name, "layers.");
    const uint32_t i_layer = layers ? (uint32_t)strtoul(layers + 7, NULL, 10) : 0;
    const struct weight *w = layer_w(d->model, i_layer, slot);
    const char *body, *head;
    struct dir_entry *e;
    char name[256];

    if (!w->data)
        return 0;
    mlx_prefixes(d, &body, &head);
    snprintf(name, sizeof(name), "%slayers.%u.%s.%s%s", body, i_layer,
             dir_switch_module(d, t->file_name), matrix, bias ? ".bias" : "");
    for (size_t i = 0; i < d->n; i++)
        if (strcmp(d->entries[i].name, name) == 0)
            return 0;
    e = dir_entry_add(d, name);
    if (!e)
        return -ENOMEM;
    e->w = *w;
    e->small = e->bare = bias;
    e->quantized = is_quantized(w);
    e->floats = bias ? bias_type(d, i_layer, w->dtype) : w->dtype;
    d->n++;
    return 0;
}

/* Adds the matrices of the experts of the layer to which @t belongs. */
static int list_experts(struct dir *d, const struct format_tensor *t)
{
    static const struct {
        enum slot slot;
        const char *name;
        bool bias;
    } rows[] = {
        {SLOT_GATE_EXPERTS, "gate_proj", false}, {SLOT_UP_EXPERTS, "up_proj", false},
        {SLOT_DOWN_EXPERTS, "down_proj", false}, {SLOT_GATE_EXPERTS_BIAS, "gate_proj", true},
        {SLOT_UP_EXPERTS_BIAS, "up_proj", true}, {SLOT_DOWN_EXPERTS_BIAS, "down_proj", true},
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++)
        r = list_expert_slot(d, t, rows[i].slot, rows[i].name, rows[i].bias);
    return r;
}

/* ---- the whole model ---- */

static int list_tensor(struct dir *d, const struct format_tensor *t)
{
    const struct weight *w;
    size_t n_name = 0;

    if (d->type.layout == DIR_MLX && is_of_experts(t))
        return list_experts(d, t);
    w = matrix_of(d->model, t, &n_name);
    return w ? list_quantized(d, t, n_name, w) : list_floats(d, t);
}

static int list_open(struct dir *d, struct inf_err *reterr)
{
    const char *path = d->params->path;
    _cleanup_free_ char *config = path_join(path, "config.json");
    int r;

    if (!config)
        return err_set(reterr, ENOMEM, "out of memory");
    r = format_open(path, 0, model_archs(), &d->format, reterr);
    if (r == 0 && format_dir(d->format))
        r = json_text_read(config, DIR_CONFIG_MAX, 0, &d->config, reterr);
    if (r == 0 && (!format_arch(d->format) || format_arch(d->format)->encoder))
        return err_set(reterr, EOPNOTSUPP, "this layout only holds models that generate text");
    if (r == 0 && format_hparams(d->format)->ternary != TERNARY_NONE)
        return err_set(reterr, EOPNOTSUPP, "this layout cannot hold ternary weights");
    if (r == 0 && format_hparams(d->format)->coded == CODED_PARO)
        return err_set(reterr, EOPNOTSUPP,
                       "ParoQuant rotates the inputs of products, and this layout cannot say so");
    return r == 0 ? model_open(d->format, &d->model, reterr) : r;
}

/* Orders entries by layer, then by name; those outside the layers come first. */
static int by_place(const void *a, const void *b)
{
    const struct dir_entry *x = a, *y = b;
    const char *p = strstr(x->name, "layers."), *q = strstr(y->name, "layers.");
    const long i = p ? strtol(p + 7, NULL, 10) : -1, j = q ? strtol(q + 7, NULL, 10) : -1;

    return i != j ? (i < j ? -1 : 1) : strcmp(x->name, y->name);
}

int dir_list(struct dir *d, struct inf_err *reterr)
{
    int r = list_open(d, reterr);

    if (r < 0)
        return r;
    if (!format_dir(d->format)) {
        r = dir_list_gguf(d, reterr);
    } else {
        for (size_t i = 0; r == 0 && i < format_n_tensors(d->format); i++)
            r = list_tensor(d, format_tensor_at(d->format, i));
        if (r < 0)
            err_set(reterr, -r, r == -ENOMEM ? "out of memory" : "a name of a tensor is too long");
    }
    if (r < 0)
        return r;
    qsort(d->entries, d->n, sizeof(*d->entries), by_place);
    return 0;
}
