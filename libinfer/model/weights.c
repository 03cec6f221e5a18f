/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds each weight of a dense decoder to its tensor.
 *
 * Matrices are used in place. Vectors (norms, biases), which are small, are decoded once unless
 * they are stored as F32. So backends need to support only F32 vectors. A tensor that was not bound
 * is an error: the file then belongs to another architecture, which is only similar to this
 * architecture.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

static int check_type(struct binder *b, const struct format_tensor *t)
{
    if (t->dtype != INF_DTYPE_INVALID)
        return 0;
    return err_set(b->err, EOPNOTSUPP, "tensor %.64s is stored as %s, which is not supported",
                   t->file_name, t->type_name);
}

static int check_shape(struct binder *b, const struct format_tensor *t, uint64_t rows,
                       uint64_t cols)
{
    char text[96];
    size_t n = 0;

    if (t->dims[0] == cols && t->dims[1] == rows && t->dims[2] == 1 && t->dims[3] == 1)
        return 0;
    for (uint32_t i = t->n_dims; i-- > 0 && n < sizeof(text);)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%llu%s", (unsigned long long)t->dims[i],
                              i > 0 ? " x " : "");
    return err_set(b->err, EBADMSG, "tensor %.64s is %s, expected %llu x %llu", t->file_name, text,
                   (unsigned long long)rows, (unsigned long long)cols);
}

static bool is_norm(const char *name)
{
    const size_t n = strlen(name), end = strlen("norm.weight");

    return n >= end && strcmp(name + n - end, "norm.weight") == 0;
}

/* Decodes a vector unless it is stored as F32, and adds 1 to the weights of norms if the
 * architecture requires it. */
static int decode_vector(struct binder *b, const struct format_tensor *t, struct weight *w)
{
    const bool add_one = b->m->hp->norms_add_one && is_norm(t->name);
    float *data;

    if (t->dtype == INF_DTYPE_F32 && !add_one)
        return 0;
    data = arena_alloc(&b->m->arena, t->dims[0] * sizeof(float));
    if (!data)
        return err_set(b->err, ENOMEM, "out of memory");
    dtype_info(t->dtype)->decode(t->data, data, t->dims[0]);
    for (uint64_t i = 0; add_one && i < t->dims[0]; i++)
        data[i] += 1;
    w->data = data;
    w->dtype = INF_DTYPE_F32;
    return 0;
}

static int bind_tensor(struct binder *b, const struct format_tensor *t, uint32_t rows,
                       uint32_t cols, struct weight *ret)
{
    struct weight w = {
        .data = t->data, .dtype = t->dtype, .rows = rows, .cols = cols, .name = t->name};
    int r;

    r = check_type(b, t);
    if (r < 0)
        return r;
    r = check_shape(b, t, rows, cols);
    if (r < 0)
        return r;
    if (rows == 1) {
        r = decode_vector(b, t, &w);
        if (r < 0)
            return r;
    }
    b->m->bytes_token += t->size;
    b->m->madds_layers += rows > 1 ? (uint64_t)rows * cols : 0;
    b->n_bound++;
    *ret = w;
    return 0;
}

int bind_weight(struct binder *b, const char *name, bool needed, uint32_t rows, uint32_t cols,
                struct weight *ret)
{
    const struct format_tensor *t = format_find(b->m->f, name);

    if (t)
        return bind_tensor(b, t, rows, cols, ret);
    return needed ? err_set(b->err, EBADMSG, "the tensor %s is missing", name) : 0;
}

int bind_slots(struct binder *b, uint32_t i_layer, const struct bind_slot *slots, size_t n)
{
    char *layer = (char *)&b->m->layers[i_layer];
    char name[64];
    int r;

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "blk.%u.%s", i_layer, slots[i].name);
        r = bind_weight(b, name, slots[i].needed, slots[i].rows, slots[i].cols,
                        (struct weight *)(layer + slots[i].offset));
        if (r < 0)
            return r;
    }
    return 0;
}

