/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the settings of a Whisper model: config.json and generation_config.json of a directory, or
 * the 32-bit words at the beginning of a .bin file.
 */

#include "core/arena.h"
#include "core/macros.h"
#include "format/hparams.h"
#include "format/json.h"
#include "format/whisper/ggml-bin.h"

enum {
    WHISPER_MAX_HEADS = 64, /* heads per layer */
    WHISPER_AUDIO_CTX = 1500,
};

struct whisper_head {
    uint32_t layer, head;
};

/* Counts are at least 1, widths are multiples of the number of heads, and heads refer to existing
 * layers. */
struct whisper_config {
    uint32_t n_mels, n_audio_ctx, n_audio_heads, n_audio_layers, n_audio_ff;
    uint32_t n_embd; /* width of the encoder and of the decoder */
    uint32_t n_vocab, n_text_ctx, n_text_heads, n_text_layers, n_text_ff;
    bool hugging_face; /* tensors have Hugging Face's names */
    bool mlx;          /* the files are those of mlx-whisper (format_add_whisper_tensors()) */
    bool multilingual;
    /* Tokens that are never sampled, and tokens that cannot begin a text; NULL: the files do not
     * list them. */
    const int32_t *suppress, *suppress_first;
    size_t n_suppress, n_suppress_first;
    const struct whisper_head *heads; /* heads whose attention gives the times of words; NULL: the
                                         files do not list them */
    size_t n_heads;
};

/* Returns whether @config is the config.json of a Whisper model. */
bool whisper_config_is(const json_t *config);
/* Parses the settings, which are those of Hugging Face or of mlx-whisper. @generation may be NULL.
 * Lists are allocated in @arena. -EBADMSG or -EOPNOTSUPP, with the reason in @reterr; -ENOMEM. */
int whisper_config_parse(const json_t *config, const json_t *generation, struct arena *arena,
                         struct whisper_config *ret_config, struct inf_err *reterr);
int whisper_config_from_bin(const struct ggml_bin_whisper *bin, struct whisper_config *ret_config,
                            struct inf_err *reterr);
/* Sets the hyperparameters that models of other kinds have as well. */
void whisper_config_hparams(const struct whisper_config *c, struct hparams *hp);
