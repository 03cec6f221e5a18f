/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses Whisper's config.json and generation_config.json.
 */
#include "format/whisper/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"

enum {
    MAX_COUNT = 1 << 20,
    MAX_MELS = 128,
    MIN_TEXT_CTX = 16,
    /* The smallest vocabulary of a multilingual model; English-only models have fewer tokens. */
    MULTILINGUAL_VOCAB = 51865,
};

bool whisper_config_is(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));

    return type && strcmp(type, "whisper") == 0;
}

static int get_count(const json_t *config, const char *key, uint32_t *ret, struct inf_err *reterr)
{
    const json_t *x = json_object_get(config, key);

    if (!json_is_integer(x) || json_integer_value(x) < 1 || json_integer_value(x) > MAX_COUNT)
        return err_set(reterr, EBADMSG, "config.json: %s is not a count of 1 … %d", key, MAX_COUNT);
    *ret = (uint32_t)json_integer_value(x);
    return 0;
}

struct count {
    const char *key;
    uint32_t *to;
};

static int get_all(const json_t *config, const struct count *counts, size_t n,
                   struct inf_err *reterr)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n; i++)
        r = get_count(config, counts[i].key, counts[i].to, reterr);
    return r;
}

/* Reads the counts with the names of mlx-whisper, which are those of OpenAI. */
static int get_mlx_counts(const json_t *config, struct whisper_config *c, struct inf_err *reterr)
{
    uint32_t text_embd = 0;
    const struct count counts[] = {
        {"n_mels", &c->n_mels},
        {"n_audio_ctx", &c->n_audio_ctx},
        {"n_audio_state", &c->n_embd},
        {"n_audio_head", &c->n_audio_heads},
        {"n_audio_layer", &c->n_audio_layers},
        {"n_vocab", &c->n_vocab},
        {"n_text_ctx", &c->n_text_ctx},
        {"n_text_state", &text_embd},
        {"n_text_head", &c->n_text_heads},
        {"n_text_layer", &c->n_text_layers},
    };
    const int r = get_all(config, counts, ARRAY_SIZE(counts), reterr);

    if (r < 0)
        return r;
    if (text_embd != c->n_embd)
        return err_set(reterr, EOPNOTSUPP,
                       "config.json: n_audio_state and n_text_state are different");
    c->n_audio_ff = c->n_text_ff = 4 * c->n_embd;
    c->hugging_face = false;
    c->mlx = true;
    return 0;
}

static int get_counts(const json_t *config, struct whisper_config *c, struct inf_err *reterr)
{
    const struct count counts[] = {
        {"num_mel_bins", &c->n_mels},
        {"max_source_positions", &c->n_audio_ctx},
        {"encoder_attention_heads", &c->n_audio_heads},
        {"encoder_layers", &c->n_audio_layers},
        {"encoder_ffn_dim", &c->n_audio_ff},
        {"d_model", &c->n_embd},
        {"vocab_size", &c->n_vocab},
        {"max_target_positions", &c->n_text_ctx},
        {"decoder_attention_heads", &c->n_text_heads},
        {"decoder_layers", &c->n_text_layers},
        {"decoder_ffn_dim", &c->n_text_ff},
    };

    return json_object_get(config, "n_audio_state")
               ? get_mlx_counts(config, c, reterr)
               : get_all(config, counts, ARRAY_SIZE(counts), reterr);
}

/* Refuses settings that change the results and are not supported; no known model uses them. */
static int check_variant(const json_t *config, struct inf_err *reterr)
{
    const json_t *act = json_object_get(config, "activation_function");

    if (json_is_true(json_object_get(config, "scale_embedding")))
        return err_set(reterr, EOPNOTSUPP, "config.json: scale_embedding is not supported");
    if (json_is_string(act) && strcmp(json_string_value(act), "gelu") != 0)
        return err_set(reterr, EOPNOTSUPP,
                       "config.json: activation_function %.32s is not "
                       "supported",
                       json_string_value(act));
    return 0;
}

static int check_counts(const struct whisper_config *c, struct inf_err *reterr)
{
    if (c->n_embd % c->n_audio_heads || c->n_embd % c->n_text_heads)
        return err_set(reterr, EBADMSG, "the width %u is not a multiple of its heads", c->n_embd);
    if (c->n_text_heads > WHISPER_MAX_HEADS)
        return err_set(reterr, EOPNOTSUPP, "a layer has %u heads, more than %d", c->n_text_heads,
                       WHISPER_MAX_HEADS);
    if (c->n_audio_layers > HPARAMS_MAX_LAYERS || c->n_text_layers > HPARAMS_MAX_LAYERS)
        return err_set(reterr, EBADMSG, "more than %d layers", HPARAMS_MAX_LAYERS);
    if (c->n_mels > MAX_MELS)
        return err_set(reterr, EOPNOTSUPP, "%u mel bins are more than %d", c->n_mels, MAX_MELS);
    if (c->n_audio_ctx != WHISPER_AUDIO_CTX)
        return err_set(reterr, EOPNOTSUPP, "a window has %u audio positions, not %d",
                       c->n_audio_ctx, WHISPER_AUDIO_CTX);
    if (c->n_text_ctx < MIN_TEXT_CTX)
        return err_set(reterr, EOPNOTSUPP, "the maximum text length of %u tokens is too small",
                       c->n_text_ctx);
    return 0;
}

