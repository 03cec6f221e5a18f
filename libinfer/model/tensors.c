/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds single tensors.
 *
 * Matrices are used in place. Vectors (norms, biases), which are small, are decoded once unless
 * they are stored as F32. So backends need to support only F32 vectors. The matrices of experts are
 * one tensor with three dimensions, or one tensor for each expert.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

/* The shape that a weight must have. */
struct shape {
    uint32_t rows, cols;
    uint32_t n_experts; /* 0: one matrix */
};

static int check_type(struct binder *b, const struct format_tensor *t)
{
    if (t->dtype != INF_DTYPE_INVALID)
        return 0;
    return err_set(b->err, EOPNOTSUPP, "tensor %.64s is stored as %s, which is not supported",
                   t->file_name, t->type_name);
}

static size_t put_dims(const uint64_t *dims, uint32_t n_dims, char *text, size_t size)
{
    size_t n = 0;

    for (uint32_t i = n_dims; i-- > 0 && n < size;)
        n += (size_t)snprintf(text + n, size - n, "%llu%s", (unsigned long long)dims[i],
                              i > 0 ? " x " : "");
    return n;
}

/* Compares the dimensions of a tensor with those of a weight, leaving out dimensions of 1. */
static bool dims_match(const uint64_t *dims, uint32_t n_dims, const struct shape *s)
{
    const uint64_t want[3] = {s->cols, s->rows, MAX(s->n_experts, 1u)};
    uint32_t i = 0, j = 0;

    for (;;) {
        while (i < n_dims && dims[i] == 1)
            i++;
        while (j < 3 && want[j] == 1)
            j++;
        if (i == n_dims || j == 3)
            return i == n_dims && j == 3;
        if (dims[i++] != want[j++])
            return false;
    }
}

static int check_shape(struct binder *b, const struct format_tensor *t, const struct shape *s)
{
    const uint64_t want[3] = {s->cols, s->rows, s->n_experts};
    char is[96], expected[96];

    if (dims_match(t->dims, t->n_dims, s))
        return 0;
    put_dims(t->dims, t->n_dims, is, sizeof(is));
    put_dims(want, s->n_experts > 0 ? 3 : 2, expected, sizeof(expected));
    return err_set(b->err, EBADMSG, "tensor %.64s is %s, expected %s", t->file_name, is, expected);
}

static bool is_norm(const char *name)
{
    const size_t n = strlen(name), end = strlen("norm.weight");

    return n >= end && strcmp(name + n - end, "norm.weight") == 0;
}

/* Decodes a weight unless it is stored as F32, and adds 1 to the weights of norms if the
 * architecture requires it. */
static int decode(struct binder *b, const struct format_tensor *t, unsigned flags, struct weight *w)
{
    const bool add_one = b->m->hp->norms_add_one && is_norm(t->name) && !(flags & SLOT_AS_STORED);
    const uint64_t n = (uint64_t)w->rows * w->cols * MAX(w->n_experts, 1u);
    float *data;

    if (t->dtype == INF_DTYPE_F32 && !add_one)
        return 0;
    data = arena_alloc(&b->m->arena, n * sizeof(float));
    if (!data)
        return err_set(b->err, ENOMEM, "out of memory");
    dtype_info(t->dtype)->decode(t->data, data, n);
    for (uint64_t i = 0; add_one && i < n; i++)
        data[i] += 1;
    w->data = data;
    w->dtype = INF_DTYPE_F32;
    return 0;
}

/* Decodes a weight with planes, which is one matrix or has experts. */
static int decode_planes(struct binder *b, struct weight *w)
{
    const uint32_t n_experts = MAX(w->n_experts, 1u);
    float *data =
        arena_alloc(&b->m->arena, (uint64_t)n_experts * w->rows * w->cols * sizeof(float));
    float *to = data;

    if (!data)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint32_t e = 0; e < n_experts; e++) {
        const struct weight one = weight_of_expert(w, e);

        for (uint32_t i = 0; i < w->rows; i++, to += w->cols)
            weight_decode_row(&one, i, to);
    }
    *w = (struct weight){.data = data,
                         .dtype = INF_DTYPE_F32,
                         .rows = w->rows,
                         .cols = w->cols,
                         .n_experts = w->n_experts,
                         .name = w->name};
    return 0;
}

