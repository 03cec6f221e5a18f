/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the assistants of Gemma 4 (Google 2026): small models that draft tokens for a model of
 * Gemma 4, their target.
 *
 * A row of an assistant reads a token and the hidden state that the target computed for the token
 * before it: the result of its last norm. Both have the width of the target; a matrix joins them.
 * The layers are those of Gemma 4, but have no keys and values of their own: each reads the keys
 * and values of the last layer of the target of the same kind, with or without a window. So an
 * assistant has no state of its own. Another matrix turns the result of the last norm into the
 * hidden state of the next drafted token. All rows of a draft have the position of its first row,
 * and see the same keys: those of the tokens before that position. In layers with a window these
 * are, as in transformers, the tokens of the window and one more.
 *
 * The head is the embedding. The assistants of small models divide the tokens into clusters. A
 * matrix scores the clusters, and only the tokens of the best ones get logits. So the rows of the
 * head are copied in the order of their clusters when the model is opened: the clusters are then
 * experts, of which each row selects some.
 */
#include "model/gemma.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/err.h"
#include "model/head.h"
#include "quant/dtype.h"

/* The clusters that a row selects if the file does not say it. */
#define CLUSTERS_USED 32u

static const struct arch_gguf ggufs[] = {{"gemma4-assistant", ROPE_HALF}};

#define ASSISTANT_CLASS(name, type)                                                                \
    {                                                                                              \
        name, type, .n_kv_heads = 1, .head_dim = 256, .n_ctx = 131072, .partial = 0.25f,           \
                    .theta = 1e6f, .flags = CLASS_TIED | CLASS_PARTIAL_ROPE | CLASS_TEXT_CONFIG,   \
                    .window = &gemma4_window                                                       \
    }

static const struct arch_class classes[] = {
    ASSISTANT_CLASS("Gemma4AssistantForCausalLM", "gemma4_assistant"),
    ASSISTANT_CLASS("Gemma4UnifiedAssistantForCausalLM", "gemma4_unified_assistant"),
};

static const struct arch_field fields[] = {
    GEMMA4_FIELDS,
    {FIELD(head.n_target), FIELD_COUNT, "embedding_length_out", NULL, .flags = FIELD_IN_GGUF},
    {FIELD(head.n_clusters), FIELD_COUNT, NULL, NULL, .gguf_rows = "masked_embd_centroids.weight"},
};

static const struct arch_refused refused[] = {
    {"attention_bias", 0},
    {"enable_moe_block", 0},
    {"use_double_wide_mlp", 0},
};

static const struct arch_slot slots[] = {
    SLOTS_ENDS,
    {SLOT_ASSIST_IN, "nextn.pre_projection.weight", "pre_projection.weight", NULL, DIM_EMBD,
     DIM_TARGET_2, .flags = SLOT_WHOLE},
    {SLOT_ASSIST_OUT, "nextn.post_projection.weight", "post_projection.weight", NULL, DIM_TARGET,
     DIM_EMBD, .flags = SLOT_WHOLE},
    {SLOT_CENTROIDS, "masked_embd_centroids.weight", "masked_embedding.centroids.weight", NULL,
     DIM_CLUSTERS, DIM_EMBD, .flags = SLOT_WHOLE},
    {SLOT_ABSENT, "masked_embd_ordering", "masked_embedding.token_ordering", NULL, DIM_1, DIM_VOCAB,
     .flags = SLOT_WHOLE},
    GEMMA_VECTOR(SLOT_ATTN_NORM, "attn_norm.weight", "input_layernorm.weight", DIM_EMBD, .in = 0),
    {SLOT_Q, "attn_q.weight", "self_attn.q_proj.weight", NULL, DIM_Q, DIM_EMBD},
    GEMMA_VECTOR(SLOT_Q_NORM, "attn_q_norm.weight", "self_attn.q_norm.weight", DIM_HEAD, .in = 0),
    {SLOT_OUT, "attn_output.weight", "self_attn.o_proj.weight", NULL, DIM_EMBD, DIM_Q},
    SLOTS_POST_NORMS,
    SLOTS_GATED_FF(0),
    {SLOT_LAYER_SCALE, "layer_output_scale.weight", "layer_scalar", NULL, DIM_1, DIM_1,
     .flags = SLOT_OPTIONAL},
};

