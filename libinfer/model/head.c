/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the graphs of a draft head (arch-eagle3.c, arch-dflash.c, arch-gemma4-assistant.c) and of
 * its target.
 *
 * In a head of EAGLE-3, the matrix that joins the hidden states of the target is a part of the
 * graph of the target: each of its parts is multiplied by the residual stream before a layer, and
 * the graph exports the sum. So the rows that pass from one graph to the other have the width of
 * the head, as those that the head makes itself.
 */
#include <errno.h>

#include "core/err.h"
#include "model/head.h"

bool model_is_head(const struct model *m)
{
    return m->head;
}

const char *model_head_kind(const struct model *m)
{
    return m->head ? m->arch->desc.name : NULL;
}

bool model_head_assists(const struct model *m)
{
    return m->arch == &arch_assistant;
}

uint32_t model_head_width(const struct model *m)
{
    return model_head_assists(m) ? m->hp->head.n_target : m->hp->n_embd;
}

const int32_t *model_head_tokens(const struct model *m, uint32_t *ret_n)
{
    *ret_n = m->hp->head.n_vocab;
    return m->head->tokens;
}

/* Finds the layers of @target that @m reads. */
static void find_taps(const struct model *m, const struct model *target,
                      uint32_t layers[HPARAMS_TAPS])
{
    const uint32_t n = target->hp->n_layers, n_taps = m->hp->head.n_taps;
    const uint32_t usual[HPARAMS_EAGLE3_TAPS] = {2, n / 2, n > 3 ? n - 3 : 0};
    bool known = false;

    for (uint32_t k = 0; k < n_taps; k++)
        known = known || m->hp->head.taps[k] > 0;
    for (uint32_t k = 0; k < n_taps; k++)
        layers[k] = known ? m->hp->head.taps[k] : usual[k % HPARAMS_EAGLE3_TAPS];
}

/* Checks whether the tokens of the draft head @m are tokens of @target. */
static int check_tokens(const struct model *m, const struct model *target, struct inf_err *reterr)
{
    const uint32_t n = target->hp->n_vocab;

    if (m->hp->head.block > 0)
        return m->hp->head.mask < n ? 0
                                    : err_set(reterr, EINVAL,
                                              "the draft head masks tokens with token %u, but the "
                                              "model has %u tokens",
                                              m->hp->head.mask, n);
    if (m->hp->n_vocab < n)
        return err_set(reterr, EINVAL, "the draft head knows %u tokens, and the model has %u",
                       m->hp->n_vocab, n);
    for (uint32_t k = 0; k < m->hp->head.n_vocab; k++)
        if ((m->head->tokens ? (uint32_t)m->head->tokens[k] : k) >= n)
            return err_set(reterr, EINVAL,
                           "the draft head predicts tokens that the model does not have");
    return 0;
}

int model_head_fits(const struct model *m, const struct model *target, struct inf_err *reterr)
{
    const struct hparams *hp = m->hp, *other = target->hp;
    const bool own_embd = model_w(m, SLOT_EMBD)->data;
    uint32_t layers[HPARAMS_TAPS];

    if (m->arch->head_fits)
        return m->arch->head_fits(m, target, reterr);
    find_taps(m, target, layers);
    for (uint32_t k = 0; k < hp->head.n_taps; k++)
        if (layers[k] >= other->n_layers)
            return err_set(reterr, EINVAL,
                           "the draft head reads layer %u, but the model has %u layers", layers[k],
                           other->n_layers);
    if (hp->head.n_target != other->n_embd || (!own_embd && hp->n_embd != other->n_embd))
        return err_set(reterr, EINVAL,
                       "the draft head is for models of width %u, but the model has width %u",
                       own_embd ? hp->head.n_target : hp->n_embd, other->n_embd);
    return check_tokens(m, target, reterr);
}

void head_tap(struct model_taps *taps, struct graph *g, uint32_t i_layer, graph_ref x)
{
    for (uint32_t k = 0; k < taps->n_all; k++) {
        graph_ref part;

        if (taps->layers[k] != i_layer)
            continue;
        part = graph_matmul(g, x, &taps->head->join[k], NULL);
        taps->sum = taps->n == 0 ? part : graph_add(g, taps->sum, part);
        if (++taps->n == taps->n_all)
            graph_export(g, taps->sum);
    }
}

int model_build_tapped(const struct model *m, const struct model *head, struct graph **ret_graph,
                       struct inf_err *reterr)
{
    struct model_taps taps = {.head = head->head, .n_all = head->hp->head.n_taps};
    struct model tapped = *m;
    _cleanup_(graph_freep) struct graph *g = NULL;
    int r;

    if (model_head_assists(head)) {
        tapped.assisted = true;
        return model_build(&tapped, ret_graph, reterr);
    }
    find_taps(head, m, taps.layers);
    tapped.taps = &taps;
    r = model_build(&tapped, &g, reterr);
    if (r == 0 && taps.n < taps.n_all)
        return err_set(reterr, EOPNOTSUPP, "draft heads for %s models are not supported",
                       m->hp->arch);
    if (r == 0)
        *ret_graph = STEAL(g);
    return r;
}

int head_bind_taps(struct binder *b, struct model_head *head)
{
    return bind_split(b, model_w(b->m, SLOT_TAPS_JOIN), b->m->hp->head.n_taps, head->join);
}

/* Ends the building of a graph. */
static int take_graph(struct graph **g, struct graph **ret_graph, struct inf_err *reterr)
{
    const int r = graph_error(*g, reterr);

    if (r == 0)
        *ret_graph = STEAL(*g);
    return r;
}

int model_build_head(const struct model *m, const struct model *target, struct graph **ret_graph,
                     struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;

    if (graph_new(&g) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    /* An assistant has no state of its own. */
    if (!model_head_assists(m))
        groups_add(m, g);
    m->arch->build_head(m, target, g);
    return take_graph(&g, ret_graph, reterr);
}

uint32_t model_head_block(const struct model *m, int32_t *ret_mask)
{
    if (m->hp->head.block > 0)
        *ret_mask = (int32_t)m->hp->head.mask;
    return m->hp->head.block;
}

int model_build_store(const struct model *m, struct graph **ret_graph, struct inf_err *reterr)
{
    _cleanup_(graph_freep) struct graph *g = NULL;

    if (graph_new(&g) < 0)
        return err_set(reterr, ENOMEM, "out of memory");
    groups_add(m, g);
    m->arch->build_store(m, g);
    return take_graph(&g, ret_graph, reterr);
}
