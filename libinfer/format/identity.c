/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the identity of a model without reading its weights, because reading them would take
 * seconds. So two models that differ only in their weights have the same identity.
 */
#include <string.h>

#include "core/sha256.h"
#include "format/format.h"

static void add_hparams(struct sha256 *h, const struct hparams *hp)
{
    const uint32_t counts[] = {
        hp->n_vocab,
        hp->n_embd,
        hp->n_layers,
        hp->n_ff,
        hp->n_heads,
        hp->n_kv_heads,
        hp->head_dim,
        hp->rope_style,
        hp->rope_dims,
        hp->rope_dims_window,
        hp->rope_pairs,
        hp->gemma.per_layer,
        hp->gemma.k_is_v,
        hp->gemma.n_vocab,
        hp->gemma.laurel_rank,
        hp->gemma.correct_scale,
        hp->rope_scaling,
        hp->rope_ctx_orig,
        hp->yarn_no_truncate,
        hp->window,
        hp->act,
        hp->ternary,
        hp->norms_add_one,
        hp->experts.n,
        hp->experts.n_used,
        hp->experts.ff,
        hp->experts.shared_ff,
        hp->experts.score,
        hp->experts.norm_topk,
        hp->delta.n_k_heads,
        hp->delta.n_v_heads,
        hp->delta.k_dim,
        hp->delta.v_dim,
        hp->delta.n_taps,
        hp->delta.interleaved,
        hp->head.n_target,
        hp->head.n_vocab,
        hp->head.taps[0],
        hp->head.taps[1],
        hp->head.taps[2],
        hp->head.norm_residual,
        hp->head.n_clusters,
        hp->head.n_clusters_used,
    };
    const float values[] = {
        hp->norm_eps,         hp->rope_theta,           hp->rope_factor,
        hp->rope_attn_factor, hp->rope_low_freq_factor, hp->rope_high_freq_factor,
        hp->yarn_beta_fast,   hp->yarn_beta_slow,       hp->yarn_attn_factor,
        hp->yarn_mscale,      hp->yarn_mscale_all_dim,  hp->rope_theta_window,
        hp->embd_scale,       hp->attn_scale,           hp->attn_softcap,
        hp->final_softcap,    hp->experts.scale,
    };

    sha256_add_part(h, hp->arch, strlen(hp->arch));
    sha256_add(h, counts, sizeof(counts));
    sha256_add(h, values, sizeof(values));
    if (hp->head.is_head) {
        const uint32_t head[] = {hp->head.n_taps, hp->head.block, hp->head.mask};

        sha256_add(h, head, sizeof(head));
        sha256_add(h, hp->head.taps, sizeof(hp->head.taps));
    }
    static_assert(sizeof(hp->layers[0]) == 24, "a layer has no bytes without a meaning");
    sha256_add(h, hp->layers,
               MIN(hp->n_layers, (uint32_t)HPARAMS_MAX_LAYERS) * sizeof(hp->layers[0]));
}

static void add_tensor(struct sha256 *h, const struct format_tensor *t)
{
    sha256_add_part(h, t->name, strlen(t->name));
    sha256_add_part(h, t->type_name, strlen(t->type_name));
    sha256_add(h, t->dims, sizeof(t->dims));
    sha256_add(h, &t->size, sizeof(t->size));
}

void format_identity(const struct format *f, uint8_t ret_digest[SHA256_BYTES])
{
    struct sha256 h;

    sha256_init(&h);
    add_hparams(&h, format_hparams(f));
    for (size_t i = 0; i < format_n_tensors(f); i++)
        add_tensor(&h, format_tensor_at(f, i));
    sha256_end(&h, ret_digest);
}