static int assistant_finish(struct hparams *hp, enum arch_source source, struct inf_err *reterr)
{
    struct hparams_head *head = &hp->head;

    if (hp->gemma.per_layer > 0)
        return err_set(reterr, EOPNOTSUPP,
                       "an assistant with per-layer embeddings is not supported");
    gemma4_set_heads(hp, source);
    hp->final_softcap = 0; /* transformers and llama.cpp do not limit the logits of assistants */
    head->is_head = true;
    head->n_vocab = hp->n_vocab;
    if (head->n_clusters > 0 && head->n_clusters_used == 0)
        head->n_clusters_used = MIN(CLUSTERS_USED, head->n_clusters);
    return 0;
}

/* Reads the tensor that lists the tokens of each cluster, @b->m->hp->n_vocab numbers, as tokens[n].
 * -EBADMSG: it is missing, malformed, or not a permutation; -ENOMEM. */
static int read_ordering(struct binder *b, uint32_t *tokens)
{
    const uint32_t n = b->m->hp->n_vocab;
    _cleanup_free_ bool *seen = NEW(bool, n);
    const struct format_tensor *t;
    bool wide;
    size_t i;

    if (!seen)
        return err_set(b->err, ENOMEM, "out of memory");
    if (!format_find_index(b->m->f, "masked_embd_ordering", &i))
        return err_set(b->err, EBADMSG, "the tensor of the order of the tokens is missing");
    t = format_tensor_at(b->m->f, i);
    b->bound[i] = true;
    wide = strcmp(t->type_name, "I64") == 0;
    if ((!wide && strcmp(t->type_name, "I32") != 0) || t->n_dims != 1 || t->dims[0] != n)
        return err_set(b->err, EBADMSG, "tensor %.64s is not a list of %u numbers of type I64",
                       t->file_name, n);
    for (uint32_t k = 0; k < n; k++) {
        int64_t token;
        int32_t narrow;

        memcpy(wide ? (void *)&token : (void *)&narrow,
               (const char *)t->data + (size_t)k * (wide ? sizeof(token) : sizeof(narrow)),
               wide ? sizeof(token) : sizeof(narrow));
        if (!wide)
            token = narrow;
        if (token < 0 || token >= n || seen[token])
            return err_set(b->err, EBADMSG, "tensor %.64s does not have each token once",
                           t->file_name);
        seen[token] = true;
        tokens[k] = (uint32_t)token;
    }
    return 0;
}

/* Copies rows of @bytes bytes each in the order @order [n]. NULL: memory is short. */
static void *copy_rows(struct binder *b, const void *from, uint64_t bytes, const uint32_t *order,
                       uint32_t n)
{
    char *to = arena_alloc(&b->m->arena, bytes * n);

    for (uint32_t i = 0; to && i < n; i++)
        memcpy(to + i * bytes, (const char *)from + order[i] * bytes, bytes);
    return to;
}

/* Copies the rows of the head in the order of their clusters. */
static int bind_clusters(struct binder *b, struct model_head *head)
{
    struct model *m = b->m;
    const uint32_t n = m->hp->n_vocab, n_clusters = m->hp->head.n_clusters;
    const struct weight *w = model_w(m, SLOT_HEAD);
    struct weight *to = &head->clusters;
    int r;

    head->cluster_tokens = arena_alloc(&m->arena, n * sizeof(*head->cluster_tokens));
    if (!head->cluster_tokens)
        return err_set(b->err, ENOMEM, "out of memory");
    r = read_ordering(b, head->cluster_tokens);
    if (r < 0)
        return r;
    if (w->coded || w->turn || w->row_step > 1)
        return err_set(b->err, EOPNOTSUPP,
                       "the head of an assistant with clusters of tokens cannot be stored as %s",
                       dtype_info(w->dtype)->label);
    *to = *w;
    to->rows = n / n_clusters;
    to->n_experts = n_clusters;
    to->expert_bytes = to->rows * weight_row_bytes(w);
    to->data = copy_rows(b, w->data, weight_row_bytes(w), head->cluster_tokens, n);
    for (enum weight_plane p = 0; to->data && p < WEIGHT_PLANES; p++)
        if (weight_plane_bytes(w, p) > 0) {
            to->planes[p] =
                copy_rows(b, w->planes[p], weight_plane_bytes(w, p), head->cluster_tokens, n);
            if (!to->planes[p])
                to->data = NULL;
        }
    if (!to->data)
        return err_set(b->err, ENOMEM, "out of memory");
    m->bytes_token -= weight_bytes(w) / n_clusters * (n_clusters - m->hp->head.n_clusters_used);
    m->madds_head = m->madds_head / n_clusters * m->hp->head.n_clusters_used;
    return 0;
}

