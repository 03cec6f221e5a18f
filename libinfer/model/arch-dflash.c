/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the draft heads of DFlash (Chen et al. 2026, "DFlash: Block Diffusion for Flash
 * Speculative Decoding"), which draft a block of tokens in one step.
 *
 * A head has a few layers of Qwen 3, and uses the embedding and the head of its target. A matrix
 * joins the hidden states of several layers of the target; head.c puts it into the graph of the
 * target. The normalized result stands for a token of the text: each layer multiplies it by its
 * matrices of keys and of values, and keeps both products in the KV cache. So reading a text costs
 * only these products. The rows of a block are the newest token of the text, and a mask for each
 * token that is drafted. They attend to the keys and values of the text and to all rows of the
 * block. The logits of a row with a mask are those of the token in its place.
 */
#include <errno.h>

#include "core/err.h"
#include "model/head.h"

#define USUAL_BLOCK 16

static const struct arch_gguf ggufs[] = {{"dflash", ROPE_HALF}};

static const struct arch_window window = {
    .absent = 4096,
    .switched = true,
    .hf_full_key = "max_window_layers",
};

static const struct arch_class classes[] = {
    {"DFlashDraftModel", NULL, .n_kv_heads = 32, .head_dim = 128, .n_ctx = 32768,
     .flags = CLASS_ATTENTION_BIAS | CLASS_NO_HEAD, .window = &window},
};

static const struct arch_field fields[] = {
    {FIELD(head.block), FIELD_COUNT, "block_size", "block_size", .absent = USUAL_BLOCK},
};

/* Other kinds of heads have the same name. */
static const struct arch_refused refused_gguf[] = {{"hyper_connection.count", 0}};
static const struct arch_refused refused_hf[] = {{"is_causal", 0}, {"draft_vocab_size", 0}};

static const struct arch_slot slots[] = {
    {SLOT_OUT_NORM, "output_norm.weight", "norm.weight", NULL, DIM_1, DIM_EMBD,
     .flags = SLOT_WHOLE},
    {SLOT_TAPS_JOIN, "fc.weight", "fc.weight", NULL, DIM_EMBD, DIM_TARGETS, .flags = SLOT_WHOLE},
    {SLOT_HIDDEN_NORM, "enc.output_norm.weight", "hidden_norm.weight", NULL, DIM_1, DIM_EMBD,
     .flags = SLOT_WHOLE},
    SLOTS_ATTENTION,
    SLOTS_QKV_BIAS(SLOT_OPTIONAL),
    SLOTS_OUT_BIAS,
    SLOTS_QK_NORM,
    SLOTS_FFN_NORM,
    SLOTS_GATED_FF(0),
};

static int dflash_finish(struct hparams *hp, enum arch_source source UNUSED, struct inf_err *reterr)
{
    if (!hp->head.has_mask)
        return err_set(reterr, EBADMSG,
                       "the draft head does not name the token that masks tokens "
                       "(tokenizer.ggml.mask_token_id)");
    if (hp->head.block < 2)
        return err_set(reterr, EBADMSG, "a draft head with blocks of %u tokens", hp->head.block);
    if (hp->window > 0 && hp->window < hp->head.block)
        return err_set(reterr, EOPNOTSUPP,
                       "a draft head whose window of %u tokens is shorter than its block of %u is "
                       "not supported",
                       hp->window, hp->head.block);
    hp->head.is_head = true;
    hp->head.n_target = hp->n_embd;
    hp->head.n_vocab = hp->n_vocab;
    return 0;
}

static int dflash_bind(struct binder *b)
{
    struct model_head *head = arena_zalloc(&b->m->arena, sizeof(*head));

    if (format_find_index(b->m->f, "markov_w1.weight", &(size_t){0}))
        return err_set(b->err, EOPNOTSUPP,
                       "a draft head of DSpark (DFlash with a Markov head) is not supported");
    if (!head)
        return err_set(b->err, ENOMEM, "out of memory");
    b->m->head = head;
    return head_bind_taps(b, head);
}

static void dflash_build(const struct model *m, const struct model *target, struct graph *g)
{
    const float scale = target->hp->embd_scale;
    graph_ref x = graph_embed(g, model_w(target, SLOT_EMBD), scale > 0 ? scale : 1.0f);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        struct attn_params attn = layer_attn_params(m, i);

        attn.both_ways = true;
        layer_begin(m, g, i, x);
        x = layer_whole(m, g, i, x, &attn, i == m->hp->n_layers - 1);
    }
    x = layer_norm(m, g, m->hp->n_layers, x, SLOT_OUT_NORM);
    x = graph_matmul(g, x, model_w(target, SLOT_HEAD), NULL);
    if (target->hp->final_softcap > 0)
        x = graph_cap(g, x, target->hp->final_softcap);
    graph_output(g, x);
}

static void dflash_build_store(const struct model *m, struct graph *g)
{
    const graph_ref x =
        layer_norm(m, g, m->hp->n_layers, graph_input(g, m->hp->n_embd), SLOT_HIDDEN_NORM);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        const struct attn_params attn = layer_attn_params(m, i);
        graph_ref k, v;

        layer_begin(m, g, i, x);
        k = layer_heads(m, g, i, layer_linear(m, g, i, x, SLOT_K, SLOT_K_BIAS), SLOT_K_NORM);
        v = layer_linear(m, g, i, x, SLOT_V, SLOT_V_BIAS);
        graph_store(g, k, v, &attn);
    }
    graph_output(g, graph_rows(g, x));
}

const struct arch arch_dflash = {
    .desc = {"dflash", ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_gguf, refused_gguf),
             ARCH_TABLE(refused_hf, refused_hf), ARCH_TABLE(slots, slots), .draft_head = true,
             .reads_layers = true, .both_ways = true, .finish = dflash_finish,
             .hf_extra = hf_extra_dflash},
    .bind = dflash_bind,
    .build_head = dflash_build,
    .build_store = dflash_build_store,
};
