/* SPDX-License-Identifier: Apache-2.0 */
/* Builds graphs that compute vectors and scores of texts: a model's rows, pooling, and the layers
 * after the pooling. */
#include <errno.h>
#include <string.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

enum pooling model_pooling(const struct model *m)
{
    if (m->hp->embed.pooling != POOLING_NONE)
        return m->hp->embed.pooling;
    if (m->hp->embed.n_labels > 0)
        return POOLING_CLS;
    return m->hp->embed.encoder ? POOLING_MEAN : POOLING_LAST;
}

enum pooling model_score_pooling(const struct model *m)
{
    if (m->hp->embed.score_pooling != POOLING_NONE)
        return m->hp->embed.score_pooling;
    return m->hp->embed.encoder ? POOLING_CLS : POOLING_LAST;
}

uint32_t model_embed_width(const struct model *m, const struct model_embed *how)
{
    const struct hparams_embed *e = &m->hp->embed;

    if (how->make == MODEL_MAKE_SCORE)
        return e->n_labels > 0 ? e->n_labels : 2;
    if (how->make == MODEL_MAKE_VECTOR && e->n_dense > 0)
        return e->dense_out[e->n_dense - 1];
    if (how->make == MODEL_MAKE_ROWS && e->late && e->n_dense > 0)
        return e->dense_out[e->n_dense - 1];
    if (how->make == MODEL_MAKE_ROWS && m->multi.data)
        return m->multi.rows;
    return m->hp->n_embd;
}

/* Makes a weight of the rows of the head for two tokens. The rows are copied, because they are not
 * adjacent. The model keeps the last copy, so that another call for the same tokens allocates no
 * memory. */
static int head_rows(struct model *m, const int32_t tokens[2], struct weight *ret,
                     struct inf_err *reterr)
{
    const struct weight *head = model_w(m, SLOT_HEAD);
    uint64_t row = 0;

    for (unsigned i = 0; i < 2; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= head->rows)
            return err_set(reterr, EOPNOTSUPP,
                           "the vocabulary has no tokens for \"no\" and \"yes\", so this model "
                           "cannot rank texts");
    if (head->group > 0)
        return err_set(reterr, EOPNOTSUPP, "models whose head is stored as %s cannot rank texts",
                       dtype_info(head->dtype)->label);
    if (!dtype_row_bytes(head->dtype, head->cols, &row))
        return -EINVAL;
    if (!m->head_pair.data || memcmp(m->head_pair_tokens, tokens, 2 * sizeof(tokens[0])) != 0) {
        unsigned char *copy = arena_alloc(&m->arena, 2 * row);

        if (!copy)
            return err_set(reterr, ENOMEM, "out of memory");
        for (unsigned i = 0; i < 2; i++)
            memcpy(copy + i * row, (const unsigned char *)head->data + (uint64_t)tokens[i] * row,
                   row);
        m->head_pair = *head;
        m->head_pair.data = copy;
        m->head_pair.rows = 2;
        memcpy(m->head_pair_tokens, tokens, 2 * sizeof(tokens[0]));
    }
    *ret = m->head_pair;
    return 0;
}

static graph_ref classify_rows(const struct model *m, struct graph *g, graph_ref x)
{
    if (m->hp->embed.has_head)
        x = graph_act(g, graph_matmul(g, x, &m->pooler, &m->pooler_bias), m->hp->embed.head_act);
    if (m->hp->embed.has_head && m->pooler_norm.data)
        x = graph_layer_norm(g, x, &m->pooler_norm, NULL, m->hp->norm_eps);
    return graph_matmul(g, x, &m->labels, &m->labels_bias);
}

static graph_ref dense_layers(const struct model *m, struct graph *g, graph_ref x)
{
    const struct hparams_embed *e = &m->hp->embed;

    for (uint32_t i = 0; i < e->n_dense; i++) {
        x = graph_matmul(g, x, &m->dense[i], &m->dense_bias[i]);
        if (!e->dense_linear[i])
            x = graph_act(g, x, e->dense_act[i]);
    }
    return x;
}

/* Builds the part of the graph that computes the rows of a text. If the pooling takes single rows,
 * the result has only these rows, because the last layer drops all other rows. */
static graph_ref all_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    return m->arch->build_rows ? m->arch->build_rows(m, g, pooling)
                               : layer_decoder_rows(m, g, pooling);
}

static graph_ref pool_rows(const struct model *m, struct graph *g, enum pooling pooling)
{
    const graph_ref x = all_rows(m, g, pooling);

    return pooling == POOLING_MEAN ? graph_pool(g, x) : x;
}

/* Computes one vector per row. */
static graph_ref single_rows(const struct model *m, struct graph *g)
{
    const graph_ref x = graph_rows(g, all_rows(m, g, POOLING_NONE));

    if (m->hp->embed.late)
        return dense_layers(m, g, x);
    return m->multi.data ? layer_product(m, g, x, &m->multi, &m->multi_bias) : x;
}

/* Builds the graph for @how. @head: rows of the head for two tokens, or none. */
static graph_ref build_embed(const struct model *m, const struct model_embed *how,
                             const struct weight *head, struct graph *g)
{
    graph_ref x;

    if (how->make == MODEL_MAKE_ROWS)
        return single_rows(m, g);
    x = pool_rows(m, g, how->pooling);
    if (how->make == MODEL_MAKE_VECTOR)
        return dense_layers(m, g, x);
    return head->data ? graph_matmul(g, x, head, NULL) : classify_rows(m, g, x);
}

int model_build_embed(struct model *m, const struct model_embed *how, struct graph **ret_graph,
                      struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;
    struct weight head = {0};
    struct model view = *m;
    int r = 0;

    if (m->head)
        return err_set(reterr, EOPNOTSUPP,
                       "the model only drafts tokens for another model and does not compute "
                       "vectors");
    if (m->hp->embed.late && how->make != MODEL_MAKE_ROWS)
        return err_set(reterr, EOPNOTSUPP,
                       "it was trained for late interaction and gives one vector per token");
    if (m->loras)
        view.task_loras = m->loras + how->i_task * model_n_loras(m);
    if (how->make == MODEL_MAKE_SCORE && m->hp->embed.n_labels == 0) {
        if (!model_w(m, SLOT_HEAD)->data)
            return err_set(reterr, EOPNOTSUPP,
                           "this model has no classifier, so it cannot rank texts");
        r = head_rows(m, how->tokens, &head, reterr);
    }
    if (r == 0 && graph_new(&g) < 0)
        r = err_set(reterr, ENOMEM, "out of memory");
    if (r < 0)
        return r;
    graph_output(g, build_embed(&view, how, &head, g));
    r = graph_error(g, reterr);
    if (r < 0)
        return r;
    *ret_graph = STEAL(g);
    return 0;
}
