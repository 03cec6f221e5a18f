/* SPDX-License-Identifier: Apache-2.0 */
/* Checks hyperparameters against limits. The limits are far above the values of all models, and so
 * low that the product of any two values, multiplied by the size of a float, cannot overflow 64
 * bits. */
#include "format/hparams.h"

#include <errno.h>
#include <math.h>

#include "core/err.h"

static int check_counts(const struct hparams *hp, struct inf_err *reterr)
{
    const struct {
        const char *what;
        uint32_t value, max;
    } counts[] = {
        {"number of layers", hp->n_layers, HPARAMS_MAX_LAYERS},
        {"hidden size", hp->n_embd, 1u << 20},
        {"size of the feed-forward layers", hp->n_ff, 1u << 22},
        {"vocabulary size", hp->n_vocab, 1u << 24},
        {"number of heads", hp->n_heads, 1u << 12},
        {"number of key/value heads", hp->n_kv_heads, hp->n_heads},
        {"size of a head", hp->head_dim, 1u << 12},
        {"number of rotated dimensions", hp->rope_dims, hp->head_dim},
        {"context length", hp->n_ctx_train, INT32_MAX},
    };

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
        if (counts[i].value == 0 || counts[i].value > counts[i].max)
            return err_set(reterr, EBADMSG, "the %s is %u, which is not within 1 … %u",
                           counts[i].what, counts[i].value, counts[i].max);
    if (hp->n_heads % hp->n_kv_heads)
        return err_set(reterr, EBADMSG, "%u heads cannot share %u key/value heads evenly",
                       hp->n_heads, hp->n_kv_heads);
    if (hp->rope_dims % 2)
        return err_set(reterr, EBADMSG, "the number of rotated dimensions, %u, is odd",
                       hp->rope_dims);
    if (hp->window > INT32_MAX)
        return err_set(reterr, EBADMSG, "the sliding window of %u tokens is too large", hp->window);
    return 0;
}

static int check_layers(const struct hparams *hp, struct inf_err *reterr)
{
    for (uint32_t i = 0; i < hp->n_layers; i++) {
        const uint32_t n_heads = hparams_n_heads(hp, i), n_kv = hparams_n_kv_heads(hp, i);

        if (n_heads > 1u << 12 || n_kv > n_heads || n_heads % n_kv != 0)
            return err_set(reterr, EBADMSG,
                           "layer %u: %u heads cannot share %u key/value heads evenly", i, n_heads,
                           n_kv);
        if (hparams_head_dim(hp, i) > 1u << 12 || hparams_n_ff(hp, i) > 1u << 22)
            return err_set(reterr, EBADMSG, "layer %u: heads of %u or a width of %u are too large",
                           i, hparams_head_dim(hp, i), hparams_n_ff(hp, i));
        if (hp->layers[i].shared > i)
            return err_set(reterr, EBADMSG, "layer %u shares keys of a later layer", i);
    }
    return 0;
}

/* Checks the sizes of experts and of recurrent layers, of which a model may have none. */
static int check_parts(const struct hparams *hp, struct inf_err *reterr)
{
    const struct hparams_experts *e = &hp->experts;
    const struct hparams_delta *d = &hp->delta;

    if (e->n > 1u << 16 || e->n_used > e->n || (e->n > 0 && e->n_used == 0))
        return err_set(reterr, EBADMSG, "%u of %u experts are used", e->n_used, e->n);
    if (e->n > 0 && (e->ff == 0 || e->ff > 1u << 22 || e->shared_ff > 1u << 22))
        return err_set(reterr, EBADMSG, "experts of width %u and %u", e->ff, e->shared_ff);
    if (hp->head.is_head && (hp->head.n_target == 0 || hp->head.n_target > 1u << 20 ||
                             hp->head.n_vocab == 0 || hp->head.n_vocab > hp->n_vocab))
        return err_set(reterr, EBADMSG, "a draft head for models of width %u with %u of %u tokens",
                       hp->head.n_target, hp->head.n_vocab, hp->n_vocab);
    if (hp->head.block > 1u << 10 || hp->head.block == 1)
        return err_set(reterr, EBADMSG, "a draft head with blocks of %u tokens", hp->head.block);
    if (hp->head.n_clusters > 0 &&
        (hp->n_vocab % hp->head.n_clusters != 0 || hp->head.n_clusters_used == 0 ||
         hp->head.n_clusters_used > hp->head.n_clusters))
        return err_set(reterr, EBADMSG, "%u of %u clusters of %u tokens are used",
                       hp->head.n_clusters_used, hp->head.n_clusters, hp->n_vocab);
    if (d->n_v_heads == 0)
        return 0;
    if (d->n_k_heads == 0 || d->n_v_heads > 1u << 12 || d->n_v_heads % d->n_k_heads != 0 ||
        d->k_dim == 0 || d->k_dim > 1u << 12 || d->v_dim == 0 || d->v_dim > 1u << 12 ||
        d->n_taps < 2 || d->n_taps > 64)
        return err_set(reterr, EBADMSG,
                       "recurrent layers with %u key heads of %u, %u heads of %u and %u taps",
                       d->n_k_heads, d->k_dim, d->n_v_heads, d->v_dim, d->n_taps);
    /* struct state_group has the floats of a layer's state as 32 bits. */
    if ((uint64_t)d->n_v_heads * d->v_dim * d->k_dim > INT32_MAX ||
        (d->n_taps - 1) *
                (2 * (uint64_t)d->n_k_heads * d->k_dim + (uint64_t)d->n_v_heads * d->v_dim) >
            INT32_MAX)
        return err_set(reterr, EBADMSG,
                       "the state of a recurrent layer with %u key heads of %u and %u heads of %u "
                       "is too large",
                       d->n_k_heads, d->k_dim, d->n_v_heads, d->v_dim);
    return 0;
}

