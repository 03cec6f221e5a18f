/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements jina-embeddings-v4 (Günther et al. 2025) for texts.
 *
 * The model is the language model of Qwen 2.5 VL, which has the layers of Qwen 2. Each task adds
 * low-rank matrices (Hu et al. 2021) to the matrices of the model. The vector of a text is the mean
 * of its rows. A projection, to which a task adds matrices too, makes the vectors of single tokens
 * shorter.
 */
#include <errno.h>
#include <stdio.h>

#include "core/err.h"
#include "model/arch.h"

/* Binds both low-rank matrices that a task adds to @w, or none. */
static int bind_lora(struct binder *b, uint32_t i_task, const char *base, const struct weight *w,
                     struct model_lora *lora)
{
    const struct hparams_embed *e = &b->m->hp->embed;
    char name[128];
    int r;

    snprintf(name, sizeof(name), "%s.lora_a.%s", base, e->tasks[i_task]);
    r = bind_weight(b, name, false, e->lora_rank, w->cols, &lora->a);
    snprintf(name, sizeof(name), "%s.lora_b.%s", base, e->tasks[i_task]);
    return r == 0 ? bind_weight(b, name, lora->a.data, w->rows, e->lora_rank, &lora->b) : r;
}

static int bind_layer_loras(struct binder *b, uint32_t i_task, uint32_t i_layer)
{
    static const struct {
        const char *name;
        size_t offset;
    } adapted[] = {
        {"attn_q", offsetof(struct model_layer, q)},
        {"attn_k", offsetof(struct model_layer, k)},
        {"attn_v", offsetof(struct model_layer, v)},
        {"attn_output", offsetof(struct model_layer, out)},
        {"ffn_gate", offsetof(struct model_layer, gate)},
        {"ffn_up", offsetof(struct model_layer, up)},
        {"ffn_down", offsetof(struct model_layer, down)},
    };
    const struct model *m = b->m;
    const struct weight *first = (const struct weight *)m->layers;
    struct model_lora *loras = m->loras + i_task * MODEL_LORAS(m->hp->n_layers);
    char base[64];
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(adapted); i++) {
        const struct weight *w =
            (const struct weight *)((const char *)&m->layers[i_layer] + adapted[i].offset);

        snprintf(base, sizeof(base), "blk.%u.%s", i_layer, adapted[i].name);
        r = bind_lora(b, i_task, base, w, &loras[w - first]);
    }
    return r;
}

static int bind_tasks(struct binder *b)
{
    const struct hparams *hp = b->m->hp;
    const size_t n = MODEL_LORAS(hp->n_layers);
    struct model *m = b->m;
    int r = 0;

    m->loras = arena_zalloc(&m->arena, hp->embed.n_tasks * n * sizeof(*m->loras));
    if (!m->loras)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint32_t t = 0; r == 0 && t < hp->embed.n_tasks; t++) {
        for (uint32_t i = 0; r == 0 && i < hp->n_layers; i++)
            r = bind_layer_loras(b, t, i);
        if (r == 0)
            r = bind_lora(b, t, "multi_vector", &m->multi, &m->loras[t * n + n - 1]);
    }
    return r;
}

static int bind_jina(struct model *m, struct inf_err *reterr)
{
    struct binder b = {.m = m, .err = reterr};
    const struct hparams *hp = m->hp;
    int r;

    r = weights_bind_decoder(&b, WEIGHTS_QKV_BIAS);
    if (r == 0)
        r = bind_weight(&b, "multi_vector.weight", true, hp->embed.multi_out, hp->n_embd,
                        &m->multi);
    if (r == 0)
        r = bind_weight(&b, "multi_vector.bias", false, 1, hp->embed.multi_out, &m->multi_bias);
    if (r == 0)
        r = bind_tasks(&b);
    return r == 0 ? bind_all_used(&b) : r;
}

const struct arch arch_jina_v4 = {.name = "jina-embeddings-v4", .bind = bind_jina};
