/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes Gemma 3n (Google 2025): E2B and E4B, text part.
 *
 * A token has four residual streams beside each other ("AltUp", Baykal et al. 2023). A layer first
 * predicts all streams from all streams. It computes attention and the feed-forward part only from
 * the first stream. The difference that a layer makes in the first stream corrects the other
 * streams, too. The factors of both steps are computed from the first stream. Beside attention
 * there are two matrices of low rank ("LAuReL"). In some layers only the largest gates of the
 * feed-forward part count. Embeddings for each layer, windows, and layers that share keys and
 * values are as in Gemma 4.
 */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "model/gemma.h"

#define SQRT_2_F32 1.41421356f

static const struct arch_gguf ggufs[] = {{"gemma3n", ROPE_HALF}};

static const struct arch_window window = {
    .absent = 512, .every = 5, .theta = 10000, .hf_theta_key = "rope_local_base_freq"};

#define GEMMA3N_CLASS(name, type, more)                                                            \
    {                                                                                              \
        name, type, .n_kv_heads = 2, .head_dim = 256, .n_ctx = 32768, .theta = 1e6f,               \
                    .flags = CLASS_TIED | (more), .window = &window                                \
    }

static const struct arch_class classes[] = {
    GEMMA3N_CLASS("Gemma3nForCausalLM", "gemma3n_text", CLASS_PART),
    GEMMA3N_CLASS("Gemma3nForConditionalGeneration", "gemma3n", CLASS_TEXT_CONFIG),
};

static const struct arch_field fields[] = {
    {FIELD(act), FIELD_ACT, NULL, "hidden_activation", .absent = GRAPH_ACT_GELU_TANH},
    {FIELD(final_softcap), FIELD_NUMBER, "final_logit_softcapping", "final_logit_softcapping",
     .absent = 30},
    {FIELD(gemma.n_shared), FIELD_COUNT, "attention.shared_kv_layers", "num_kv_shared_layers",
     .absent = 15, .flags = FIELD_IN_GGUF},
    {FIELD(gemma.per_layer), FIELD_COUNT, "embedding_length_per_layer_input",
     "hidden_size_per_layer_input", .absent = 256, .flags = FIELD_IN_GGUF},
    /* llama.cpp's converter adds rows to the table until the table has one row for each token. */
    {FIELD(gemma.n_vocab), FIELD_COUNT, NULL, "vocab_size_per_layer_input", .absent = 262144,
     .gguf_rows = "per_layer_token_embd.weight"},
    {FIELD(gemma.laurel_rank), FIELD_COUNT, NULL, "laurel_rank", .absent = 64,
     .gguf_rows = "blk.0.laurel_l.weight"},
    {FIELD(gemma.cutoff), FIELD_NUMBER, "activation_sparsity_scale", "activation_sparsity_pattern",
     .absent = -1, .flags = FIELD_IN_GGUF, .layer = FIELD_LAYER(cutoff)},
    {FIELD(gemma.correct_scale), FIELD_FLAG, NULL, "altup_correct_scale", .absent = 1},
};

static const struct arch_refused refused[] = {
    {"attention_bias", 0},
    {"use_bidirectional_attention", 0},
    {"altup_num_inputs", HPARAMS_STREAMS},
    {"altup_active_idx", 0},
};

static const struct arch_refused refused_gguf[] = {
    {"altup.num_inputs", HPARAMS_STREAMS},
    {"altup.active_idx", 0},
};

static const struct arch_constant constants[] = {
    {"altup_num_inputs", HPARAMS_STREAMS}, {"altup_active_idx", 0}, {"altup_coef_clip", 120}};

/* A matrix of the streams outside the layers. In GGUF files, it is a part of a larger tensor. */
#define GEMMA3N_STREAM(id, gguf, hf, all)                                                          \
    {                                                                                              \
        id, gguf, hf, NULL, DIM_EMBD, DIM_EMBD, .flags = SLOT_WHOLE, .part_of = (all)              \
    }

/* Keys and values of a layer. Files may have the matrices of layers that do not use them. */
#define GEMMA3N_KV(more, layers)                                                                   \
    {SLOT_K, "attn_k.weight", "self_attn.k_proj.weight", NULL,                                     \
     DIM_KV, DIM_EMBD,        .flags = (more),           .in = (layers)},                          \
        {SLOT_V, "attn_v.weight", "self_attn.v_proj.weight", NULL,                                 \
         DIM_KV, DIM_EMBD,        .flags = (more),           .in = (layers)},                      \
    {                                                                                              \
        SLOT_K_NORM, "attn_k_norm.weight", "self_attn.k_norm.weight", NULL, DIM_1, DIM_HEAD,       \
            .flags = (more), .in = (layers)                                                        \
    }

