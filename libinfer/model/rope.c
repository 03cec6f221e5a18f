/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the inverse frequencies of the rotary embedding, and scales them to longer contexts.
 *
 * "linear" divides all frequencies by the factor. "llama3" (Llama 3.1) divides the low frequencies
 * and keeps the high frequencies, with a ramp between them. "yarn" (Peng et al. 2023) also does
 * this, with two differences: the ramp is given in rotations over the original context, and sin and
 * cos are multiplied by a factor. "ntk" uses another base. If there is a tensor rope_freqs.weight,
 * the frequencies are also divided by its elements. Frequencies are computed in double and rounded
 * once; only the division by the tensor's elements is in float.
 */
#include <errno.h>
#include <math.h>

#include "core/err.h"
#include "model/arch.h"
#include "quant/dtype.h"

#define PI 3.14159265358979323846

/* The settings of the scaling in all models of Llama 3.1, 3.2 and 3.3; only their factors differ.
 */
#define LLAMA3_LOW  1
#define LLAMA3_HIGH 4
#define LLAMA3_CTX  8192

/* llama.cpp's converter divides the frequency of a pair that is not rotated by 1e30. */
#define NO_ROTATION 1e-20f

static double llama3(const struct hparams *hp, double freq)
{
    const double ctx = hp->rope_ctx_orig, low = (double)hp->rope_low_freq_factor,
                 high = (double)hp->rope_high_freq_factor, factor = (double)hp->rope_factor;
    const double wavelen = 2 * PI / freq;
    double smooth;

    if (wavelen < ctx / high)
        return freq;
    if (wavelen > ctx / low)
        return freq / factor;
    smooth = (ctx / wavelen - low) / (high - low);
    return (1 - smooth) * freq / factor + smooth * freq;
}

/* Returns the index, with a fraction, of the pair that rotates @n_rot times over the original
 * context. */
static double yarn_dim(const struct hparams *hp, double n_rot)
{
    return hp->rope_dims * log(hp->rope_ctx_orig / (n_rot * 2 * PI)) /
           (2 * log((double)hp->rope_theta));
}

static double rope_yarn(const struct hparams *hp, double freq, uint32_t i)
{
    double low = yarn_dim(hp, (double)hp->yarn_beta_fast);
    double high = yarn_dim(hp, (double)hp->yarn_beta_slow);
    double ramp;

    if (!hp->yarn_no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)hp->rope_dims - 1);
    if (low == high)
        high += 0.001;
    ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    return freq / (double)hp->rope_factor * ramp + freq * (1 - ramp);
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double attn_factor(const struct hparams *hp)
{
    const double factor = (double)hp->rope_factor;
    const double extra = hp->rope_attn_factor != 0 ? (double)hp->rope_attn_factor : 1;

    if (hp->rope_scaling != ROPE_SCALING_YARN)
        return extra;
    if (hp->yarn_attn_factor != 0)
        return (double)hp->yarn_attn_factor * extra;
    if (hp->yarn_mscale != 0 && hp->yarn_mscale_all_dim != 0)
        return yarn_mscale(factor, (double)hp->yarn_mscale) /
               yarn_mscale(factor, (double)hp->yarn_mscale_all_dim) * extra;
    return yarn_mscale(factor, 1) * extra;
}

static double rope_scaled(const struct hparams *hp, double freq, uint32_t i)
{
    switch (hp->rope_scaling) {
    case ROPE_SCALING_LINEAR:
        return freq / (double)hp->rope_factor;
    case ROPE_SCALING_LLAMA3:
        return llama3(hp, freq);
    case ROPE_SCALING_YARN:
        return rope_yarn(hp, freq, i);
    case ROPE_SCALING_NTK:
        return freq / pow((double)hp->rope_factor, 2.0 / hp->rope_dims);
    case ROPE_SCALING_NONE:
        break;
    }
    return freq;
}

/* Returns the number by which the base is multiplied. With "NTK-aware" scaling (Su 2023, the
 * "mixed" variant without its exponent b) this number is the scaling factor, otherwise it is 1.
 * rope_scaled() then divides all frequencies by factor^(2/rope_dims), so that the lowest frequency
 * is divided by exactly the factor. */
static double ntk_base(const struct hparams *hp)
{
    return hp->rope_scaling == ROPE_SCALING_NTK ? (double)hp->rope_factor : 1;
}