static const struct format_tensor *take_tensor(struct binder *b, const char *name)
{
    size_t i;

    if (!format_find_index(b->m->f, name, &i))
        return NULL;
    b->bound[i] = true;
    return format_tensor_at(b->m->f, i);
}

void bind_count(struct model *m, const struct weight *s, unsigned flags)
{
    const uint64_t n_all = MAX(s->n_experts, 1u);
    const uint64_t n_used =
        s->n_experts > 0 && m->hp->experts.n > 0 ? m->hp->experts.n_used : n_all;

    if (!(flags & SLOT_TABLE))
        m->bytes_token += weight_bytes(s) / n_all * n_used;
    if (!(flags & SLOT_WHOLE) && s->rows > 1)
        m->madds_layers += (uint64_t)s->rows * s->cols * n_used;
}

static int bind_tensor(struct binder *b, const struct format_tensor *t, const struct shape *s,
                       unsigned flags, struct weight *ret)
{
    struct weight w = {.data = t->data,
                       .dtype = t->dtype,
                       .rows = s->rows,
                       .cols = s->cols,
                       .n_experts = s->n_experts,
                       .name = t->name};
    int r;

    if (bind_is_mlx(t)) {
        r = bind_mlx(b, t, &w);
        if (r == 0 && (s->rows == 1 || flags & SLOT_F32))
            r = decode_planes(b, &w);
    } else {
        r = check_type(b, t);
        if (r == 0)
            r = check_shape(b, t, s);
        if (r == 0 && (s->rows == 1 || flags & SLOT_F32))
            r = decode(b, t, flags, &w);
    }
    if (r < 0)
        return r;
    if (s->n_experts > 0)
        w.expert_bytes = w.rows * weight_row_bytes(&w);
    bind_count(b->m, &w, flags);
    *ret = w;
    return 0;
}

/* Adds the matrix of expert @i to a weight. */
static int add_expert(struct binder *b, const struct format_tensor *t, const struct shape *s,
                      uint32_t i, struct weight *w)
{
    const struct shape one = {s->rows, s->cols, 0};
    int r;

    r = check_type(b, t);
    if (r == 0)
        r = check_shape(b, t, &one);
    if (r < 0)
        return r;
    if (i > 0 && t->dtype != w->dtype)
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.64s is stored as %s, but another expert's matrix is not",
                       t->file_name, t->type_name);
    w->dtype = t->dtype;
    ((const void **)w->experts)[i] = t->data;
    b->m->bytes_token += t->size * b->m->hp->experts.n_used / s->n_experts;
    return 0;
}

/* Binds a weight whose experts are separate tensors, if the file has the tensor of the first
 * expert. */
static int bind_experts(struct binder *b, const struct arch_slot *slot, uint32_t i_layer,
                        const struct shape *s, struct weight *ret)
{
    struct weight w = {.rows = s->rows, .cols = s->cols, .n_experts = s->n_experts};
    char own[64], name[96];
    int r = 0;

    for (uint32_t i = 0; i < s->n_experts; i++) {
        const struct format_tensor *t;

        if (!format_expert_name(slot->gguf, i, own, sizeof(own)))
            return 0;
        snprintf(name, sizeof(name), "blk.%u.%s", hparams_row_number(b->m->hp, i_layer), own);
        t = take_tensor(b, name);
        if (!t && i == 0)
            return 0;
        if (!t)
            return err_set(b->err, EBADMSG, "the tensor %s is missing", name);
        if (i == 0) {
            bind_name(b->m->hp, slot, i_layer, name, sizeof(name));
            w.name = arena_strndup(&b->m->arena, name, strlen(name));
            w.experts = arena_zalloc(&b->m->arena, s->n_experts * sizeof(*w.experts));
            if (!w.name || !w.experts)
                return err_set(b->err, ENOMEM, "out of memory");
        }
        r = add_expert(b, t, s, i, &w);
        if (r < 0)
            return r;
    }
    w.data = w.experts[0];
    b->m->madds_layers += (uint64_t)s->rows * s->cols * b->m->hp->experts.n_used;
    *ret = w;
    return 0;
}