static const struct arch_slot slots[] = {
    SLOTS_ENDS,
    {SLOT_STREAMS_IN, "altup_proj.weight", NULL, NULL, DIM_EMBD, DIM_EMBD, DIM_STREAMS_ADDED,
     .flags = SLOT_WHOLE | SLOT_OPTIONAL},
    GEMMA3N_STREAM(SLOT_STREAM_IN_1, "altup_proj.0.weight", "altup_projections.0.weight",
                   SLOT_STREAMS_IN),
    GEMMA3N_STREAM(SLOT_STREAM_IN_2, "altup_proj.1.weight", "altup_projections.1.weight",
                   SLOT_STREAMS_IN),
    GEMMA3N_STREAM(SLOT_STREAM_IN_3, "altup_proj.2.weight", "altup_projections.2.weight",
                   SLOT_STREAMS_IN),
    {SLOT_STREAMS_OUT, "altup_unembd_proj.weight", NULL, NULL, DIM_EMBD, DIM_EMBD,
     DIM_STREAMS_ADDED, .flags = SLOT_WHOLE | SLOT_OPTIONAL},
    GEMMA3N_STREAM(SLOT_STREAM_OUT_1, "altup_unembd_proj.0.weight",
                   "altup_unembed_projections.0.weight", SLOT_STREAMS_OUT),
    GEMMA3N_STREAM(SLOT_STREAM_OUT_2, "altup_unembd_proj.1.weight",
                   "altup_unembed_projections.1.weight", SLOT_STREAMS_OUT),
    GEMMA3N_STREAM(SLOT_STREAM_OUT_3, "altup_unembd_proj.2.weight",
                   "altup_unembed_projections.2.weight", SLOT_STREAMS_OUT),

    {SLOT_STREAM_ROUTER, "altup_router.weight", "altup.modality_router.weight", NULL, DIM_STREAMS,
     DIM_EMBD, .flags = SLOT_F32},
    GEMMA_VECTOR(SLOT_STREAM_ROUTER_NORM, "altup_router_norm.weight", "altup.router_norm.weight",
                 DIM_EMBD, .in = 0),
    {SLOT_STREAM_PREDICT, "altup_predict_coef.weight", "altup.prediction_coefs.weight", NULL,
     DIM_STREAMS_PAIRS, DIM_STREAMS, .flags = SLOT_F32},
    {SLOT_STREAM_CORRECT, "altup_correct_coef.weight", "altup.correction_coefs.weight", NULL,
     DIM_STREAMS, DIM_STREAMS, .flags = SLOT_F32},
    GEMMA_VECTOR(SLOT_STREAM_SCALE, "altup_correct_scale.weight", "altup.correct_output_scale",
                 DIM_EMBD, .in = 0),

    GEMMA_VECTOR(SLOT_ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", DIM_EMBD, .in = 0),
    {SLOT_Q, "attn_q.weight", "self_attn.q_proj.weight", NULL, DIM_Q, DIM_EMBD},
    GEMMA_VECTOR(SLOT_Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", DIM_HEAD, .in = 0),
    GEMMA3N_KV(0, IN_OWN_KV),
    GEMMA3N_KV(SLOT_OPTIONAL, 0),
    {SLOT_OUT, "attn_output.weight", "self_attn.o_proj.weight", NULL, DIM_EMBD, DIM_Q},
    {SLOT_LAUREL_IN, "laurel_l.weight", "laurel.linear_left.weight", NULL, DIM_LAUREL, DIM_EMBD},
    {SLOT_LAUREL_OUT, "laurel_r.weight", "laurel.linear_right.weight", NULL, DIM_EMBD, DIM_LAUREL},
    GEMMA_VECTOR(SLOT_LAUREL_POST_NORM, "laurel_post_norm.weight", "laurel.post_laurel_norm.weight",
                 DIM_EMBD, .in = 0),
    SLOTS_POST_NORMS,
    SLOTS_GATED_FF(0),

    GEMMA_SLOTS_PER_LAYER(DIM_VOCAB_PER_LAYER, DIM_EMBD),
};

static const char *const unused[] = {"vision_tower.", "visual.",      "audio_tower.",
                                     "embed_vision.", "embed_audio.", NULL};

/* Returns the number that the error function maps to @x, with |x| < 1. Newton's method starts at 0
 * and never goes beyond the result, because the error function is concave for positive numbers. */
static double gemma3n_erf_inverse(double x)
{
    const double size = fabs(x);
    double y = 0;

    for (int i = 0; i < 64; i++)
        y += (size - erf(y)) * 0.88622692545275801365 * exp(y * y); /* sqrt(pi) / 2 */
    return copysign(y, x);
}

/* Returns the quantile @share of the standard normal distribution: the number below which this
 * share of the distribution lies. Rounds as transformers does, which computes in F32. */
static float gemma3n_cutoff(float share)
{
    return (float)gemma3n_erf_inverse((double)(2 * share - 1)) * SQRT_2_F32;
}

/* Converts what the file says about the cutoffs of gates. config.json has a list with the share of
 * gates that become 0 in each layer. Without the list, the share is 0.95 in the first 10 layers of
 * larger models. GGUF files have the cutoffs. */
static int gemma3n_set_cutoffs(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    const bool has_list = hp->gemma.cutoff >= 0 || source == ARCH_GGUF;
    const uint32_t n = MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS), n_sparse = n > 10 ? 10 : 0;

    for (uint32_t i = 0; i < n; i++) {
        float *cutoff = &hp->layers[i].cutoff;
        const float share = has_list ? *cutoff : i < n_sparse ? 0.95f : 0.0f;

        if (source == ARCH_GGUF && (isfinite(*cutoff) || *cutoff < 0))
            continue;
        if (source == ARCH_GGUF || !(share >= 0 && share < 1))
            return err_set(reterr, EBADMSG, "layer %u: the activation sparsity is %g", i,
                           (double)share);
        *cutoff = share > 0 ? gemma3n_cutoff(share) : -INFINITY;
    }
    return 0;
}

/* Returns the number with the fewest digits whose cutoff is @cutoff. If there is none, returns the
 * share of a normal distribution that is below the cutoff. */
static float gemma3n_share(float cutoff)
{
    const double exact = 0.5 * erfc(-(double)cutoff / (double)SQRT_2_F32);

    for (double unit = 10; unit < 1e8; unit *= 10) {
        const float share = (float)(round(exact * unit) / unit);

        if (share > 0 && share < 1 && gemma3n_cutoff(share) == cutoff)
            return share;
    }
    return (float)exact;
}

/* Reverses what gemma3n_set_cutoffs() does with the list in config.json. */
static void gemma3n_to_hf(struct hparams *hp)
{
    hp->gemma.cutoff = 0;
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        float *cutoff = &hp->layers[i].cutoff;

        *cutoff = isfinite(*cutoff) ? gemma3n_share(*cutoff) : 0;
        hp->gemma.cutoff = MAX(hp->gemma.cutoff, *cutoff);
    }
}