static bool is_within(float x, float min, float max)
{
    return isfinite(x) && x >= min && x <= max;
}

static int check_rope(const struct hparams *hp, struct inf_err *reterr)
{
    if (!is_within(hp->rope_theta, 1.0f, 1e12f))
        return err_set(reterr, EBADMSG, "the rotary base is %g", (double)hp->rope_theta);
    if (hp->rope_theta_window != 0 && !is_within(hp->rope_theta_window, 1.0f, 1e12f))
        return err_set(reterr, EBADMSG, "the rotary base of layers with a window is %g",
                       (double)hp->rope_theta_window);
    if (!is_within(hp->rope_attn_factor, 0, 1e3f))
        return err_set(reterr, EBADMSG, "the rotary attention factor is %g",
                       (double)hp->rope_attn_factor);
    if (hp->rope_scaling == ROPE_SCALING_NONE)
        return 0;
    if (!is_within(hp->rope_factor, 1e-3f, 1e6f))
        return err_set(reterr, EBADMSG, "the rotary scaling factor is %g", (double)hp->rope_factor);
    if (hp->rope_scaling == ROPE_SCALING_LINEAR || hp->rope_scaling == ROPE_SCALING_NTK)
        return 0;
    if (hp->rope_ctx_orig == 0 || hp->rope_ctx_orig > INT32_MAX)
        return err_set(reterr, EBADMSG, "the original context length is %u", hp->rope_ctx_orig);
    if (hp->rope_scaling == ROPE_SCALING_LLAMA3) {
        if (!is_within(hp->rope_low_freq_factor, 1e-3f, 1e6f) ||
            !is_within(hp->rope_high_freq_factor, 1e-3f, 1e6f) ||
            hp->rope_high_freq_factor <= hp->rope_low_freq_factor)
            return err_set(reterr, EBADMSG, "the llama3 frequency factors are %g and %g",
                           (double)hp->rope_low_freq_factor, (double)hp->rope_high_freq_factor);
        return 0;
    }
    if (!is_within(hp->yarn_beta_fast, 1e-6f, 1e6f) || !is_within(hp->yarn_beta_slow, 1e-6f, 1e6f))
        return err_set(reterr, EBADMSG, "the yarn betas are %g and %g", (double)hp->yarn_beta_fast,
                       (double)hp->yarn_beta_slow);
    if (!is_within(hp->yarn_attn_factor, 0, 1e3f) || !is_within(hp->yarn_mscale, 0, 1e3f) ||
        !is_within(hp->yarn_mscale_all_dim, 0, 1e3f))
        return err_set(reterr, EBADMSG, "the yarn attention factors are %g, %g and %g",
                       (double)hp->yarn_attn_factor, (double)hp->yarn_mscale,
                       (double)hp->yarn_mscale_all_dim);
    return hp->rope_theta > 1.0f ? 0 : err_set(reterr, EBADMSG, "yarn needs a rotary base above 1");
}