static int assistant_bind(struct binder *b)
{
    struct model *m = b->m;
    struct model_head *head = arena_zalloc(&m->arena, sizeof(*head));
    int r;

    if (!head)
        return err_set(b->err, ENOMEM, "out of memory");
    m->head = head;
    r = bind_split(b, model_w(m, SLOT_ASSIST_IN), 2, head->in);
    return r == 0 && m->hp->head.n_clusters > 0 ? bind_clusters(b, head) : r;
}

/* Returns the last layer of @target of the same kind as layer @i_layer of the assistant, or of the
 * layer whose keys and values that layer reads. Returns n_layers if there is none. */
static uint32_t find_owner(const struct model *m, const struct model *target, uint32_t i_layer)
{
    const bool full = hparams_window(m->hp, i_layer) == 0;
    uint32_t i = target->hp->n_layers;

    while (i > 0 && (hparams_window(target->hp, i - 1) == 0) != full)
        i--;
    if (i == 0)
        return target->hp->n_layers;
    return target->hp->layers[i - 1].shared > 0 ? target->hp->layers[i - 1].shared - 1u : i - 1;
}

static int layer_fits(const struct model *m, const struct model *target, uint32_t i_layer,
                      struct inf_err *reterr)
{
    const struct hparams *hp = m->hp, *other = target->hp;
    const uint32_t i_owner = find_owner(m, target, i_layer);

    if (i_owner == other->n_layers)
        return err_set(reterr, EINVAL,
                       "the assistant reads keys of layers %s a window, and the model has no such "
                       "layers",
                       hparams_window(hp, i_layer) > 0 ? "with" : "without");
    if (hparams_head_dim(hp, i_layer) != hparams_head_dim(other, i_owner) ||
        hparams_n_kv_heads(hp, i_layer) != hparams_n_kv_heads(other, i_owner))
        return err_set(
            reterr, EINVAL,
            "layer %u of the assistant reads keys of %u heads of %u, but layer %u of the "
            "model has %u heads of %u",
            i_layer, hparams_n_kv_heads(hp, i_layer), hparams_head_dim(hp, i_layer), i_owner,
            hparams_n_kv_heads(other, i_owner), hparams_head_dim(other, i_owner));
    return 0;
}

static int assistant_fits(const struct model *m, const struct model *target, struct inf_err *reterr)
{
    const struct hparams *hp = m->hp, *other = target->hp;
    int r = 0;

    if (target->arch != &arch_gemma4)
        return err_set(reterr, EINVAL,
                       "the assistant is for models of Gemma 4, and the model is of the "
                       "architecture %s",
                       other->arch);
    if (hp->head.n_target != other->n_embd)
        return err_set(reterr, EINVAL,
                       "the assistant is for models of width %u, but the model has width %u",
                       hp->head.n_target, other->n_embd);
    if (hp->n_vocab < other->n_vocab)
        return err_set(reterr, EINVAL, "the assistant knows %u tokens, and the model has %u",
                       hp->n_vocab, other->n_vocab);
    if (hp->window > other->window)
        return err_set(reterr, EINVAL,
                       "the assistant has a window of %u tokens, and the model one of %u",
                       hp->window, other->window);
    for (uint32_t i = 0; r == 0 && i < hp->n_layers; i++)
        r = layer_fits(m, target, i, reterr);
    return r;
}

/* Computes attention of the normalized rows @h to the keys of the target. Its keys may be balanced
 * with its own queries (balance.c), so the queries of the assistant need the same factors. */
