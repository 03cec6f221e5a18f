/* SPDX-License-Identifier: Apache-2.0 */
/* Binds the weights of Whisper's decoder under the names of Hugging Face or those of OpenAI, and
 * builds its graphs. */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "model/whisper-bind.h"

/* The weights of the attention to earlier text, or to the encoder's output. */
struct attention {
    struct weight norm, norm_bias;          /* [n_embd] */
    struct weight q, k, v, out;             /* [n_embd, n_embd] */
    struct weight q_bias, v_bias, out_bias; /* keys have no bias */
};

struct block {
    struct attention self, cross;
    struct weight norm, norm_bias; /* of the feed-forward layers */
    struct weight up, up_bias;     /* [n_ff, n_embd] */
    struct weight down, down_bias; /* [n_embd, n_ff] */
};

struct whisper_decoder {
    struct whisper_text_shape shape;
    struct arena arena;
    struct weight tokens;    /* [n_vocab, n_embd]; also the head */
    struct weight positions; /* [n_ctx, n_embd] */
    struct weight norm, norm_bias;
    struct block *blocks; /* [n_layers] */
};

#define SLOT(openai, hugging_face, field, rows, cols)                                              \
    {                                                                                              \
        {openai, hugging_face}, offsetof(struct block, field), rows, cols                          \
    }

static int bind_block(struct whisper_decoder *d, struct whisper_binder *b, uint32_t i_layer)
{
    static const struct whisper_names prefix = {"decoder.blocks", "model.decoder.layers"};
    const uint32_t n = d->shape.n_embd, n_ff = d->shape.n_ff;
    const struct whisper_slot slots[] = {
        SLOT("attn_ln.weight", "self_attn_layer_norm.weight", self.norm, 1, n),
        SLOT("attn_ln.bias", "self_attn_layer_norm.bias", self.norm_bias, 1, n),
        SLOT("attn.query.weight", "self_attn.q_proj.weight", self.q, n, n),
        SLOT("attn.query.bias", "self_attn.q_proj.bias", self.q_bias, 1, n),
        SLOT("attn.key.weight", "self_attn.k_proj.weight", self.k, n, n),
        SLOT("attn.value.weight", "self_attn.v_proj.weight", self.v, n, n),
        SLOT("attn.value.bias", "self_attn.v_proj.bias", self.v_bias, 1, n),
        SLOT("attn.out.weight", "self_attn.out_proj.weight", self.out, n, n),
        SLOT("attn.out.bias", "self_attn.out_proj.bias", self.out_bias, 1, n),
        SLOT("cross_attn_ln.weight", "encoder_attn_layer_norm.weight", cross.norm, 1, n),
        SLOT("cross_attn_ln.bias", "encoder_attn_layer_norm.bias", cross.norm_bias, 1, n),
        SLOT("cross_attn.query.weight", "encoder_attn.q_proj.weight", cross.q, n, n),
        SLOT("cross_attn.query.bias", "encoder_attn.q_proj.bias", cross.q_bias, 1, n),
        SLOT("cross_attn.key.weight", "encoder_attn.k_proj.weight", cross.k, n, n),
        SLOT("cross_attn.value.weight", "encoder_attn.v_proj.weight", cross.v, n, n),
        SLOT("cross_attn.value.bias", "encoder_attn.v_proj.bias", cross.v_bias, 1, n),
        SLOT("cross_attn.out.weight", "encoder_attn.out_proj.weight", cross.out, n, n),
        SLOT("cross_attn.out.bias", "encoder_attn.out_proj.bias", cross.out_bias, 1, n),
        SLOT("mlp_ln.weight", "final_layer_norm.weight", norm, 1, n),
        SLOT("mlp_ln.bias", "final_layer_norm.bias", norm_bias, 1, n),
        SLOT("mlp.0.weight", "fc1.weight", up, n_ff, n),
        SLOT("mlp.0.bias", "fc1.bias", up_bias, 1, n_ff),
        SLOT("mlp.2.weight", "fc2.weight", down, n, n_ff),
        SLOT("mlp.2.bias", "fc2.bias", down_bias, 1, n),
    };

    return whisper_bind_slots(b, &prefix, i_layer, slots, ARRAY_SIZE(slots), &d->blocks[i_layer]);
}

static int bind_ends(struct whisper_decoder *d, struct whisper_binder *b)
{
    static const struct whisper_names tokens = {"decoder.token_embedding.weight",
                                                "model.decoder.embed_tokens.weight"};
    static const struct whisper_names positions = {"decoder.positional_embedding",
                                                   "model.decoder.embed_positions.weight"};
    static const struct whisper_names norm = {"decoder.ln.weight",
                                              "model.decoder.layer_norm.weight"};
    static const struct whisper_names bias = {"decoder.ln.bias", "model.decoder.layer_norm.bias"};
    const struct whisper_text_shape *s = &d->shape;
    int r;

    r = whisper_bind_matrix(b, whisper_name(b, &tokens), s->n_vocab, s->n_embd, &d->tokens);
    if (r == 0)
        r = whisper_bind_matrix(b, whisper_name(b, &positions), s->n_ctx, s->n_embd, &d->positions);
    if (r == 0)
        r = whisper_bind_vector(b, whisper_name(b, &norm), s->n_embd, &d->norm);
    return r < 0 ? r : whisper_bind_vector(b, whisper_name(b, &bias), s->n_embd, &d->norm_bias);
}

int whisper_decoder_new(const struct whisper_source *src, const struct whisper_text_shape *shape,
                        struct whisper_decoder **ret_decoder, struct inf_err *reterr)
{
    _cleanup_(whisper_decoder_freep) struct whisper_decoder *d = NEW(struct whisper_decoder, 1);
    struct whisper_binder b = {NULL, src, reterr};
    int r;