/* Returns whether the weight of a slot (see model/arch.h) contains the weights of other slots, as
 * the matrix of q, k and v does. Such a weight is one tensor of the file. */
static bool is_joined(const struct arch_desc *desc, const struct arch_slot *slot)
{
    for (size_t i = 0; i < desc->n_slots; i++)
        if (desc->slots[i].part_of == slot->id)
            return true;
    return false;
}

/* Binds a matrix of a model whose matrices are ternary. */
static int bind_ternary_slot(struct binder *b, const struct arch_slot *slot,
                             const struct format_tensor *t, const struct shape *s,
                             struct weight *ret)
{
    int r;

    if (s->n_experts > 0 || is_joined(&b->m->arch->desc, slot))
        return err_set(b->err, EOPNOTSUPP,
                       "tensor %.64s: ternary weights of experts and of joined matrices are not "
                       "supported",
                       t->file_name);
    if (b->m->hp->ternary == TERNARY_ONLINE) {
        r = check_type(b, t);
        if (r == 0)
            r = check_shape(b, t, s);
        if (r < 0)
            return r;
    }
    r = bind_ternary(b, t, s->rows, s->cols, ret);
    if (r == 0)
        bind_count(b->m, ret, slot->flags);
    return r;
}

/* Binds a coded matrix, whose parts are at @c. */
static struct weight coded_weight(struct binder *b, const struct coded *c, const char *name)
{
    return (struct weight){.data = c->codes,
                           .dtype = c->dtype,
                           .rows = c->rows,
                           .cols = c->cols,
                           .planes = {[WEIGHT_SCALES] = c->scales},
                           .coded = c,
                           .name = arena_strndup(&b->m->arena, name, strlen(name))};
}

/* Binds the coded matrices of all experts, which are separate tensors for each expert. Returns 1 if
 * the matrices are not coded. */
static int bind_coded_experts(struct binder *b, const struct arch_slot *slot, uint32_t i_layer,
                              const struct shape *s, struct weight *ret)
{
    struct coded *all = arena_zalloc(&b->m->arena, s->n_experts * sizeof(*all));
    const void **data = arena_zalloc(&b->m->arena, s->n_experts * sizeof(*data));
    char own[64], name[96];

    if (!all || !data)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint32_t i = 0; i < s->n_experts; i++) {
        int r;

        if (!format_expert_name(slot->gguf, i, own, sizeof(own)))
            return 1;
        snprintf(name, sizeof(name), "blk.%u.%s", hparams_row_number(b->m->hp, i_layer), own);
        r = bind_coded(b, name, take_tensor(b, name), s->rows, s->cols, &all[i]);
        if (r < 0 || (r > 0 && i == 0))
            return r;
        if (r > 0 || all[i].dtype != all[0].dtype || all[i].order)
            return err_set(b->err, EOPNOTSUPP,
                           "%s is missing, has another format than the first expert, or has an "
                           "order of columns, which is not supported for experts",
                           name);
        data[i] = all[i].codes;
    }
    *ret = coded_weight(b, all, slot->gguf);
    ret->n_experts = s->n_experts;
    ret->experts = data;
    return 0;
}

/* Binds a matrix of a model with coded matrices (quant/coded.h). Returns 1 if this matrix is not
 * coded. */