static graph_ref assistant_attention(const struct model *m, const struct model *target,
                                     struct graph *g, uint32_t i_layer, graph_ref h)
{
    static const struct weight none;
    const uint32_t i_owner = find_owner(m, target, i_layer);
    const uint32_t head_dim = hparams_head_dim(m->hp, i_layer);
    const struct weight *factors = target->query_factors ? &target->query_factors[i_owner] : &none;
    const struct state_place place = group_place(target, i_owner);
    struct attn_params attn = layer_attn_params(m, i_layer);
    const struct rope_params rope = rope_of_layer(m, i_layer);
    graph_ref q;

    attn.i_group = place.i_group;
    attn.i_layer = place.i_layer;
    if (attn.window > 0)
        attn.window++;
    q = layer_linear(m, g, i_layer, h, SLOT_Q, SLOT_ABSENT);
    q = graph_rms_norm_by(g, q, layer_w(m, i_layer, SLOT_Q_NORM), factors, m->hp->norm_eps,
                          head_dim);
    return graph_attention_past(g, graph_rope(g, q, head_dim, &rope), &attn);
}

static graph_ref assistant_layer(const struct model *m, const struct model *target, struct graph *g,
                                 uint32_t i_layer, graph_ref x)
{
    const struct weight *scale = layer_w(m, i_layer, SLOT_LAYER_SCALE);
    graph_ref h = layer_norm(m, g, i_layer, x, SLOT_ATTN_NORM);

    h = assistant_attention(m, target, g, i_layer, h);
    if (i_layer == m->hp->n_layers - 1) {
        h = graph_rows(g, h);
        x = graph_rows(g, x);
    }
    h = layer_linear(m, g, i_layer, h, SLOT_OUT, SLOT_ABSENT);
    x = layer_add(m, g, i_layer, x, h, SLOT_ATTN_POST_NORM);
    h = layer_gated_ff(m, g, i_layer, layer_norm(m, g, i_layer, x, SLOT_FFN_NORM));
    x = layer_add(m, g, i_layer, x, h, SLOT_FFN_POST_NORM);
    return scale->data ? graph_scale(g, x, *(const float *)scale->data) : x;
}

/* Computes logits from the normalized rows @x. */
static graph_ref assistant_head(const struct model *m, struct graph *g, graph_ref x)
{
    const struct hparams_head *head = &m->hp->head;
    const struct route_params route = {
        .score = ROUTE_SOFTMAX, .n_used = head->n_clusters_used, .scale = 1};
    const struct spread_params spread = {.width = m->hp->n_vocab,
                                         .places = m->head->cluster_tokens};
    graph_ref clusters;

    if (head->n_clusters == 0)
        return graph_matmul(g, x, model_w(m, SLOT_HEAD), NULL);
    clusters = graph_matmul(g, x, model_w(m, SLOT_CENTROIDS), NULL);
    clusters = graph_route(g, clusters, NULL, NULL, &route);
    x = graph_matmul_experts(g, x, clusters, &m->head->clusters, NULL);
    return graph_spread(g, x, clusters, &spread);
}

static void assistant_build(const struct model *m, const struct model *target, struct graph *g)
{
    graph_ref x = graph_input(g, m->hp->head.n_target), e;

    e = graph_embed(g, model_w(target, SLOT_EMBD), target->hp->embd_scale);
    x = graph_matmul(g, x, &m->head->in[1], NULL);
    x = graph_add(g, graph_matmul(g, e, &m->head->in[0], NULL), x);
    for (uint32_t i = 0; i < m->hp->n_layers; i++) {
        graph_begin_layer(g, i);
        x = assistant_layer(m, target, g, i, x);
    }
    x = layer_norm(m, g, m->hp->n_layers, x, SLOT_OUT_NORM);
    graph_export(g, graph_matmul(g, x, model_w(m, SLOT_ASSIST_OUT), NULL));
    graph_output(g, assistant_head(m, g, x));
}

const struct arch arch_assistant = {
    .desc = {"gemma4-assistant", ARCH_TABLE(ggufs, ggufs), ARCH_TABLE(classes, classes),
             ARCH_TABLE(fields, fields), ARCH_TABLE(refused_hf, refused), .window = &gemma4_window,
             ARCH_TABLE(slots, slots), .draft_head = true, .finish = assistant_finish,
             .hf_extra = hf_extra_assistant},
    .bind = assistant_bind,
    .head_fits = assistant_fits,
    .build_head = assistant_build,
};