static int gemma3n_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    int r;

    if (hp->gemma.per_layer == 0 || hp->gemma.per_layer > 1u << 14)
        return err_set(reterr, EBADMSG, "per-layer embeddings of %u columns", hp->gemma.per_layer);
    if (hp->gemma.n_vocab == 0 || hp->gemma.n_vocab > 1u << 24)
        return err_set(reterr, EBADMSG, "a table of per-layer embeddings with %u rows",
                       hp->gemma.n_vocab);
    if (hp->gemma.laurel_rank == 0 || hp->gemma.laurel_rank > 1u << 14)
        return err_set(reterr, EBADMSG, "matrices of rank %u beside attention",
                       hp->gemma.laurel_rank);
    if (source == ARCH_GGUF)
        hp->gemma.correct_scale = true;
    hp->embd_scale = sqrtf((float)hp->n_embd);
    hp->attn_scale = 1;
    r = gemma3n_set_cutoffs(hp, source, reterr);
    return r == 0 ? gemma_share_layers(hp, reterr) : r;
}

/* Factors of the streams that do not depend on the row. They select a single stream, all streams,
 * or all but the first. */
static const float gemma3n_factors[][HPARAMS_STREAMS] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0},
                                                         {0, 0, 0, 1}, {1, 1, 1, 1}, {0, 1, 1, 1}};

enum { GEMMA3N_ALL = HPARAMS_STREAMS, GEMMA3N_OTHERS };

/* Multiplies @x [rows, n_embd] by a factor for each stream, and adds it to the streams of @base
 * [rows, streams × n_embd]. The factor is the sum of the row's factor in @row_factors and of a
 * factor in gemma3n_factors[@i_fixed]. @base and @row_factors may be GRAPH_NONE. */
