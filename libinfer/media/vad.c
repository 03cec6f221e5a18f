/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs Silero's voice activity network. Its shapes are fixed, and a file with other shapes is
 * refused.
 *
 * A column of the network is stored as a row in memory. A convolution over three time steps reads
 * three consecutive rows, so each layer is a product with a matrix of [3 × channels, outputs]. The
 * zeros on either side of the signal are rows that stay zero.
 */
#include "media/vad.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "format/hf/safetensors.h"
#include "format/whisper/ggml-bin.h"
#include "media/dense.h"
#include "quant/dtype.h"

enum {
    N_FFT = 256,
    HOP = 128,
    N_FRAMES = 4,
    BINS = N_FFT / 2 + 1,
    MIRROR = 64, /* samples after the chunk, which mirror its end */
    INPUT = VAD_CONTEXT + VAD_CHUNK + MIRROR,
    STFT_OUT = ALIGN_UP(2 * BINS, DENSE_LANES),
    GATES = 4 * VAD_STATE,
};

enum layer {
    STFT,
    CONV1,
    CONV2,
    CONV3,
    CONV4,
    GATES_IN,
    GATES_BACK,
    LAST,
    N_LAYERS,
};

/* The layers of the network. The files (safetensors of Silero's authors, .bin of whisper.cpp) store
 * weights as [outputs, channels, taps]. Only the middle tap of the fourth convolution matters,
 * because the input of this convolution is one time step between zeros. */
static const struct layer_shape {
    const char *names[2]; /* in both kinds of file, before ".weight" and ".bias" */
    uint32_t n_out, n_channels, n_taps, first_tap, n_used;
} shapes[N_LAYERS] = {
    [STFT] =
        {{"stft_conv.weight", "_model.stft.forward_basis_buffer"}, 2 * BINS, 1, N_FFT, 0, N_FFT},
    [CONV1] = {{"conv1.", "_model.encoder.0.reparam_conv."}, 128, BINS, 3, 0, 3},
    [CONV2] = {{"conv2.", "_model.encoder.1.reparam_conv."}, 64, 128, 3, 0, 3},
    [CONV3] = {{"conv3.", "_model.encoder.2.reparam_conv."}, 64, 64, 3, 0, 3},
    [CONV4] = {{"conv4.", "_model.encoder.3.reparam_conv."}, 128, 64, 3, 1, 1},
    [GATES_IN] = {{"lstm_cell.*_ih", "_model.decoder.rnn.*_ih"}, GATES, VAD_STATE, 1, 0, 1},
    [GATES_BACK] = {{"lstm_cell.*_hh", "_model.decoder.rnn.*_hh"}, GATES, VAD_STATE, 1, 0, 1},
    [LAST] = {{"final_conv.", "_model.decoder.decoder.2."}, 1, VAD_STATE, 1, 0, 1},
};

/* The open file. Only one of the two members is set. */
struct source {
    struct safetensors *st;
    struct ggml_bin *bin;
};

struct vad_model {
    dense_fn product;
    struct dense layers[N_LAYERS];
    float *memory[N_LAYERS]; /* weights, then bias */
};

static void source_done(struct source *src)
{
    safetensors_close(src->st);
    ggml_bin_close(src->bin);
}

static int source_open(const char *path, struct source *src, struct inf_err *reterr)
{
    if (ggml_bin_probe(path))
        return ggml_bin_open(path, &src->bin, reterr);
    return safetensors_open(path, &src->st, reterr);
}

static const struct format_tensor *source_find(const struct source *src, const char *name)
{
    return src->bin ? ggml_bin_find(src->bin, name) : safetensors_find(src->st, name);
}

/* Returns whether a tensor has the dimensions @want. Dimensions of 1 are ignored, because files
 * differ in them. */
static bool has_shape(const struct format_tensor *t, const uint32_t want[3])
{
    uint32_t i = 0, n = 0;

    for (;; i++, n++) {
        while (i < t->n_dims && t->dims[i] == 1)
            i++;
        while (n < 3 && want[n] == 1)
            n++;
        if (i == t->n_dims || n == 3)
            return i == t->n_dims && n == 3;
        if (t->dims[i] != want[n])
            return false;
    }
}

