/* SPDX-License-Identifier: Apache-2.0 */
/* Binds the weights after the layers of models that compute vectors: classifiers, and the layers
 * after the pooling. */
#include <stdio.h>

#include "model/arch.h"

int bind_labels(struct binder *b)
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
