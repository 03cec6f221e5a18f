/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Both parts of a Whisper model, of any of its files. */

#include "format/whisper/config.h"
#include "model/whisper.h"

struct whisper_model {
    const struct whisper_config *config; /* of the file */
    struct whisper_encoder *encoder;
    struct whisper_decoder *decoder;
};

/* Of a file that has a format_whisper(), which must outlive it. As whisper_encoder_new(). */
int whisper_model_open(const struct format *f, struct whisper_model **ret_model,
                       struct inf_err *reterr);
struct whisper_model *whisper_model_close(struct whisper_model *m);
DEFINE_CLEANUP(struct whisper_model *, whisper_model_close);

/* The format of most of its weights: that of the first product. */
enum inf_dtype whisper_model_dtype(const struct whisper_model *m);
/* Heads whose attention tells times of words: those that the files name, or all of the upper half
 * of the layers. A bit each in @masks, [n_text_layers]; returns how many. */
uint32_t whisper_model_heads(const struct whisper_model *m, uint64_t *masks);
