/* SPDX-License-Identifier: Apache-2.0 */
/* Binds the weights of Whisper's encoder under the names of Hugging Face or those of OpenAI, and
 * builds its graphs. */
#include "model/whisper-bind.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/arena.h"
#include "core/err.h"
#include "quant/dtype.h"

enum { TAPS = 3 };

struct block {
    struct weight attn_norm, attn_norm_bias; /* [n_embd] */
    struct weight q, k, v, out;              /* [n_embd, n_embd] */
    struct weight q_bias, v_bias, out_bias;  /* keys have no bias */
    struct weight ffn_norm, ffn_norm_bias;
    struct weight up, up_bias;     /* [n_ff, n_embd] */
    struct weight down, down_bias; /* [n_embd, n_ff] */
};

struct whisper_encoder {
    struct whisper_shape shape;
    struct arena arena;
    struct weight conv[2], conv_bias[2]; /* [n_embd, 3 × channels] */
    struct weight positions;             /* [n_ctx, n_embd] */
    struct weight norm, norm_bias;
    struct block *blocks; /* [n_layers] */
};

/* Copies the weights of a convolution from [outputs, channels, taps] to [outputs, taps × channels].
 */
static void turn_conv(const float *from, uint32_t n_channels, uint32_t n_out, float *to)
{
    for (uint64_t o = 0; o < n_out; o++)
        for (uint32_t c = 0; c < n_channels; c++)
            for (uint32_t k = 0; k < TAPS; k++)
                to[(o * TAPS + k) * n_channels + c] = from[(o * n_channels + c) * TAPS + k];
}

/* Binds the weights of a convolution in the same number format. Their shape is [outputs, channels,
 * taps], and in files of MLX [outputs, taps, channels]. */
static int bind_conv(struct whisper_binder *b, const char *name, uint32_t n_channels,
                     uint32_t n_out, struct weight *ret)
{
    const uint32_t cols = TAPS * n_channels;
    const uint64_t n = (uint64_t)n_out * cols;
    const struct format_tensor *t = NULL;
    _cleanup_free_ float *turned = NULL;
    float *data;
    int r;

    r = whisper_find(b, name, &t);
    if (r < 0)
        return r;
    if (t->n_dims != 3 || t->dims[2] != n_out ||
        t->dims[0] != (b->src->mlx ? n_channels : (uint64_t)TAPS) ||
        t->dims[1] != (b->src->mlx ? (uint64_t)TAPS : n_channels))
        return whisper_misshapen(b, name);
    if (dtype_info(t->dtype)->block_elems > 1)
        return err_set(b->err, EOPNOTSUPP, "tensor %.64s is quantized", name);
    data = whisper_floats(b, t, n);
    turned = NEW(float, n);
    if (!data || !turned)
        return err_set(b->err, ENOMEM, "out of memory");
    if (b->src->mlx)
        memcpy(turned, data, n * sizeof(*data));
    else
        turn_conv(data, n_channels, n_out, turned);
    dtype_info(t->dtype)->encode(turned, data, n);
    *ret = (struct weight){
        .data = data, .dtype = t->dtype, .rows = n_out, .cols = cols, .name = t->name};
    return 0;
}

/* Computes the positions, which files of MLX do not have: in each row, sines and then cosines of
 * angles whose frequencies go down to 1 / 10,000. */
static int make_positions(struct whisper_encoder *e, struct whisper_binder *b)
{
    const uint32_t n = e->shape.n_embd, n_half = n / 2;
    float *data = arena_alloc(b->arena, (uint64_t)e->shape.n_ctx * n * sizeof(*data));

    if (!data)
        return err_set(b->err, ENOMEM, "out of memory");
    if (n % 2 != 0 || n_half < 2)
        return err_set(b->err, EBADMSG, "positions of %u columns are not pairs", n);
    for (uint32_t i = 0; i < e->shape.n_ctx; i++)
        for (uint32_t j = 0; j < n_half; j++) {
            const double angle = i * exp(-log(10000.0) / (n_half - 1) * j);

            data[(uint64_t)i * n + j] = (float)sin(angle);
            data[(uint64_t)i * n + n_half + j] = (float)cos(angle);
        }
    e->positions = (struct weight){.data = data,
                                   .dtype = INF_DTYPE_F32,
                                   .rows = e->shape.n_ctx,
                                   .cols = n,
                                   .name = "(positions)"};
    return 0;
}