int hparams_check(const struct hparams *hp, struct inf_err *reterr)
{
    int r;

    r = check_counts(hp, reterr);
    if (r == 0)
        r = check_layers(hp, reterr);
    if (r == 0)
        r = check_parts(hp, reterr);
    if (r < 0)
        return r;
    if (!is_within(hp->norm_eps, 0, 1.0f))
        return err_set(reterr, EBADMSG, "the epsilon of the norms is %g", (double)hp->norm_eps);
    if (!is_within(hp->embd_scale, 0, 1e6f) || !is_within(hp->attn_scale, 0, 1e6f))
        return err_set(reterr, EBADMSG, "embeddings are scaled by %g, attention by %g",
                       (double)hp->embd_scale, (double)hp->attn_scale);
    if (!is_within(hp->attn_softcap, 0, 1e6f) || !is_within(hp->final_softcap, 0, 1e6f) ||
        !is_within(hp->experts.scale, 0, 1e6f))
        return err_set(
            reterr, EBADMSG, "scores are limited to %g, logits to %g, experts scaled by %g",
            (double)hp->attn_softcap, (double)hp->final_softcap, (double)hp->experts.scale);
    return check_rope(hp, reterr);
}

/* ---- differences ---- */

static bool number_differs(double a, double b)
{
    return fabs(a - b) > 1e-6 * (fabs(a) + fabs(b));
}

static double attn_factor(const struct hparams *hp)
{
    return hp->attn_scale != 0 ? (double)hp->attn_scale : 1 / sqrt(MAX(hp->head_dim, 1u));
}

/* The scaling of Llama 3 counts as none, because GGUF files have it in a tensor. Linear scaling
 * with the factor 1 counts as none, too. */
static enum rope_scaling scaling_type(const struct hparams *hp)
{
    const bool none = hp->rope_scaling == ROPE_SCALING_LLAMA3 ||
                      (hp->rope_scaling == ROPE_SCALING_LINEAR && hp->rope_factor == 1);

    return none ? ROPE_SCALING_NONE : hp->rope_scaling;
}

static double scaling_factor(const struct hparams *hp)
{
    return scaling_type(hp) == ROPE_SCALING_NONE ? 1 : (double)hp->rope_factor;
}

static double mscale(const struct hparams *hp)
{
    return hp->yarn_mscale_all_dim != 0 ? (double)hp->yarn_mscale : 0;
}

const char *hparams_difference(const struct hparams *a, const struct hparams *b)
{
    const struct {
        const char *name;
        double a, b;
    } rows[] = {
        {"the number of layers", a->n_layers, b->n_layers},
        {"head_dim", a->head_dim, b->head_dim},
        {"num_key_value_heads", a->n_kv_heads, b->n_kv_heads},
        {"the activation", a->act, b->act},
        {"the factor of attention", attn_factor(a), attn_factor(b)},
        {"the factor of the embedding", a->embd_scale, b->embd_scale},
        {"rope_theta", a->rope_theta, b->rope_theta},
        {"rope_theta of windows", a->rope_theta_window, b->rope_theta_window},
        {"the rotated dimensions", a->rope_dims, b->rope_dims},
        {"the factor of rope scaling", scaling_factor(a), scaling_factor(b)},
        {"the type of rope scaling", scaling_type(a), scaling_type(b)},
        {"mscale", mscale(a), mscale(b)},
        {"truncate", a->yarn_no_truncate, b->yarn_no_truncate},
        {"sliding_window", a->window, b->window},
        {"norm_topk_prob", a->experts.norm_topk, b->experts.norm_topk},
        {"the scores of experts", a->experts.score, b->experts.score},
        {"the form of ternary weights", a->ternary, b->ternary},
        {"altup_correct_scale", a->gemma.correct_scale, b->gemma.correct_scale},
        {"linear_key_head_dim", a->delta.k_dim, b->delta.k_dim},
        {"linear_value_head_dim", a->delta.v_dim, b->delta.v_dim},
        {"linear_num_value_heads", a->delta.n_v_heads, b->delta.n_v_heads},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (number_differs(rows[i].a, rows[i].b))
            return rows[i].name;
    for (uint32_t i = 0; i < a->n_layers; i++)
        if (hparams_window(a, i) != hparams_window(b, i) ||
            a->layers[i].sparse != b->layers[i].sparse ||
            (a->layers[i].kind == LAYER_RECURRENT) != (b->layers[i].kind == LAYER_RECURRENT))
            return "the kinds of layers";
    return NULL;
}
