/* SPDX-License-Identifier: Apache-2.0 */
/* Binds the weights that encoders share: q, k and v in one matrix, classifiers, and the layers
 * after the pooling. */
#include <stdio.h>

#include "model/arch.h"
#include "quant/dtype.h"

struct weight bind_rows(const struct weight *w, uint32_t first, uint32_t rows)
{
    struct weight part = *w;
    uint64_t row_bytes = 0;

    if (!w->data)
        return part;
    /* A vector is one row: its elements correspond to the rows of a matrix. */
    if (w->rows == 1) {
        part.data = (const float *)w->data + first;
        part.cols = rows;
        return part;
    }
    if (!dtype_row_bytes(w->dtype, w->cols, &row_bytes))
        assert(false);
    part.data = (const unsigned char *)w->data + first * row_bytes;
    part.rows = rows;
    return part;
}

int bind_qkv(struct binder *b, uint32_t i_layer)
{
    const struct hparams *hp = b->m->hp;
    const uint32_t n = hp->n_heads * hp->head_dim, n_embd = hp->n_embd;
    struct model_layer *l = &b->m->layers[i_layer];
    const struct bind_slot packed[] = {
        BIND_SLOT("attn_qkv.weight", qkv, 3 * n, n_embd, false),
        BIND_SLOT("attn_qkv.bias", qkv_bias, 1, 3 * n, false),
    };
    const struct bind_slot single[] = {
        BIND_SLOT("attn_q.weight", q, n, n_embd, true),
        BIND_SLOT("attn_k.weight", k, n, n_embd, true),
        BIND_SLOT("attn_v.weight", v, n, n_embd, true),
        BIND_SLOT("attn_q.bias", q_bias, 1, n, false),
        BIND_SLOT("attn_k.bias", k_bias, 1, n, false),
        BIND_SLOT("attn_v.bias", v_bias, 1, n, false),
    };
    int r;

    r = bind_slots(b, i_layer, packed, ARRAY_SIZE(packed));
    if (r < 0)
        return r;
    if (!l->qkv.data)
        return bind_slots(b, i_layer, single, ARRAY_SIZE(single));
    l->q = bind_rows(&l->qkv, 0, n);
    l->k = bind_rows(&l->qkv, n, n);
    l->v = bind_rows(&l->qkv, 2 * n, n);
    l->q_bias = bind_rows(&l->qkv_bias, 0, n);
    l->k_bias = bind_rows(&l->qkv_bias, n, n);
    l->v_bias = bind_rows(&l->qkv_bias, 2 * n, n);
    return 0;
}

/* Binds the classifier and the layer before it. */
static int bind_labels(struct binder *b)
{
    const struct hparams *hp = b->m->hp;
    const bool labels = hp->embed.n_labels > 0;
    struct model *m = b->m;
    int r;

    /* A file may have the layer before a classifier without having the classifier. */
    r = bind_weight(b, "cls.weight", labels && hp->embed.has_head, hp->n_embd, hp->n_embd,
                    &m->pooler);
    if (r == 0)
        r = bind_weight(b, "cls.bias", false, 1, hp->n_embd, &m->pooler_bias);
    if (r == 0)
        r = bind_weight(b, "cls.norm.weight", false, 1, hp->n_embd, &m->pooler_norm);
    if (r == 0)
        r = bind_weight(b, "cls.output.weight", labels, MAX(hp->embed.n_labels, 1u), hp->n_embd,
                        &m->labels);
    if (r == 0)
        r = bind_weight(b, "cls.output.bias", false, 1, MAX(hp->embed.n_labels, 1u),
                        &m->labels_bias);
    return r;
}

int bind_dense(struct binder *b)
{
    const struct hparams_embed *e = &b->m->hp->embed;
    uint32_t width = b->m->hp->n_embd;
    char name[64];
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < e->n_dense; i++) {
        snprintf(name, sizeof(name), "dense.%u.weight", i);
        r = bind_weight(b, name, true, e->dense_out[i], width, &b->m->dense[i]);
        snprintf(name, sizeof(name), "dense.%u.bias", i);
        if (r == 0)
            r = bind_weight(b, name, false, 1, e->dense_out[i], &b->m->dense_bias[i]);
        width = e->dense_out[i];
    }
    return r;
}

int bind_encoder(struct model *m, const struct bind_slot *slots, size_t n,
                 int (*bind_layer)(struct binder *b, uint32_t i_layer), struct inf_err *reterr)
{
    struct binder b = {.m = m, .err = reterr};
    int r = bind_layers_new(&b);

    for (size_t i = 0; r == 0 && i < n; i++)
        if (slots[i].rows > 0)
            r = bind_weight(&b, slots[i].name, slots[i].needed, slots[i].rows, slots[i].cols,
                            (struct weight *)(void *)((char *)m + slots[i].offset));
    m->bytes_token = 0;
    m->madds_layers = 0; /* discards the counts of the embeddings */
    for (uint32_t i = 0; r == 0 && i < m->hp->n_layers; i++)
        r = bind_layer(&b, i);
    if (r == 0)
        r = bind_labels(&b);
    if (r == 0)
        r = bind_dense(&b);
    return r == 0 ? bind_all_used(&b) : r;
}
