/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the dimensions of weights, and says which layers have them. */
#include "model/arch.h"

static uint32_t dim_of_delta(const struct hparams_delta *d, enum arch_dim dim)
{
    switch (dim) {
    case DIM_DELTA_QKV:
        return 2 * d->n_k_heads * d->k_dim + d->n_v_heads * d->v_dim;
    case DIM_DELTA_QKVZ:
        return 2 * (d->n_k_heads * d->k_dim + d->n_v_heads * d->v_dim);
    case DIM_DELTA_V:
        return d->n_v_heads * d->v_dim;
    case DIM_DELTA_HEAD:
        return d->v_dim;
    case DIM_DELTA_HEADS:
        return d->n_v_heads;
    case DIM_DELTA_HEADS_2:
        return 2 * d->n_v_heads;
    default:
        return d->n_taps;
    }
}

static uint32_t dim_of_attention(const struct hparams *hp, uint32_t i_layer, enum arch_dim dim)
{
    const uint32_t head = hparams_head_dim(hp, i_layer);
    const uint32_t n_q = hparams_n_heads(hp, i_layer) * head;
    const uint32_t n_kv = hparams_n_kv_heads(hp, i_layer) * head;

    switch (dim) {
    case DIM_Q:
        return n_q;
    case DIM_Q_2:
        return 2 * n_q;
    case DIM_KV:
        return n_kv;
    case DIM_QKV:
        return n_q + 2 * n_kv;
    case DIM_HEADS:
        return hparams_n_heads(hp, i_layer);
    default:
        return head;
    }
}

uint32_t dim_of(const struct hparams *hp, uint32_t i_layer, enum arch_dim dim)
{
    switch (dim) {
    case DIM_NONE:
        return 0;
    case DIM_1:
        return 1;
    case DIM_VOCAB:
        return hp->n_vocab;
    case DIM_EMBD:
        return hp->n_embd;
    case DIM_EMBD_2:
        return 2 * hp->n_embd;
    case DIM_Q:
    case DIM_Q_2:
    case DIM_KV:
    case DIM_QKV:
    case DIM_HEAD:
    case DIM_HEADS:
        return dim_of_attention(hp, i_layer, dim);
    case DIM_FF:
        return hparams_n_ff(hp, i_layer);
    case DIM_FF_2:
        return 2 * hparams_n_ff(hp, i_layer);
    case DIM_EXPERTS:
        return hp->experts.n;
    case DIM_EXPERT_FF:
        return hp->experts.ff;
    case DIM_EXPERT_FF_2:
        return 2 * hp->experts.ff;
    case DIM_SHARED_FF:
        return hp->experts.shared_ff;
    case DIM_POS:
        return hp->embed.n_pos;
    case DIM_PER_LAYER:
        return hp->gemma.per_layer;
    case DIM_PER_LAYER_ALL:
        return hp->gemma.per_layer * hp->n_layers;
    case DIM_EMBD_PER_LAYER:
        return hp->gemma.per_layer > 0 ? hp->n_embd : 0;
    case DIM_VOCAB_PER_LAYER:
        return hp->gemma.n_vocab > 0 ? hp->gemma.n_vocab : hp->n_vocab;
    case DIM_LAUREL:
        return hp->gemma.laurel_rank;
    case DIM_STREAMS:
        return HPARAMS_STREAMS;
    case DIM_STREAMS_ADDED:
        return HPARAMS_STREAMS - 1;
    case DIM_STREAMS_PAIRS:
        return HPARAMS_STREAMS * HPARAMS_STREAMS;
    case DIM_TYPES:
        return hp->embed.n_types;
    case DIM_DELTA_QKV:
    case DIM_DELTA_QKVZ:
    case DIM_DELTA_V:
    case DIM_DELTA_HEAD:
    case DIM_DELTA_HEADS:
    case DIM_DELTA_HEADS_2:
    case DIM_DELTA_TAPS:
        return dim_of_delta(&hp->delta, dim);
    case DIM_TARGETS:
        return hp->head.n_taps * hp->head.n_target;
    case DIM_HEAD_VOCAB:
        return hp->head.n_vocab;
    case DIM_TARGET:
        return hp->head.n_target;
    case DIM_TARGET_2:
        return 2 * hp->head.n_target;
    case DIM_CLUSTERS:
        return hp->head.n_clusters;
    }
    return 0;
}

bool layer_is_in(const struct hparams *hp, uint32_t i_layer, unsigned in)
{
    const struct hparams_layer *l = &hp->layers[i_layer];
    const unsigned first = in & (IN_ATTENTION | IN_RECURRENT | IN_OWN_KV);
    const unsigned second = in & (IN_DENSE | IN_SPARSE);
    const unsigned attention = l->shared > 0 ? IN_ATTENTION : IN_ATTENTION | IN_OWN_KV;

    return (!(in & IN_PREDICTS) || l->kind == LAYER_PREDICTS) &&
           (first == 0 || (first & (l->kind == LAYER_RECURRENT ? IN_RECURRENT : attention))) &&
           (second == 0 || (second & (l->sparse ? IN_SPARSE : IN_DENSE)));
}
