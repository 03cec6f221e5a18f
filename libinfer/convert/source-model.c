/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the weights of a directory in Hugging Face layout as the tensors of a GGUF file.
 *
 * The weights are those that the model binds: the matrices of all experts of a layer are one
 * tensor, joined matrices are split where directories can hold the parts, and norms have the values
 * that GGUF files store. The names are those in the table of the architecture. GGUF files of some
 * architectures have rows in another order (source-order.c).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "convert/mix.h"
#include "convert/source-impl.h"
#include "core/err.h"
#include "format/gguf/ggml-type.h"
#include "format/gguf/put-hparams.h"
#include "model/arch.h"
#include "quant/dtype.h"
#include "tokenizer/put-gguf.h"
#include "tokenizer/tokenizer.h"

/* Returns the type of GGUF files for this number format, or a type of 16 bits if GGUF files do not
 * have the format. */
static uint32_t type_of(enum inf_dtype dtype)
{
    uint32_t type;

    return ggml_type_find(dtype_info(dtype)->label, &type) ? type : GGML_TYPE_F16;
}

/* Returns whether a joined weight is written as its parts. GGUF files hold the parts if directories
 * can hold them, and otherwise the joined weight. */
static bool has_parts(const struct source *s, const struct arch_slot *slot, uint32_t i_row)
{
    const struct arch_desc *desc = &s->model->arch->desc;

    for (size_t i = 0; i < desc->n_slots; i++)
        if (desc->slots[i].part_of == slot->id && desc->slots[i].id != SLOT_ABSENT &&
            desc->slots[i].hf && layer_w(s->model, i_row, (enum slot)desc->slots[i].id)->data)
            return true;
    return false;
}

/* Returns whether a weight is written with the joined weight of which it is a part. */
static bool is_in_joined(const struct source *s, const struct arch_slot *slot, uint32_t i_row)
{
    return slot->part_of != 0 && !slot->hf &&
           layer_w(s->model, i_row, (enum slot)slot->part_of)->data;
}

/* Gives a vector the order and the values that it has in GGUF files. */
static int turn_vector(struct source *s, struct weight *w, const struct source_order *order,
                       struct inf_err *reterr)
{
    float *to = arena_alloc(&s->arena, w->cols * sizeof(float)), *from = NEW(float, w->cols);

    if (!to || !from) {
        free(from);
        return err_set(reterr, ENOMEM, "out of memory");
    }
    weight_decode_row(w, 0, from);
    for (uint32_t i = 0; i < w->cols; i++) {
        to[i] = from[order->rows ? order->rows[i] : i];
        if (order->minus_exp)
            to[i] = (float)-exp((double)to[i]);
    }
    free(from);
    w->data = to;
    w->dtype = INF_DTYPE_F32;
    return 0;
}

/* Returns whether the bytes of a weight are those of a GGUF tensor. */
static bool is_plain(const struct source_tensor *t)
{
    uint64_t one = 0;
    uint32_t type;

    if (!dtype_row_bytes(t->w.dtype, t->w.cols, &one) ||
        (t->w.n_experts > 0 && t->w.expert_bytes != one * t->w.rows))
        return false;
    return !t->order.rows && !t->order.columns && !t->w.experts && !t->w.packed &&
           t->w.row_step <= 1 && !t->w.planes[WEIGHT_SCALES] &&
           ggml_type_find(dtype_info(t->w.dtype)->label, &type) && type == t->type;
}

/* Sets the dimensions. The vectors of experts are the rows of a matrix. */
static void set_dims(struct source_tensor *t, uint32_t n_rows)
{
    const struct weight *w = &t->w;
    const bool vectors = w->n_experts > 0 && w->rows == 1;

    t->dims[0] = w->cols;
    t->dims[1] = vectors ? w->n_experts : n_rows;
    t->dims[2] = vectors ? 1 : MAX(w->n_experts, 1u);
    t->dims[3] = 1;
    t->n_dims = vectors ? 2 : w->n_experts > 0 ? 3 : n_rows > 1 ? 2 : 1;
}

