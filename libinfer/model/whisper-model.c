/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the encoder and the decoder of a Whisper model from any of its file formats.
 */
#include "model/whisper-model.h"

#include <errno.h>

#include "core/err.h"

static const struct format_tensor *find_tensor(const void *file, const char *name)
{
    return format_find(file, name);
}

int whisper_model_open(const struct format *f, struct whisper_model **ret_model,
                       struct inf_err *reterr)
{
    _cleanup_(whisper_model_closep) struct whisper_model *m = NEW(struct whisper_model, 1);
    const struct whisper_config *c = format_whisper(f);
    const struct whisper_source src = {find_tensor, f, c->hugging_face, c->mlx};
    const struct whisper_shape audio = {
        .n_mels = c->n_mels,
        .n_ctx = c->n_audio_ctx,
        .n_embd = c->n_embd,
        .n_heads = c->n_audio_heads,
        .n_ff = c->n_audio_ff,
        .n_layers = c->n_audio_layers,
    };
    const struct whisper_text_shape text = {
        .n_vocab = c->n_vocab,
        .n_ctx = c->n_text_ctx,
        .n_embd = c->n_embd,
        .n_heads = c->n_text_heads,
        .n_ff = c->n_text_ff,
        .n_layers = c->n_text_layers,
    };
    int r;

    if (!m)
        return err_set(reterr, ENOMEM, "out of memory");
    m->config = c;
    r = whisper_encoder_new(&src, &audio, &m->encoder, reterr);
    if (r == 0)
        r = whisper_decoder_new(&src, &text, &m->decoder, reterr);
    if (r == 0)
        *ret_model = STEAL(m);
    return r;
}

struct whisper_model *whisper_model_close(struct whisper_model *m)
{
    if (!m)
        return NULL;
    whisper_encoder_free(m->encoder);
    whisper_decoder_free(m->decoder);
    free(m);
    return NULL;
}

enum inf_dtype whisper_model_dtype(const struct whisper_model *m)
{
    return whisper_decoder_dtype(m->decoder);
}

uint32_t whisper_model_heads(const struct whisper_model *m, uint64_t *masks)
{
    const struct whisper_config *c = m->config;
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n_text_layers; i++)
        masks[i] =
            c->n_heads == 0 && i >= c->n_text_layers / 2 ? UINT64_MAX >> (64 - c->n_text_heads) : 0;
    for (size_t i = 0; i < c->n_heads; i++)
        masks[c->heads[i].layer] |= UINT64_C(1) << c->heads[i].head;
    for (uint32_t i = 0; i < c->n_text_layers; i++)
        n += (uint32_t)__builtin_popcountll(masks[i]);
    return n;
}