/* Reads a tensor with the dimensions @want, the fastest-varying first, as floats on the heap. */
static int read_tensor(const struct source *src, const char *name, const uint32_t want[3],
                       float **ret_data, struct inf_err *reterr)
{
    const uint64_t n = (uint64_t)want[0] * want[1] * want[2];
    const struct format_tensor *t = source_find(src, name);
    float *data;

    if (!t || !has_shape(t, want) || (t->dtype != INF_DTYPE_F32 && t->dtype != INF_DTYPE_F16))
        return err_set(reterr, EBADMSG, "not a Silero VAD model: there is no %s of the right shape",
                       name);
    data = NEW(float, n);
    if (!data)
        return err_set(reterr, ENOMEM, "out of memory");
    dtype_info(t->dtype)->decode(t->data, data, n);
    *ret_data = data;
    return 0;
}

/* Writes the name of a layer's tensor: @part replaces the star in @pattern, or is appended if
 * @pattern has no star. */
static void name_of(const char *pattern, const char *part, char *name, size_t size)
{
    const char *star = strchr(pattern, '*');
    const int before = (int)(star ? star - pattern : (ptrdiff_t)strlen(pattern));

    snprintf(name, size, "%.*s%s%s", before, pattern, part, star ? star + 1 : "");
}

static int read_layer(const struct source *src, const struct layer_shape *s, bool has_bias,
                      float **ret_weight, float **ret_bias, struct inf_err *reterr)
{
    const uint32_t weights[] = {s->n_taps, s->n_channels, s->n_out};
    const uint32_t biases[] = {s->n_out, 1, 1};
    const char *pattern = s->names[src->bin != NULL];
    char name[64];
    int r;

    name_of(pattern, has_bias ? "weight" : "", name, sizeof(name));
    r = read_tensor(src, name, weights, ret_weight, reterr);
    if (r < 0 || !has_bias)
        return r;
    name_of(pattern, "bias", name, sizeof(name));
    return read_tensor(src, name, biases, ret_bias, reterr);
}

/* Loads a layer, and transposes its weights from [outputs, channels, taps] to [taps × channels,
 * outputs]. */
static int load_layer(struct vad_model *m, const struct source *src, enum layer i,
                      struct inf_err *reterr)
{
    const struct layer_shape *s = &shapes[i];
    const uint32_t n_out = ALIGN_UP(s->n_out, DENSE_LANES), n_in = s->n_used * s->n_channels;
    const size_t size = ((size_t)n_in + 1) * n_out * sizeof(float);
    _cleanup_free_ float *weight = NULL, *bias = NULL;
    float *to;
    int r;

    r = read_layer(src, s, i != STFT, &weight, &bias, reterr);
    if (r < 0)
        return r;
    m->memory[i] = to = aligned_alloc(64, ALIGN_UP(size, 64));
    if (!to)
        return err_set(reterr, ENOMEM, "out of memory");
    memset(to, 0, size);
    for (uint32_t o = 0; o < s->n_out; o++) {
        for (uint32_t c = 0; c < s->n_channels; c++)
            for (uint32_t k = 0; k < s->n_used; k++)
                to[((size_t)k * s->n_channels + c) * n_out + o] =
                    weight[((size_t)o * s->n_channels + c) * s->n_taps + s->first_tap + k];
        to[(size_t)n_in * n_out + o] = bias ? bias[o] : 0;
    }
    m->layers[i] = (struct dense){n_in, n_out, to, to + (size_t)n_in * n_out};
    return 0;
}

int vad_model_open(const char *path, unsigned cpu, struct vad_model **ret_model,
                   struct inf_err *reterr)
{
    _cleanup_(source_done) struct source src = {0};
    _cleanup_(vad_model_closep) struct vad_model *m = NULL;
    int r;

    r = source_open(path, &src, reterr);
    if (r < 0)
        return r;
    m = NEW(struct vad_model, 1);
    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    m->product = dense_get(cpu);
    for (enum layer i = 0; i < N_LAYERS; i++) {
        r = load_layer(m, &src, i, reterr);
        if (r < 0) {
            err_prefix(reterr, "%s", path);
            return r;
        }
    }
    *ret_model = STEAL(m);
    return 0;
}