static int bind_coded_slot(struct binder *b, const struct arch_slot *slot, uint32_t i_layer,
                           const char *name, const struct shape *s, struct weight *ret)
{
    struct coded *c;
    size_t i;
    int r;

    if (s->n_experts > 0) {
        r = bind_coded_experts(b, slot, i_layer, s, ret);
    } else {
        const struct format_tensor *t =
            format_find_index(b->m->f, name, &i) ? format_tensor_at(b->m->f, i) : NULL;

        c = arena_alloc(&b->m->arena, sizeof(*c));
        if (!c)
            return err_set(b->err, ENOMEM, "out of memory");
        r = bind_coded(b, name, t, s->rows, s->cols, c);
        if (r == 0)
            *ret = coded_weight(b, c, name);
        if (r == 0 && t)
            b->bound[i] = true;
    }
    if (r == 0)
        bind_count(b->m, ret, slot->flags);
    return r;
}

/* Binds the weight of a slot without the rotation of its input. */
static int bind_values(struct binder *b, const struct arch_slot *slot, uint32_t i_layer,
                       const char *name, struct weight *ret)
{
    const struct hparams *hp = b->m->hp;
    const struct shape s = {dim_of(hp, i_layer, slot->rows), dim_of(hp, i_layer, slot->cols),
                            dim_of(hp, i_layer, slot->experts)};
    const struct format_tensor *t;

    if (s.rows == 0 || s.cols == 0)
        return 0;
    if (hp->coded != CODED_NONE && s.rows > 1 && !(slot->flags & SLOT_F32)) {
        const int r = bind_coded_slot(b, slot, i_layer, name, &s, ret);

        if (r <= 0)
            return r;
    }
    t = take_tensor(b, name);
    if (t && bind_is_ternary(b, slot))
        return bind_ternary_slot(b, slot, t, &s, ret);
    if (t)
        return bind_tensor(b, t, &s, slot->flags, ret);
    if (s.n_experts == 0 || s.rows == 1 || is_joined(&b->m->arch->desc, slot))
        return 0;
    return bind_experts(b, slot, i_layer, &s, ret);
}

int bind_slot(struct binder *b, const struct arch_slot *slot, uint32_t i_layer, const char *name,
              struct weight *ret)
{
    const int r = bind_values(b, slot, i_layer, name, ret);
    char joined[96];

    if (r < 0 || b->m->hp->coded != CODED_PARO || !ret->data || ret->rows == 1)
        return r;
    if (ret->n_experts > 0 && slot->part_of == SLOT_GATE_UP_EXPERTS) {
        snprintf(joined, sizeof(joined), "blk.%u.ffn_gate_up_exps.weight",
                 hparams_row_number(b->m->hp, i_layer));
        name = joined;
    }
    return bind_turn(b, name, ret);
}

int bind_weight(struct binder *b, const char *name, bool needed, uint32_t rows, uint32_t cols,
                struct weight *ret)
{
    const struct format_tensor *t = take_tensor(b, name);

    if (t)
        return bind_tensor(b, t, &(struct shape){rows, cols, 0}, 0, ret);
    return needed ? err_set(b->err, EBADMSG, "the tensor %s is missing", name) : 0;
}

struct weight bind_rows(const struct weight *w, uint32_t first, uint32_t rows)
{
    struct weight part = *w;

    if (!w->data)
        return part;
    /* A bias or another vector is stored as one row. It has one element for each row of the matrix
     * that it belongs to, so a range of rows of the matrix is a range of its elements. */
    if (w->rows == 1) {
        part.data = (const float *)w->data + first;
        part.cols = rows;
        return part;
    }
    if (w->coded) {
        part.coded_first += first;
        part.rows = rows;
        return part;
    }
    assert(!w->experts && w->row_step <= 1);
    part.data = (const unsigned char *)w->data + first * weight_row_bytes(w);
    for (enum weight_plane p = 0; p < WEIGHT_PLANES; p++)
        if (w->planes[p])
            part.planes[p] = (const unsigned char *)w->planes[p] + first * weight_plane_bytes(w, p);
    part.rows = rows;
    return part;
}