static graph_ref gemma3n_spread(struct graph *g, graph_ref x, graph_ref base, graph_ref row_factors,
                                unsigned i_fixed)
{
    const struct blend_params blend = {1, HPARAMS_STREAMS};
    const struct weight fixed = {.data = gemma3n_factors[i_fixed],
                                 .dtype = INF_DTYPE_F32,
                                 .rows = 1,
                                 .cols = HPARAMS_STREAMS,
                                 .name = "(streams)"};

    return graph_blend(g, x, base, row_factors, &fixed, &blend);
}

/* Returns stream @i of @x. */
static graph_ref gemma3n_stream(const struct model *m, struct graph *g, graph_ref x, uint32_t i)
{
    return graph_cols(g, x, HPARAMS_STREAMS * m->hp->n_embd, i * m->hp->n_embd, m->hp->n_embd);
}

/* Multiplies @x by the matrix of a stream, and gives the result the magnitude of @like. */
static graph_ref gemma3n_turn(const struct model *m, struct graph *g, graph_ref x, graph_ref like,
                              enum slot slot)
{
    return graph_level(g, graph_matmul(g, x, model_w(m, slot), NULL), like, 1e-5f);
}

/* Makes the streams from the embedding @x. */
static graph_ref gemma3n_split(const struct model *m, struct graph *g, graph_ref x)
{
    static const enum slot slot[] = {SLOT_STREAM_IN_1, SLOT_STREAM_IN_2, SLOT_STREAM_IN_3};
    graph_ref all = gemma3n_spread(g, x, GRAPH_NONE, GRAPH_NONE, 0);

    for (unsigned i = 1; i < HPARAMS_STREAMS; i++)
        all = gemma3n_spread(g, gemma3n_turn(m, g, x, x, slot[i - 1]), all, GRAPH_NONE, i);
    return all;
}

/* Computes the mean of the streams. */
static graph_ref gemma3n_join(const struct model *m, struct graph *g, graph_ref all)
{
    static const enum slot slot[] = {SLOT_STREAM_OUT_1, SLOT_STREAM_OUT_2, SLOT_STREAM_OUT_3};
    const graph_ref first = gemma3n_stream(m, g, all, 0);
    graph_ref sum = first;

    for (uint32_t i = 1; i < HPARAMS_STREAMS; i++)
        sum =
            graph_add(g, sum, gemma3n_turn(m, g, gemma3n_stream(m, g, all, i), first, slot[i - 1]));
    return graph_scale(g, sum, 1.0f / HPARAMS_STREAMS);
}

/* Computes the factors of the streams for each row, from the rows @x. @slot is the matrix that
 * computes them. */
static graph_ref gemma3n_route(const struct model *m, struct graph *g, uint32_t i_layer,
                               graph_ref x, enum slot slot)
{
    graph_ref h = layer_norm(m, g, i_layer, x, SLOT_STREAM_ROUTER_NORM);

    h = layer_linear(m, g, i_layer, h, SLOT_STREAM_ROUTER, SLOT_ABSENT);
    h = graph_cap(g, graph_scale(g, h, 1.0f / (float)m->hp->n_embd), 1); /* tanh */
    return layer_linear(m, g, i_layer, h, slot, SLOT_ABSENT);
}

/* Predicts the streams after the layer. */
static graph_ref gemma3n_predict(const struct model *m, struct graph *g, uint32_t i_layer,
                                 graph_ref all)
{
    const struct blend_params blend = {HPARAMS_STREAMS, HPARAMS_STREAMS};
    const graph_ref first = gemma3n_stream(m, g, all, 0);

    return graph_blend(g, all, all, gemma3n_route(m, g, i_layer, first, SLOT_STREAM_PREDICT), NULL,
                       &blend);
}

/* Corrects the predicted streams @all by the difference between @y, which the layer computed, and
 * @first, which was predicted for the first stream. */
static graph_ref gemma3n_correct(const struct model *m, struct graph *g, uint32_t i_layer,
                                 graph_ref all, graph_ref first, graph_ref y)
{
    const graph_ref change = graph_add(g, y, graph_scale(g, first, -1));

    return gemma3n_spread(g, change, all, gemma3n_route(m, g, i_layer, y, SLOT_STREAM_CORRECT),
                          GEMMA3N_ALL);
}