struct vad_model *vad_model_close(struct vad_model *model)
{
    if (!model)
        return NULL;
    for (int i = 0; i < N_LAYERS; i++)
        free(model->memory[i]);
    free(model);
    return NULL;
}

static void rectify_row(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = MAX(x[i], 0);
}

/* Runs @layer on @n_cols columns, which are @step values apart in @x. */
static void run_layer(const struct vad_model *m, enum layer layer, const float *x, uint32_t step,
                      uint32_t n_cols, float *out)
{
    const float *cols[DENSE_MAX_COLS];

    for (uint32_t c = 0; c < n_cols; c++)
        cols[c] = x + (size_t)c * step;
    m->product(&m->layers[layer], cols, n_cols, out);
}

/* Computes the magnitudes of the spectra of four overlapping frames, with a row of zeros before and
 * after them. */
static void compute_spectra(const struct vad_model *m, const struct vad_state *state,
                            const float *samples, float *out)
{
    float x[INPUT], parts[N_FRAMES * STFT_OUT];

    memcpy(x, state->context, sizeof(state->context));
    memcpy(x + VAD_CONTEXT, samples, VAD_CHUNK * sizeof(*x));
    for (uint32_t i = 0; i < MIRROR; i++)
        x[VAD_CONTEXT + VAD_CHUNK + i] = x[VAD_CONTEXT + VAD_CHUNK - 2 - i];
    run_layer(m, STFT, x, HOP, N_FRAMES, parts);
    memset(out, 0, (N_FRAMES + 2) * BINS * sizeof(*out));
    for (uint32_t f = 0; f < N_FRAMES; f++)
        for (uint32_t k = 0; k < BINS; k++) {
            const float re = parts[f * STFT_OUT + k], im = parts[f * STFT_OUT + BINS + k];

            out[(f + 1) * BINS + k] = sqrtf(re * re + im * im);
        }
}

/* Computes a vector from the spectra with the four convolutions. */
static void encode_spectra(const struct vad_model *m, const float *x, float *out)
{
    float a[(N_FRAMES + 2) * 128] = {0}, b[4 * 64] = {0}, c[64];

    run_layer(m, CONV1, x, BINS, N_FRAMES, a + 128);
    rectify_row(a + 128, N_FRAMES * 128);
    run_layer(m, CONV2, a, 2 * 128, 2, b + 64);
    rectify_row(b + 64, 2 * 64);
    run_layer(m, CONV3, b, 0, 1, c);
    rectify_row(c, 64);
    run_layer(m, CONV4, c, 0, 1, out);
    rectify_row(out, VAD_STATE);
}

static float gate_sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

/* Runs the recurrent cell. The rows of the gates are in the order input, forget, cell, output. */
static void update_state(const struct vad_model *m, struct vad_state *state, const float *x)
{
    float in[GATES], back[GATES];

    run_layer(m, GATES_IN, x, 0, 1, in);
    run_layer(m, GATES_BACK, state->hidden, 0, 1, back);
    for (uint32_t i = 0; i < GATES; i++)
        in[i] += back[i];
    for (uint32_t i = 0; i < VAD_STATE; i++) {
        const float write = gate_sigmoid(in[i]), keep = gate_sigmoid(in[VAD_STATE + i]);
        const float value = tanhf(in[2 * VAD_STATE + i]),
                    show = gate_sigmoid(in[3 * VAD_STATE + i]);

        state->cell[i] = keep * state->cell[i] + write * value;
        state->hidden[i] = show * tanhf(state->cell[i]);
    }
}

float vad_step(const struct vad_model *model, struct vad_state *state, const float *samples)
{
    float magnitudes[(N_FRAMES + 2) * BINS], x[VAD_STATE], last[DENSE_LANES];

    compute_spectra(model, state, samples, magnitudes);
    encode_spectra(model, magnitudes, x);
    update_state(model, state, x);
    memcpy(state->context, samples + VAD_CHUNK - VAD_CONTEXT, sizeof(state->context));
    memcpy(x, state->hidden, sizeof(x));
    rectify_row(x, VAD_STATE);
    run_layer(model, LAST, x, 0, 1, last);
    return gate_sigmoid(last[0]);
}