static int bind_front(struct whisper_encoder *e, struct whisper_binder *b)
{
    static const struct whisper_names conv[] = {
        {"encoder.conv1.weight", "model.encoder.conv1.weight"},
        {"encoder.conv2.weight", "model.encoder.conv2.weight"},
    };
    static const struct whisper_names bias[] = {
        {"encoder.conv1.bias", "model.encoder.conv1.bias"},
        {"encoder.conv2.bias", "model.encoder.conv2.bias"},
    };
    static const struct whisper_names positions = {"encoder.positional_embedding",
                                                   "model.encoder.embed_positions.weight"};
    int r = 0;

    for (int i = 0; r == 0 && i < 2; i++) {
        r = bind_conv(b, whisper_name(b, &conv[i]), i == 0 ? e->shape.n_mels : e->shape.n_embd,
                      e->shape.n_embd, &e->conv[i]);
        if (r == 0)
            r = whisper_bind_vector(b, whisper_name(b, &bias[i]), e->shape.n_embd,
                                    &e->conv_bias[i]);
    }
    if (r < 0)
        return r;
    if (b->src->mlx && !b->src->find(b->src->file, whisper_name(b, &positions)))
        return make_positions(e, b);
    return whisper_bind_matrix(b, whisper_name(b, &positions), e->shape.n_ctx, e->shape.n_embd,
                               &e->positions);
}

static int bind_end(struct whisper_encoder *e, struct whisper_binder *b)
{
    static const struct whisper_names norm = {"encoder.ln_post.weight",
                                              "model.encoder.layer_norm.weight"};
    static const struct whisper_names bias = {"encoder.ln_post.bias",
                                              "model.encoder.layer_norm.bias"};
    const uint32_t n = e->shape.n_embd;
    const int r = whisper_bind_vector(b, whisper_name(b, &norm), n, &e->norm);

    return r < 0 ? r : whisper_bind_vector(b, whisper_name(b, &bias), n, &e->norm_bias);
}

#define SLOT(openai, hugging_face, field, rows, cols)                                              \
    {                                                                                              \
        {openai, hugging_face}, offsetof(struct block, field), rows, cols                          \
    }

static int bind_block(struct whisper_encoder *e, struct whisper_binder *b, uint32_t i_layer)
{
    const uint32_t n = e->shape.n_embd, n_ff = e->shape.n_ff;
    const struct whisper_slot slots[] = {
        SLOT("attn_ln.weight", "self_attn_layer_norm.weight", attn_norm, 1, n),
        SLOT("attn_ln.bias", "self_attn_layer_norm.bias", attn_norm_bias, 1, n),
        SLOT("attn.query.weight", "self_attn.q_proj.weight", q, n, n),
        SLOT("attn.query.bias", "self_attn.q_proj.bias", q_bias, 1, n),
        SLOT("attn.key.weight", "self_attn.k_proj.weight", k, n, n),
        SLOT("attn.value.weight", "self_attn.v_proj.weight", v, n, n),
        SLOT("attn.value.bias", "self_attn.v_proj.bias", v_bias, 1, n),
        SLOT("attn.out.weight", "self_attn.out_proj.weight", out, n, n),
        SLOT("attn.out.bias", "self_attn.out_proj.bias", out_bias, 1, n),
        SLOT("mlp_ln.weight", "final_layer_norm.weight", ffn_norm, 1, n),
        SLOT("mlp_ln.bias", "final_layer_norm.bias", ffn_norm_bias, 1, n),
        SLOT("mlp.0.weight", "fc1.weight", up, n_ff, n),
        SLOT("mlp.0.bias", "fc1.bias", up_bias, 1, n_ff),
        SLOT("mlp.2.weight", "fc2.weight", down, n, n_ff),
        SLOT("mlp.2.bias", "fc2.bias", down_bias, 1, n),
    };
    static const struct whisper_names prefix = {"encoder.blocks", "model.encoder.layers"};

    return whisper_bind_slots(b, &prefix, i_layer, slots, ARRAY_SIZE(slots), &e->blocks[i_layer]);
}

