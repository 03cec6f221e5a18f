/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Opens the encoder and the decoder of a Whisper model from any of its file formats. */

#include "format/whisper/config.h"
#include "model/whisper.h"

struct whisper_model {
    const struct whisper_config *config; /* owned by the file */
    struct whisper_encoder *encoder;
    struct whisper_decoder *decoder;
};

/* Opens a model from a file for which format_whisper() is not NULL. The file must outlive the
 * model. Returns the same errors as whisper_encoder_new(). */
int whisper_model_open(const struct format *f, struct whisper_model **ret_model,
                       struct inf_err *reterr);
struct whisper_model *whisper_model_close(struct whisper_model *m);
DEFINE_CLEANUP(struct whisper_model *, whisper_model_close);

/* Returns the number format of the decoder's token table, which stands for the format of all
 * weights. */
enum inf_dtype whisper_model_dtype(const struct whisper_model *m);
/* Finds the heads whose attention gives the times of words: those that the files name, or all heads
 * of the upper half of the layers. Sets one bit per head in @masks, [n_text_layers], and returns
 * the number of these heads. */
uint32_t whisper_model_heads(const struct whisper_model *m, uint64_t *masks);
