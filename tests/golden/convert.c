/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/gguf_writer.h"
#include "quant/dtype.h"

static const char *arch_name(const struct hparams *hp)
{
    const bool nomic = strcmp(hp->arch, "bert") == 0 && hp->embed.n_pos == 0;

    return nomic ? "nomic-bert" : hp->arch;
}

static const char *key(const struct hparams *hp, const char *name)
{
    static char text[128];

    snprintf(text, sizeof(text), "%s.%s", arch_name(hp), name);
    return text;
}

static void put_rope(struct gguf_writer *w, const struct hparams *hp)
{
    gguf_put_u32(w, key(hp, "rope.dimension_count"), hp->rope_dims);
    gguf_put_f32(w, key(hp, "rope.freq_base"), hp->rope_theta);
    if (hp->rope_scaling == ROPE_SCALING_LINEAR || hp->rope_scaling == ROPE_SCALING_YARN) {
        const bool yarn = hp->rope_scaling == ROPE_SCALING_YARN;

        gguf_put_string(w, key(hp, "rope.scaling.type"), yarn ? "yarn" : "linear");
        gguf_put_f32(w, key(hp, "rope.scaling.factor"), hp->rope_factor);
    }
    if (hp->rope_scaling != ROPE_SCALING_YARN)
        return;
    gguf_put_u32(w, key(hp, "rope.scaling.original_context_length"), hp->rope_ctx_orig);
    gguf_put_f32(w, key(hp, "rope.scaling.yarn_beta_fast"), hp->yarn_beta_fast);
    gguf_put_f32(w, key(hp, "rope.scaling.yarn_beta_slow"), hp->yarn_beta_slow);
    if (hp->yarn_attn_factor != 0)
        gguf_put_f32(w, key(hp, "rope.scaling.yarn_attn_factor"), hp->yarn_attn_factor);
}

static void put_hparams(struct gguf_writer *w, const struct hparams *hp)
{
    uint8_t pattern[HPARAMS_MAX_LAYERS];

    gguf_put_string(w, "general.architecture", arch_name(hp));
    gguf_put_string(w, "general.name", hp->name);
    gguf_put_u32(w, key(hp, "block_count"), hp->n_layers);
    gguf_put_u32(w, key(hp, "context_length"), hp->n_ctx_train);
    gguf_put_u32(w, key(hp, "embedding_length"), hp->n_embd);
    gguf_put_u32(w, key(hp, "feed_forward_length"), hp->n_ff);
    gguf_put_u32(w, key(hp, "attention.head_count"), hp->n_heads);
    gguf_put_u32(w, key(hp, "attention.head_count_kv"), hp->n_kv_heads);
    gguf_put_u32(w, key(hp, "attention.key_length"), hp->head_dim);
    gguf_put_u32(w, key(hp, "attention.value_length"), hp->head_dim);
    gguf_put_f32(w,
                 key(hp, hp->embed.encoder && !hp->norms_add_one
                             ? "attention.layer_norm_epsilon"
                             : "attention.layer_norm_rms_epsilon"),
                 hp->norm_eps);
    put_rope(w, hp);
    if (hp->embed.pooling != POOLING_NONE)
        gguf_put_u32(w, key(hp, "pooling_type"), (uint32_t)hp->embed.pooling);
    if (hp->embed.encoder)
        gguf_put_bool(w, key(hp, "attention.causal"), false);
    if (hp->window == 0)
        return;
    if (hp->embed.encoder) {
        gguf_put_u32(w, key(hp, "attention.sliding_window"), (hp->window - 1) * 2);
        gguf_put_f32(w, key(hp, "rope.freq_base_swa"), hp->rope_theta_window);
        /* GGUF files of ModernBERT have no key for the pattern: every third layer has no window.
         * The default of EmbeddingGemma is every sixth layer. Only the tests' model of 4 layers has
         * another pattern, so it needs the key. */
        if (!hp->norms_add_one || hp->n_layers != 4)
            return;
        gguf_put_u32(w, key(hp, "attention.sliding_window_pattern"), 3);
        return;
    }
    for (uint32_t i = 0; i < hp->n_layers; i++)
        pattern[i] = hparams_window(hp, i) != 0;
    gguf_put_u32(w, key(hp, "attention.sliding_window"), hp->window);
    gguf_put_bools(w, key(hp, "attention.sliding_window_pattern"), pattern, hp->n_layers);
}