/* Adds a tensor with @n_rows rows for each matrix of @w. */
static int add_weight(struct source *s, const char *name, const struct weight *w, uint32_t n_rows,
                      const struct source_order *order, struct inf_err *reterr)
{
    struct source_tensor *t = &s->tensors[s->n];
    struct mix_tensor mt;
    int r = 0;

    *t = (struct source_tensor){
        .name = arena_strndup(&s->arena, name, strlen(name)),
        .type = type_of(w->dtype),
        .quantized = dtype_info(w->dtype)->block_elems > 1,
        .size = weight_bytes(w),
        .w = *w,
    };
    if (!t->name)
        return err_set(reterr, ENOMEM, "out of memory");
    set_dims(t, n_rows);
    if (w->rows > 1)
        t->order = *order;
    else if (order->rows || order->minus_exp)
        r = turn_vector(s, &t->w, order, reterr);
    /* Small tensors, which mixes do not change, are F32. */
    mt = (struct mix_tensor){t->name, t->n_dims, t->dims, t->type};
    if (!mix_may_change(&mt))
        t->type = GGML_TYPE_F32;
    if (is_plain(t))
        t->bytes = t->w.data;
    s->n++;
    return r;
}

/* Adds the two matrices that GGUF files of Qwen3-Next have instead of SLOT_DELTA_QKVZ. */
static int add_delta_joined(struct source *s, const struct weight *w, uint32_t i_row,
                            struct inf_err *reterr)
{
    static const char *const names[] = {"attn_qkv", "attn_gate"};
    int r = 0;

    for (unsigned gate = 0; r == 0 && gate < 2; gate++) {
        struct source_order order;
        char name[96];
        uint32_t n;

        snprintf(name, sizeof(name), "blk.%u.%s.weight", i_row, names[gate]);
        r = source_order_delta(s, gate, &n, &order, reterr);
        if (r == 0)
            r = add_weight(s, name, w, n, &order, reterr);
    }
    return r;
}

/* Adds matrices that are one tensor in GGUF files, and a tensor each in directories (the matrices
 * of the streams of Gemma 3n): the parts of the slot @whole. */
static int add_stacked(struct source *s, const struct arch_slot *whole, struct inf_err *reterr)
{
    const struct arch_desc *desc = &s->model->arch->desc;
    const void **matrices = NULL;
    struct weight all = {.data = NULL};
    uint32_t n = 0;

    for (size_t i = 0; i < desc->n_slots; i++) {
        const struct weight *w = model_w(s->model, (enum slot)desc->slots[i].id);

        if (desc->slots[i].part_of != whole->id || !w->data)
            continue;
        if (!matrices)
            matrices = arena_zalloc(&s->arena, desc->n_slots * sizeof(*matrices));
        if (!matrices)
            return err_set(reterr, ENOMEM, "out of memory");
        if (n > 0 && (w->dtype != all.dtype || w->planes[WEIGHT_SCALES]))
            return err_set(reterr, EOPNOTSUPP, "%.64s and %.64s have different formats", all.name,
                           w->name);
        if (n == 0)
            all = *w;
        matrices[n++] = w->data;
    }
    if (n == 0)
        return 0;
    all.n_experts = n;
    all.experts = matrices;
    return add_weight(s, whole->gguf, &all, all.rows, &(struct source_order){0}, reterr);
}

/* Returns whether a slot is one matrix of a tensor with several matrices. */
static bool is_stacked(const struct arch_desc *desc, const struct arch_slot *slot)
{
    for (size_t i = 0; slot->part_of != 0 && i < desc->n_slots; i++)
        if (desc->slots[i].id == slot->part_of)
            return desc->slots[i].experts != DIM_NONE && slot->experts == DIM_NONE;
    return false;
}

/* Adds the weight of a slot in a layer, or outside the layers (@i_row is the number of layers). */
static int add_slot(struct source *s, const struct arch_slot *slot, uint32_t i_row,
                    struct inf_err *reterr)
{
    const struct weight *w = layer_w(s->model, i_row, (enum slot)slot->id);
    struct source_order order;
    uint32_t n_rows = w->rows;
    char name[96];
    int r;

    if (slot->id == SLOT_STREAMS_IN || slot->id == SLOT_STREAMS_OUT)
        return add_stacked(s, slot, reterr);
    if (!w->data || has_parts(s, slot, i_row) || is_in_joined(s, slot, i_row) ||
        is_stacked(&s->model->arch->desc, slot) || (slot->id == SLOT_HEAD && s->model->tied))
        return 0;
    if (slot->id == SLOT_DELTA_QKVZ)
        return add_delta_joined(s, w, i_row, reterr);
    bind_name(s->model->hp, slot, i_row, name, sizeof(name));
    r = source_order(s, (enum slot)slot->id, i_row, w, &order, reterr);
    /* In GGUF files, the table of per-layer embeddings has rows for all tokens, also for tokens for
     * which the directory has no row. */
    if (r == 0 && slot->id == SLOT_PER_LAYER_EMBD && w->rows < s->model->hp->n_vocab) {
        n_rows = s->model->hp->n_vocab;
        r = source_order_pad(s, w->rows, n_rows, &order, reterr);
    }
    return r == 0 ? add_weight(s, name, w, n_rows, &order, reterr) : r;
}