static int bind_layer(struct binder *b, uint32_t i_layer, unsigned need)
{
    const struct hparams *hp = b->m->hp;
    const uint32_t n_embd = hp->n_embd, n_ff = hp->n_ff, head_dim = hp->head_dim;
    const uint32_t n_q = hp->n_heads * head_dim, n_kv = hp->n_kv_heads * head_dim;
    const bool qkv_bias = need & WEIGHTS_QKV_BIAS, qk_norm = need & WEIGHTS_QK_NORM;
    const struct bind_slot slots[] = {
        BIND_SLOT("attn_norm.weight", attn_norm, 1, n_embd, true),
        BIND_SLOT("attn_q.weight", q, n_q, n_embd, true),
        BIND_SLOT("attn_k.weight", k, n_kv, n_embd, true),
        BIND_SLOT("attn_v.weight", v, n_kv, n_embd, true),
        BIND_SLOT("attn_q.bias", q_bias, 1, n_q, qkv_bias),
        BIND_SLOT("attn_k.bias", k_bias, 1, n_kv, qkv_bias),
        BIND_SLOT("attn_v.bias", v_bias, 1, n_kv, qkv_bias),
        BIND_SLOT("attn_output.weight", out, n_embd, n_q, true),
        BIND_SLOT("attn_output.bias", out_bias, 1, n_embd, false),
        BIND_SLOT("ffn_norm.weight", ffn_norm, 1, n_embd, true),
        BIND_SLOT("ffn_gate.weight", gate, n_ff, n_embd, true),
        BIND_SLOT("ffn_up.weight", up, n_ff, n_embd, true),
        BIND_SLOT("ffn_down.weight", down, n_embd, n_ff, true),
        BIND_SLOT("ffn_gate.bias", gate_bias, 1, n_ff, false),
        BIND_SLOT("ffn_up.bias", up_bias, 1, n_ff, false),
        BIND_SLOT("ffn_down.bias", down_bias, 1, n_embd, false),
    };
    const struct bind_slot norms[] = {
        BIND_SLOT("attn_q_norm.weight", q_norm, 1, head_dim, true),
        BIND_SLOT("attn_k_norm.weight", k_norm, 1, head_dim, true),
    };
    int r;

    r = bind_slots(b, i_layer, slots, ARRAY_SIZE(slots));
    return r == 0 && qk_norm ? bind_slots(b, i_layer, norms, ARRAY_SIZE(norms)) : r;
}

static bool is_bound(const struct model *m, const struct format_tensor *t)
{
    const struct weight *const whole[] = {
        &m->embd,        &m->out_norm,       &m->head,          &m->pos_embd,    &m->type_embd,
        &m->embd_norm,   &m->embd_norm_bias, &m->pooler,        &m->pooler_bias, &m->labels,
        &m->labels_bias, &m->pooler_norm,    &m->out_norm_bias, &m->multi,       &m->multi_bias};
    const struct weight *w = (const struct weight *)m->layers;
    const size_t n = m->hp->n_layers * (sizeof(*m->layers) / sizeof(*w));

    if (strcmp(t->name, "rope_freqs.weight") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
        if (whole[i]->name == t->name)
            return true;
    for (size_t i = 0; i < HPARAMS_MAX_DENSE; i++)
        if (m->dense[i].name == t->name || m->dense_bias[i].name == t->name)
            return true;
    for (size_t i = 0; i < n; i++)
        if (w[i].name == t->name)
            return true;
    for (size_t i = 0; i < m->hp->embed.n_tasks * MODEL_LORAS(m->hp->n_layers); i++)
        if (m->loras && (m->loras[i].a.name == t->name || m->loras[i].b.name == t->name))
            return true;
    return false;
}

int bind_all_used(struct binder *b)
{
    const struct model *m = b->m;

    b->n_bound += format_find(m->f, "rope_freqs.weight") != NULL;
    if (b->n_bound == format_n_tensors(m->f))
        return 0;
    for (size_t i = 0; i < format_n_tensors(m->f); i++) {
        const struct format_tensor *t = format_tensor_at(m->f, i);

        if (!is_bound(m, t))
            return err_set(b->err, EOPNOTSUPP, "tensor %.96s is not part of the architecture %s",
                           t->file_name, m->hp->arch);
    }
    return 0;
}

int bind_layers_new(struct binder *b)
{
    struct model *m = b->m;

    static_assert(sizeof(struct model_layer) % sizeof(struct weight) == 0,
                  "a layer is an array of weights");
    m->layers = arena_zalloc(&m->arena, m->hp->n_layers * sizeof(*m->layers));
    return m->layers ? 0 : err_set(b->err, ENOMEM, "out of memory");
}

int weights_bind_decoder(struct binder *b, unsigned need)
{
    struct model *m = b->m;
    const struct hparams *hp = m->hp;
    int r;

    r = bind_layers_new(b);
    if (r < 0)
        return r;
    r = bind_weight(b, "token_embd.weight", true, hp->n_vocab, hp->n_embd, &m->embd);
    m->bytes_token = 0; /* a token reads only one row of the embedding */
    if (r == 0)
        r = bind_weight(b, "output_norm.weight", true, 1, hp->n_embd, &m->out_norm);
    if (r == 0)
        r = bind_weight(b, "output.weight", false, hp->n_vocab, hp->n_embd, &m->head);
    m->madds_head = (uint64_t)hp->n_vocab * hp->n_embd;
    m->madds_layers = 0; /* discards the counts of the embedding and the head */
    for (uint32_t i = 0; r == 0 && i < hp->n_layers; i++)
        r = bind_layer(b, i, need);
    if (r == 0)
        r = bind_dense(b);
    if (r < 0)
        return r;
    m->tied = !m->head.data && !hp->no_head;
    if (m->tied) {
        m->head = m->embd;
        m->bytes_token += format_find(m->f, "token_embd.weight")->size;
    }
    return 0;
}

int weights_bind(struct model *m, unsigned need, struct inf_err *reterr)
{
    struct binder b = {.m = m, .err = reterr};
    const int r = weights_bind_decoder(&b, need);

    return r == 0 ? bind_all_used(&b) : r;
}