/* Reads a list of tokens. If the value is missing or not a list, the result stays NULL. */
static int get_tokens(const json_t *from, const char *key, const struct whisper_config *c,
                      struct arena *arena, const int32_t **ret, size_t *ret_n,
                      struct inf_err *reterr)
{
    const json_t *list = json_object_get(from, key);
    int32_t *ids;

    if (!json_is_array(list))
        return 0;
    ids = arena_alloc(arena, (json_array_size(list) + 1) * sizeof(*ids));
    if (!ids)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);

        if (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) >= c->n_vocab)
            return err_set(reterr, EBADMSG, "%s: item %zu is not a token", key, i);
        ids[i] = (int32_t)json_integer_value(x);
    }
    *ret = ids;
    *ret_n = json_array_size(list);
    return 0;
}

static int get_heads(const json_t *generation, struct whisper_config *c, struct arena *arena,
                     struct inf_err *reterr)
{
    const json_t *list = json_object_get(generation, "alignment_heads");
    const size_t n = json_is_array(list) ? json_array_size(list) : 0;
    struct whisper_head *heads;

    if (n == 0)
        return 0;
    heads = arena_alloc(arena, n * sizeof(*heads));
    if (!heads)
        return err_set(reterr, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(list, i);
        const json_int_t layer = json_integer_value(json_array_get(pair, 0));
        const json_int_t head = json_integer_value(json_array_get(pair, 1));

        if (json_array_size(pair) != 2 || layer < 0 || layer >= c->n_text_layers || head < 0 ||
            head >= c->n_text_heads)
            return err_set(reterr, EBADMSG, "alignment_heads: item %zu is not a head", i);
        heads[i] = (struct whisper_head){(uint32_t)layer, (uint32_t)head};
    }
    c->heads = heads;
    c->n_heads = n;
    return 0;
}

int whisper_config_parse(const json_t *config, const json_t *generation, struct arena *arena,
                         struct whisper_config *ret_config, struct inf_err *reterr)
{
    struct whisper_config c = {.hugging_face = true};
    const json_t *multilingual = json_object_get(generation, "is_multilingual");
    /* Models without generation_config.json have these lists in config.json. */
    const json_t *lists = generation ? generation : config;
    int r;

    r = get_counts(config, &c, reterr);
    if (r == 0)
        r = check_variant(config, reterr);
    if (r == 0)
        r = check_counts(&c, reterr);
    if (r == 0)
        r = get_tokens(lists, "suppress_tokens", &c, arena, &c.suppress, &c.n_suppress, reterr);
    if (r == 0)
        r = get_tokens(lists, "begin_suppress_tokens", &c, arena, &c.suppress_first,
                       &c.n_suppress_first, reterr);
    if (r == 0)
        r = get_heads(generation, &c, arena, reterr);
    if (r < 0)
        return r;
    c.multilingual = json_is_boolean(multilingual) ? json_is_true(multilingual)
                                                   : c.n_vocab >= MULTILINGUAL_VOCAB;
    *ret_config = c;
    return 0;
}

int whisper_config_from_bin(const struct ggml_bin_whisper *bin, struct whisper_config *ret_config,
                            struct inf_err *reterr)
{
    const struct whisper_config c = {
        .n_mels = bin->n_mels,
        .n_audio_ctx = bin->n_audio_ctx,
        .n_audio_heads = bin->n_audio_heads,
        .n_audio_layers = bin->n_audio_layers,
        .n_audio_ff = 4 * bin->n_audio_embd,
        .n_embd = bin->n_audio_embd,
        .n_vocab = bin->n_vocab,
        .n_text_ctx = bin->n_text_ctx,
        .n_text_heads = bin->n_text_heads,
        .n_text_layers = bin->n_text_layers,
        .n_text_ff = 4 * bin->n_text_embd,
        .multilingual = bin->n_vocab >= MULTILINGUAL_VOCAB,
    };
    int r;

    if (bin->n_text_embd != bin->n_audio_embd)
        return err_set(reterr, EBADMSG, "the widths of encoder and decoder, %u and %u, differ",
                       bin->n_audio_embd, bin->n_text_embd);
    r = check_counts(&c, reterr);
    if (r == 0)
        *ret_config = c;
    return r;
}

void whisper_config_hparams(const struct whisper_config *c, struct hparams *hp)
{
    snprintf(hp->arch, sizeof(hp->arch), "whisper");
    hp->n_vocab = c->n_vocab;
    hp->n_ctx_train = c->n_text_ctx;
    hp->n_embd = c->n_embd;
    hp->n_layers = c->n_text_layers;
    hp->n_ff = c->n_text_ff;
    hp->n_heads = hp->n_kv_heads = c->n_text_heads;
    hp->head_dim = c->n_embd / c->n_text_heads;
}
