/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binding: every weight of a dense decoder to its tensor
 *
 * Matrices stay where they lie. Vectors (norms, biases) that are not stored as F32 are decoded
 * once; they are small, and backends need not care. A tensor that nothing bound is an error: the
 * file then belongs to an architecture that only looks like this one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

struct binder {
    struct model *m;
    size_t n_bound;
    struct inf_err *err;
};

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

/* A vector as F32, decoded if it must be. */
static int decode_vector(struct binder *b, const struct format_tensor *t, struct weight *w)
{
    float *data;

    if (t->dtype == INF_DTYPE_F32)
        return 0;
    data = arena_alloc(&b->m->arena, t->dims[0] * sizeof(float));
    if (!data)
        return err_set(b->err, ENOMEM, "out of memory");
    dtype_info(t->dtype)->decode(t->data, data, t->dims[0]);
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

static int bind(struct binder *b, const char *name, bool needed, uint32_t rows, uint32_t cols,
                struct weight *ret)
{
    const struct format_tensor *t = format_find(b->m->f, name);

    if (t)
        return bind_tensor(b, t, rows, cols, ret);
    return needed ? err_set(b->err, EBADMSG, "the tensor %s is missing", name) : 0;
}

/* One row of the table of a block's weights. */
struct slot {
    const char *name;
    size_t offset; /* in struct model_layer */
    uint32_t rows, cols;
    bool needed;
};

static int bind_slots(struct binder *b, uint32_t i_layer, const struct slot *slots, size_t n)
{
    char *layer = (char *)&b->m->layers[i_layer];
    char name[64];
    int r;

    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "blk.%u.%s", i_layer, slots[i].name);
        r = bind(b, name, slots[i].needed, slots[i].rows, slots[i].cols,
                 (struct weight *)(layer + slots[i].offset));
        if (r < 0)
            return r;
    }
    return 0;
}

#define SLOT(name, field, rows, cols, needed)                                                      \
    {                                                                                              \
        name, offsetof(struct model_layer, field), rows, cols, needed                              \
    }

static int bind_layer(struct binder *b, uint32_t i_layer, unsigned need)
{
    const struct hparams *hp = b->m->hp;
    const uint32_t n_embd = hp->n_embd, n_ff = hp->n_ff, head_dim = hp->head_dim;
    const uint32_t n_q = hp->n_heads * head_dim, n_kv = hp->n_kv_heads * head_dim;
    const bool qkv_bias = need & WEIGHTS_QKV_BIAS, qk_norm = need & WEIGHTS_QK_NORM;
    const struct slot slots[] = {
        SLOT("attn_norm.weight", attn_norm, 1, n_embd, true),
        SLOT("attn_q.weight", q, n_q, n_embd, true),
        SLOT("attn_k.weight", k, n_kv, n_embd, true),
        SLOT("attn_v.weight", v, n_kv, n_embd, true),
        SLOT("attn_q.bias", q_bias, 1, n_q, qkv_bias),
        SLOT("attn_k.bias", k_bias, 1, n_kv, qkv_bias),
        SLOT("attn_v.bias", v_bias, 1, n_kv, qkv_bias),
        SLOT("attn_output.weight", out, n_embd, n_q, true),
        SLOT("attn_output.bias", out_bias, 1, n_embd, false),
        SLOT("ffn_norm.weight", ffn_norm, 1, n_embd, true),
        SLOT("ffn_gate.weight", gate, n_ff, n_embd, true),
        SLOT("ffn_up.weight", up, n_ff, n_embd, true),
        SLOT("ffn_down.weight", down, n_embd, n_ff, true),
        SLOT("ffn_gate.bias", gate_bias, 1, n_ff, false),
        SLOT("ffn_up.bias", up_bias, 1, n_ff, false),
        SLOT("ffn_down.bias", down_bias, 1, n_embd, false),
    };
    const struct slot norms[] = {
        SLOT("attn_q_norm.weight", q_norm, 1, head_dim, true),
        SLOT("attn_k_norm.weight", k_norm, 1, head_dim, true),
    };
    int r;

    r = bind_slots(b, i_layer, slots, ARRAY_SIZE(slots));
    return r == 0 && qk_norm ? bind_slots(b, i_layer, norms, ARRAY_SIZE(norms)) : r;
}

static bool is_bound(const struct model *m, const struct format_tensor *t)
{
    const char *const whole[] = {"token_embd.weight", "output_norm.weight", "output.weight",
                                 "rope_freqs.weight"};
    const struct weight *w = (const struct weight *)m->layers;
    const size_t n = m->hp->n_layers * (sizeof(*m->layers) / sizeof(*w));

    for (size_t i = 0; i < ARRAY_SIZE(whole); i++)
        if (strcmp(t->name, whole[i]) == 0)
            return true;
    for (size_t i = 0; i < n; i++)
        if (w[i].name == t->name)
            return true;
    return false;
}

static int check_all_bound(struct binder *b)
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

int weights_bind(struct model *m, unsigned need, struct inf_err *reterr)
{
    struct binder b = {.m = m, .err = reterr};
    const struct hparams *hp = m->hp;
    int r;

    static_assert(sizeof(struct model_layer) % sizeof(struct weight) == 0,
                  "a layer is an array of weights");
    m->layers = arena_zalloc(&m->arena, hp->n_layers * sizeof(*m->layers));
    if (!m->layers)
        return err_set(reterr, ENOMEM, "out of memory");
    r = bind(&b, "token_embd.weight", true, hp->n_vocab, hp->n_embd, &m->embd);
    m->bytes_token = 0; /* one row of it */
    if (r == 0)
        r = bind(&b, "output_norm.weight", true, 1, hp->n_embd, &m->out_norm);
    if (r == 0)
        r = bind(&b, "output.weight", false, hp->n_vocab, hp->n_embd, &m->head);
    m->madds_head = (uint64_t)hp->n_vocab * hp->n_embd;
    m->madds_layers = 0; /* of embedding and head */
    for (uint32_t i = 0; r == 0 && i < hp->n_layers; i++)
        r = bind_layer(&b, i, need);
    if (r < 0)
        return r;
    m->tied = !m->head.data;
    if (m->tied) {
        m->head = m->embd;
        m->bytes_token += format_find(m->f, "token_embd.weight")->size;
    }
    return check_all_bound(&b);
}