/* Writes a made-up piece for each token, "<0>" and so on, because no test tokenizes a text. */
static void put_vocabulary(struct gguf_writer *w, uint32_t n)
{
    enum { LONGEST = 16 };
    char *text = calloc(n, LONGEST);
    const char **pieces = calloc(n, sizeof(*pieces));
    int32_t *types = calloc(n, sizeof(*types));
    float *scores = calloc(n, sizeof(*scores));

    if (!text || !pieces || !types || !scores)
        abort();
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text + (size_t)i * LONGEST, LONGEST, "<%u>", i);
        pieces[i] = text + (size_t)i * LONGEST;
        types[i] = i == 0 ? 2 : 1; /* unknown, normal */
    }
    gguf_put_string(w, "tokenizer.ggml.model", "llama");
    gguf_put_strings(w, "tokenizer.ggml.tokens", pieces, n);
    gguf_put_f32s(w, "tokenizer.ggml.scores", scores, n);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", types, n);
    free(scores);
    free(types);
    free(pieces);
    free(text);
}

/* Reorders the rows of each head for GGUF: row 2i + j gets row i + j × half of the head. */
static void interleave(const struct format_tensor *t, uint32_t head_dim, uint64_t rows, char *out)
{
    const uint64_t row_bytes = t->size / rows;

    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t head = i / head_dim * head_dim, in_head = i % head_dim;
        const uint64_t from = head + in_head / 2 + in_head % 2 * (head_dim / 2);

        memcpy(out + i * row_bytes, (const char *)t->data + from * row_bytes, row_bytes);
    }
}

/* Writes the weights of a norm with 1 added, as GGUF files have them. */
static void put_sum(struct gguf_writer *w, const struct format_tensor *t)
{
    float *data = malloc(t->size);

    if (!data)
        abort();
    for (uint64_t i = 0; i < t->dims[0]; i++)
        data[i] = ((const float *)t->data)[i] + 1;
    gguf_put_tensor(w, t->name, 0, t->dims, t->n_dims, data, t->size);
    free(data);
}

static void put_tensor(struct gguf_writer *w, const struct hparams *hp,
                       const struct format_tensor *t)
{
    const uint32_t type = t->dtype == INF_DTYPE_F32 ? 0 : t->dtype == INF_DTYPE_F16 ? 1 : 30;
    const char *const dense = strncmp(t->name, "dense.", 6) == 0 ? t->name + 6 : NULL;
    const bool is_qk = strstr(t->name, "attn_q.") || strstr(t->name, "attn_k.");
    char *data;

    if (hp->norms_add_one && strstr(t->name, "norm.weight")) {
        put_sum(w, t);
        return;
    }
    if (strcmp(hp->arch, "llama") != 0 || !is_qk) {
        gguf_put_tensor(w,
                        !dense          ? t->name
                        : *dense == '0' ? "dense_2.weight"
                                        : "dense_3.weight",
                        type, t->dims, t->n_dims, t->data, t->size);
        return;
    }
    data = malloc(t->size);
    if (!data)
        abort();
    interleave(t, hp->head_dim, t->n_dims == 2 ? t->dims[1] : t->dims[0], data);
    gguf_put_tensor(w, t->name, type, t->dims, t->n_dims, data, t->size);
    free(data);
}

/* Writes the rotary scaling of Llama 3.1 as divisors of the frequencies. */
static void put_rope_freqs(struct gguf_writer *w, const struct hparams *hp)
{
    const uint64_t n = hp->rope_dims / 2;
    float divisors[256];

    for (uint64_t i = 0; i < n; i++) {
        const double freq = pow((double)hp->rope_theta, -2.0 * (double)i / hp->rope_dims);
        const double turns = hp->rope_ctx_orig * freq / 6.283185307179586;
        const double low = (double)hp->rope_low_freq_factor;
        const double high = (double)hp->rope_high_freq_factor;
        const double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);

        divisors[i] = (float)(1 / ((1 - smooth) / (double)hp->rope_factor + smooth));
    }
    gguf_put_tensor(w, "rope_freqs.weight", 0, &n, 1, divisors, n * sizeof(float));
}

char *convert_to_gguf(const struct format *f)
{
    const struct hparams *hp = format_hparams(f);
    struct gguf_writer w = {0};

    put_hparams(&w, hp);
    put_vocabulary(&w, hp->n_vocab);
    for (size_t i = 0; i < format_n_tensors(f); i++)
        put_tensor(&w, hp, format_tensor_at(f, i));
    if (hp->rope_scaling == ROPE_SCALING_LLAMA3)
        put_rope_freqs(&w, hp);
    return gguf_writer_save(&w);
}