/* Computes the feed-forward part from the normalized rows @h. */
static graph_ref gemma3n_feed_forward(const struct model *m, struct graph *g, uint32_t i_layer,
                                      graph_ref h)
{
    const float cutoff = m->hp->layers[i_layer].cutoff;
    graph_ref gate = layer_linear(m, g, i_layer, h, SLOT_GATE, SLOT_ABSENT), up;

    if (isfinite(cutoff))
        gate = graph_peaks(g, gate, cutoff);
    up = layer_linear(m, g, i_layer, h, SLOT_UP, SLOT_ABSENT);
    return layer_linear(m, g, i_layer, graph_glu(g, gate, up, m->hp->act), SLOT_DOWN, SLOT_ABSENT);
}

/* Computes the part of the layer that has one stream, @x. @h: its normalized rows; @attended: the
 * result of attention. */
static graph_ref gemma3n_middle(const struct model *m, struct graph *g, uint32_t i_layer,
                                graph_ref x, graph_ref h, graph_ref attended)
{
    graph_ref low;

    low = layer_linear(m, g, i_layer, h, SLOT_LAUREL_IN, SLOT_ABSENT);
    low = layer_linear(m, g, i_layer, low, SLOT_LAUREL_OUT, SLOT_ABSENT);
    low = layer_add(m, g, i_layer, h, low, SLOT_LAUREL_POST_NORM);
    attended = layer_linear(m, g, i_layer, attended, SLOT_OUT, SLOT_ABSENT);
    x = layer_add(m, g, i_layer, x, attended, SLOT_ATTN_POST_NORM);
    x = graph_scale(g, graph_add(g, x, low), (float)sqrt(0.5));
    h = gemma3n_feed_forward(m, g, i_layer, layer_norm(m, g, i_layer, x, SLOT_FFN_NORM));
    return layer_add(m, g, i_layer, x, h, SLOT_FFN_POST_NORM);
}

/* Computes a vector from the layer's embedding of the token, and adds this vector to all streams
 * but the first. */
static graph_ref gemma3n_add_inputs(const struct model *m, struct graph *g, uint32_t i_layer,
                                    graph_ref all, graph_ref inputs)
{
    graph_ref x = gemma3n_stream(m, g, all, 0);

    if (m->hp->gemma.correct_scale)
        x = graph_scale_columns(g, x, layer_w(m, i_layer, SLOT_STREAM_SCALE));
    x = gemma_apply_inputs(m, g, i_layer, x, inputs);
    x = layer_norm(m, g, i_layer, x, SLOT_PER_LAYER_POST_NORM);
    return gemma3n_spread(g, x, all, GRAPH_NONE, GEMMA3N_OTHERS);
}

static graph_ref gemma3n_layer(const struct model *m, struct graph *g, uint32_t i_layer,
                               graph_ref all, graph_ref all_inputs)
{
    const uint32_t n = m->hp->n_layers, width = m->hp->gemma.per_layer;
    graph_ref first, h, attended, inputs;

    all = gemma3n_predict(m, g, i_layer, all);
    first = gemma3n_stream(m, g, all, 0);
    h = layer_norm(m, g, i_layer, first, SLOT_ATTN_NORM);
    attended = gemma_attention(m, g, i_layer, h);
    inputs = graph_cols(g, all_inputs, n * width, i_layer * width, width);
    if (i_layer == n - 1) {
        all = graph_rows(g, all);
        first = graph_rows(g, first);
        h = graph_rows(g, h);
        attended = graph_rows(g, attended);
        inputs = graph_rows(g, inputs);
    }
    h = gemma3n_middle(m, g, i_layer, first, h, attended);
    all = gemma3n_correct(m, g, i_layer, all, first, h);
    return gemma3n_add_inputs(m, g, i_layer, all, inputs);
}

static void gemma3n_build(const struct model *m, struct graph *g)
{
    const graph_ref x = layer_embed(m, g), inputs = gemma_inputs(m, g, x);
    graph_ref all = gemma3n_split(m, g, x);

    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        graph_begin_layer(g, i);
        all = gemma3n_layer(m, g, i, all, inputs);
    }
    layer_head(m, g, gemma3n_join(m, g, all));
}

const struct arch arch_gemma3n = {
    .desc = {"gemma3n", .plain_gguf = true, ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_gguf, refused_gguf),
             ARCH_TABLE(refused_hf, refused), .window = &window, ARCH_TABLE(slots, slots),
             .unused = unused, ARCH_TABLE(constants, constants), .finish = gemma3n_finish,
             .to_hf = gemma3n_to_hf},
    .build = gemma3n_build,
};