/* Returns whether row @i of the table of weights is the first row of its slot. A slot has several
 * rows if files have several names for its weight. */
static bool is_first(const struct arch_desc *desc, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (desc->slots[j].id == desc->slots[i].id)
            return false;
    return desc->slots[i].id != SLOT_ABSENT && desc->slots[i].gguf;
}

/* The divisor of a pair that is not rotated, as llama.cpp's converter writes it. */
#define NO_ROTATION 1e30f

/* Adds the divisors of the frequencies: how much slower each pair rotates with the scaling of
 * Llama 3, or which pairs are rotated. */
static int add_divisors(struct source *s, struct inf_err *reterr)
{
    const struct hparams *hp = s->model->hp;
    const uint32_t n = hp->rope_dims / 2;
    struct weight w = {.rows = 1, .cols = n, .name = "rope_freqs.weight"};
    float *x;

    if (hp->rope_scaling != ROPE_SCALING_LLAMA3 && hp->rope_pairs == 0)
        return 0;
    x = arena_alloc(&s->arena, n * sizeof(float));
    if (!x)
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        x[i] = s->model->inv_freq[i] == 0
                   ? NO_ROTATION
                   : (float)(pow((double)hp->rope_theta, -2.0 * i / hp->rope_dims) /
                             (double)s->model->inv_freq[i]);
    w.data = x;
    return add_weight(s, w.name, &w, 1, &(struct source_order){0}, reterr);
}

static int add_weights(struct source *s, struct inf_err *reterr)
{
    const struct arch_desc *desc = &s->model->arch->desc;
    const uint32_t n_layers = s->model->hp->n_layers;
    int r = 0;

    s->tensors = NEW(struct source_tensor, ((size_t)n_layers + 2) * (desc->n_slots + 1) + 1);
    if (!s->tensors)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; r == 0 && i < desc->n_slots; i++) {
        const bool whole = desc->slots[i].flags & SLOT_WHOLE;

        if (!is_first(desc, i))
            continue;
        for (uint32_t l = whole ? n_layers : 0; r == 0 && l < n_layers + whole; l++)
            r = add_slot(s, &desc->slots[i], l, reterr);
        if (r == 0 && !whole && s->model->predicts)
            r = add_slot(s, &desc->slots[i], hparams_predict_row(s->model->hp), reterr);
    }
    return r == 0 ? add_divisors(s, reterr) : r;
}

/* Makes the metadata, and keeps them as a parsed file without tensors. */
static int make_meta(struct source *s, struct inf_err *reterr)
{
    const struct hparams *hp = s->model->hp;
    struct inf_tokenizer *tok = NULL;
    struct gguf_out w = {0};
    const char *template;
    size_t len;
    int r;

    r = gguf_put_hparams(&w, model_archs(), &s->model->arch->desc, hp, reterr);
    if (r == 0)
        r = tokenizer_open(s->format, &tok, reterr);
    if (r == 0)
        r = tokenizer_put_gguf(tok, hp->n_vocab, &w, reterr);
    tokenizer_free(tok);
    template = format_chat_template(s->format, &len);
    if (r == 0 && template)
        gguf_out_string(&w, "tokenizer.chat_template", template, len);
    if (r == 0) {
        r = gguf_out_header(&w, &s->meta, &s->meta_size);
        if (r < 0)
            err_set(reterr, -r, "%s", strerror(-r));
    }
    gguf_out_done(&w);
    return r == 0 ? gguf_parse(s->meta, s->meta_size, &s->gguf, reterr) : r;
}

int source_open_model(struct source *s, const char *path, struct inf_err *reterr)
{
    const struct arch_desc *desc;
    int r;

    r = format_open(path, 0, model_archs(), &s->format, reterr);
    if (r < 0)
        return r;
    desc = format_arch(s->format);
    if (!desc || !desc->plain_gguf)
        return err_set(reterr, EOPNOTSUPP,
                       "a directory of the architecture %s cannot be converted to a GGUF file",
                       desc ? desc->name : "whisper");
    if (format_hparams(s->format)->coded == CODED_PARO)
        return err_set(reterr, EOPNOTSUPP,
                       "ParoQuant rotates the inputs of products, and a GGUF file cannot say so");
    r = model_open(s->format, &s->model, reterr);
    s->tiled = strcmp(desc->name, "qwen35") == 0;
    if (r == 0)
        r = add_weights(s, reterr);
    if (r == 0)
        r = make_meta(s, reterr);
    snprintf(s->arch, sizeof(s->arch), "%s", gguf_arch_name(desc, format_hparams(s->format)));
    return r;
}