    if (!d)
        return err_set(reterr, ENOMEM, "out of memory");
    b.arena = &d->arena;
    d->shape = *shape;
    d->blocks = arena_zalloc(&d->arena, shape->n_layers * sizeof(*d->blocks));
    if (!d->blocks)
        return err_set(reterr, ENOMEM, "out of memory");
    r = bind_ends(d, &b);
    for (uint32_t i = 0; r == 0 && i < shape->n_layers; i++)
        r = bind_block(d, &b, i);
    if (r < 0)
        return r;
    *ret_decoder = STEAL(d);
    return 0;
}

struct whisper_decoder *whisper_decoder_free(struct whisper_decoder *d)
{
    if (!d)
        return NULL;
    arena_done(&d->arena);
    free(d);
    return NULL;
}

const struct whisper_text_shape *whisper_decoder_shape(const struct whisper_decoder *d)
{
    return &d->shape;
}

enum inf_dtype whisper_decoder_dtype(const struct whisper_decoder *d)
{
    return d->tokens.dtype;
}

/* Returns the parameters of attention in a layer. Heads whose scores are kept have consecutive
 * numbers over all layers. */
static struct attn_params attn_params(const struct whisper_decoder *d, uint32_t i_layer,
                                      const struct whisper_heads *kept)
{
    const uint32_t head_dim = d->shape.n_embd / d->shape.n_heads;
    struct attn_params p = {
        .i_layer = i_layer,
        .n_heads = d->shape.n_heads,
        .n_kv_heads = d->shape.n_heads,
        .head_dim = head_dim,
        .scale = (float)(1.0 / sqrt((double)head_dim)),
    };

    for (uint32_t i = 0; kept && i < i_layer; i++)
        p.i_kept += (uint32_t)__builtin_popcountll(kept->masks[i]);
    if (kept)
        p.kept = kept->masks[i_layer];
    return p;
}

static graph_ref attend_self(const struct whisper_decoder *d, struct graph *g, uint32_t i_layer,
                             graph_ref x)
{
    const struct attention *a = &d->blocks[i_layer].self;
    const struct attn_params attn = attn_params(d, i_layer, NULL);
    const graph_ref h = graph_layer_norm(g, x, &a->norm, &a->norm_bias, WHISPER_NORM_EPS);
    const graph_ref q = graph_matmul(g, h, &a->q, &a->q_bias);
    const graph_ref k = graph_matmul(g, h, &a->k, NULL);
    const graph_ref v = graph_matmul(g, h, &a->v, &a->v_bias);

    return graph_matmul(g, graph_attention(g, q, k, v, &attn), &a->out, &a->out_bias);
}

static graph_ref attend_memory(const struct whisper_decoder *d, struct graph *g, uint32_t i_layer,
                               const struct whisper_heads *kept, graph_ref x)
{
    const struct attention *a = &d->blocks[i_layer].cross;
    const struct attn_params attn = attn_params(d, i_layer, kept);
    const graph_ref h = graph_layer_norm(g, x, &a->norm, &a->norm_bias, WHISPER_NORM_EPS);
    const graph_ref q = graph_matmul(g, h, &a->q, &a->q_bias);

    return graph_matmul(g, graph_attention_memory(g, q, &attn), &a->out, &a->out_bias);
}

static graph_ref feed_forward(struct graph *g, const struct block *l, graph_ref x)
{
    graph_ref h = graph_layer_norm(g, x, &l->norm, &l->norm_bias, WHISPER_NORM_EPS);

    h = graph_act(g, graph_matmul(g, h, &l->up, &l->up_bias), GRAPH_ACT_GELU_ERF);
    return graph_matmul(g, h, &l->down, &l->down_bias);
}

int whisper_decoder_graph(const struct whisper_decoder *d, const struct whisper_heads *kept,
                          struct graph **ret_graph, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    graph_ref x;
    int r;

    if (graph_new(&g) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    x = graph_embed(g, &d->tokens, 1);
    x = graph_add(g, x, graph_embed_by(g, &d->positions, GRAPH_KEY_POSITION));
    for (uint32_t i = 0; i < d->shape.n_layers; i++) {
        x = graph_add(g, x, attend_self(d, g, i, x));
        x = graph_add(g, x, attend_memory(d, g, i, kept, x));
        x = graph_add(g, x, feed_forward(g, &d->blocks[i], x));
    }
    x = graph_layer_norm(g, graph_rows(g, x), &d->norm, &d->norm_bias, WHISPER_NORM_EPS);
    graph_output(g, graph_matmul(g, x, &d->tokens, NULL));
    r = graph_error(g, reterr);
    if (r == 0)
        *ret_graph = STEAL(g);
    return r;
}

int whisper_memory_graph(const struct whisper_decoder *d, struct graph **ret_graph,
                         struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    graph_ref x;
    int r;

    if (graph_new(&g) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    x = graph_input(g, d->shape.n_embd);
    for (uint32_t i = 0; i < d->shape.n_layers; i++) {
        const struct attention *a = &d->blocks[i].cross;
        const struct attn_params attn = attn_params(d, i, NULL);

        graph_store(g, graph_matmul(g, x, &a->k, NULL), graph_matmul(g, x, &a->v, &a->v_bias),
                    &attn);
    }
    graph_output(g, graph_rows(g, x));
    r = graph_error(g, reterr);
    if (r == 0)
        *ret_graph = STEAL(g);
    return r;
}