static int divide_freqs(struct model *m, const struct format_tensor *t, struct inf_err *reterr)
{
    const uint32_t n = m->hp->rope_dims / 2;
    const float *divisors = t->data;

    if (t->dtype != INF_DTYPE_F32 || t->n_dims != 1 || t->dims[0] != n)
        return err_set(reterr, EBADMSG, "tensor %s is %s of %llu, expected F32 of %u", t->name,
                       t->type_name, (unsigned long long)t->dims[0], n);
    for (uint32_t i = 0; i < n; i++) {
        /* The element is read only once, because the file may change. */
        const float d = *(volatile const float *)&divisors[i];

        if (!isfinite(d) || d <= 0)
            return err_set(reterr, EBADMSG, "tensor %s: element %u is not a positive number",
                           t->name, i);
        m->inv_freq[i] /= d;
    }
    return 0;
}

/* Returns the inverse frequencies of layers with a window, which have no scaling; NULL: memory is
 * short. */
static float *window_freqs(struct model *m, uint32_t n_dims)
{
    const double theta = (double)m->hp->rope_theta_window;
    float *freq = arena_alloc(&m->arena, n_dims / 2 * sizeof(float));

    for (uint32_t i = 0; freq && i < n_dims / 2; i++)
        freq[i] = (float)pow(theta, -2.0 * i / n_dims);
    return freq;
}

static uint32_t window_dims(const struct hparams *hp)
{
    return hp->rope_dims_window > 0 ? hp->rope_dims_window : hp->rope_dims;
}

int rope_bind(struct model *m, struct inf_err *reterr)
{
    const struct format_tensor *t = format_find(m->f, "rope_freqs.weight");
    const struct hparams *hp = m->hp;
    const double theta = (double)hp->rope_theta * ntk_base(hp);
    const uint32_t n = hp->rope_dims / 2, n_rotated = hp->rope_pairs > 0 ? hp->rope_pairs : n;

    m->inv_freq = arena_alloc(&m->arena, n * sizeof(float));
    if (hp->rope_theta_window > 0)
        m->inv_freq_window = window_freqs(m, window_dims(hp));
    if (!m->inv_freq || (hp->rope_theta_window > 0 && !m->inv_freq_window))
        return err_set(reterr, ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        m->inv_freq[i] =
            i < n_rotated ? (float)rope_scaled(hp, pow(theta, -2.0 * i / hp->rope_dims), i) : 0;
    m->rope_mscale = (float)attn_factor(hp);
    return t ? divide_freqs(m, t, reterr) : 0;
}

bool rope_find_llama3(const struct model *m, struct hparams *hp)
{
    const uint32_t n = m->hp->rope_dims / 2;
    double lowest;
    bool same = true;

    if (m->hp->rope_scaling != ROPE_SCALING_NONE || !format_find(m->f, "rope_freqs.weight") ||
        n == 0 || !(m->inv_freq[n - 1] > 0))
        return false;
    lowest = pow((double)m->hp->rope_theta, -2.0 * (n - 1) / m->hp->rope_dims);
    hp->rope_factor = roundf((float)(lowest / (double)m->inv_freq[n - 1]));
    hp->rope_low_freq_factor = LLAMA3_LOW;
    hp->rope_high_freq_factor = LLAMA3_HIGH;
    hp->rope_ctx_orig = LLAMA3_CTX;
    for (uint32_t i = 0; same && i < n; i++) {
        const double x = llama3(hp, pow((double)m->hp->rope_theta, -2.0 * i / m->hp->rope_dims));

        same = fabs(x - (double)m->inv_freq[i]) <= 1e-5 * x;
    }
    if (same)
        hp->rope_scaling = ROPE_SCALING_LLAMA3;
    return same;
}

bool rope_find_pairs(const struct model *m, struct hparams *hp)
{
    const uint32_t n = m->hp->rope_dims / 2;
    uint32_t n_rotated = 0;

    if (m->hp->rope_scaling != ROPE_SCALING_NONE || !format_find(m->f, "rope_freqs.weight"))
        return false;
    while (n_rotated < n && m->inv_freq[n_rotated] > NO_ROTATION)
        n_rotated++;
    for (uint32_t i = 0; i < n; i++) {
        const double x = pow((double)m->hp->rope_theta, -2.0 * i / m->hp->rope_dims);

        if (i < n_rotated ? fabs(x - (double)m->inv_freq[i]) > 1e-5 * x
                          : m->inv_freq[i] > NO_ROTATION)
            return false;
    }
    hp->rope_pairs = n_rotated;
    return n_rotated > 0;
}

struct rope_params rope_of_layer(const struct model *m, uint32_t i_layer)
{
    const bool own = m->inv_freq_window && hparams_window(m->hp, i_layer) > 0;

    return (struct rope_params){
        .style = m->hp->rope_style,
        .n_dims = own ? window_dims(m->hp) : m->hp->rope_dims,
        .inv_freq = own ? m->inv_freq_window : m->inv_freq,
        .mscale = own ? 1 : m->rope_mscale,
    };
}