int whisper_encoder_new(const struct whisper_source *src, const struct whisper_shape *shape,
                        struct whisper_encoder **ret_encoder, struct inf_err *reterr)
{
    _cleanup_(whisper_encoder_freep) struct whisper_encoder *e = NEW(struct whisper_encoder, 1);
    struct whisper_binder b = {NULL, src, reterr};
    int r;

    if (!e)
        return err_set(reterr, ENOMEM, "out of memory");
    b.arena = &e->arena;
    e->shape = *shape;
    e->blocks = arena_zalloc(&e->arena, shape->n_layers * sizeof(*e->blocks));
    if (!e->blocks)
        return err_set(reterr, ENOMEM, "out of memory");
    r = bind_front(e, &b);
    for (uint32_t i = 0; r == 0 && i < shape->n_layers; i++)
        r = bind_block(e, &b, i);
    if (r == 0)
        r = bind_end(e, &b);
    if (r < 0)
        return r;
    *ret_encoder = STEAL(e);
    return 0;
}

struct whisper_encoder *whisper_encoder_free(struct whisper_encoder *e)
{
    if (!e)
        return NULL;
    arena_done(&e->arena);
    free(e);
    return NULL;
}

const struct whisper_shape *whisper_encoder_shape(const struct whisper_encoder *e)
{
    return &e->shape;
}

enum inf_dtype whisper_encoder_dtype(const struct whisper_encoder *e)
{
    return e->blocks[0].q.dtype;
}

static graph_ref build_conv(const struct whisper_encoder *e, struct graph *g, int i)
{
    const graph_ref x = graph_input(g, e->conv[i].cols);

    return graph_act(g, graph_matmul(g, x, &e->conv[i], &e->conv_bias[i]), GRAPH_ACT_GELU_ERF);
}

/* Builds the attention of a layer. In the KV store, each layer's keys and values overwrite those of
 * the layer before it. */
static graph_ref encoder_attend(const struct whisper_encoder *e, struct graph *g,
                                const struct block *l, graph_ref x)
{
    const uint32_t head_dim = e->shape.n_embd / e->shape.n_heads;
    const struct attn_params attn = {
        .n_heads = e->shape.n_heads,
        .n_kv_heads = e->shape.n_heads,
        .head_dim = head_dim,
        .scale = (float)(1.0 / sqrt((double)head_dim)),
        .both_ways = true,
    };
    const graph_ref h = graph_layer_norm(g, x, &l->attn_norm, &l->attn_norm_bias, WHISPER_NORM_EPS);
    const graph_ref q = graph_matmul(g, h, &l->q, &l->q_bias);
    const graph_ref k = graph_matmul(g, h, &l->k, NULL);
    const graph_ref v = graph_matmul(g, h, &l->v, &l->v_bias);

    return graph_matmul(g, graph_attention(g, q, k, v, &attn), &l->out, &l->out_bias);
}

static graph_ref feed_forward(struct graph *g, const struct block *l, graph_ref x)
{
    graph_ref h = graph_layer_norm(g, x, &l->ffn_norm, &l->ffn_norm_bias, WHISPER_NORM_EPS);

    h = graph_act(g, graph_matmul(g, h, &l->up, &l->up_bias), GRAPH_ACT_GELU_ERF);
    return graph_matmul(g, h, &l->down, &l->down_bias);
}

static graph_ref build_blocks(const struct whisper_encoder *e, struct graph *g)
{
    graph_ref x = graph_input(g, e->shape.n_embd);

    x = graph_add(g, x, graph_embed_by(g, &e->positions, GRAPH_KEY_POSITION));
    for (uint32_t i = 0; i < e->shape.n_layers; i++) {
        x = graph_add(g, x, encoder_attend(e, g, &e->blocks[i], x));
        x = graph_add(g, x, feed_forward(g, &e->blocks[i], x));
    }
    return graph_layer_norm(g, x, &e->norm, &e->norm_bias, WHISPER_NORM_EPS);
}

int whisper_encoder_graph(const struct whisper_encoder *e, enum whisper_part part,
                          struct graph **ret_graph, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    graph_ref x;
    int r;

    if (graph_new(&g) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    x = part == WHISPER_BLOCKS ? build_blocks(e, g) : build_conv(e, g, part == WHISPER_CONV2);
    graph_output(g, graph_rows(g, x));
    r = graph_error(g, reterr);
    if (r < 0)
        return r;
    *ret_graph = STEAL(g);
    return 0;
}
