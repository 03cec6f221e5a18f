/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes jina-embeddings-v4 (Günther et al. 2025) for texts.
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

static const struct arch_window window = {
    .absent = 4096,
    .switched = true,
    .hf_full_key = "max_window_layers",
};

static const struct arch_class classes[] = {
    {"JinaEmbeddingsV4Model", "jina_embeddings_v4", .n_kv_heads = 8, .n_ctx = 32768,
     .flags = CLASS_BIAS_QKV | CLASS_TEXT_CONFIG | CLASS_NO_HEAD, .window = &window},
};

static const struct arch_slot slots[] = {
    SLOTS_ENDS,     SLOTS_ATTENTION,   SLOTS_QKV_BIAS(0), SLOTS_OUT_BIAS,
    SLOTS_FFN_NORM, SLOTS_GATED_FF(0), SLOTS_FF_BIAS,
};

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
        enum slot slot;
    } adapted[] = {
        {"attn_q", SLOT_Q},        {"attn_k", SLOT_K},      {"attn_v", SLOT_V},
        {"attn_output", SLOT_OUT}, {"ffn_gate", SLOT_GATE}, {"ffn_up", SLOT_UP},
        {"ffn_down", SLOT_DOWN},
    };
    const struct model *m = b->m;
    struct model_lora *loras = m->loras + i_task * model_n_loras(m);
    char base[64];
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(adapted); i++) {
        const struct weight *w = layer_w(m, i_layer, adapted[i].slot);

        snprintf(base, sizeof(base), "blk.%u.%s", i_layer, adapted[i].name);
        r = bind_lora(b, i_task, base, w, &loras[w - m->weights]);
    }
    return r;
}

static int bind_tasks(struct binder *b)
{
    const struct hparams *hp = b->m->hp;
    const size_t n = model_n_loras(b->m);
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

static int bind_jina(struct binder *b)
{
    const struct hparams *hp = b->m->hp;
    struct model *m = b->m;
    int r;

    r = bind_weight(b, "multi_vector.weight", true, hp->embed.multi_out, hp->n_embd, &m->multi);
    if (r == 0)
        r = bind_weight(b, "multi_vector.bias", false, 1, hp->embed.multi_out, &m->multi_bias);
    return r == 0 ? bind_tasks(b) : r;
}

const struct arch arch_jina_v4 = {
    .desc = {"jina-embeddings-v4", ARCH_TABLE(classes, classes), ARCH_TABLE(slots, slots),
             .hf_extra = hf_extra_jina, .hf_name = hf_name_jina},
    .bind = bind_jina,
};
