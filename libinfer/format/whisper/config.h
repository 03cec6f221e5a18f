/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What files of Whisper tell beside tensors: config.json and generation_config.json of a directory,
 * or the words at the beginning of a .bin file
 */

#include "core/arena.h"
#include "core/macros.h"
#include "format/hparams.h"
#include "format/json.h"
#include "format/whisper/ggml-bin.h"

enum {
    WHISPER_MAX_HEADS = 64, /* of a layer */
    WHISPER_AUDIO_CTX = 1500,
};

struct whisper_head {
    uint32_t layer, head;
};

/* Counts are at least 1, widths multiples of their heads; heads of text layers that are there. */
struct whisper_config {
    uint32_t n_mels, n_audio_ctx, n_audio_heads, n_audio_layers, n_audio_ff;
    uint32_t n_embd; /* of both parts */
    uint32_t n_vocab, n_text_ctx, n_text_heads, n_text_layers, n_text_ff;
    bool hugging_face; /* tensors are called as there */
    bool multilingual;
    /* Tokens that are never said, and those that do not begin a text; NULL: the files do not tell.
     */
    const int32_t *suppress, *suppress_first;
    size_t n_suppress, n_suppress_first;
    const struct whisper_head *heads; /* whose attention tells times of words; NULL: not told */
    size_t n_heads;
};

/* Whether config.json is that of a Whisper model. */
bool whisper_config_is(const json_t *config);
/* @generation may be NULL. Lists are in @arena. -EBADMSG, -EOPNOTSUPP with the reason; -ENOMEM. */
int whisper_config_parse(const json_t *config, const json_t *generation, struct arena *arena,
                         struct whisper_config *ret_config, struct inf_err *reterr);
int whisper_config_from_bin(const struct ggml_bin_whisper *bin, struct whisper_config *ret_config,
                            struct inf_err *reterr);
/* What of it other models have as well. */
void whisper_config_hparams(const struct whisper_config *c, struct hparams *hp);
