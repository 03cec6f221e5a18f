/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the graph of the layer that predicts a further token (multi-token prediction: Gloeckle et
 * al. 2024; DeepSeek-V3 2024), which drafts tokens for the model.
 *
 * The layer reads the embedding of a token and the hidden state of the token before it, each with a
 * norm of its own. A matrix joins them to the input of an ordinary layer with attention. Its result
 * becomes logits with a norm of its own and, usually, with the head of the model.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "graph/params.h"
#include "model/arch.h"
#include "quant/dtype.h"

/* Copies the parts of the rows of @w to @to. Returns false if a part is not whole blocks, or the
 * format has planes. */
static bool split_copy(struct binder *b, const struct weight *w, uint32_t n_parts,
                       struct weight *to)
{
    const uint32_t n = w->cols / n_parts;
    uint64_t bytes;

    if (w->planes[WEIGHT_SCALES] || n % dtype_info(w->dtype)->block_elems != 0 ||
        !dtype_row_bytes(w->dtype, n, &bytes))
        return false;
    for (uint32_t k = 0; k < n_parts; k++) {
        char *data = arena_alloc(&b->m->arena, bytes * w->rows);

        to[k] = (struct weight){
            .data = data, .dtype = w->dtype, .rows = w->rows, .cols = n, .name = w->name};
        for (uint32_t i = 0; data && i < w->rows; i++)
            memcpy(data + i * bytes, (const char *)w->data + (n_parts * (uint64_t)i + k) * bytes,
                   bytes);
    }
    return true;
}

/* Decodes the parts of the rows of @w. */
static void split_decode(struct binder *b, const struct weight *w, uint32_t n_parts,
                         struct weight *to)
{
    const uint32_t n = w->cols / n_parts;
    float *row = arena_alloc(&b->m->arena, (size_t)w->cols * sizeof(float));
    float *data[BIND_PARTS];
    bool ok = row;

    for (uint32_t k = 0; k < n_parts; k++) {
        data[k] = row ? arena_alloc(&b->m->arena, (size_t)w->rows * n * sizeof(float)) : NULL;
        ok = ok && data[k];
        to[k] = (struct weight){
            .data = data[k], .dtype = INF_DTYPE_F32, .rows = w->rows, .cols = n, .name = w->name};
    }
    for (uint32_t i = 0; ok && i < w->rows; i++) {
        weight_decode_row(w, i, row);
        for (uint32_t k = 0; k < n_parts; k++)
            memcpy(data[k] + (size_t)i * n, row + (size_t)k * n, n * sizeof(float));
    }
}

/* Returns part @k of a rotation, whose parts have @n columns each, or NULL: out of memory. */
static const struct turn_params *split_turn(struct arena *arena, const struct turn_params *all,
                                            uint32_t n, uint32_t k)
{
    const size_t first = (size_t)k * n, n_all = (size_t)all->n_rounds * n;
    struct turn_params *part = arena_alloc(arena, sizeof(*part));
    uint8_t *pairs = arena_alloc(arena, n_all);
    float *turns = arena_alloc(arena, n_all * sizeof(*turns));

    if (!part || !pairs || !turns)
        return NULL;
    for (uint32_t i = 0; i < all->n_rounds; i++) {
        const size_t from = (size_t)i * all->width + first;

        memcpy(pairs + (size_t)i * n, all->pairs + from, n);
        memcpy(turns + (size_t)i * n, all->turns + from, n * sizeof(*turns));
    }
    *part = *all;
    part->width = n;
    part->factors = all->factors ? all->factors + first : NULL;
    part->pairs = pairs;
    part->turns = turns;
    return part;
}

/* Divides the rotation of the input of @w, if it has one, among the parts. */
static int split_turns(struct binder *b, const struct weight *w, uint32_t n_parts,
                       struct weight *to)
{
    const uint32_t n = w->cols / n_parts;

    if (!w->turn)
        return 0;
    if (w->turn->order || n % w->turn->group != 0)
        return err_set(
            b->err, EOPNOTSUPP,
            "the input of %.96s is rotated in groups of %u columns, but %u columns of it "
            "are multiplied separately",
            w->name, w->turn->group, n);
    for (uint32_t k = 0; k < n_parts; k++) {
        to[k].turn = split_turn(&b->m->arena, w->turn, n, k);
        if (!to[k].turn)
            return err_set(b->err, ENOMEM, "out of memory");
    }
    return 0;
}

int bind_split(struct binder *b, const struct weight *w, uint32_t n, struct weight *to)
{
    assert(n <= BIND_PARTS && w->cols % n == 0);
    if (!split_copy(b, w, n, to))
        split_decode(b, w, n, to);
    for (uint32_t k = 0; k < n; k++)
        if (!to[k].data)
            return err_set(b->err, ENOMEM, "out of memory");
    return split_turns(b, w, n, to);
}

/* Returns a weight of the layer, or if it has none, the weight of the model. */
static const struct weight *own_or(const struct model *m, enum slot own, enum slot shared)
{
    const struct weight *w = layer_w(m, hparams_predict_row(m->hp), own);

    return w->data ? w : model_w(m, shared);
}

int model_build_predictor(const struct model *m, struct graph **ret_graph, struct inf_err *reterr)
{
    const uint32_t i_row = hparams_predict_row(m->hp);
    const float eps = m->hp->norm_eps;
    _cleanup_(graph_freep) struct graph *g = NULL;
    graph_ref e, x;
    int r;

    if (!m->predicts)
        return err_set(reterr, EOPNOTSUPP, "the model has no layer that predicts further tokens");
    if (graph_new(&g) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    graph_add_group(g, &(struct state_group){.rule = STATE_FULL,
                                             .n_layers = 1,
                                             .n_kv_heads = hparams_n_kv_heads(m->hp, i_row),
                                             .head_dim = hparams_head_dim(m->hp, i_row)});
    x = graph_input(g, m->hp->n_embd);
    x = layer_norm(m, g, i_row, x, SLOT_PREDICT_HIDDEN_NORM);
    x = graph_matmul(g, x, &m->predict_join[1], NULL);
    e = graph_embed(g, own_or(m, SLOT_PREDICT_EMBD, SLOT_EMBD), 1);
    e = layer_norm(m, g, i_row, e, SLOT_PREDICT_EMBD_NORM);
    x = graph_add(g, graph_matmul(g, e, &m->predict_join[0], NULL), x);
    x = m->arch->build_predictor(m, g, x);
    x = graph_rms_norm(g, x, own_or(m, SLOT_PREDICT_OUT_NORM, SLOT_OUT_NORM), eps, 0);
    graph_export(g, x);
    graph_output(g, graph_matmul(g, x, own_or(m, SLOT_PREDICT_HEAD, SLOT_HEAD), NULL));
    r = graph_error(g, reterr);
    if (r < 0)
        return r;
    *ret_graph = STEAL(g);
    return 0;
}
