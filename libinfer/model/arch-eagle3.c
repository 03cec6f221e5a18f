/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the draft heads of EAGLE-3 (Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration
 * of Large Language Models via Training-Time Test").
 *
 * A head is one layer that predicts tokens of another model, its target. A matrix joins the hidden
 * states of three layers of the target; head.c puts it into the graph of the target. A row of the
 * layer reads a token and the joined hidden states of the token before it. The matrices of queries,
 * keys and values read both, each with a norm of its own, side by side. The head knows only the
 * most frequent tokens of the target, and the tensor d2t says which. Most heads use the embedding
 * of the target.
 */
#include "core/err.h"
#include "model/head.h"

#include <errno.h>
#include <string.h>

static const struct arch_gguf ggufs[] = {{"eagle3", ROPE_PAIRS}};

static const struct arch_class classes[] = {
    {"LlamaForCausalLMEagle3", NULL, .n_ctx = 2048, .flags = CLASS_ATTENTION_BIAS | CLASS_MLP_BIAS},
    {"Eagle3LlamaForCausalLM", NULL, .n_ctx = 2048, .flags = CLASS_ATTENTION_BIAS | CLASS_MLP_BIAS},
};

static const struct arch_field fields[] = {
    {FIELD(head.n_target), FIELD_COUNT, "target_hidden_size", "target_hidden_size"},
    {FIELD(head.n_vocab), FIELD_COUNT, NULL, "draft_vocab_size", .gguf_rows = "output.weight"},
    {FIELD(head.norm_residual), FIELD_FLAG, "norm_before_residual", "norm_before_residual"},
    {FIELD(head.norm_input), FIELD_FLAG, "norm_before_fc", "norm_before_fc"},
};

static const struct arch_slot slots[] = {
    {SLOT_EMBD, "token_embd.weight", "embed_tokens.weight", NULL, DIM_VOCAB, DIM_EMBD,
     .flags = SLOT_WHOLE | SLOT_TABLE | SLOT_OPTIONAL},
    {SLOT_OUT_NORM, "output_norm.weight", "norm.weight", NULL, DIM_1, DIM_EMBD,
     .flags = SLOT_WHOLE},
    {SLOT_HEAD, "output.weight", "lm_head.weight", NULL, DIM_HEAD_VOCAB, DIM_EMBD,
     .flags = SLOT_WHOLE},
    {SLOT_TAPS_JOIN, "fc.weight", "fc.weight", NULL, DIM_EMBD, DIM_TARGETS, .flags = SLOT_WHOLE},
    {SLOT_ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", NULL, DIM_1, DIM_EMBD},
    {SLOT_HIDDEN_NORM, "attn_norm_2.weight", "hidden_norm.weight", NULL, DIM_1, DIM_EMBD},
    {SLOT_Q, "attn_q.weight", "self_attn.q_proj.weight", NULL, DIM_Q, DIM_EMBD_2},
    {SLOT_K, "attn_k.weight", "self_attn.k_proj.weight", NULL, DIM_KV, DIM_EMBD_2},
    {SLOT_V, "attn_v.weight", "self_attn.v_proj.weight", NULL, DIM_KV, DIM_EMBD_2},
    {SLOT_OUT, "attn_output.weight", "self_attn.o_proj.weight", NULL, DIM_EMBD, DIM_Q},
    SLOTS_FFN_NORM,
    SLOTS_GATED_FF(0),
};

static const char *const unused[] = {"t2d", NULL};

static int eagle3_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    if (hp->n_layers != 1)
        return err_set(reterr, EOPNOTSUPP, "a draft head of %u layers is not supported",
                       hp->n_layers);
    if (hp->head.norm_input)
        return err_set(reterr, EOPNOTSUPP, "a draft head with norm_before_fc is not supported");
    if (hp->head.n_taps == 0)
        hp->head.n_taps = HPARAMS_EAGLE3_TAPS;
    if (hp->head.n_taps != HPARAMS_EAGLE3_TAPS)
        return err_set(reterr, EOPNOTSUPP, "a draft head that reads %u layers is not supported",
                       hp->head.n_taps);
    hp->head.is_head = true;
    hp->head.offsets = source == ARCH_HF;
    if (hp->head.n_target == 0)
        hp->head.n_target = hp->n_embd;
    if (hp->head.n_vocab == 0)
        hp->head.n_vocab = hp->n_vocab;
    return 0;
}

/* Reads the tokens of the target that the head predicts, if the file lists them. */
static int bind_tokens(struct binder *b, struct model_head *head)
{
    const struct hparams *hp = b->m->hp;
    const struct format_tensor *t;
    size_t i;

    if (!format_find_index(b->m->f, "d2t", &i))
        return hp->head.n_vocab == hp->n_vocab
                   ? 0
                   : err_set(b->err, EBADMSG, "the tensor d2t is missing");
    t = format_tensor_at(b->m->f, i);
    b->bound[i] = true;
    if (strcmp(t->type_name, "I64") != 0 || t->n_dims != 1 || t->dims[0] != hp->head.n_vocab)
        return err_set(b->err, EBADMSG, "the tensor d2t is not a list of %u numbers of type I64",
                       hp->head.n_vocab);
    head->tokens = arena_alloc(&b->m->arena, hp->head.n_vocab * sizeof(*head->tokens));
    if (!head->tokens)
        return err_set(b->err, ENOMEM, "out of memory");
    for (uint32_t k = 0; k < hp->head.n_vocab; k++) {
        int64_t token;

        memcpy(&token, (const char *)t->data + k * sizeof(token), sizeof(token));
        if (hp->head.offsets && token >= -(int64_t)UINT32_MAX && token <= UINT32_MAX)
            token += k;
        if (token < 0 || token >= hp->n_vocab)
            return err_set(b->err, EBADMSG, "the tensor d2t has a token that does not exist");
        head->tokens[k] = (int32_t)token;
    }
    return 0;
}

static int eagle3_bind(struct binder *b)
{
    struct model *m = b->m;
    struct model_head *head = arena_zalloc(&m->arena, sizeof(*head));
    int r;

    if (!head)
        return err_set(b->err, ENOMEM, "out of memory");
    r = head_bind_taps(b, head);
    if (r == 0)
        r = bind_split(b, layer_w(m, 0, SLOT_Q), 2, head->q);
    if (r == 0)
        r = bind_split(b, layer_w(m, 0, SLOT_K), 2, head->k);
    if (r == 0)
        r = bind_split(b, layer_w(m, 0, SLOT_V), 2, head->v);
    if (r < 0)
        return r;
    m->head = head;
    return bind_tokens(b, head);
}

/* Multiplies the token's part @e and the hidden state's part @h of a row by the halves of a
 * matrix. */
static graph_ref head_product(struct graph *g, graph_ref e, graph_ref h, const struct weight w[2])
{
    const graph_ref part = graph_matmul(g, e, &w[0], NULL);

    return graph_add(g, part, graph_matmul(g, h, &w[1], NULL));
}

static void eagle3_build(const struct model *m, const struct model *target, struct graph *g)
{
    const struct weight *embd = model_w(m, SLOT_EMBD);
    const struct attn_params attn = layer_attn_params(m, 0);
    graph_ref x, e, h, q, k;

    x = graph_input(g, m->hp->n_embd);
    h = layer_norm(m, g, 0, x, SLOT_HIDDEN_NORM);
    e = graph_embed(g, embd->data ? embd : model_w(target, SLOT_EMBD), 1);
    e = layer_norm(m, g, 0, e, SLOT_ATTN_NORM);
    q = layer_heads(m, g, 0, head_product(g, e, h, m->head->q), SLOT_ABSENT);
    k = layer_heads(m, g, 0, head_product(g, e, h, m->head->k), SLOT_ABSENT);
    q = graph_rows(g, graph_attention(g, q, k, head_product(g, e, h, m->head->v), &attn));
    x = graph_rows(g, m->hp->head.norm_residual ? h : x);
    x = graph_add(g, x, layer_linear(m, g, 0, q, SLOT_OUT, SLOT_ABSENT));
    h = layer_norm(m, g, 0, x, SLOT_FFN_NORM);
    x = graph_add(g, x, layer_gated_ff(m, g, 0, h));
    graph_export(g, x);
    x = layer_norm(m, g, m->hp->n_layers, x, SLOT_OUT_NORM);
    graph_output(g, graph_matmul(g, x, model_w(m, SLOT_HEAD), NULL));
}

const struct arch arch_eagle3 = {
    .desc = {"eagle3", ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(slots, slots), .draft_head = true,
             .reads_layers = true, .unused = unused, .finish = eagle3_finish,
             .hf_extra = hf_extra_eagle3, .hf_name = hf_name_eagle3},
    .bind = eagle3_bind,
    .build_head = eagle3_build,
};
